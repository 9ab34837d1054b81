// SPDX-License-Identifier: BSD-3-Clause
//
// What the answering side makes of single packets, good and bad: its sequence numbers begin at 100,
// its MTU is 256.
#include "tests/unit/roce/bench.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::test;
using wire::nak_syndrome;
using wire::NakCode;

namespace {

constexpr std::uint8_t kAck = wire::kAckNoCredits;
constexpr std::uint8_t kNothing = 0xff;

TEST(request__ahead__one_nak_until_the_gap_closes) {
    Bench bench;
    bench.ask(bench.request(wire::kRcWriteOnly, 103, 8), 8);
    assert_int_equal(bench.verdict(), nak_syndrome(NakCode::kSequence));
    assert_int_equal(bench.answer(0).bth.psn, 100);
    bench.ask(bench.request(wire::kRcWriteOnly, 104, 8), 8);
    assert_int_equal(bench.verdict(), kNothing);
    bench.ask(bench.request(wire::kRcWriteOnly, 100, 8), 8);
    assert_int_equal(bench.verdict(), kAck);
    bench.ask(bench.request(wire::kRcWriteOnly, 102, 8), 8);
    assert_int_equal(bench.verdict(), nak_syndrome(NakCode::kSequence));
    assert_int_equal(bench.answer(0).bth.psn, 101);
}

TEST(request__half_the_sequence_space_away__ahead_or_behind) {
    Bench bench;
    bench.ask(bench.request(wire::kRcWriteOnly, 100 + 0x7fffff, 8), 8);
    assert_int_equal(bench.verdict(), nak_syndrome(NakCode::kSequence));
    bench.ask(bench.request(wire::kRcWriteOnly, 100 + 0x800000, 8), 8);
    assert_int_equal(bench.verdict(), kAck); // a copy of something long ago
    assert_int_equal(bench.answer(0).bth.psn, 99);
}

TEST(sequence__wraps__goes_on) {
    QpAttributes attributes = usual_attributes();
    attributes.recv_psn = attributes.send_psn = 0xffffff;
    Bench bench(attributes);
    bench.ask(bench.request(wire::kRcWriteOnly, 0xffffff, 8), 8);
    assert_int_equal(bench.verdict(), kAck);
    bench.ask(bench.request(wire::kRcWriteOnly, 0, 8), 8);
    assert_int_equal(bench.verdict(), kAck);
    bench.ask(bench.request(wire::kRcWriteOnly, 0xffffff, 8), 8);
    assert_int_equal(bench.answer(0).bth.psn, 0);
}

TEST(duplicate_write__acknowledged_not_executed) {
    Bench bench;
    bench.ask(bench.request(wire::kRcWriteOnly, 100, 8), 8);
    assert_int_equal(bench.right[0], 0x5a);
    bench.right[0] = 1;
    bench.ask(bench.request(wire::kRcWriteOnly, 100, 8), 8);
    assert_int_equal(bench.verdict(), kAck);
    assert_int_equal(bench.answer(0).bth.psn, 100);
    assert_int_equal(bench.answer(0).aeth.msn, 1);
    assert_int_equal(bench.right[0], 1);
}

// The atomic's own answer may be lost or late, and nothing else may pass for it.
TEST(duplicate_write__atomic_executed_since__acknowledgement_names_the_write) {
    Bench bench;
    bench.ask(bench.request(wire::kRcWriteOnly, 100, 8), 8);
    bench.ask(bench.request(wire::kRcFetchAdd, 101));
    bench.ask(bench.request(wire::kRcReadRequest, 102, 8));
    bench.ask(bench.request(wire::kRcWriteOnly, 100, 8), 8);
    assert_int_equal(bench.verdict(), kAck);
    assert_int_equal(bench.answer(0).bth.psn, 100);
    assert_int_equal(bench.answer(0).aeth.msn, 1);
}

TEST(duplicate_atomic__same_answer_one_execution) {
    Bench bench;
    const std::uint64_t before = 40;
    std::memcpy(bench.right.data(), &before, 8);
    for (int i = 0; i < 3; ++i) {
        bench.ask(bench.request(wire::kRcFetchAdd, 100));
        assert_int_equal(bench.answer(0).bth.opcode, wire::kRcAtomicAcknowledge);
        assert_int_equal(bench.answer(0).atomic_ack.original, 40);
        assert_int_equal(bench.answer(0).bth.psn, 100);
    }
    std::uint64_t after = 0;
    std::memcpy(&after, bench.right.data(), 8);
    assert_int_equal(after, 45);
}

// Four are kept, as max_dest_rd_atomic says; of the fifth before, nobody may ask.
TEST(duplicate_atomic__older_than_what_is_kept__no_answer) {
    Bench bench;
    for (std::uint32_t psn = 100; psn < 105; ++psn) {
        bench.ask(bench.request(wire::kRcFetchAdd, psn));
    }
    bench.ask(bench.request(wire::kRcFetchAdd, 100));
    assert_int_equal(bench.verdict(), kNothing);
    bench.ask(bench.request(wire::kRcFetchAdd, 101));
    assert_int_equal(bench.answer(0).bth.opcode, wire::kRcAtomicAcknowledge);
}

TEST(duplicate_flush_and_atomic_write__answered_not_executed) {
    Bench bench;
    bench.ask(bench.request(wire::kRcFlush, 100, 64));
    assert_int_equal(bench.answer(0).bth.opcode, wire::kRcReadResponseOnly);
    wire::Packet store = bench.request(wire::kRcAtomicWrite, 101, 8);
    bench.ask(store, 8);
    assert_int_equal(bench.answer(0).bth.opcode, wire::kRcReadResponseOnly);
    assert_int_equal(bench.right[7], 0x5a);
    bench.right[7] = 9;
    bench.ask(store, 8);
    bench.ask(bench.request(wire::kRcFlush, 100, 64));
    assert_int_equal(bench.answer(0).bth.opcode, wire::kRcReadResponseOnly);
    assert_int_equal(bench.answer(0).payload.size(), 0);
    assert_int_equal(bench.right[7], 9);
    assert_int_equal(bench.net.right.memory.flushes, 1);
}

TEST(read__three_packets__first_middle_last) {
    Bench bench;
    bench.ask(bench.request(wire::kRcReadRequest, 100, 600, 16));
    assert_int_equal(bench.answers.size(), 3);
    const std::uint8_t opcodes[] = {wire::kRcReadResponseFirst, wire::kRcReadResponseMiddle,
                                    wire::kRcReadResponseLast};
    for (std::uint32_t i = 0; i < 3; ++i) {
        const wire::Packet packet = bench.answer(i);
        assert_int_equal(packet.bth.opcode, opcodes[i]);
        assert_int_equal(packet.bth.psn, 100 + i);
        assert_memory_equal(packet.payload.data(), bench.right.data() + 16 + 256UL * i,
                            packet.payload.size());
    }
    bench.ask(bench.request(wire::kRcWriteOnly, 103, 8), 8);
    assert_int_equal(bench.verdict(), kAck);
}

TEST(duplicate_read__part_of_the_first__answered_from_there) {
    Bench bench;
    bench.ask(bench.request(wire::kRcReadRequest, 100, 600));
    bench.ask(bench.request(wire::kRcReadRequest, 101, 600 - 256, 256));
    assert_int_equal(bench.answers.size(), 2);
    assert_int_equal(bench.answer(0).bth.opcode, wire::kRcReadResponseFirst);
    assert_int_equal(bench.answer(0).bth.psn, 101);
    assert_memory_equal(bench.answer(1).payload.data(), bench.right.data() + 512, 88);
}

TEST(duplicate_read__outside_of_the_first__no_answer) {
    Bench bench;
    bench.ask(bench.request(wire::kRcReadRequest, 100, 600));
    bench.ask(bench.request(wire::kRcReadRequest, 100, 601));
    assert_int_equal(bench.verdict(), kNothing);
    bench.ask(bench.request(wire::kRcReadRequest, 101, 256, 0));
    assert_int_equal(bench.verdict(), kNothing);
    bench.ask(bench.request(wire::kRcReadRequest, 100, 100, 8));
    assert_int_equal(bench.verdict(), kNothing);
    wire::Packet other = bench.request(wire::kRcReadRequest, 100, 600);
    other.reth.rkey ^= 1;
    bench.ask(other);
    assert_int_equal(bench.verdict(), kNothing);
}

TEST(duplicate_reads__flood__bounded_and_new_requests_survive) {
    Bench bench;
    bench.ask(bench.request(wire::kRcReadRequest, 100, 64));
    wire::Packet copy = bench.request(wire::kRcReadRequest, 100, 64);
    copy.bth.dest_qpn = bench.pair.right->qpn();
    std::vector<std::uint8_t> bytes(wire::kMaxHeaderBytes);
    bytes.resize(wire::write_headers(copy, bytes));
    for (int i = 0; i < 1000; ++i) {
        bench.net.inject(bench.net.right, bench.net.left.where, bytes);
    }
    assert_true(bench.net.right.engine.counters().dropped_no_room > 900);
    bench.collect();
    assert_in_range(bench.answers.size(), 1, 32);
    bench.ask(bench.request(wire::kRcWriteOnly, 101, 8), 8);
    assert_int_equal(bench.verdict(), kAck);
}

TEST(writes__several_before_an_answer_leaves__one_acknowledgement) {
    Bench bench;
    std::vector<std::uint8_t> bytes;
    for (std::uint32_t psn = 100; psn < 110; ++psn) {
        wire::Packet packet = bench.request(wire::kRcWriteOnly, psn, 0);
        packet.bth.dest_qpn = bench.pair.right->qpn();
        bytes.assign(wire::kMaxHeaderBytes, 0);
        bytes.resize(wire::write_headers(packet, bytes));
        bench.net.inject(bench.net.right, bench.net.left.where, bytes);
    }
    bench.collect();
    assert_int_equal(bench.verdict(), kAck);
    assert_int_equal(bench.answer(0).bth.psn, 109);
    assert_int_equal(bench.answer(0).aeth.msn, 10);
}

TEST(write__no_acknowledgement_asked__none_given) {
    Bench bench;
    wire::Packet packet = bench.request(wire::kRcWriteOnly, 100, 8);
    packet.bth.ack_request = false;
    bench.ask(packet, 8);
    assert_int_equal(bench.verdict(), kNothing);
    assert_int_equal(bench.right[0], 0x5a);
}

// One packet that must be refused, after up to one good one.
struct Refused {
    const char* what;
    std::size_t offset;
    std::uint32_t announced;
    std::uint32_t payload;
    std::uint32_t access; // of the queue pair
    std::uint8_t before;  // opcode of a packet at 100, or 0xff
    std::uint8_t opcode;
    NakCode code;
};

constexpr std::uint32_t kAnyAccess = kEverything & ~std::uint32_t{kMwBindAllowed};

constexpr Refused kRefused[] = {
    {"middle without first", 0, 0, 256, kAnyAccess, 0xff, wire::kRcSendMiddle, NakCode::kInvalidRequest},
    {"last without first", 0, 0, 8, kAnyAccess, 0xff, wire::kRcWriteLast, NakCode::kInvalidRequest},
    {"only within a message", 0, 8, 8, kAnyAccess, wire::kRcWriteFirst, wire::kRcWriteOnly,
     NakCode::kInvalidRequest},
    {"send last within a write", 0, 0, 8, kAnyAccess, wire::kRcWriteFirst, wire::kRcSendLast,
     NakCode::kInvalidRequest},
    {"read within a write", 0, 8, 0, kAnyAccess, wire::kRcWriteFirst, wire::kRcReadRequest,
     NakCode::kInvalidRequest},
    {"first not full", 0, 600, 128, kAnyAccess, 0xff, wire::kRcWriteFirst, NakCode::kInvalidRequest},
    {"only longer than the MTU", 0, 260, 260, kAnyAccess, 0xff, wire::kRcWriteOnly, NakCode::kInvalidRequest},
    {"empty last", 0, 0, 0, kAnyAccess, wire::kRcWriteFirst, wire::kRcWriteLast, NakCode::kInvalidRequest},
    {"less than announced", 0, 9, 8, kAnyAccess, 0xff, wire::kRcWriteOnly, NakCode::kInvalidRequest},
    {"more than announced", 0, 7, 8, kAnyAccess, 0xff, wire::kRcWriteOnly, NakCode::kInvalidRequest},
    {"last with less than is left", 0, 0, 8, kAnyAccess, wire::kRcWriteFirst, wire::kRcWriteLast,
     NakCode::kInvalidRequest},
    {"over 2 GiB", 0, 0x80000001, 0, kAnyAccess, 0xff, wire::kRcReadRequest, NakCode::kInvalidRequest},
    {"write not offered", 0, 8, 8, kRemoteRead, 0xff, wire::kRcWriteOnly, NakCode::kInvalidRequest},
    {"read not offered", 0, 8, 0, kRemoteWrite, 0xff, wire::kRcReadRequest, NakCode::kInvalidRequest},
    {"atomic not offered", 0, 8, 0, kRemoteWrite, 0xff, wire::kRcFetchAdd, NakCode::kInvalidRequest},
    {"flush not offered", 0, 8, 0, kRemoteWrite, 0xff, wire::kRcFlush, NakCode::kInvalidRequest},
    {"unaligned atomic", 4, 8, 0, kAnyAccess, 0xff, wire::kRcCompareSwap, NakCode::kInvalidRequest},
    {"unaligned atomic write", 4, 8, 8, kAnyAccess, 0xff, wire::kRcAtomicWrite, NakCode::kInvalidRequest},
    {"atomic write of four bytes", 0, 4, 4, kAnyAccess, 0xff, wire::kRcAtomicWrite, NakCode::kInvalidRequest},
    {"write past the end", 65536 - 7, 8, 8, kAnyAccess, 0xff, wire::kRcWriteOnly, NakCode::kRemoteAccess},
    {"first of a write past the end", 65536 - 511, 512, 256, kAnyAccess, 0xff, wire::kRcWriteFirst,
     NakCode::kRemoteAccess},
    {"read past the end", 65536 - 8, 9, 0, kAnyAccess, 0xff, wire::kRcReadRequest, NakCode::kRemoteAccess},
    {"atomic past the end", 65536, 8, 0, kAnyAccess, 0xff, wire::kRcFetchAdd, NakCode::kRemoteAccess},
    {"flush past the end", 65536 - 8, 9, 0, kAnyAccess, 0xff, wire::kRcFlush, NakCode::kRemoteAccess},
};

TEST(request__that_must_be_refused__right_nak_nothing_touched) {
    for (const Refused& one : kRefused) {
        QpAttributes attributes = usual_attributes();
        attributes.access = one.access;
        Bench bench(attributes);
        bench.post_receive(0, 64);
        std::uint32_t psn = 100;
        if (one.before != 0xff) {
            bench.ask(bench.request(one.before, psn++, 512, 4096), 256);
            assert_int_equal(bench.verdict(), kAck);
        }
        const std::vector<std::uint8_t> before = bench.right;
        bench.ask(bench.request(one.opcode, psn, one.announced, one.offset), one.payload);
        if (bench.verdict() != nak_syndrome(one.code)) {
            fail_msg("%s: syndrome %x", one.what, bench.verdict());
        }
        assert_int_equal(bench.answer(0).bth.psn, psn);
        assert_true(bench.right == before);
        assert_true(bench.pair.right->state() == QpState::kError);
        assert_true(bench.net.right.events.saw(
            one.code == NakCode::kRemoteAccess ? AsyncEvent::kQpAccessError : AsyncEvent::kQpRequestError));
        assert_true(bench.received()->status == Status::kFlushed);
        bench.ask(bench.request(wire::kRcWriteOnly, psn, 8), 8);
        assert_int_equal(bench.verdict(), kNothing); // in error
    }
}

TEST(request__without_rights_in_the_region__access_nak) {
    for (const std::uint8_t opcode :
         {wire::kRcWriteOnly, wire::kRcReadRequest, wire::kRcFetchAdd, wire::kRcFlush}) {
        Bench bench;
        wire::Packet packet = bench.request(opcode, 100, 8);
        packet.reth.rkey = packet.atomic.rkey = bench.net.right.add(bench.right, kLocalWrite);
        bench.ask(packet, opcode == wire::kRcWriteOnly ? 8 : 0);
        assert_int_equal(bench.verdict(), nak_syndrome(NakCode::kRemoteAccess));
    }
}

TEST(request__zero_bytes__needs_no_key) {
    Bench bench;
    wire::Packet packet = bench.request(wire::kRcWriteOnly, 100);
    packet.reth = {0, 0, 0};
    bench.ask(packet);
    assert_int_equal(bench.verdict(), kAck);
    packet.bth.opcode = wire::kRcReadRequest;
    packet.bth.psn = 101;
    bench.ask(packet);
    assert_int_equal(bench.answer(0).bth.opcode, wire::kRcReadResponseOnly);
}

TEST(request__unmapped_memory__operational_nak) {
    for (const std::uint8_t opcode : {wire::kRcWriteOnly, wire::kRcReadRequest, wire::kRcFetchAdd,
                                      wire::kRcCompareSwap, wire::kRcFlush, wire::kRcAtomicWrite}) {
        Bench bench;
        bench.net.right.memory.make_hole(bench.addr(bench.right), 4096);
        const bool with_data = opcode == wire::kRcWriteOnly || opcode == wire::kRcAtomicWrite;
        bench.ask(bench.request(opcode, 100, 8), with_data ? 8 : 0);
        assert_int_equal(bench.verdict(), nak_syndrome(NakCode::kRemoteOperational));
        assert_true(bench.net.right.events.saw(AsyncEvent::kQpFatal));
    }
}

// Everything is checked again while a read is under way.
TEST(read__deregistered_in_the_middle__nak_for_the_rest) {
    Bench bench;
    wire::Packet packet = bench.request(wire::kRcReadRequest, 100, 2000);
    packet.bth.dest_qpn = bench.pair.right->qpn();
    std::vector<std::uint8_t> bytes(wire::kMaxHeaderBytes);
    bytes.resize(wire::write_headers(packet, bytes));
    bench.net.inject(bench.net.right, bench.net.left.where, bytes);
    OutPacket out;
    assert_true(bench.net.right.engine.transmit(out, 0));
    assert_true(bench.net.right.engine.regions().remove_region(bench.right_key).ok());
    bench.collect();
    assert_int_equal(bench.verdict(), nak_syndrome(NakCode::kRemoteAccess));
    assert_int_equal(bench.answer(0).bth.psn, 101);
}

TEST(operations__more_than_announced_before_an_answer__invalid_request) {
    Bench bench;
    std::vector<std::uint8_t> bytes;
    for (std::uint32_t psn = 100; psn < 105; ++psn) {
        wire::Packet packet = bench.request(wire::kRcReadRequest, psn, 8);
        packet.bth.dest_qpn = bench.pair.right->qpn();
        bytes.assign(wire::kMaxHeaderBytes, 0);
        bytes.resize(wire::write_headers(packet, bytes));
        bench.net.inject(bench.net.right, bench.net.left.where, bytes);
    }
    bench.collect();
    assert_int_equal(bench.answers.size(), 5);
    assert_int_equal(bench.answer(3).bth.opcode, wire::kRcReadResponseOnly);
    assert_int_equal(bench.answer(4).aeth.syndrome, nak_syndrome(NakCode::kInvalidRequest));
}

TEST(send__no_receive__rnr_then_silence_then_accepted) {
    Bench bench;
    bench.ask(bench.request(wire::kRcSendOnly, 100), 8);
    assert_int_equal(bench.verdict(), wire::rnr_syndrome(1));
    assert_int_equal(bench.answer(0).bth.psn, 100);
    bench.ask(bench.request(wire::kRcSendOnly, 101), 8);
    assert_int_equal(bench.verdict(), kNothing);
    assert_true(bench.post_receive(0, 8) == Post::kPosted);
    bench.ask(bench.request(wire::kRcSendOnly, 100), 8);
    assert_int_equal(bench.verdict(), kAck);
    assert_int_equal(bench.received()->len_bytes, 8);
    const Counters& counters = bench.net.right.engine.counters();
    assert_int_equal(counters.rnr_naks_out, 1); // and not for the one behind it
    assert_int_equal(counters.messages_received, 1);
    assert_int_equal(counters.completions[static_cast<std::size_t>(Status::kSuccess)], 1);
}

TEST(write_with_immediate__no_receive__rnr_at_its_last_packet) {
    Bench bench;
    bench.ask(bench.request(wire::kRcWriteFirst, 100, 264), 256);
    bench.ask(bench.request(wire::kRcWriteLastImm, 101), 8);
    assert_int_equal(bench.verdict(), wire::rnr_syndrome(1));
    assert_int_equal(bench.answer(0).bth.psn, 101);
    bench.post_receive(0, 0, 55);
    bench.ask(bench.request(wire::kRcWriteLastImm, 101), 8);
    const auto completion = bench.received();
    assert_int_equal(completion->wr_id, 55);
    assert_int_equal(completion->len_bytes, 264);
    assert_true(completion->opcode == WcOpcode::kRecvWriteImm);
}

TEST(message__longer_than_the_receive__length_error_and_invalid_request) {
    Bench bench;
    bench.post_receive(0, 100, 1);
    bench.post_receive(200, 100, 2);
    bench.ask(bench.request(wire::kRcSendOnly, 100), 101);
    assert_int_equal(bench.verdict(), nak_syndrome(NakCode::kInvalidRequest));
    assert_true(bench.received()->status == Status::kLocalLength);
    const auto second = bench.received();
    assert_int_equal(second->wr_id, 2);
    assert_true(second->status == Status::kFlushed);
}

TEST(message__longer_than_the_receive_in_its_second_packet__length_error) {
    Bench bench;
    bench.post_receive(0, 300);
    bench.ask(bench.request(wire::kRcSendFirst, 100), 256);
    assert_int_equal(bench.verdict(), kAck);
    bench.ask(bench.request(wire::kRcSendLast, 101), 45);
    assert_int_equal(bench.verdict(), nak_syndrome(NakCode::kInvalidRequest));
    assert_true(bench.received()->status == Status::kLocalLength);
}

TEST(port__of_a_peer_like_us__no_other_one_is_heard) {
    Bench bench;
    const Counters& counters = bench.net.right.engine.counters();
    bench.port = wire::kRocePort;
    bench.ask(bench.request(wire::kRcWriteOnly, 100, 8), 8);
    assert_int_equal(bench.verdict(), kAck);
    bench.port = 50000;
    bench.right[0] = 1;
    bench.ask(bench.request(wire::kRcWriteOnly, 101, 8), 8);
    assert_int_equal(bench.verdict(), kNothing);
    assert_int_equal(bench.right[0], 1);
    assert_int_equal(counters.dropped_wrong_port, 1);
    bench.port = wire::kRocePort;
    bench.ask(bench.request(wire::kRcWriteOnly, 101, 8), 8);
    assert_int_equal(bench.verdict(), kAck);
    bench.port = 0; // the short way is nobody else's
    bench.ask(bench.request(wire::kRcWriteOnly, 102, 8), 8);
    assert_int_equal(bench.verdict(), kAck);
}

TEST(port__of_other_implementations__may_be_any) {
    Bench bench;
    std::uint32_t psn = 100;
    for (const std::uint16_t port : {49152, 65535, 49152}) {
        bench.port = port;
        bench.ask(bench.request(wire::kRcWriteOnly, psn++, 8), 8);
        assert_int_equal(bench.verdict(), kAck);
    }
    assert_int_equal(bench.net.right.engine.counters().dropped_wrong_port, 0);
}

// Or a stranger, with a port 4791 of an address of the peer's that uroce doesn't have, would lock the peer
// out.
TEST(port__of_a_packet_out_of_order__means_nothing) {
    Bench bench;
    bench.port = wire::kRocePort;
    bench.ask(bench.request(wire::kRcWriteOnly, 107, 8), 8);
    bench.port = 49152;
    bench.ask(bench.request(wire::kRcWriteOnly, 100, 8), 8);
    assert_int_equal(bench.verdict(), kAck);
}

TEST(port__of_the_answers__counts_too) {
    Bench bench;
    assert_true(bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 8))) == Post::kPosted);
    OutPacket out;
    assert_true(bench.net.left.engine.transmit(out, bench.net.now));
    wire::Packet answer;
    answer.bth.opcode = wire::kRcAcknowledge;
    answer.bth.dest_qpn = bench.pair.left->qpn();
    answer.bth.psn = out.packet.bth.psn;
    answer.aeth = {.syndrome = wire::kAckNoCredits, .msn = 1};
    std::vector<std::uint8_t> bytes(wire::kMaxHeaderBytes);
    bytes.resize(wire::write_headers(answer, bytes));
    bench.net.inject(bench.net.left, bench.net.right.where, bytes, wire::kRocePort);
    assert_true(bench.sent()->status == Status::kSuccess);
    assert_true(bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 8))) == Post::kPosted);
    assert_true(bench.net.left.engine.transmit(out, bench.net.now));
    answer.bth.psn = out.packet.bth.psn;
    bytes.assign(wire::kMaxHeaderBytes, 0);
    bytes.resize(wire::write_headers(answer, bytes));
    bench.net.inject(bench.net.left, bench.net.right.where, bytes, 50000);
    assert_false(bench.sent().has_value());
    assert_int_equal(bench.net.left.engine.counters().dropped_wrong_port, 1);
}

