// SPDX-License-Identifier: BSD-3-Clause
//
// What the asking side sends, when, and how its requests end.
#include <new>

#include "roce/engine/copy_packet.hpp"
#include "tests/unit/roce/bench.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::test;

namespace {

// Counts what is allocated while it is armed. The counter is for one thread.
bool counting = false;
int allocations = 0;

wire::Packet parsed(const std::vector<std::uint8_t>& transport) {
    wire::Packet packet;
    assert_true(wire::parse(transport, packet) == wire::Refusal::kNone);
    return packet;
}

TEST(every_operation__at_every_size__data_and_completions) {
    constexpr std::uint32_t kSizes[] = {0, 1, 255, 4096, 4097, 1 << 20};
    constexpr WrOpcode kOpcodes[] = {WrOpcode::kSend, WrOpcode::kSendImm, WrOpcode::kWrite,
                                     WrOpcode::kWriteImm, WrOpcode::kRead};
    for (const std::uint32_t mtu : {256U, 1024U, 4096U}) {
        QpAttributes attributes = usual_attributes();
        attributes.path_mtu = mtu;
        Bench bench(attributes, 1 << 20);
        for (const std::uint32_t size : kSizes) {
            for (const WrOpcode opcode : kOpcodes) {
                Random random(size + mtu);
                bench.left = random.bytes(1 << 20);
                bench.right = random.bytes(1 << 20);
                bench.left_key = bench.net.left.add(bench.left, kEverything);
                bench.right_key = bench.net.right.add(bench.right, kEverything);
                if (opcode != WrOpcode::kWrite && opcode != WrOpcode::kRead) {
                    bench.post_receive(0, 1 << 20);
                }
                assert_true(bench.post(bench.wr(opcode, bench.at_left(0, size))) == Post::kPosted);
                assert_true(bench.net.run());
                const auto sent = bench.sent();
                assert_true(sent && sent->status == Status::kSuccess && sent->len_bytes == size);
                assert_memory_equal(bench.left.data(), bench.right.data(), size);
                assert_true(size == 1 << 20 || bench.left[size] != bench.right[size] ||
                            bench.left[size + 1] != bench.right[size + 1]);
                if (const auto received = bench.received()) {
                    assert_int_equal(received->len_bytes, size);
                }
                assert_true(bench.net.left.engine.regions().remove_region(bench.left_key).ok());
                assert_true(bench.net.right.engine.regions().remove_region(bench.right_key).ok());
            }
        }
    }
}

TEST(read__more_packets_than_the_window__asked_once) {
    Bench bench;
    int requests = 0;
    bench.net.tap = [&](Host& from, std::vector<std::uint8_t>&) {
        requests += &from == &bench.net.left ? 1 : 0;
        return true;
    };
    bench.post(bench.wr(WrOpcode::kRead, bench.at_left(0, 60000)));
    assert_true(bench.net.run());
    assert_true(bench.sent()->status == Status::kSuccess);
    assert_int_equal(requests, 1);
}

TEST(write__peer_silent__window_of_128_and_an_answer_asked_for) {
    Bench bench;
    int packets = 0, asked = 0;
    bench.net.tap = [&](Host& from, std::vector<std::uint8_t>& transport) {
        if (&from == &bench.net.left) {
            ++packets;
            asked += parsed(transport).bth.ack_request ? 1 : 0;
        }
        return false;
    };
    bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 60000)));
    OutPacket out;
    while (bench.net.left.engine.transmit(out, 1)) {
        ++packets;
        asked += (out.header[8] & 0x80) != 0 ? 1 : 0;
    }
    assert_int_equal(packets, 128);
    assert_int_equal(asked, 2);
}

TEST(send__no_answer__retries_then_retry_exceeded) {
    QpAttributes attributes = usual_attributes();
    attributes.retry_count = 3;
    Bench bench(attributes);
    std::vector<Nanoseconds> times;
    bench.net.tap = [&](Host&, std::vector<std::uint8_t>&) {
        times.push_back(bench.net.now);
        return false;
    };
    bench.post(bench.wr(WrOpcode::kSend, bench.at_left(0, 8), 0, 1));
    bench.post(bench.wr(WrOpcode::kSend, bench.at_left(0, 8), 0, 2));
    assert_true(bench.net.run());
    assert_int_equal(times.size(), 8); // both, at first and three times again
    assert_int_equal(bench.net.left.engine.counters().packets_again, 6);
    assert_int_equal(times[2] - times[0], 4096 << 8);
    assert_int_equal(times[6] - times[4], 4096 << 8);
    assert_int_equal(bench.net.now - times[6], 4096 << 8);
    const auto first = bench.sent(), second = bench.sent();
    assert_true(first->wr_id == 1 && first->status == Status::kRetryExceeded);
    assert_true(second->wr_id == 2 && second->status == Status::kFlushed);
    assert_true(bench.pair.left->state() == QpState::kError);
}

