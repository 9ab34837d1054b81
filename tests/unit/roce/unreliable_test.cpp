// SPDX-License-Identifier: BSD-3-Clause
//
// Unreliable connections: what leaves, what a receiver keeps and what it drops without a word; single cases
// first, then histories over networks of every kind.
#include <map>

#include "tests/unit/roce/bench.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::test;

namespace {

constexpr std::uint32_t kMtu = 256;

// Two queue pairs, a block of bytes on each side, and receives at the right.
struct Line {
    explicit Line(std::uint64_t seed = 1, const Faults& faults = {}, const QpConfig& changes = {})
        : net(seed, faults), left(kBlockBytes), right(kBlockBytes) {
        Random random(seed + 1);
        left = random.bytes(kBlockBytes);
        right.assign(kBlockBytes, 0);
        QpConfig left_config = usual_config(net.left), right_config = usual_config(net.right);
        left_config.type = right_config.type = QpType::kUc;
        right_config.srq = changes.srq;
        pair = connect(net, usual_attributes(), left_config, right_config);
        left_key = net.left.add(left, kEverything);
        right_key = net.right.add(right, kEverything);
    }

    SendWr wr(WrOpcode opcode, std::size_t offset, std::uint32_t len, std::size_t to = 0,
              std::uint64_t id = 1) {
        sges.push_back(std::make_unique<Sge>(Sge{Bench::addr(left, offset), len, left_key}));
        SendWr made;
        made.wr_id = id;
        made.opcode = opcode;
        made.flags = kSignaled;
        made.imm_or_rkey = static_cast<std::uint32_t>(id);
        made.remote_addr = Bench::addr(right, to);
        made.rkey = right_key;
        made.sges = {sges.back().get(), 1};
        return made;
    }
    Post post(const SendWr& request) {
        const Post posted = pair.left->post_send(request);
        net.left.engine.posted(*pair.left);
        return posted;
    }
    void send(WrOpcode opcode, std::size_t offset, std::uint32_t len, std::size_t to = 0,
              std::uint64_t id = 1) {
        assert_true(post(wr(opcode, offset, len, to, id)) == Post::kPosted);
        assert_true(net.run());
    }
    Post receive(std::size_t offset, std::uint32_t len, std::uint64_t id = 100, std::uint32_t key = 0) {
        const Sge sge = {Bench::addr(right, offset), len, key != 0 ? key : right_key};
        return pair.right->post_receive({id, {&sge, 1}});
    }
    // A packet of a peer that says what it likes; with PAYLOAD bytes of 0x5a.
    void put(std::uint8_t opcode, std::uint32_t psn, std::size_t payload, std::uint32_t write_bytes = 0,
             std::size_t to = 0, std::uint32_t rkey = 0) {
        wire::Packet packet;
        packet.bth.opcode = opcode;
        packet.bth.psn = psn;
        packet.bth.dest_qpn = pair.right->qpn();
        packet.bth.pad = wire::padding(payload);
        packet.reth = {Bench::addr(right, to), rkey != 0 ? rkey : right_key, write_bytes};
        std::vector<std::uint8_t> bytes(wire::kMaxHeaderBytes);
        bytes.resize(wire::write_headers(packet, bytes));
        bytes.resize(bytes.size() + payload + packet.bth.pad, 0x5a);
        net.inject(net.right, net.left.where, bytes);
        OutPacket out;
        assert_false(net.right.engine.transmit(out, net.now)); // nothing is ever answered
    }
    std::optional<Completion> sent() { return Bench::poll(net.left.send_cq); }
    std::optional<Completion> received() { return Bench::poll(net.right.recv_cq); }
    const Counters& counters() const { return net.right.engine.counters(); }

