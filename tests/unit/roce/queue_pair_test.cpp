// SPDX-License-Identifier: BSD-3-Clause
//
// States of queue pairs, datagrams, shared receive queues, completion queues and the engine's own
// tables.
#include <set>

#include "roce/wire/mad.hpp"
#include "tests/unit/roce/bench.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::test;
using sluice::ErrorKind;
using sluice::RandomKey;

namespace {

TEST(modify__every_pair_of_states__only_the_standards_transitions) {
    constexpr QpState kStates[] = {QpState::kReset,       QpState::kInit,      QpState::kReadyToReceive,
                                   QpState::kReadyToSend, QpState::kSendError, QpState::kError};
    // Row: from reset, init, rtr, rts, error; column: to, in the order above.
    constexpr bool kLegal[5][6] = {{true, true, false, false, false, false},
                                   {true, true, true, false, false, true},
                                   {true, false, false, true, false, true},
                                   {true, false, false, true, false, true},
                                   {true, false, false, false, false, true}};
    Simulation net(1, Faults{});
    const QpAttributes attributes = usual_attributes();
    for (std::size_t from = 0; from < 5; ++from) {
        for (std::size_t to = 0; to < 6; ++to) {
            QueuePair& qp = **net.left.engine.create_queue_pair(usual_config(net.left));
            for (std::size_t step = 1; step <= std::min<std::size_t>(from, 3); ++step) {
                assert_true(qp.modify(kStates[step], attributes).ok());
            }
            if (from == 4) {
                assert_true(qp.modify(QpState::kError, attributes).ok());
            }
            const QpState before = qp.state();
            assert_true(qp.modify(kStates[to], attributes).ok() == kLegal[from][to]);
            assert_true(qp.state() == (kLegal[from][to] ? kStates[to] : before));
            net.left.engine.destroy_queue_pair(qp);
        }
    }
}

TEST(modify__mtu_that_is_none__invalid_argument) {
    Simulation net(1, Faults{});
    QueuePair& qp = **net.left.engine.create_queue_pair(usual_config(net.left));
    QpAttributes attributes = usual_attributes();
    assert_true(qp.modify(QpState::kInit, attributes).ok());
    for (const std::uint32_t mtu : {0U, 128U, 300U, 8192U}) {
        attributes.path_mtu = mtu;
        assert_true(qp.modify(QpState::kReadyToReceive, attributes).error().kind() ==
                    ErrorKind::kInvalidArgument);
    }
    assert_true(qp.state() == QpState::kInit);
}

TEST(post__before_the_state_allows__invalid) {
    Simulation net(1, Faults{});
    QueuePair& qp = **net.left.engine.create_queue_pair(usual_config(net.left));
    assert_true(qp.post_receive({}) == Post::kInvalid);
    assert_true(qp.modify(QpState::kInit, usual_attributes()).ok());
    assert_true(qp.post_receive({}) == Post::kPosted);
    assert_true(qp.post_send({}) == Post::kInvalid);
    assert_true(qp.modify(QpState::kReadyToReceive, usual_attributes()).ok());
    assert_true(qp.post_send({}) == Post::kInvalid);
}

TEST(reset__after_error__works_again) {
    Bench bench;
    bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 8), 65536));
    assert_true(bench.net.run());
    assert_true(bench.sent()->status == Status::kRemoteAccess);
    for (QueuePair* qp : {bench.pair.left, bench.pair.right}) {
        const QpAttributes again = qp->attributes();
        assert_true(qp->modify(QpState::kReset, {}).ok());
        assert_true(bring_up(*qp, again));
    }
    bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 8), 0));
    assert_true(bench.net.run());
    assert_true(bench.sent()->status == Status::kSuccess);
    assert_memory_equal(bench.left.data(), bench.right.data(), 8);
}