// A send to a peer that is silent until ANSWERS_AT, and of which PEER is known.
struct Silent {
    explicit Silent(Peer peer, Nanoseconds answers_at = kNever) : bench(with_three_retries()) {
        bench.net.left.events.peer = peer;
        bench.net.tap = [this, answers_at](Host& from, std::vector<std::uint8_t>&) {
            packets += &from == &bench.net.left ? 1 : 0;
            return bench.net.now >= answers_at;
        };
        bench.post_receive(0, 64);
        bench.post(bench.wr(WrOpcode::kSend, bench.at_left(0, 8)));
    }
    static QpAttributes with_three_retries() {
        QpAttributes attributes = usual_attributes();
        attributes.retry_count = 3;
        return attributes;
    }
    Bench bench;
    int packets = 0;
};

constexpr Nanoseconds kSimulatedSecond = 1'000'000'000;

TEST(silence__of_a_peer_that_lives__is_waited_for_ever_more_seldom) {
    Silent peer(Peer::kLives, 60 * kSimulatedSecond);
    assert_true(peer.bench.net.run());
    assert_true(peer.bench.sent()->status == Status::kSuccess);
    // Each half a second in the end.
    assert_in_range(peer.bench.net.now, 60 * kSimulatedSecond, 61 * kSimulatedSecond);
    assert_in_range(peer.packets, 120, 140);
}

TEST(silence__of_a_peer_that_is_gone__ends_with_the_programs_retries) {
    Silent peer(Peer::kGone);
    assert_true(peer.bench.net.run());
    assert_true(peer.bench.sent()->status == Status::kRetryExceeded);
    assert_int_equal(peer.packets, 4);
    assert_int_equal(peer.bench.net.left.events.questions, 1);
}

TEST(silence__of_a_peer_that_answers_elsewhere__ends_after_some_questions) {
    Silent peer(Peer::kAnswers);
    assert_true(peer.bench.net.run());
    assert_true(peer.bench.sent()->status == Status::kRetryExceeded);
    assert_int_equal(peer.bench.net.left.events.questions, 8);
}

// They come late, when the queue pair has been connected to another one.
TEST(silence__while_answers_about_another_connection_come__is_waited_for) {
    Silent peer(Peer::kLives, 60 * kSimulatedSecond);
    Bench& bench = peer.bench;
    Ends former = bench.pair.left->ends();
    ++former.peer_qpn;
    for (int i = 0; i < 20; ++i) {
        bench.net.left.engine.peer_answers(former);
    }
    bench.net.left.engine.peer_is_gone(former);
    assert_true(bench.net.run());
    assert_true(bench.sent()->status == Status::kSuccess);
}

// The hint ends nothing by itself, but with silence, and with a repetition of the request that isn't
// answered.
TEST(silence__of_a_peer_whose_port_nobody_has__ends_at_the_second_look) {
    Silent peer(Peer::kLives);
    peer.bench.net.left.events.port = Port::kRefused;
    assert_true(peer.bench.net.run());
    assert_true(peer.bench.sent()->status == Status::kRetryExceeded);
    assert_in_range(peer.bench.net.now, kSimulatedSecond, 2 * kSimulatedSecond);
}

TEST(silence__of_a_peer_whose_port_a_stranger_refuses__goes_on_when_that_answers) {
    Silent peer(Peer::kLives, kSimulatedSecond / 2);
    peer.bench.net.left.events.port = Port::kRefused;
    assert_true(peer.bench.net.run());
    assert_true(peer.bench.sent()->status == Status::kSuccess);
}

TEST(silence__with_the_port_there__is_waited_for) {
    Silent peer(Peer::kLives, 20 * kSimulatedSecond);
    peer.bench.net.left.events.port = Port::kSilent;
    assert_true(peer.bench.net.run());
    assert_true(peer.bench.sent()->status == Status::kSuccess);
    assert_in_range(peer.bench.net.left.events.looks, 15, 25);
}