    static constexpr std::size_t kBlockBytes = 131072;
    Simulation net;
    std::vector<std::uint8_t> left;
    std::vector<std::uint8_t> right;
    Pair pair;
    std::uint32_t left_key = 0;
    std::uint32_t right_key = 0;
    std::vector<std::unique_ptr<Sge>> sges;
};

TEST(send_and_write__every_length__arrive_with_their_completions) {
    for (const std::uint32_t len : {0U, 1U, 255U, 256U, 257U, 512U, 5000U, 30000U}) {
        for (const WrOpcode opcode :
             {WrOpcode::kSend, WrOpcode::kSendImm, WrOpcode::kWrite, WrOpcode::kWriteImm}) {
            Line line;
            assert_true(line.receive(0, 40000) == Post::kPosted);
            line.send(opcode, 3, len, 0, 77);
            const auto sent = line.sent();
            assert_true(sent && sent->status == Status::kSuccess && sent->len_bytes == len);
            assert_memory_equal(line.left.data() + 3, line.right.data(), len);
            assert_int_equal(line.right[len], 0);
            const auto received = line.received();
            assert_true(received.has_value() == (opcode != WrOpcode::kWrite));
            if (received) {
                const bool with_imm = opcode != WrOpcode::kSend;
                assert_true(received->status == Status::kSuccess && received->len_bytes == len);
                assert_int_equal(received->flags, with_imm ? kWithImm : 0);
                assert_int_equal(received->imm_or_rkey, with_imm ? 77 : 0);
                assert_true(received->opcode ==
                            (opcode == WrOpcode::kWriteImm ? WcOpcode::kRecvWriteImm : WcOpcode::kRecv));
            }
        }
    }
}

// What a peer's process wants to know when it asks.
TEST(connection__to_its_peer_and_to_others__is_known) {
    Line line;
    const Ends ends = line.pair.left->ends();
    const Engine& engine = line.net.left.engine;
    assert_true(engine.is_connected(ends.qpn, ends.remote, ends.peer_qpn));
    assert_false(engine.is_connected(ends.qpn, ends.remote, ends.peer_qpn + 1));
    assert_false(engine.is_connected(ends.qpn, ends.local, ends.peer_qpn));
    assert_false(engine.is_connected(ends.qpn + 1, ends.remote, ends.peer_qpn));
}

TEST(send__every_packet_lost__completes_all_the_same) {
    Line line;
    line.net.tap = [](Host&, std::vector<std::uint8_t>&) { return false; };
    line.send(WrOpcode::kSend, 0, 5000);
    assert_true(line.sent()->status == Status::kSuccess);
    assert_true(line.pair.left->state() == QpState::kReadyToSend);
}

TEST(send__before_its_packets_have_left__has_no_completion) {
    Line line;
    line.post(line.wr(WrOpcode::kSend, 0, 3 * kMtu));
    OutPacket out;
    int packets = 0;
    while (line.net.left.engine.transmit(out, 1)) {
        ++packets;
    }
    assert_int_equal(packets, 3);
    assert_false(line.sent().has_value());
    assert_true(line.net.left.engine.settle());
    assert_true(line.sent().has_value());
}

TEST(write__longer_than_a_burst__waits_until_packets_have_left) {
    Line line;
    line.post(line.wr(WrOpcode::kWrite, 0, 40 * kMtu));
    std::vector<int> bursts;
    OutPacket out;
    do {
        bursts.push_back(0);
        while (line.net.left.engine.transmit(out, 1)) {
            ++bursts.back();
        }
        assert_true(bursts.size() > 3 || !line.sent().has_value());
    } while (line.net.left.engine.settle());
    assert_true(bursts == (std::vector<int>{16, 16, 8, 0}));
    assert_true(line.sent().has_value());
}

TEST(operation_that_needs_an_answer__invalid) {
    Line line;
    for (const WrOpcode opcode : {WrOpcode::kSendInv, WrOpcode::kRead, WrOpcode::kCompareSwap,
                                  WrOpcode::kFetchAdd, WrOpcode::kAtomicWrite}) {
        assert_true(line.post(line.wr(opcode, 0, 8)) == Post::kInvalid);
    }
}

TEST(bind_between_sends__completes_in_its_turn) {
    Line line;
    const std::uint32_t window = *line.net.left.engine.regions().add_window(Host::kPd, WindowType::kType2);
    SendWr bind = line.wr(WrOpcode::kBindMw, 0, 0, 0, 2);
    bind.sges = {};
    bind.bind = {window, window ^ 1, line.left_key, Bench::addr(line.left), 64, kRemoteWrite};
    line.post(line.wr(WrOpcode::kSend, 0, 10, 0, 1));
    line.post(bind);
    line.post(line.wr(WrOpcode::kSend, 0, 10, 0, 3));
    assert_true(line.net.run());
    for (const std::uint64_t id : {1U, 2U, 3U}) {
        const auto sent = line.sent();
        assert_true(sent && sent->status == Status::kSuccess);
        assert_int_equal(sent->wr_id, id);
    }
    line.post(bind); // it is bound
    assert_true(line.net.run());
    assert_true(line.sent()->status == Status::kMwBind);
    assert_true(line.pair.left->state() == QpState::kSendError);
}

TEST(send__data_that_cannot_be_read__send_error_state_and_back) {
    Line line;
    SendWr bad = line.wr(WrOpcode::kSend, 0, 10, 0, 2);
    line.sges.back()->lkey ^= 0x700;
    line.receive(0, 100);
    line.receive(0, 100);
    line.post(line.wr(WrOpcode::kSend, 0, 10, 0, 1));
    line.post(bad);
    line.post(line.wr(WrOpcode::kSend, 0, 10, 0, 3));
    assert_true(line.net.run());
    assert_true(line.sent()->status == Status::kSuccess);
    assert_true(line.sent()->status == Status::kLocalProtection);
    assert_true(line.sent()->status == Status::kFlushed);
    assert_true(line.pair.left->state() == QpState::kSendError);
    line.post(line.wr(WrOpcode::kSend, 0, 10, 0, 4));
    assert_true(line.sent()->status == Status::kFlushed);
    const QpAttributes attributes = line.pair.left->attributes();
    assert_true(line.pair.left->modify(QpState::kReadyToSend, attributes).ok());
    line.send(WrOpcode::kSend, 0, 10, 0, 5);
    assert_true(line.sent()->status == Status::kSuccess);
    assert_true(line.received().has_value() && line.received().has_value());
}

// Its first packets have left by then; that they have is told after it has ended.
TEST(send__that_fails_in_the_middle__ends_once) {
    Line line;
    SendWr bad = line.wr(WrOpcode::kSend, 0, 2 * kMtu, 0, 2);
    const std::array<Sge, 2> parts = {*line.sges.back(),
                                      Sge{Bench::addr(line.left), 8, line.left_key ^ 0x700}};
    bad.sges = parts;
    line.post(bad);
    assert_true(line.net.run());
    assert_true(line.sent()->status == Status::kLocalProtection);
    line.post(line.wr(WrOpcode::kSend, 0, 8));
    assert_true(line.sent()->status == Status::kFlushed);
    assert_true(line.net.run());
    assert_false(line.sent().has_value());
}

TEST(drained__while_a_message_is_half_sent__finishes_it_and_begins_no_other) {
    Line line;
    line.post(line.wr(WrOpcode::kWrite, 0, 20 * kMtu));
    line.post(line.wr(WrOpcode::kWrite, 0, 8));
    OutPacket out;
    assert_true(line.net.left.engine.transmit(out, 1));
    QpAttributes attributes = line.pair.left->attributes();
    attributes.tell_drained = true;
    assert_true(line.pair.left->modify(QpState::kSendDrained, attributes).ok());
    assert_true(line.pair.left->draining());
    assert_true(line.net.run());
    assert_false(line.pair.left->draining());
    assert_true(line.net.left.events.saw(AsyncEvent::kSendQueueDrained));
    assert_true(line.sent().has_value());
    assert_false(line.sent().has_value());
    assert_true(line.pair.left->modify(QpState::kReadyToSend, attributes).ok());
    line.net.left.engine.posted(*line.pair.left);
    assert_true(line.net.run());
    assert_true(line.sent().has_value());
}

// 9.8.2.2: the rest of a message with a gap is dropped; the next one is taken, into the same receive.
TEST(send__middle_lost__dropped_and_its_receive_serves_the_next) {
    Line line;
    line.receive(0, 4 * kMtu, 100);
    line.receive(8192, 4 * kMtu, 101);
    int count = 0;
    line.net.tap = [&](Host&, std::vector<std::uint8_t>&) { return ++count != 2; };
    line.send(WrOpcode::kSend, 0, 3 * kMtu);
    assert_false(line.received().has_value());
    assert_int_equal(line.counters().dropped_messages, 1);
    line.send(WrOpcode::kSend, 5000, 600, 0, 2);
    const auto received = line.received();
    assert_true(received && received->status == Status::kSuccess);
    assert_int_equal(line.counters().messages_received, 1);
    assert_int_equal(received->wr_id, 100);
    assert_int_equal(received->len_bytes, 600);
    assert_memory_equal(line.right.data(), line.left.data() + 5000, 600);
    assert_true(line.sent()->status == Status::kSuccess && line.sent()->status == Status::kSuccess);
}

TEST(message__first_or_last_lost__dropped_and_the_next_is_taken) {
    for (const int lost : {1, 3}) {
        Line line;
        line.receive(0, 4096, 100);
        int count = 0;
        line.net.tap = [&](Host&, std::vector<std::uint8_t>&) { return ++count != lost; };
        line.send(WrOpcode::kSend, 0, 3 * kMtu);
        assert_false(line.received().has_value());
        line.send(WrOpcode::kSend, 5000, 10, 0, 2);
        assert_true(line.received()->len_bytes == 10);
    }
}

TEST(message__between_two_parts_of_another__ends_that) {
    Line line;
    line.receive(0, 4096, 100);
    line.put(wire::kUcSendFirst, 100, kMtu);
    line.put(wire::kUcSendOnly, 101, 8); // the rest of the first never comes
    assert_true(line.received()->len_bytes == 8);
    line.put(wire::kUcSendLast, 102, 8);
    assert_false(line.received().has_value());
    assert_int_equal(line.counters().dropped_messages, 1);
}

TEST(message__goes_on_as_another_operation__dropped) {
    Line line;
    line.receive(0, 4096, 100);
    line.put(wire::kUcSendFirst, 100, kMtu);
    line.put(wire::kUcWriteLast, 101, 8);
    line.put(wire::kUcWriteFirst, 102, kMtu, 2 * kMtu, 8192);
    line.put(wire::kUcSendLast, 103, 8);
    assert_false(line.received().has_value());
    assert_int_equal(line.right[8192], 0x5a);
    assert_int_equal(line.right[8192 + kMtu], 0);
    assert_int_equal(line.counters().dropped_messages, 2);
}

TEST(packet_of_wrong_length__drops_its_message) {
    Line line;
    line.receive(0, 4096, 100);
    line.put(wire::kUcSendFirst, 100, kMtu - 4);
    line.put(wire::kUcSendLast, 101, 8);
    line.put(wire::kUcSendFirst, 102, kMtu);
    line.put(wire::kUcSendLast, 103, 0);
    line.put(wire::kUcSendOnly, 104, kMtu + 4);
    assert_false(line.received().has_value());
    assert_int_equal(line.counters().dropped_messages, 3);
    line.put(wire::kUcSendOnly, 105, 4);
    assert_true(line.received().has_value());
}

TEST(send__no_receive__dropped_and_counted) {
    Line line;
    line.send(WrOpcode::kSend, 0, 3 * kMtu);
    assert_int_equal(line.counters().dropped_no_room, 1);
    assert_int_equal(line.counters().dropped_messages, 1);
    line.receive(0, 4096);
    line.send(WrOpcode::kSend, 0, 8);
    assert_true(line.received()->len_bytes == 8);
}

TEST(send__longer_than_the_receive__dropped_and_the_receive_serves_the_next) {
    Line line;
    line.receive(0, 300, 100);
    line.send(WrOpcode::kSend, 0, 301);
    assert_false(line.received().has_value());
    line.send(WrOpcode::kSend, 0, 300);
    assert_true(line.received()->wr_id == 100);
    assert_true(line.pair.right->state() == QpState::kReadyToSend);
}

TEST(receive__that_cannot_be_filled__ends_with_an_error_of_the_queue_pair) {
    Line line;
    line.receive(0, 300, 100, line.right_key ^ 0x700);
    line.receive(0, 300, 101);
    line.send(WrOpcode::kSend, 0, 8);
    const auto first = line.received(), second = line.received();
    assert_true(first && first->status == Status::kLocalProtection && first->wr_id == 100);
    assert_true(second && second->status == Status::kFlushed && second->wr_id == 101);
    assert_true(line.pair.right->state() == QpState::kError);
    assert_true(line.net.right.events.saw(AsyncEvent::kQpFatal));
}

TEST(write__key_or_range_that_does_not_fit__changes_nothing_and_says_nothing) {
    Line line;
    line.put(wire::kUcWriteOnly, 100, 8, 8, 0, line.right_key ^ 0x700);
    line.put(wire::kUcWriteOnly, 101, 8, 8, Line::kBlockBytes - 4);
    line.put(wire::kUcWriteFirst, 102, kMtu, 2 * kMtu, Line::kBlockBytes - kMtu); // its end doesn't fit
    line.put(wire::kUcWriteOnly, 103, 8, 12);                                     // announces more
    line.put(wire::kUcWriteFirst, 104, kMtu, kMtu);                               // and less
    for (const std::uint8_t byte : line.right) {
        assert_int_equal(byte, 0);
    }
    assert_int_equal(line.counters().dropped_messages, 5);
    assert_true(line.pair.right->state() == QpState::kReadyToSend);
    assert_int_equal(line.net.right.events.count, 0);
}

TEST(write__queue_pair_without_that_access__changes_nothing) {
    Line line;
    QpAttributes attributes = line.pair.right->attributes();
    attributes.access = kLocalWrite;
    assert_true(line.pair.right->modify(QpState::kReadyToSend, attributes).ok());
    line.send(WrOpcode::kWrite, 0, 8);
    assert_int_equal(line.right[0], 0);
    assert_int_equal(line.counters().dropped_messages, 1);
}

TEST(write_with_immediate__no_receive__writes_and_says_nothing) {
    Line line;
    line.send(WrOpcode::kWriteImm, 0, 2 * kMtu);
    assert_memory_equal(line.right.data(), line.left.data(), kMtu);
    assert_false(line.received().has_value());
    assert_int_equal(line.counters().dropped_no_room, 1);
}

TEST(error__with_a_half_filled_receive__flushes_it_first) {
    Line line;
    line.receive(0, 4096, 100);
    line.receive(0, 4096, 101);
    line.put(wire::kUcSendFirst, 100, kMtu);
    assert_true(line.pair.right->modify(QpState::kError, {}).ok());
    for (const std::uint64_t id : {100U, 101U}) {
        const auto flushed = line.received();
        assert_true(flushed && flushed->status == Status::kFlushed);
        assert_int_equal(flushed->wr_id, id);
    }
}

TEST(shared_receive_queue__serves_messages_too) {
    ReceiveQueue srq(4, 4);
    Line line(1, {}, {.srq = &srq});
    srq.set_limit(1);
    const Sge sge = {Bench::addr(line.right), 4096, line.right_key};
    assert_true(srq.post({7, {&sge, 1}}) == Post::kPosted);
    line.send(WrOpcode::kSend, 0, 600);
    assert_int_equal(line.received()->wr_id, 7);
    assert_true(line.net.right.events.saw(AsyncEvent::kSrqLimit));
}

TEST(packet__of_a_reliable_connection_or_of_another_host__dropped) {
    Line line;
    line.receive(0, 4096);
    line.put(wire::kRcSendOnly, 100, 8);
    assert_int_equal(line.counters().dropped_wrong_peer, 1);
    wire::Packet packet;
    packet.bth.opcode = wire::kUcSendOnly;
    packet.bth.psn = 100;
    packet.bth.dest_qpn = line.pair.right->qpn();
    std::vector<std::uint8_t> bytes(wire::Bth::kBytes);
    wire::write_headers(packet, bytes);
    line.net.inject(line.net.right, address(9), bytes);
    assert_int_equal(line.counters().dropped_wrong_peer, 2);
    assert_false(line.received().has_value());
}

// One history: what arrives is always a whole message of those that were sent; without faults it is all of
// them, each once and in order. Its immediate data names it.
struct History {
    explicit History(std::uint64_t seed)
        : random(seed), line(seed, faults_of(seed)), is_clean(seed % 4 == 0) {}