// Two UD queue pairs.
struct Datagrams {
    explicit Datagrams(ReceiveQueue* srq = nullptr, std::uint64_t seed = 1, const Faults& faults = {})
        : net(seed, faults) {
        for (Host* host : {&net.left, &net.right}) {
            QpConfig config = usual_config(*host);
            config.type = QpType::kUd;
            config.srq = host == &net.right ? srq : nullptr;
            QpAttributes attributes = usual_attributes();
            attributes.qkey = 0x11111111;
            attributes.local = host->where;
            QueuePair& qp = **host->engine.create_queue_pair(config);
            assert_true(bring_up(qp, attributes));
            (host == &net.left ? left : right) = &qp;
        }
        bytes.resize(4096);
        room.resize(4096);
        left_key = net.left.add(bytes, kLocalWrite);
        right_key = net.right.add(room, kLocalWrite);
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            bytes[i] = static_cast<std::uint8_t>(i * 7);
        }
    }

    Post send(std::uint32_t len, std::uint32_t qkey = 0x11111111, std::uint32_t lkey = 0) {
        const Sge sge = {Bench::addr(bytes), len, lkey != 0 ? lkey : left_key};
        SendWr wr;
        wr.wr_id = 5;
        wr.opcode = WrOpcode::kSendImm;
        wr.flags = kSignaled | kSolicited;
        wr.imm_or_rkey = 77;
        wr.destination = net.right.where;
        wr.dest_qpn = right->qpn();
        wr.qkey = qkey;
        wr.sges = {&sge, 1};
        const Post posted = left->post_send(wr);
        net.left.engine.posted(*left);
        return posted;
    }
    Post receive(std::uint32_t len) {
        const Sge sge = {Bench::addr(room), len, right_key};
        return right->post_receive({9, {&sge, 1}});
    }

    Simulation net;
    std::uint32_t arrived = 0;
    QueuePair* left = nullptr;
    QueuePair* right = nullptr;
    std::vector<std::uint8_t> bytes;
    std::vector<std::uint8_t> room;
    std::uint32_t left_key = 0;
    std::uint32_t right_key = 0;
};

TEST(datagram__arrives__behind_forty_bytes_with_its_source) {
    Datagrams pair;
    pair.receive(300);
    assert_true(pair.send(201) == Post::kPosted);
    assert_true(pair.net.run());
    const auto sent = Bench::poll(pair.net.left.send_cq), received = Bench::poll(pair.net.right.recv_cq);
    assert_true(sent->status == Status::kSuccess && received->status == Status::kSuccess);
    assert_int_equal(received->len_bytes, 241);
    assert_int_equal(received->src_qpn, pair.left->qpn());
    assert_int_equal(received->flags, kWithGrh | kWithImm | kSolicitedEvent);
    assert_int_equal(received->imm_or_rkey, 77);
    assert_memory_equal(pair.room.data() + 40, pair.bytes.data(), 201);
    assert_int_equal(pair.room[241], 0);
}

// Two queue pairs at the right, a group, and the left's packets to it.
struct GroupOfTwo {
    explicit GroupOfTwo(bool blocking = false) {
        QpConfig config = usual_config(line.net.right);
        config.type = QpType::kUd;
        config.blocks_own_multicast = blocking;
        QpAttributes attributes = line.right->attributes();
        other = *line.net.right.engine.create_queue_pair(config);
        assert_true(bring_up(*other, attributes));
    }
    // From a queue pair of SOURCE to TO.
    void put(const Address& source, std::uint32_t sender, const Address& to, std::uint32_t qkey = 0x11111111,
             std::uint8_t opcode = wire::kUdSendOnly) {
        wire::Packet packet;
        packet.bth.opcode = opcode;
        packet.bth.dest_qpn = kMulticastQpn;
        packet.deth = {.qkey = qkey, .src_qpn = sender};
        const wire::Grh grh{};
        line.net.right.engine.receive({packet, source, to, grh}, line.net.now);
    }
    int heard(QueuePair& qp) {
        int count = 0;
        while (const auto received = Bench::poll(line.net.right.recv_cq)) {
            count += received->qpn == qp.qpn() ? 1 : 100;
        }
        return count;
    }
    void receive(QueuePair& qp) {
        const Sge sge = {Bench::addr(line.room), 300, line.right_key};
        assert_true(qp.post_receive({9, {&sge, 1}}) == Post::kPosted);
    }
    MulticastGroups& groups() { return line.net.right.engine.groups(); }