TEST(peer__gone__what_is_open_fails_at_once_and_so_does_what_is_posted_later) {
    Silent peer(Peer::kLives);
    Bench& bench = peer.bench;
    OutPacket out;
    while (bench.net.left.engine.transmit(out, 1)) {
    }
    bench.net.left.engine.peer_is_gone(bench.pair.left->qpn());
    assert_true(bench.sent()->status == Status::kRetryExceeded);
    assert_true(bench.pair.left->state() == QpState::kError);

    Silent idle(Peer::kLives, 0);
    assert_true(idle.bench.net.run());
    assert_true(idle.bench.sent()->status == Status::kSuccess);
    idle.bench.net.left.engine.peer_is_gone(idle.bench.pair.left->qpn());
    assert_true(idle.bench.pair.left->state() == QpState::kReadyToSend); // nothing is lost yet
    idle.bench.post(idle.bench.wr(WrOpcode::kSend, idle.bench.at_left(0, 8)));
    assert_true(idle.bench.net.run());
    assert_true(idle.bench.sent()->status == Status::kRetryExceeded);
}

TEST(send__timeout_zero__never_retries) {
    QpAttributes attributes = usual_attributes();
    attributes.timeout = 0;
    Bench bench(attributes);
    bench.net.tap = [](Host&, std::vector<std::uint8_t>&) { return false; };
    bench.post(bench.wr(WrOpcode::kSend, bench.at_left(0, 8)));
    assert_true(bench.net.run());
    assert_false(bench.sent().has_value());
    assert_true(bench.net.left.engine.next_deadline() == kNever);
}

TEST(retries__after_progress__count_anew) {
    QpAttributes attributes = usual_attributes();
    attributes.retry_count = 1;
    Bench bench(attributes);
    bench.post_receive(0, 8);
    bench.post_receive(0, 8);
    int sends = 0;
    bench.net.tap = [&](Host& from, std::vector<std::uint8_t>&) {
        return &from == &bench.net.right || ++sends % 2 == 0; // each is lost once
    };
    for (int i = 0; i < 2; ++i) {
        bench.post(bench.wr(WrOpcode::kSend, bench.at_left(0, 8)));
        assert_true(bench.net.run());
        assert_true(bench.sent()->status == Status::kSuccess);
    }
}

TEST(send__receiver_not_ready__waits_as_told_and_gives_up_as_told) {
    QpAttributes attributes = usual_attributes();
    attributes.rnr_retry = 2;
    attributes.min_rnr_timer = 14; // 1.28 ms
    Bench bench(attributes);
    std::vector<Nanoseconds> times;
    bench.net.tap = [&](Host& from, std::vector<std::uint8_t>&) {
        if (&from == &bench.net.left) {
            times.push_back(bench.net.now);
        }
        return true;
    };
    bench.post(bench.wr(WrOpcode::kSend, bench.at_left(0, 8)));
    assert_true(bench.net.run());
    assert_int_equal(times.size(), 3);
    assert_int_equal(times[1] - times[0], 1280000 + 10000); // and there and back
    assert_true(bench.sent()->status == Status::kRnrRetryExceeded);
    const Counters &left = bench.net.left.engine.counters(), &right = bench.net.right.engine.counters();
    assert_int_equal(left.rnr_naks_in, 3);
    assert_int_equal(right.rnr_naks_out, 3);
    assert_int_equal(left.packets_again, 2);
    assert_int_equal(left.messages_sent + right.messages_received, 0);
    assert_int_equal(left.completions[static_cast<std::size_t>(Status::kRnrRetryExceeded)], 1);
    assert_int_equal(left.completions[static_cast<std::size_t>(Status::kSuccess)], 0);
    assert_int_equal(bench.net.right.events.peers_heard, 1); // what it asked for was expected
    // The peer did nothing wrong.
    assert_true(bench.pair.right->state() == QpState::kReadyToSend);
}

TEST(send__rnr_retry_seven__waits_forever) {
    Bench bench;
    bench.post(bench.wr(WrOpcode::kSend, bench.at_left(0, 8)));
    for (int i = 0; i < 2000; ++i) {
        assert_true(bench.net.step());
    }
    bench.post_receive(0, 8);
    assert_true(bench.net.run());
    assert_true(bench.sent()->status == Status::kSuccess);
}

