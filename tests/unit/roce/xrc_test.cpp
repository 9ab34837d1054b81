// SPDX-License-Identifier: BSD-3-Clause
//
// XRC: one connection to several shared receive queues, each with its own domain and completion queue
// (IBTA annex A14).
#include <map>
#include <numeric>

#include "roce/wire/syndrome.hpp"
#include "tests/unit/roce/simulation.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice;
using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::test;

namespace {

constexpr std::uint32_t kAll = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal;
constexpr std::size_t kBlockBytes = 65536;

// A shared receive queue of the right host, with a domain of its own that has a region.
struct Shared {
    Shared(Host& host, XrcDomain& domain, std::uint32_t its_pd, std::uint32_t cq_entries = 64)
        : xrc_domain(domain), pd(its_pd), receives(64, 4), cq(cq_entries), bytes(kBlockBytes),
          number(*host.engine.next_srq_number()) {
        const auto addr = reinterpret_cast<std::uintptr_t>(bytes.data());
        key = *host.engine.regions().add_region(pd, addr, addr, bytes.size(), kAll);
        domain.add({.number = number, .pd = pd, .receives = &receives, .cq = &cq, .owner = this});
    }
    ~Shared() { xrc_domain.remove(number); }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;

    std::uint64_t addr(std::size_t offset) const {
        return reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
    }
    Post post(std::size_t offset, std::uint32_t len, std::uint64_t id = 100) {
        const Sge sge = {addr(offset), len, key};
        return receives.post({id, {&sge, 1}});
    }
    std::optional<Completion> received() {
        Completion completion;
        return cq.poll(completion) ? std::optional(completion) : std::nullopt;
    }

    XrcDomain& xrc_domain;
    std::uint32_t pd;
    ReceiveQueue receives;
    CompletionQueue cq;
    std::vector<std::uint8_t> bytes;
    std::uint32_t number;
    std::uint32_t key = 0;
};

struct Bench {
    explicit Bench(const Faults& faults = {}, std::uint64_t seed = 1) : net(seed, faults), left(kBlockBytes) {
        QpConfig sender = usual_config(net.left);
        sender.type = QpType::kXrcSend;
        QpConfig receiver = usual_config(net.right);
        receiver.type = QpType::kXrcReceive;
        receiver.xrc_domain = &domain;
        pair = connect(net, usual_attributes(), sender, receiver);
        std::iota(left.begin(), left.end(), std::uint8_t{1});
        left_key = net.left.add(left, kAll);
    }

    SendWr wr(WrOpcode opcode, const Shared& to, std::size_t offset, std::uint32_t len) {
        sges.push_back(std::make_unique<Sge>(
            Sge{reinterpret_cast<std::uintptr_t>(left.data()) + offset, len, left_key}));
        SendWr made;
        made.wr_id = 1;
        made.opcode = opcode;
        made.flags = kSignaled;
        made.srqn = to.number;
        made.remote_addr = to.addr(offset);
        made.rkey = to.key;
        made.sges = {sges.back().get(), 1};
        return made;
    }
    Post post(const SendWr& request) {
        const Post posted = pair.left->post_send(request);
        net.left.engine.posted(*pair.left);
        return posted;
    }
    // The status of a request, which ends.
    Status status_of(const SendWr& request) {
        assert_true(post(request) == Post::kPosted);
        assert_true(net.run());
        Completion completion;
        assert_true(net.left.send_cq.poll(completion));
        return completion.status;
    }
    bool broke(AsyncEvent event) const {
        return pair.right->state() == QpState::kError && net.right.events.saw(event);
    }