    Datagrams line;
    QueuePair* other = nullptr;
    Address group = address(77);
};

TEST(multicast__heard_by_those_that_are_attached__each_gets_a_copy) {
    GroupOfTwo two;
    QueuePair& right = *two.line.right;
    two.groups().attach(two.group, right);
    two.groups().attach(two.group, right); // twice is once
    two.receive(right);
    two.receive(right);
    two.receive(*two.other);
    two.put(two.line.net.left.where, 5, two.group);
    assert_int_equal(two.heard(right), 1);
    two.put(two.line.net.left.where, 5, address(78)); // another group
    two.put(two.line.net.left.where, 5, two.group, 0x22222222);
    two.put(two.line.net.left.where, 5, two.group, 0x11111111, wire::kRcSendOnly);
    assert_int_equal(two.heard(right), 0);
    assert_true(two.groups().detach(two.group, right));
    assert_false(two.groups().detach(two.group, right));
    two.groups().attach(two.group, *two.other);
    two.put(two.line.net.left.where, 5, two.group);
    assert_int_equal(two.heard(*two.other), 1);
    two.groups().attach(address(78), right);
    two.receive(*two.other);
    two.put(two.line.net.left.where, 5, two.group); // not the right one's group
    assert_int_equal(two.heard(*two.other), 1);
    two.line.net.right.engine.destroy_queue_pair(*two.other);
    assert_false(two.groups().hears(two.group));
    two.put(two.line.net.left.where, 5, two.group); // nobody is left
    assert_int_equal(two.heard(right), 0);
}

TEST(multicast__of_ones_own__heard_unless_blocked) {
    for (const bool blocking : {false, true}) {
        GroupOfTwo two(blocking);
        QueuePair& other = *two.other;
        two.groups().attach(two.group, other);
        for (int i = 0; i < 3; ++i) {
            two.receive(other);
        }
        two.put(two.line.net.right.where, other.qpn(), two.group);
        assert_int_equal(two.heard(other), blocking ? 0 : 1);
        two.put(two.line.net.left.where, other.qpn(), two.group); // the same number elsewhere
        two.put(two.line.net.right.where, other.qpn() + 1, two.group);
        assert_int_equal(two.heard(other), 2);
    }
}

TEST(datagram__privileged_qkey__the_senders_own_is_used) {
    Datagrams pair;
    pair.receive(300);
    pair.send(10, 0x80000000);
    assert_true(pair.net.run());
    assert_true(Bench::poll(pair.net.right.recv_cq).has_value());
}

TEST(datagram__other_qkey_no_receive_or_too_long__dropped_and_counted) {
    Datagrams pair;
    const Counters& counters = pair.net.right.engine.counters();
    pair.send(10);
    assert_true(pair.net.run());
    assert_int_equal(counters.dropped_no_room, 1);
    pair.receive(49);
    pair.send(10);
    assert_true(pair.net.run());
    assert_int_equal(counters.dropped_no_room, 2);
    pair.send(9, 0x22222222);
    assert_true(pair.net.run());
    assert_int_equal(counters.dropped_wrong_peer, 1);
    pair.send(9);
    assert_true(pair.net.run());
    assert_int_equal(Bench::poll(pair.net.right.recv_cq)->len_bytes, 49);
}

TEST(datagram__failed_send__send_error_state_and_back) {
    Datagrams pair;
    pair.receive(300);
    pair.send(10, 0x11111111, 0x4242);
    pair.send(10);
    assert_true(pair.net.run());
    assert_true(Bench::poll(pair.net.left.send_cq)->status == Status::kLocalProtection);
    assert_true(Bench::poll(pair.net.left.send_cq)->status == Status::kFlushed);
    assert_true(pair.left->state() == QpState::kSendError);
    pair.send(10);
    assert_true(Bench::poll(pair.net.left.send_cq)->status == Status::kFlushed);
    const QpAttributes attributes = pair.left->attributes();
    assert_true(pair.left->modify(QpState::kReadyToSend, attributes).ok());
    pair.send(10);
    assert_true(pair.net.run());
    assert_true(Bench::poll(pair.net.left.send_cq)->status == Status::kSuccess);
    assert_true(Bench::poll(pair.net.right.recv_cq)->status == Status::kSuccess);
}