TEST(reads__max_rd_atomic_two__never_more_outstanding) {
    QpAttributes attributes = usual_attributes();
    attributes.max_rd_atomic = 2;
    Bench bench(attributes);
    int outstanding = 0, most = 0;
    bench.net.tap = [&](Host& from, std::vector<std::uint8_t>& transport) {
        outstanding += &from == &bench.net.left ? 1 : 0;
        outstanding -= &from == &bench.net.right && parsed(transport).info().ends() ? 1 : 0;
        most = std::max(most, outstanding);
        return true;
    };
    for (std::uint64_t i = 0; i < 10; ++i) {
        SendWr read = bench.wr(i % 2 == 0 ? WrOpcode::kRead : WrOpcode::kFetchAdd, bench.at_left(0, 8));
        bench.post(read);
    }
    assert_true(bench.net.run());
    assert_int_equal(most, 2);
    for (int i = 0; i < 10; ++i) {
        assert_true(bench.sent()->status == Status::kSuccess);
    }
}

TEST(write__fenced__waits_for_the_read_before) {
    for (const bool fenced : {false, true}) {
        Bench bench;
        bool answered = false, overtook = false;
        bench.net.tap = [&](Host& from, std::vector<std::uint8_t>& transport) {
            answered |= &from == &bench.net.right;
            overtook |=
                &from == &bench.net.left && parsed(transport).bth.opcode == wire::kRcWriteOnly && !answered;
            return true;
        };
        bench.post(bench.wr(WrOpcode::kRead, bench.at_left(0, 8)));
        SendWr write = bench.wr(WrOpcode::kWrite, bench.at_left(100, 8), 100);
        write.flags |= fenced ? kFence : 0;
        bench.post(write);
        assert_true(bench.net.run());
        assert_true(overtook == !fenced);
    }
}

TEST(local_error__behind_requests_in_flight__they_complete_first) {
    Bench bench;
    bench.post(bench.wr(WrOpcode::kRead, bench.at_left(0, 600), 0, 1));
    SendWr unsignaled = bench.wr(WrOpcode::kWrite, bench.at_left(0, 8), 0, 2);
    unsignaled.flags = 0;
    bench.post(unsignaled);
    SendWr bad = bench.wr(WrOpcode::kWrite, bench.at_left(0, 8), 0, 3);
    const Sge wrong = {0, 8, bench.left_key};
    bad.sges = {&wrong, 1};
    bad.flags = 0;
    bench.post(bad);
    unsignaled.wr_id = 4;
    bench.post(unsignaled);
    assert_true(bench.net.run());
    const auto first = bench.sent(), second = bench.sent(), third = bench.sent();
    assert_true(first->wr_id == 1 && first->status == Status::kSuccess);
    assert_true(second->wr_id == 3 && second->status == Status::kLocalProtection);
    assert_true(third->wr_id == 4 && third->status == Status::kFlushed);
    assert_false(bench.sent().has_value());
    bench.post(unsignaled);
    assert_true(bench.sent()->status == Status::kFlushed); // at once, in error
}

TEST(error__by_modify__flushes_both_queues_in_order) {
    Bench bench;
    bench.net.tap = [](Host&, std::vector<std::uint8_t>&) { return false; };
    for (std::uint64_t i = 1; i <= 3; ++i) {
        bench.post(bench.wr(WrOpcode::kSend, bench.at_left(0, 8), 0, i));
        const Sge sge = bench.at_left(100, 8);
        assert_true(bench.pair.left->post_receive({10 + i, {&sge, 1}}) == Post::kPosted);
    }
    OutPacket out;
    assert_true(bench.net.left.engine.transmit(out, 1));
    assert_true(bench.pair.left->modify(QpState::kError, {}).ok());
    for (std::uint64_t i = 1; i <= 3; ++i) {
        const auto sent = bench.sent();
        const auto received = bench.poll(bench.net.left.recv_cq);
        assert_true(sent->wr_id == i && sent->status == Status::kFlushed);
        assert_true(received->wr_id == 10 + i && received->status == Status::kFlushed);
    }
    assert_false(bench.net.left.engine.transmit(out, 1));
    assert_true(bench.net.left.engine.next_deadline() == kNever || !bench.net.step() || bench.net.run());
}