    Simulation net;
    XrcDomain domain;
    std::vector<std::uint8_t> left;
    std::uint32_t left_key = 0;
    Pair pair;
    std::vector<std::unique_ptr<Sge>> sges;
};

TEST(send__to_each_of_two_queues__arrives_there) {
    Bench bench;
    Shared first(bench.net.right, bench.domain, 11);
    Shared second(bench.net.right, bench.domain, 12);
    std::vector<std::vector<std::uint8_t>> seen;
    bench.net.tap = [&](Host&, std::vector<std::uint8_t>& bytes) {
        seen.push_back(bytes);
        return true;
    };
    assert_true(first.post(0, 1000, 7) == Post::kPosted && second.post(0, 1000, 8) == Post::kPosted);
    assert_true(bench.status_of(bench.wr(WrOpcode::kSend, second, 10, 600)) == Status::kSuccess);
    assert_false(first.received().has_value());
    const auto received = second.received();
    assert_true(received && received->status == Status::kSuccess && received->wr_id == 8);
    assert_int_equal(received->len_bytes, 600);
    assert_int_equal(received->qpn, bench.pair.right->qpn());
    assert_memory_equal(second.bytes.data(), bench.left.data() + 10, 600);
    SendWr with_imm = bench.wr(WrOpcode::kSendImm, first, 20, 1);
    with_imm.imm_or_rkey = 0x1234;
    assert_true(bench.status_of(with_imm) == Status::kSuccess);
    assert_int_equal(first.received().value_or(Completion()).imm_or_rkey, 0x1234);
    const std::uint8_t opcodes[] = {0xa0, 0xa1, 0xa2, 0xb1, 0xa5, 0xb1};
    assert_int_equal(seen.size(), std::size(opcodes));
    for (std::size_t i = 0; i < seen.size(); ++i) {
        wire::Packet packet;
        assert_true(wire::parse(seen[i], packet) == wire::Refusal::kNone);
        assert_int_equal(packet.bth.opcode, opcodes[i]);
        assert_int_equal(packet.xrc.srqn, i < 3 ? second.number : i == 4 ? first.number : 0);
    }
    assert_int_equal(bench.net.right.recv_cq.size(), 0);
}

TEST(one_sided_requests__memory_of_the_queues_domain__done) {
    Bench bench;
    Shared shared(bench.net.right, bench.domain, 11);
    assert_true(bench.status_of(bench.wr(WrOpcode::kWrite, shared, 64, 1000)) == Status::kSuccess);
    assert_memory_equal(shared.bytes.data() + 64, bench.left.data() + 64, 1000);
    std::iota(shared.bytes.begin(), shared.bytes.end(), std::uint8_t{9});
    assert_true(bench.status_of(bench.wr(WrOpcode::kRead, shared, 128, 900)) == Status::kSuccess);
    assert_memory_equal(bench.left.data() + 128, shared.bytes.data() + 128, 900);
    SendWr add = bench.wr(WrOpcode::kFetchAdd, shared, 0, 8);
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    std::memcpy(&before, shared.bytes.data(), sizeof before);
    add.compare_add = 5;
    assert_true(bench.status_of(add) == Status::kSuccess);
    std::memcpy(&after, shared.bytes.data(), sizeof after);
    assert_int_equal(after, before + 5);
    assert_memory_equal(bench.left.data(), &before, sizeof before);
    assert_true(bench.status_of(bench.wr(WrOpcode::kAtomicWrite, shared, 8, 8)) == Status::kSuccess);
    assert_memory_equal(shared.bytes.data() + 8, bench.left.data() + 8, 8);
    SendWr flush = bench.wr(WrOpcode::kFlush, shared, 0, 0);
    flush.flush_bytes = 64;
    flush.flush_placement = wire::Feth::kGlobalVisibility;
    flush.sges = {};
    assert_true(bench.status_of(flush) == Status::kSuccess);
    assert_int_equal(bench.net.right.memory.flushes, 1);
    assert_true(shared.post(0, 0) == Post::kPosted);
    assert_true(bench.status_of(bench.wr(WrOpcode::kWriteImm, shared, 64, 300)) == Status::kSuccess);
    const auto told = shared.received();
    assert_true(told && told->opcode == WcOpcode::kRecvWriteImm && told->len_bytes == 300);
}

TEST(one_sided_request__memory_of_another_queues_domain__access_error) {
    Bench bench;
    Shared shared(bench.net.right, bench.domain, 11);
    Shared other(bench.net.right, bench.domain, 12);
    SendWr wr = bench.wr(WrOpcode::kRead, other, 0, 64);
    wr.srqn = shared.number;
    assert_true(bench.status_of(wr) == Status::kRemoteAccess);
    assert_true(bench.broke(AsyncEvent::kQpAccessError));
}

TEST(request__for_no_queue_of_the_domain__invalid_request) {
    XrcDomain other_domain;
    for (const WrOpcode opcode : {WrOpcode::kSend, WrOpcode::kWrite, WrOpcode::kRead}) {
        Bench bench;
        Shared other(bench.net.right, other_domain, 11);
        assert_true(other.post(0, 1000) == Post::kPosted);
        assert_true(bench.status_of(bench.wr(opcode, other, 0, 100)) == Status::kRemoteInvalidRequest);
        assert_true(bench.broke(AsyncEvent::kQpAccessError));
        assert_true(!other.received() && other.receives.size() == 1);
        assert_true(std::ranges::all_of(other.bytes, [](std::uint8_t byte) { return byte == 0; }));
    }
}

// The first packet's receive isn't lost: it ends.
TEST(message__packets_for_two_queues__refused) {
    Bench bench;
    Shared first(bench.net.right, bench.domain, 11);
    Shared second(bench.net.right, bench.domain, 12);
    assert_true(first.post(0, 1000, 7) == Post::kPosted && second.post(0, 1000) == Post::kPosted);
    bench.net.tap = [&](Host& from, std::vector<std::uint8_t>& bytes) {
        if (&from == &bench.net.left && bytes[0] == wire::over_xrc(wire::kRcSendLast)) {
            wire::Packet packet;
            assert_true(wire::parse(bytes, packet) == wire::Refusal::kNone);
            packet.xrc.srqn = second.number;
            (void)wire::write_headers(packet, bytes);
        }
        return true;
    };
    assert_true(bench.status_of(bench.wr(WrOpcode::kSend, first, 0, 300)) == Status::kRemoteInvalidRequest);
    const auto ended = first.received();
    assert_true(ended && ended->status == Status::kFlushed && ended->wr_id == 7);
    assert_false(second.received().has_value());
}

TEST(queue__gone_in_the_middle_of_a_message__refused) {
    Bench bench;
    auto shared = std::make_unique<Shared>(bench.net.right, bench.domain, 11);
    assert_true(shared->post(0, 1000) == Post::kPosted);
    assert_true(bench.post(bench.wr(WrOpcode::kSend, *shared, 0, 300)) == Post::kPosted);
    while (!shared->receives.empty()) {
        assert_true(bench.net.step());
    }
    shared.reset(); // between the first packet and the last
    assert_true(bench.net.run());
    Completion completion;
    assert_true(bench.net.left.send_cq.poll(completion));
    assert_true(completion.status == Status::kRemoteInvalidRequest);
    assert_true(bench.broke(AsyncEvent::kQpAccessError));
}

// What a message was filling ends as long as its queue is there.
TEST(connection__ends_in_the_middle_of_a_message__queue_hears_if_it_is_there) {
    for (const bool is_gone : {false, true}) {
        Bench bench;
        Shared shared(bench.net.right, bench.domain, 11);
        assert_true(shared.post(0, 1000, 7) == Post::kPosted);
        assert_true(bench.post(bench.wr(WrOpcode::kSend, shared, 0, 300)) == Post::kPosted);
        while (!shared.receives.empty()) {
            assert_true(bench.net.step());
        }
        if (is_gone) {
            bench.domain.remove(shared.number);
        }
        assert_true(bench.pair.right->modify(QpState::kError, {}).ok());
        const auto ended = shared.received();
        assert_int_equal(ended.has_value(), !is_gone);
        assert_true(is_gone || (ended->status == Status::kFlushed && ended->wr_id == 7));
    }
}

TEST(send__no_receive__waits_for_one) {
    Bench bench;
    Shared shared(bench.net.right, bench.domain, 11);
    Shared other(bench.net.right, bench.domain, 11);
    assert_true(other.post(0, 100) == Post::kPosted); // which isn't taken instead
    assert_true(bench.post(bench.wr(WrOpcode::kSend, shared, 0, 100)) == Post::kPosted);
    while (bench.net.right.engine.counters().rnr_naks_out == 0) {
        assert_true(bench.net.step());
    }
    assert_true(shared.post(0, 100) == Post::kPosted);
    assert_true(bench.net.run());
    assert_true(shared.received().has_value());
    assert_int_equal(other.receives.size(), 1);
}

TEST(limit__of_the_queue_that_a_message_is_for__reached) {
    Bench bench;
    Shared shared(bench.net.right, bench.domain, 11);
    Shared other(bench.net.right, bench.domain, 11);
    shared.receives.set_limit(1);
    other.receives.set_limit(1);
    assert_true(shared.post(0, 100) == Post::kPosted && other.post(0, 100) == Post::kPosted);
    assert_true(bench.status_of(bench.wr(WrOpcode::kSend, shared, 0, 100)) == Status::kSuccess);
    assert_true(bench.net.right.events.saw(AsyncEvent::kSrqLimit));
    assert_true(bench.domain.find(shared.number)->reached_limit);
    assert_false(bench.domain.find(other.number)->reached_limit);
}

TEST(completion_queue__of_a_shared_queue_too_small__its_connection_failed) {
    Bench bench;
    Shared shared(bench.net.right, bench.domain, 11, 1);
    assert_true(shared.post(0, 8) == Post::kPosted && shared.post(0, 8) == Post::kPosted);
    assert_true(bench.status_of(bench.wr(WrOpcode::kSend, shared, 0, 8)) == Status::kSuccess);
    assert_false(bench.pair.right->has_failed_queue());
    assert_true(bench.status_of(bench.wr(WrOpcode::kSend, shared, 0, 8)) == Status::kSuccess);
    assert_true(bench.pair.right->has_failed_queue());
    assert_true(bench.net.right.events.saw(AsyncEvent::kCqError));
}

TEST(ends__of_a_connection__ask_or_answer) {
    Bench bench;
    Shared shared(bench.net.right, bench.domain, 11);
    const SendWr wr = bench.wr(WrOpcode::kSend, shared, 0, 8);
    assert_true(bench.pair.right->post_send(wr) == Post::kInvalid);
    const Sge sge = {shared.addr(0), 8, shared.key};
    assert_true(bench.pair.right->post_receive({1, {&sge, 1}}) == Post::kInvalid);
    assert_true(bench.pair.left->post_receive({1, {&sge, 1}}) == Post::kInvalid);
}

TEST(packets__of_the_wrong_kind__dropped) {
    Bench bench;
    Shared shared(bench.net.right, bench.domain, 11);
    assert_true(shared.post(0, 8) == Post::kPosted);
    const auto inject = [&](Host& to, const QueuePair& qp, std::uint8_t opcode) {
        wire::Packet packet;
        packet.bth.opcode = opcode;
        packet.bth.dest_qpn = qp.qpn();
        packet.bth.psn = 100;
        packet.xrc.srqn = shared.number;
        std::array<std::uint8_t, wire::kMaxHeaderBytes> bytes{};
        const std::size_t len = wire::write_headers(packet, bytes);
        bench.net.inject(to, qp.attributes().remote, std::span(bytes).first(len));
    };
    Host& right = bench.net.right;
    inject(right, *bench.pair.right, wire::kRcSendOnly);
    assert_int_equal(right.engine.counters().dropped_wrong_peer, 1);
    inject(right, *bench.pair.right, wire::over_xrc(wire::kRcAcknowledge));
    assert_int_equal(right.engine.counters().dropped_wrong_state, 1);
    inject(bench.net.left, *bench.pair.left, wire::over_xrc(wire::kRcSendOnly));
    inject(bench.net.left, *bench.pair.left, wire::kRcAcknowledge);
    assert_int_equal(bench.net.left.engine.counters().dropped_wrong_peer, 2);
    assert_int_equal(shared.receives.size(), 1);
    inject(right, *bench.pair.right, wire::over_xrc(wire::kRcSendOnly)); // the same way, and right
    assert_int_equal(shared.receives.size(), 0);
}

TEST(receiver__without_domain__refused) {
    Bench bench;
    QpConfig config = usual_config(bench.net.right);
    config.type = QpType::kXrcReceive;
    assert_false(bench.net.right.engine.create_queue_pair(config).ok());
    config.type = QpType::kXrcSend;
    config.xrc_domain = &bench.domain;
    assert_false(bench.net.right.engine.create_queue_pair(config).ok());
}

TEST(numbers__of_processes_of_one_address__differ) {
    const Share::Words words = {1, 2, 3, 4};
    std::map<std::uint32_t, int> drawn;
    for (std::uint32_t which = 0; which < 4; ++which) {
        HoledMemory memory;
        EventLog events;
        Engine engine(
            {.max_queue_pairs = 16, .secret = RandomKey::repeatable(which), .share = Share(words, which)},
            memory, events);
        for (int i = 0; i < 500; ++i) {
            const std::uint32_t number = engine.next_srq_number().value_or(0);
            assert_true(number != 0 && number <= 0xffffff);
            assert_int_equal(++drawn[number], 1);
        }
    }
}

// To four queues in turn, over a network that loses, repeats and mixes up.
TEST(messages__bad_network__each_arrives_once_and_in_order) {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        Bench bench({.loss = 0.05, .duplicate = 0.05, .reorder = 0.1, .corrupt = 0.02}, seed);
        std::array<std::unique_ptr<Shared>, 4> queues;
        for (std::uint32_t i = 0; i < queues.size(); ++i) {
            queues[i] = std::make_unique<Shared>(bench.net.right, bench.domain, 20 + i);
        }
        for (std::uint32_t i = 0; i < 32; ++i) {
            Shared& to = *queues[i % queues.size()];
            const std::uint32_t len = i * 53;
            const std::size_t offset = std::size_t{i} * 2000;
            assert_true(to.post(offset, len, i) == Post::kPosted);
            assert_true(bench.post(bench.wr(WrOpcode::kSend, to, offset, len)) == Post::kPosted);
        }
        assert_true(bench.net.run());
        assert_int_equal(bench.net.left.send_cq.size(), 32);
        for (std::uint32_t i = 0; i < 32; ++i) {
            Shared& to = *queues[i % queues.size()];
            const Completion received = to.received().value_or(Completion{.status = Status::kFlushed});
            if (received.status != Status::kSuccess || received.wr_id != i || received.len_bytes != i * 53) {
                fail_msg("seed %llu, message %u", static_cast<unsigned long long>(seed), i);
            }
            assert_memory_equal(to.bytes.data() + std::size_t{i} * 2000,
                                bench.left.data() + std::size_t{i} * 2000, received.len_bytes);
        }
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.xrc");
}