TEST(datagram__operation_of_a_connection__invalid) {
    Datagrams pair;
    SendWr write;
    write.opcode = WrOpcode::kWrite;
    assert_true(pair.left->post_send(write) == Post::kInvalid);
}

// Datagrams over a bad network: each that arrives is one that was sent, whole, and arrives at most
// as often as the network copied it; over a good one all arrive, in order.
TEST(datagrams__seeded_networks__arrive_whole_or_not_at_all) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        const Faults bad = {.loss = 0.1, .duplicate = 0.1, .reorder = 0.2, .corrupt = 0.1};
        const bool is_bad = seed % 4 != 0;
        Datagrams pair(nullptr, seed, is_bad ? bad : Faults{});
        Random random(seed);
        constexpr std::uint32_t kCount = 20;
        std::array<std::uint32_t, kCount> lengths{};
        for (std::uint32_t i = 0; i < kCount; ++i) {
            pair.receive(300);
            lengths[i] = 4 + random.below(253);
            std::memcpy(pair.bytes.data(), &i, sizeof i);
            assert_true(pair.send(lengths[i]) == Post::kPosted);
            assert_true(pair.net.run());
            for (std::optional<Completion> got; (got = Bench::poll(pair.net.right.recv_cq));) {
                std::uint32_t which = 0;
                std::memcpy(&which, pair.room.data() + 40, sizeof which);
                if (which != i || got->len_bytes != 40 + lengths[i] ||
                    std::memcmp(pair.room.data() + 40, pair.bytes.data(), lengths[i]) != 0) {
                    fail_msg("seed %llu: datagram %u arrived as another",
                             static_cast<unsigned long long>(seed), i);
                }
                ++pair.arrived;
            }
        }
        assert_true(is_bad ? pair.arrived <= 2 * kCount : pair.arrived == kCount);
    }
}

TEST(srq__shared_by_two_queue_pairs__served_in_order_with_one_limit_event) {
    Simulation net(1, Faults{});
    ReceiveQueue srq(8, 2);
    QpConfig config = usual_config(net.right);
    config.srq = &srq;
    const Pair pairs[] = {connect(net, usual_attributes(), usual_config(net.left), config),
                          connect(net, usual_attributes(), usual_config(net.left), config)};
    std::vector<std::uint8_t> from(64, 0x77), to(1024);
    const std::uint32_t left_key = net.left.add(from, 0), right_key = net.right.add(to, kLocalWrite);
    for (std::uint64_t i = 0; i < 4; ++i) {
        const Sge sge = {Bench::addr(to, 64 * i), 64, right_key};
        assert_true(srq.post({100 + i, {&sge, 1}}) == Post::kPosted);
    }
    srq.set_limit(3);
    const Sge sge = {Bench::addr(from), 64, left_key};
    SendWr send;
    send.sges = {&sge, 1};
    for (std::uint64_t i = 0; i < 3; ++i) {
        assert_true(pairs[i % 2].left->post_send(send) == Post::kPosted);
        net.left.engine.posted(*pairs[i % 2].left);
        assert_true(net.run());
        const auto received = Bench::poll(net.right.recv_cq);
        assert_int_equal(received->wr_id, 100 + i);
        assert_int_equal(received->qpn, pairs[i % 2].right->qpn());
        assert_int_equal(net.right.events.count, i == 0 ? 0 : 1); // fewer than three are left
    }
    assert_true(net.right.events.saw(AsyncEvent::kSrqLimit));
    assert_int_equal(net.right.events.count, 1);
    assert_true(pairs[0].right->post_receive({1, {&sge, 1}}) == Post::kInvalid);
    // Error of one of them takes nothing from the others.
    assert_true(pairs[0].right->modify(QpState::kError, {}).ok());
    assert_true(net.right.events.saw(AsyncEvent::kLastWqeReached));
    assert_int_equal(srq.size(), 1);
    assert_false(Bench::poll(net.right.recv_cq).has_value());
}