TEST(nak__fatal__its_request_takes_the_status) {
    Bench bench;
    bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 8), 0, 1));
    bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 8), 65536, 2));
    bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 8), 0, 3));
    assert_true(bench.net.run());
    assert_true(bench.sent()->status == Status::kSuccess);
    const auto second = bench.sent();
    assert_true(second->wr_id == 2 && second->status == Status::kRemoteAccess);
    assert_true(bench.sent()->status == Status::kFlushed);
}

// The refusal of a write overtakes the data of the read before it; LOST: for ever.
TEST(nak__fatal_overtakes_a_response__read_is_awaited) {
    for (const bool lost : {false, true}) {
        Bench bench;
        bench.post(bench.wr(WrOpcode::kRead, bench.at_left(0, 64), 0, 1));
        bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 8), 65536, 2));
        OutPacket out;
        while (bench.net.left.engine.transmit(out, bench.net.now)) {
            bench.net.inject(bench.net.right, bench.net.left.where, to_bytes(out));
        }
        bench.collect();
        assert_int_equal(bench.answers.size(), 2);
        bench.net.inject(bench.net.left, bench.net.right.where, bench.answers[1]);
        assert_false(bench.sent().has_value());
        if (!lost) {
            bench.net.inject(bench.net.left, bench.net.right.where, bench.answers[0]);
        }
        assert_true(bench.net.run());
        const auto first = bench.sent(), second = bench.sent();
        assert_true(first->wr_id == 1 && second->wr_id == 2);
        assert_true(first->status == (lost ? Status::kRemoteAccess : Status::kSuccess));
        assert_true(second->status == (lost ? Status::kFlushed : Status::kRemoteAccess));
    }
}

// A response that doesn't fit its request fails it; one for a number never sent does nothing.
TEST(response__wrong_or_unasked__bad_response_or_ignored) {
    Bench bench;
    wire::Packet ack;
    ack.bth.opcode = wire::kRcAcknowledge;
    ack.bth.dest_qpn = bench.pair.left->qpn();
    ack.bth.psn = 100;
    ack.aeth.syndrome = wire::kAckNoCredits;
    std::vector<std::uint8_t> bytes(wire::kMaxHeaderBytes);
    bytes.resize(wire::write_headers(ack, bytes));
    bench.net.inject(bench.net.left, bench.net.right.where, bytes);
    assert_int_equal(bench.net.left.engine.counters().stray_responses, 1);

    bench.net.tap = [&](Host& from, std::vector<std::uint8_t>& transport) {
        if (&from == &bench.net.right) {
            transport.resize(transport.size() - 4); // a read response with four bytes too few
        }
        return true;
    };
    bench.post(bench.wr(WrOpcode::kRead, bench.at_left(0, 64)));
    assert_true(bench.net.run());
    assert_true(bench.sent()->status == Status::kBadResponse);
}

// Read data under the number of a write before it: whoever made that up doesn't get it stored.
TEST(response__under_the_number_of_another_request__ignored) {
    Bench bench;
    bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 64)));
    bench.post(bench.wr(WrOpcode::kRead, bench.at_left(100, 64)));
    const std::vector<std::uint8_t> before = bench.left;
    OutPacket out;
    while (bench.net.left.engine.transmit(out, 1)) {
    }
    wire::Packet data;
    data.bth.opcode = wire::kRcReadResponseOnly;
    data.bth.dest_qpn = bench.pair.left->qpn();
    data.bth.psn = 100;
    data.aeth.syndrome = wire::kAckNoCredits;
    std::vector<std::uint8_t> bytes(wire::kMaxHeaderBytes);
    bytes.resize(wire::write_headers(data, bytes) + 64);
    bench.net.inject(bench.net.left, bench.net.right.where, bytes);
    assert_true(bench.left == before);
    assert_false(bench.sent().has_value());
    assert_int_equal(bench.net.left.engine.counters().stray_responses, 1);
}

TEST(read__result_memory_unmapped__local_protection) {
    Bench bench;
    bench.net.left.memory.make_hole(bench.addr(bench.left, 256), 64);
    bench.post(bench.wr(WrOpcode::kRead, bench.at_left(0, 600)));
    assert_true(bench.net.run());
    assert_true(bench.sent()->status == Status::kLocalProtection);
}

TEST(short_payload__that_is_gone__local_protection) {
    for (const std::uint32_t len : {1U, kCopiedBytes, kCopiedBytes + 1}) {
        Bench bench;
        bench.net.left.memory.make_hole(bench.addr(bench.left, len - 1), 1);
        bench.post(bench.wr(WrOpcode::kSend, bench.at_left(0, len)));
        assert_true(bench.net.run());
        assert_true(bench.sent()->status == Status::kLocalProtection);
    }
}