    static Faults faults_of(std::uint64_t seed) {
        switch (seed % 4) {
        case 0:
            return {};
        case 1:
            return {.loss = 0.05};
        case 2:
            return {.loss = 0.02, .duplicate = 0.05, .reorder = 0.1, .corrupt = 0.02};
        default:
            return {.reorder = 0.3};
        }
    }

    void play() {
        constexpr std::uint64_t kMessages = 30;
        const std::uint32_t room = 8 * kMtu;
        for (std::uint64_t id = 0; id < kMessages; ++id) {
            lengths[id] = 4 + random.below(room - 4);
            is_write[id] = random.chance(0.3);
            assert_true(line.receive(id * room, room, id) == Post::kPosted);
            line.post(line.wr(is_write[id] ? WrOpcode::kWriteImm : WrOpcode::kSendImm, source_of(id),
                              lengths[id], kMessages * room + id * room, id));
            assert_true(!random.chance(0.5) || line.net.run());
        }
        assert_true(line.net.run());
        for (std::uint64_t id = 0; id < kMessages; ++id) {
            const auto sent = line.sent();
            assert_true(sent && sent->status == Status::kSuccess && sent->wr_id == id);
        }
        std::uint64_t count = 0;
        while (const auto received = line.received()) {
            assert_true(received->status == Status::kSuccess && received->wr_id == count);
            const std::uint32_t id = received->imm_or_rkey;
            assert_true(id < kMessages && received->len_bytes == lengths[id]);
            assert_true(!is_clean || id == count);
            assert_true((received->opcode == WcOpcode::kRecvWriteImm) == is_write[id]);
            if (!is_write[id]) {
                assert_memory_equal(line.right.data() + count * room, line.left.data() + source_of(id),
                                    lengths[id]);
            }
            ++count;
        }
        assert_true(!is_clean || count == kMessages);
        arrived = count;
    }
    static std::size_t source_of(std::uint64_t id) { return 20000 + id; }

    Random random;
    Line line;
    bool is_clean;
    std::map<std::uint64_t, std::uint32_t> lengths;
    std::map<std::uint64_t, bool> is_write;
    std::uint64_t arrived = 0;
};

TEST(histories__networks_of_every_kind__whole_messages_or_none) {
    constexpr std::uint64_t kHistories = 400, kSent = kHistories * 30;
    std::uint64_t arrived = 0;
    for (std::uint64_t seed = 1; seed <= kHistories; ++seed) {
        History history(seed);
        history.play();
        arrived += history.arrived;
    }
    assert_true(arrived > kSent / 3 && arrived < kSent); // some get through, and some don't
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.unreliable");
}