TEST(completion_queue__full__keeps_the_old_and_tells) {
    Simulation net(1, Faults{});
    CompletionQueue small(2);
    QpConfig config = usual_config(net.left);
    config.send_cq = &small;
    const Pair pair = connect(net, usual_attributes(), config, usual_config(net.right));
    SendWr write;
    write.opcode = WrOpcode::kWrite;
    write.flags = kSignaled;
    for (std::uint64_t i = 1; i <= 3; ++i) {
        write.wr_id = i;
        assert_true(pair.left->post_send(write) == Post::kPosted);
        net.left.engine.posted(*pair.left);
    }
    assert_true(net.run());
    assert_true(small.overflowed());
    assert_true(net.left.events.saw(AsyncEvent::kCqError));
    assert_int_equal(Bench::poll(small)->wr_id, 1);
    assert_int_equal(Bench::poll(small)->wr_id, 2);
    assert_false(Bench::poll(small).has_value());
}

TEST(completion_queue__armed__one_event_for_what_was_asked) {
    static int events;
    events = 0;
    CompletionQueue queue(16, [](CompletionQueue&) noexcept { ++events; });
    const auto take_event = [] { return std::exchange(events, 0) == 1; };
    queue.push({});
    assert_false(take_event());
    assert_true(queue.arm(CompletionQueue::Arm::kAny));
    assert_false(queue.arm(CompletionQueue::Arm::kSolicited)); // asks for less: no change
    queue.push({});
    assert_true(take_event());
    queue.push({});
    assert_false(take_event());
    queue.arm(CompletionQueue::Arm::kSolicited);
    queue.push({});
    assert_false(take_event());
    queue.push({.flags = kSolicitedEvent});
    assert_true(take_event());
    queue.arm(CompletionQueue::Arm::kSolicited);
    queue.push({.status = Status::kFlushed});
    assert_true(take_event());
    assert_true(queue.arm(CompletionQueue::Arm::kAny));
    assert_true(queue.disarm());
    assert_false(queue.disarm());
    queue.push({});
    assert_false(take_event());
}

TEST(completion_queue__resized__keeps_what_waits_in_order) {
    CompletionQueue queue(3);
    for (std::uint64_t id = 1; id <= 3; ++id) {
        assert_true(queue.push({.wr_id = id}));
    }
    assert_int_equal(Bench::poll(queue)->wr_id, 1);
    assert_false(queue.resize(1));
    assert_true(queue.resize(5));
    for (std::uint64_t id = 4; id <= 6; ++id) {
        assert_true(queue.push({.wr_id = id}));
    }
    assert_int_equal(queue.size(), 5);
    assert_false(queue.push({.wr_id = 7}));
    for (std::uint64_t id = 2; id <= 6; ++id) {
        assert_int_equal(Bench::poll(queue)->wr_id, id);
    }
    // It has lost one, and stays broken.
    assert_true(queue.overflowed());
    assert_false(queue.push({.wr_id = 8}));
}

Nanoseconds ticks = 0;

TEST(completion_queue__with_time_stamps__keeps_that_of_each_push) {
    ticks = 10;
    CompletionQueue queue(3);
    assert_false(queue.keeps_time());
    queue.stamp_by([]() noexcept { return ticks++; });
    assert_true(queue.keeps_time());
    for (std::uint64_t id = 1; id <= 3; ++id) {
        assert_true(queue.push({.wr_id = id}));
    }
    assert_int_equal(queue.front_stamp(), 10);
    queue.pop();
    assert_true(queue.resize(9));
    for (std::uint64_t id = 4; id <= 9; ++id) {
        assert_true(queue.push({.wr_id = id}));
    }
    for (std::uint64_t id = 2; id <= 9; ++id) {
        assert_int_equal(queue.front()->wr_id, id);
        assert_int_equal(queue.front_stamp(), 9 + id);
        queue.pop();
    }
}