// Of several pieces, the packet has them in one. A longer one refers to the program's memory, which may go.
TEST(short_payload__is_read_once_when_its_packet_is_made) {
    for (const std::uint32_t half : {4U, kCopiedBytes / 2, kCopiedBytes / 2 + 1}) {
        Bench bench;
        Host& left = bench.net.left;
        std::vector<std::uint8_t> expected(bench.left.begin(), bench.left.begin() + half);
        expected.insert(expected.end(), bench.left.begin() + 1000, bench.left.begin() + 1000 + half);
        const Sge sges[] = {bench.at_left(0, half), bench.at_left(1000, half)};
        SendWr wr = bench.wr(WrOpcode::kSend, sges[0]);
        wr.sges = sges;
        assert_true(bench.post(wr) == Post::kPosted);
        OutPacket out;
        assert_true(left.engine.transmit(out, 1));
        left.memory.make_hole(bench.addr(bench.left), bench.left.size());
        std::ranges::fill(bench.left, std::uint8_t{0});
        std::vector<std::uint8_t> bytes(out.payload_bytes);
        const bool is_short = expected.size() <= kCopiedBytes;
        assert_int_equal(out.piece_count, is_short ? 1 : 3); // with two bytes of padding
        assert_int_equal(copy_payload(out, left.memory, bytes.data()), is_short);
        bytes.resize(expected.size());
        assert_true(!is_short || bytes == expected);
    }
}

// Which the queue pair has copied when it was posted.
TEST(inline_payload__needs_no_look_at_the_programs_memory) {
    Bench bench;
    Host& left = bench.net.left;
    SendWr wr = bench.wr(WrOpcode::kSend, bench.at_left(0, 16));
    wr.flags |= kInline;
    assert_true(bench.post(wr) == Post::kPosted);
    left.memory.make_hole(0, ~std::uint64_t{0});
    OutPacket out;
    assert_true(left.engine.transmit(out, 1));
    std::vector<std::uint8_t> bytes(out.payload_bytes);
    assert_true(copy_payload(out, left.memory, bytes.data()));
    assert_memory_equal(bytes.data(), bench.left.data(), bytes.size());
}

TEST(send_with_invalidate__then_use_of_the_window__refused) {
    Bench bench;
    RegionTable& regions = bench.net.right.engine.regions();
    const std::uint32_t fresh = *regions.add_window(Host::kPd, WindowType::kType2);
    SendWr bind;
    bind.opcode = WrOpcode::kBindMw;
    bind.flags = kSignaled;
    bind.bind = {fresh, fresh ^ 1, bench.right_key, bench.addr(bench.right), 64, kRemoteWrite};
    assert_true(bench.pair.right->post_send(bind) == Post::kPosted);
    bench.net.right.engine.wake(*bench.pair.right);
    bench.post_receive(100, 64);
    assert_true(bench.net.run());
    assert_true(bench.poll(bench.net.right.send_cq)->opcode == WcOpcode::kBindMw);

    SendWr write = bench.wr(WrOpcode::kWrite, bench.at_left(0, 8));
    write.rkey = fresh ^ 1;
    bench.post(write);
    SendWr invalidate = bench.wr(WrOpcode::kSendInv, bench.at_left(0, 8));
    invalidate.imm_or_rkey = fresh ^ 1;
    bench.post(invalidate);
    assert_true(bench.net.run());
    assert_true(bench.sent()->status == Status::kSuccess && bench.sent()->status == Status::kSuccess);
    const auto received = bench.received();
    assert_int_equal(received->flags, kWithInv);
    assert_int_equal(received->imm_or_rkey, fresh ^ 1);

    bench.post(write);
    assert_true(bench.net.run());
    assert_true(bench.sent()->status == Status::kRemoteAccess);
}

TEST(bind__refused__bind_error_and_flush) {
    Bench bench;
    SendWr bind;
    bind.opcode = WrOpcode::kBindMw;
    bind.bind = {0x1234, 0x1235, bench.left_key, bench.addr(bench.left), 64, kRemoteWrite};
    bench.post(bind);
    assert_true(bench.net.run());
    assert_true(bench.sent()->status == Status::kMwBind);
}