TEST(packets__of_strangers__dropped_and_counted) {
    Bench bench;
    wire::Packet packet = bench.request(wire::kRcWriteOnly, 100, 8);
    std::vector<std::uint8_t> bytes(wire::kMaxHeaderBytes);
    const auto send_as = [&](const Address& source, std::uint32_t qpn, std::uint16_t pkey) {
        packet.bth.dest_qpn = qpn;
        packet.bth.pkey = pkey;
        bytes.assign(wire::kMaxHeaderBytes, 0);
        bytes.resize(wire::write_headers(packet, bytes) + 8);
        bench.net.inject(bench.net.right, source, bytes);
        bench.collect();
        return bench.verdict();
    };
    const std::uint32_t qpn = bench.pair.right->qpn();
    const Counters& counters = bench.net.right.engine.counters();
    assert_int_equal(send_as(address(9), qpn, 0xffff), kNothing);
    assert_int_equal(send_as(bench.net.left.where, qpn, 0x1234), kNothing);
    assert_int_equal(counters.dropped_wrong_peer, 2);
    assert_int_equal(send_as(bench.net.left.where, qpn ^ 0x800000, 0xffff), kNothing);
    assert_int_equal(counters.dropped_unknown_qp, 1);
    packet.bth.opcode = wire::kUdSendOnly;
    assert_int_equal(send_as(bench.net.left.where, qpn, 0xffff), kNothing);
    packet.bth.opcode = wire::kUcSendFirst;
    assert_int_equal(send_as(bench.net.left.where, qpn, 0xffff), kNothing);
    assert_int_equal(counters.dropped_wrong_peer, 4);
    packet.bth.opcode = wire::kRcWriteOnly;
    assert_int_equal(send_as(bench.net.left.where, qpn, 0x7fff), kAck);
}