TEST(completion_queue__forgets_a_queue_pair__the_others_stay_in_order) {
    ticks = 10;
    CompletionQueue queue(6);
    queue.stamp_by([]() noexcept { return ticks++; });
    for (const std::uint32_t qpn : {5, 3, 5, 5, 4, 3}) {
        assert_true(queue.push({.wr_id = static_cast<std::uint64_t>(ticks), .qpn = qpn}));
    }
    queue.pop();
    queue.forget(5);
    assert_int_equal(queue.size(), 3);
    for (const std::uint64_t id : {11, 14, 15}) {
        assert_int_equal(queue.front()->wr_id, id);
        assert_int_equal(queue.front_stamp(), id);
        queue.pop();
    }
    assert_true(queue.empty());
    for (int i = 0; i < 6; ++i) { // what was forgotten left its places
        assert_true(queue.push({}));
    }
    assert_false(queue.push({}));
}

TEST(completion_queue__forgets_but_for_the_oldest__that_one_stays) {
    CompletionQueue queue(4);
    queue.forget(5, 1); // there is none
    assert_true(queue.empty());
    for (std::uint64_t id = 1; id <= 4; ++id) {
        assert_true(queue.push({.wr_id = id, .qpn = id == 3 ? 4U : 5U}));
    }
    const Completion* const oldest = queue.front();
    queue.forget(5, 1);
    assert_ptr_equal(queue.front(), oldest);
    for (const std::uint64_t id : {1, 3}) {
        assert_int_equal(queue.front()->wr_id, id);
        queue.pop();
    }
    assert_true(queue.empty());
}

TEST(completion_queue__overflowed__has_ended_when_all_were_taken) {
    CompletionQueue queue(2);
    queue.push({.wr_id = 1});
    queue.hold();
    queue.push({.wr_id = 2});
    assert_false(queue.push({.wr_id = 3}));
    // What was held back is there: nothing may come after the end.
    assert_false(queue.has_ended());
    assert_int_equal(Bench::poll(queue)->wr_id, 1);
    assert_false(queue.has_ended());
    assert_int_equal(Bench::poll(queue)->wr_id, 2);
    assert_true(queue.has_ended());
}

TEST(completion_queue__overrun_ignored__drops_in_silence) {
    CompletionQueue queue(2);
    queue.ignore_overrun();
    for (std::uint64_t id = 1; id <= 3; ++id) {
        assert_true(queue.push({.wr_id = id}));
    }
    assert_false(queue.overflowed());
    assert_int_equal(Bench::poll(queue)->wr_id, 1);
    assert_true(queue.push({.wr_id = 4}));
    assert_int_equal(Bench::poll(queue)->wr_id, 2);
    assert_int_equal(Bench::poll(queue)->wr_id, 4);
}

TEST(settle__datagrams_given_out__complete_only_then) {
    Simulation net(1, Faults{});
    QpConfig config = usual_config(net.left);
    config.type = QpType::kUd;
    QueuePair& qp = **net.left.engine.create_queue_pair(config);
    assert_true(bring_up(qp, usual_attributes()));
    std::vector<std::uint8_t> bytes(64, 1);
    const std::uint32_t key = net.left.add(bytes, 0);
    const Sge good = {Bench::addr(bytes), 64, key};
    const Sge bad = {Bench::addr(bytes), 65, key};
    for (std::uint64_t i = 1; i <= 3; ++i) {
        SendWr wr;
        wr.wr_id = i;
        wr.flags = kSignaled;
        wr.sges = {i == 3 ? &bad : &good, 1};
        assert_true(qp.post_send(wr) == Post::kPosted);
    }
    net.left.engine.posted(qp);
    OutPacket out;
    assert_true(net.left.engine.transmit(out, 1));
    assert_true(net.left.engine.transmit(out, 1));
    assert_false(net.left.engine.transmit(out, 1));
    assert_int_equal(net.left.send_cq.size(), 0); // a peer may still be reading our memory
    assert_true(net.left.engine.settle());
    assert_int_equal(Bench::poll(net.left.send_cq)->wr_id, 1);
    assert_int_equal(Bench::poll(net.left.send_cq)->wr_id, 2);
    assert_false(net.left.engine.transmit(out, 1));
    const auto failed = Bench::poll(net.left.send_cq);
    assert_int_equal(failed->wr_id, 3);
    assert_true(failed->status == Status::kLocalProtection);
    assert_true(qp.state() == QpState::kSendError);
    assert_false(net.left.engine.settle());
}