TEST(post__what_can_not_be__invalid_or_full) {
    Bench bench;
    assert_true(bench.post(bench.wr(WrOpcode::kFetchAdd, bench.at_left(0, 4))) == Post::kInvalid);
    assert_true(bench.post(bench.wr(WrOpcode::kFlush, bench.at_left(0, 4))) == Post::kInvalid);
    SendWr inlined = bench.wr(WrOpcode::kSend, bench.at_left(0, 65));
    inlined.flags |= kInline;
    assert_true(bench.post(inlined) == Post::kInvalid);
    const std::array<Sge, 5> five{};
    SendWr many = bench.wr(WrOpcode::kSend, bench.at_left(0, 0));
    many.sges = five;
    assert_true(bench.post(many) == Post::kInvalid);
    const std::array<Sge, 2> huge = {Sge{0, kMaxMessageBytes, 0}, Sge{0, 1, 0}};
    many.sges = huge;
    assert_true(bench.post(many) == Post::kInvalid);
    for (int i = 0; i < 32; ++i) {
        assert_true(bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 8))) == Post::kPosted);
    }
    assert_true(bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 8))) == Post::kFull);
}

TEST(inline_send__memory_reused_after_post__old_data_arrives) {
    Bench bench;
    bench.post_receive(0, 8);
    const std::vector<std::uint8_t> before(bench.left.begin(), bench.left.begin() + 8);
    SendWr send = bench.wr(WrOpcode::kSend, bench.at_left(0, 8));
    send.flags |= kInline;
    bench.post(send);
    std::fill_n(bench.left.begin(), 8, std::uint8_t{0});
    assert_true(bench.net.run());
    assert_memory_equal(bench.right.data(), before.data(), 8);
}

// Multi-packet messages leave as references into the program's memory.
TEST(write__large__pieces_point_into_the_programs_memory) {
    Bench bench;
    bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(10, 601)));
    OutPacket out;
    for (std::uint32_t i = 0; i < 3; ++i) {
        assert_true(bench.net.left.engine.transmit(out, 1));
        assert_ptr_equal(out.pieces[0].iov_base, bench.left.data() + 10 + 256UL * i);
    }
    assert_int_equal(out.piece_count, 2); // and three bytes of padding
    assert_int_equal(out.payload_bytes, 92);
}

TEST(data_path__everything__allocates_nothing) {
    Bench bench;
    bench.post_receive(0, 4096);
    const SendWr send = bench.wr(WrOpcode::kSend, bench.at_left(0, 4096));
    const SendWr read = bench.wr(WrOpcode::kRead, bench.at_left(0, 4096));
    const SendWr add = bench.wr(WrOpcode::kFetchAdd, bench.at_left(0, 8));
    std::array<std::uint8_t, 4096> transport{};
    const wire::Grh grh{};
    allocations = 0;
    counting = true;
    bench.post(send);
    bench.post(read);
    bench.post(add);
    bool any = true;
    int packets = 0;
    while (any) {
        any = false;
        for (const bool to_right : {true, false}) {
            Host& from = to_right ? bench.net.left : bench.net.right;
            Host& to = to_right ? bench.net.right : bench.net.left;
            OutPacket out;
            while (from.engine.transmit(out, 1)) {
                any = true;
                ++packets;
                std::size_t len = out.header_bytes;
                std::copy_n(out.header.begin(), len, transport.begin());
                for (std::uint32_t i = 0; i < out.piece_count; ++i) {
                    std::memcpy(transport.data() + len, out.pieces[i].iov_base, out.pieces[i].iov_len);
                    len += out.pieces[i].iov_len;
                }
                wire::Packet packet;
                wire::parse({transport.data(), len}, packet);
                to.engine.receive({packet, from.where, to.where, grh}, 1);
            }
        }
    }
    Completion completions[3];
    for (Completion& completion : completions) {
        bench.net.left.send_cq.poll(completion);
    }
    counting = false;
    assert_int_equal(allocations, 0);
    assert_in_range(packets, 30, 100);
    assert_true(completions[2].opcode == WcOpcode::kFetchAdd && completions[2].status == Status::kSuccess);
}

} // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
    allocations += counting ? 1 : 0;
    if (void* block = std::malloc(size)) {
        return block;
    }
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
    std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept {
    std::free(block);
}

int main() {
    return sluice::test::run_all_tests("roce.requester");
}