// Its program is likely to answer what has come. The peer's expects that its message is done by then.
void expect_order(const SendWr& wr, std::initializer_list<wire::Operation> order) {
    Bench bench;
    Engine& right = bench.net.right.engine;
    bench.answers.clear();
    for (std::uint32_t psn = 0; psn < 2; ++psn) {
        assert_true(bench.post_receive(0, 8) == Post::kPosted);
    }
    const auto inject = [&](std::uint32_t psn) {
        wire::Packet packet = bench.request(wire::kRcSendOnly, psn);
        packet.bth.dest_qpn = bench.pair.right->qpn();
        std::vector<std::uint8_t> bytes(wire::kMaxHeaderBytes);
        bytes.resize(wire::write_headers(packet, bytes));
        bench.net.inject(bench.net.right, bench.net.left.where, bytes);
    };
    OutPacket out;
    inject(100);
    assert_true(bench.received().has_value());
    assert_false(right.transmit(out, 1, Engine::Acks::kHold));
    inject(101);
    assert_false(right.transmit(out, 1, Engine::Acks::kHold));
    assert_true(right.owes_acks());
    for (int i = 0; i < 2; ++i) {
        assert_true(bench.pair.right->post_send(wr) == Post::kPosted);
    }
    right.wake(*bench.pair.right);
    for (const wire::Operation expected : order) {
        assert_true(right.transmit(out, 1));
        assert_true(out.packet.info().operation == expected);
        assert_false(out.acknowledged_psn.has_value()); // its peer is elsewhere
    }
    assert_false(right.transmit(out, 1));
    assert_false(right.owes_acks());
}

TEST(acknowledgement__that_may_wait__waits_and_goes_before_a_message) {
    expect_order({}, {wire::Operation::kAcknowledge, wire::Operation::kSend, wire::Operation::kSend});
}

TEST(acknowledgement__that_may_wait__lets_one_write_pass) {
    SendWr write;
    write.opcode = WrOpcode::kWrite;
    expect_order(write, {wire::Operation::kWrite, wire::Operation::kAcknowledge, wire::Operation::kWrite});
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.responder");
}