TEST(create__many__numbers_are_unique_and_not_in_order) {
    HoledMemory memory;
    EventLog events;
    Engine engine({.max_queue_pairs = 64, .max_regions = 4, .secret = RandomKey::repeatable(9)}, memory,
                  events);
    CompletionQueue cq(4);
    const QpConfig config = {.send_cq = &cq, .recv_cq = &cq};
    std::set<std::uint32_t> numbers;
    std::vector<QueuePair*> qps;
    for (int i = 0; i < 64; ++i) {
        qps.push_back(*engine.create_queue_pair(config));
        numbers.insert(qps.back()->qpn());
    }
    assert_int_equal(numbers.size(), 64);
    assert_true(*numbers.begin() > 1 && *numbers.rbegin() <= 0xffffff);
    assert_true(*numbers.rbegin() > 0xffff);
    assert_true(engine.create_queue_pair(config).error().kind() == ErrorKind::kInsufficientResources);
    assert_int_equal((*engine.create_gsi(config))->qpn(), wire::kGsiQpn);
    assert_true(engine.create_gsi(config).error().kind() == ErrorKind::kExists);
    const std::uint32_t old = qps[5]->qpn();
    engine.destroy_queue_pair(*qps[5]);
    assert_int_not_equal((*engine.create_queue_pair(config))->qpn(), old);
    QpConfig bad = config;
    bad.recv_cq = nullptr;
    engine.destroy_queue_pair(*qps[6]);
    assert_true(engine.create_queue_pair(bad).error().kind() == ErrorKind::kInvalidArgument);
}

// A connection that has ended keeps its number for seconds, and a queue pair that got it again couldn't
// connect. With so many seats there are 256 numbers for each.
TEST(create__again_and_again__no_number_comes_twice) {
    constexpr std::uint32_t kSeats = 1 << 16;
    HoledMemory memory;
    EventLog events;
    Engine engine({.max_queue_pairs = kSeats, .max_regions = 4, .secret = RandomKey::repeatable(9)}, memory,
                  events);
    CompletionQueue cq(4);
    const QpConfig config = {.send_cq = &cq, .recv_cq = &cq};
    std::vector<bool> seen(std::size_t{1} << 24);
    for (std::uint32_t i = 0; i < 4 * kSeats; ++i) {
        QueuePair& qp = **engine.create_queue_pair(config);
        assert_false(seen[qp.qpn()]);
        seen[qp.qpn()] = true;
        engine.destroy_queue_pair(qp);
    }
}

// Engines of several processes at one address: no two give out the same number, and their share takes
// nothing from what a stranger has to guess.
TEST(create__with_a_share__numbers_of_that_share_only_and_every_bit_differs) {
    const Share::Words words = {0x01234567, 0x89abcdef, 0x5a5aa5a5, 0x0f1e2d3c};
    HoledMemory memory;
    EventLog events;
    CompletionQueue cq(4);
    const QpConfig config = {.send_cq = &cq, .recv_cq = &cq};
    std::vector<bool> seen(std::size_t{1} << 24);
    std::uint32_t ones = 0;
    std::uint32_t zeros = 0;
    for (std::uint32_t which = 0; which < Share::kShares; ++which) {
        const Share share(words, which);
        Engine engine({.max_queue_pairs = 1 << 20,
                       .max_regions = 4,
                       .secret = RandomKey::repeatable(which),
                       .share = share},
                      memory, events);
        for (int i = 0; i < 100; ++i) {
            const std::uint32_t qpn = (*engine.create_queue_pair(config))->qpn();
            assert_true(share.owns(qpn));
            assert_false(seen[qpn]);
            seen[qpn] = true;
            ones |= qpn;
            zeros |= ~qpn;
        }
    }
    assert_int_equal(ones & zeros, 0xffffff);
}

// With these words all numbers belong to one share.
TEST(create__with_a_share_without_numbers__refused) {
    HoledMemory memory;
    EventLog events;
    CompletionQueue cq(4);
    Engine engine({.max_queue_pairs = 4096,
                   .max_regions = 4,
                   .secret = RandomKey::repeatable(1),
                   .share = Share({0, 0, 0, 0}, 5)},
                  memory, events);
    const auto made = engine.create_queue_pair({.send_cq = &cq, .recv_cq = &cq});
    assert_false(made.ok());
    assert_int_equal(static_cast<int>(made.error().kind()),
                     static_cast<int>(ErrorKind::kInsufficientResources));
}

// A stranger who knows some numbers of a device doesn't know a bit of the next one: over many devices every
// bit differs from the same bit of the number before as often as not, and no seat follows the one before.
TEST(create__one_after_another__every_bit_is_random) {
    constexpr int kDevices = 1024, kBits = 24;
    HoledMemory memory;
    EventLog events;
    CompletionQueue cq(4);
    const QpConfig config = {.send_cq = &cq, .recv_cq = &cq};
    std::array<int, kBits> flips{};
    int successors = 0;
    for (int device = 0; device < kDevices; ++device) {
        Engine engine({.max_queue_pairs = 4096,
                       .max_regions = 4,
                       .secret = RandomKey::repeatable(static_cast<std::uint64_t>(device))},
                      memory, events);
        const std::uint32_t first = (*engine.create_queue_pair(config))->qpn();
        const std::uint32_t second = (*engine.create_queue_pair(config))->qpn();
        for (std::size_t bit = 0; bit < flips.size(); ++bit) {
            flips[bit] += static_cast<int>((first ^ second) >> bit & 1);
        }
        successors += ((second - first) & 0xfff) == 1 ? 1 : 0;
    }
    for (const int flipped : flips) { // six standard deviations
        assert_in_range(flipped, kDevices / 2 - 96, kDevices / 2 + 96);
    }
    assert_in_range(successors, 0, 4);
}

// Many timers at once: each fires at its own time, whatever the order of their making.
TEST(deadlines__of_many_queue_pairs__in_order) {
    HoledMemory memory;
    EventLog events;
    Engine engine({.max_queue_pairs = 64, .max_regions = 4, .secret = RandomKey::repeatable(9)}, memory,
                  events);
    CompletionQueue cq(256);
    std::vector<QueuePair*> qps;
    OutPacket out;
    SendWr write;
    write.opcode = WrOpcode::kWrite;
    for (std::uint8_t i = 0; i < 50; ++i) {
        QueuePair& qp = **engine.create_queue_pair({.send_cq = &cq, .recv_cq = &cq, .max_send_wr = 4});
        QpAttributes attributes = usual_attributes();
        attributes.timeout = static_cast<std::uint8_t>(1 + i * 7 % 20);
        attributes.retry_count = 0;
        assert_true(bring_up(qp, attributes));
        assert_true(qp.post_send(write) == Post::kPosted);
        engine.posted(qp);
        while (engine.transmit(out, 1000 + i)) {
        }
        qps.push_back(&qp);
    }
    for (std::size_t i = 0; i < 50; i += 3) {
        engine.destroy_queue_pair(*qps[i]);
    }
    Nanoseconds last = 0;
    int fired = 0;
    while (engine.next_deadline() != kNever) {
        assert_true(engine.next_deadline() >= last);
        last = engine.next_deadline();
        engine.advance(last);
        Completion completion;
        while (cq.poll(completion)) {
            assert_true(completion.status == Status::kRetryExceeded);
            ++fired;
        }
    }
    assert_int_equal(fired, 50 - 17);
}

// Queue pairs take turns: one with much to say doesn't silence another.
TEST(transmit__two_busy_queue_pairs__alternate) {
    Bench bench;
    const Pair second = connect(bench.net, usual_attributes());
    bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 2560)));
    assert_true(second.left->post_send(bench.wr(WrOpcode::kWrite, bench.at_left(0, 2560))) == Post::kPosted);
    bench.net.left.engine.posted(*second.left);
    OutPacket out;
    for (int i = 0; i < 20; ++i) {
        assert_true(bench.net.left.engine.transmit(out, 1));
        wire::Packet packet;
        assert_true(wire::parse(to_bytes(out), packet) == wire::Refusal::kNone);
        assert_int_equal(packet.bth.dest_qpn, (i % 2 == 0 ? bench.pair : second).right->qpn());
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.queue_pair");
}
