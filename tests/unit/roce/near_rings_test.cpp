// SPDX-License-Identifier: BSD-3-Clause
//
// Packets between processes of one machine, through rings in shared memory. Both ends are in this process.
#include <fcntl.h>

#include "tests/unit/roce/memory_file.hpp"

// Last: its macros are common words.
#include "tests/unit/roce/near_neighbours.hpp"

using namespace sluice;
using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::test;

namespace {

// Sends LEN bytes; the peer has a receive for them.
void send(Neighbours& two, std::uint32_t len) {
    assert_true(two.bench.post_receive(0, len) == Post::kPosted);
    assert_true(two.bench.post(two.bench.wr(WrOpcode::kSend, two.bench.at_left(0, len))) == Post::kPosted);
}

void expect_sent(Neighbours& two, int count) {
    assert_true(two.bench.net.run());
    for (int i = 0; i < count; ++i) {
        const auto sent = two.bench.sent();
        const auto received = two.bench.received();
        assert_true(sent && sent->status == Status::kSuccess);
        assert_true(received && received->status == Status::kSuccess);
    }
}

TEST(packets__with_rings__all_go_through_memory) {
    Neighbours two;
    two.hosts.give_rings(two.bench.net);
    for (const std::uint32_t len : {0U, 1U, 256U, 257U, 20000U}) {
        send(two, len);
        expect_sent(two, 1);
    }
    assert_true(two.bench.net.packets > 5);
    assert_int_equal(two.bench.net.packets_through_memory, two.bench.net.packets);
}

// Processes that have many neighbours talk to few of them.
TEST(rings__without_packets__have_no_memory) {
    Neighbours two;
    two.hosts.give_rings(two.bench.net);
    for (near::SameHost* const host : {&two.hosts.left, &two.hosts.right}) {
        host->wake_up();
        host->read_packets([](const near::RingPacket&) { fail(); });
        assert_false(host->room_again());
        assert_true(host->fall_asleep());
    }
    assert_int_equal(two.hosts.left.room(two.ends()), Neighbourhood::Room::kFree);
    assert_false(has_memory(two.hosts.left_ring.get()));
    assert_false(has_memory(two.hosts.right_ring.get()));
    send(two, 64);
    expect_sent(two, 1);
    assert_true(has_memory(two.hosts.left_ring.get()));
    assert_true(has_memory(two.hosts.right_ring.get()));
    assert_int_equal(two.bench.net.packets_through_memory, two.bench.net.packets);
}

// As between programs that answer each message with one.
TEST(acknowledgement__while_a_request_is_to_leave__goes_with_it) {
    Neighbours two;
    two.hosts.give_rings(two.bench.net);
    send(two, 64);
    while (!two.bench.received()) {
        assert_true(two.bench.net.step());
    }
    assert_int_equal(two.bench.net.packets_through_memory, 1);
    QueuePair& answers = *two.bench.pair.right;
    assert_true(two.bench.pair.left->post_receive({}) == Post::kPosted);
    SendWr answer;
    answer.flags = kSignaled;
    assert_true(answers.post_send(answer) == Post::kPosted);
    two.bench.net.right.engine.wake(answers);
    assert_true(two.bench.net.run());
    const auto sent = two.bench.sent();
    assert_true(sent && sent->status == Status::kSuccess);
    const auto received = Bench::poll(two.bench.net.left.recv_cq);
    assert_true(received && received->status == Status::kSuccess);
    assert_int_equal(two.bench.net.packets_through_memory, 3); // the third acknowledges the answer
    assert_int_equal(two.bench.net.left.engine.counters().timeouts, 0);
}

// A way opens after a message, and the answer to it overtakes its acknowledgement.
TEST(acknowledgement__on_the_way_that_was__comes_with_the_answer_too) {
    Neighbours two;
    send(two, 64);
    while (!two.bench.received()) {
        assert_true(two.bench.net.step());
    }
    OutPacket late;
    assert_true(two.bench.net.right.engine.transmit(late, two.bench.net.now));
    assert_true(late.packet.info().operation == wire::Operation::kAcknowledge);
    assert_false(late.through_memory);
    two.hosts.give_rings(two.bench.net);
    QueuePair& answers = *two.bench.pair.right;
    assert_true(two.bench.pair.left->post_receive({}) == Post::kPosted);
    assert_true(answers.post_send({}) == Post::kPosted);
    two.bench.net.right.engine.wake(answers);
    while (!Bench::poll(two.bench.net.left.recv_cq)) {
        assert_true(two.bench.net.step());
    }
    const auto sent = two.bench.sent();
    assert_true(sent && sent->status == Status::kSuccess);
    assert_int_equal(two.bench.net.left.engine.counters().timeouts, 0);
}

// What is on its way would be overtaken, and no repetition is allowed.
TEST(way__that_opens_while_packets_are_unanswered__is_taken_after_the_answer) {
    QpAttributes attributes = usual_attributes();
    attributes.retry_count = 0;
    Neighbours two(attributes);
    send(two, 1000);
    assert_true(two.bench.net.step());
    two.hosts.give_rings(two.bench.net);
    for (int i = 0; i < 3; ++i) {
        send(two, 1000);
        assert_true(two.bench.net.step());
    }
    expect_sent(two, 4);
    assert_int_equal(two.bench.net.left.engine.counters().rewinds, 0);
    assert_int_equal(two.bench.net.right.engine.counters().out_of_sequence, 0);
    assert_true(two.bench.net.packets_through_memory >= 12);
}

// More than a ring has room for, and nobody reads meanwhile.
TEST(packets__that_find_no_room__wait_for_it) {
    WithoutReader two(0);
    send(two, WithoutReader::kTooMuch);
    assert_true(two.bench.net.run());
    const std::uint64_t first = two.bench.net.packets_through_memory;
    assert_true(first >= 30 && first < 98);
    assert_false(two.hosts.left.room_again());
    two.bench.net.take_from_memory = two.read;
    expect_sent(two, 1);
    assert_int_equal(two.bench.net.packets_through_memory, two.bench.net.packets);
    assert_int_equal(two.bench.net.left.engine.counters().packets_again, 0);
    assert_memory_equal(two.bench.right.data(), two.bench.left.data(), WithoutReader::kTooMuch);
}

// It is as if they were lost.
TEST(packets__that_never_find_room__end_the_connection) {
    WithoutReader two;
    send(two, WithoutReader::kTooMuch);
    assert_true(two.bench.net.run());
    const auto sent = two.bench.sent();
    assert_true(sent && sent->status == Status::kRetryExceeded);
    assert_true(two.bench.net.packets_through_memory < 40);
}

TEST(write__to_a_peer_without_room_for_packets__is_executed) {
    WithoutReader two(0);
    OutPacket filler;
    filler.begin().bth.opcode = wire::kRcSendOnly;
    filler.packet.bth.dest_qpn = two.bench.pair.right->qpn();
    filler.finish();
    filler.destination = two.bench.net.right.where;
    while (two.hosts.left.send(filler)) {
    }
    two.expect_direct(two.write(0, 64, 0));
}

// The reader took the wish for room back while the writer filled what had become free.
TEST(ring__that_is_full_again__is_waited_for_again) {
    Neighbours two;
    two.hosts.give_rings(two.bench.net);
    std::vector<std::uint8_t> bytes(4096);
    const Ends ends = two.ends();
    OutPacket packet;
    packet.begin().bth.opcode = wire::kRcSendOnly;
    packet.packet.bth.dest_qpn = ends.peer_qpn;
    packet.add_piece(reinterpret_cast<std::uintptr_t>(bytes.data()), 4096);
    packet.finish();
    packet.source = ends.local;
    packet.destination = ends.remote;
    near::SameHost& writer = two.hosts.left;
    near::SameHost& reader = two.hosts.right;
    while (writer.room(ends) == Neighbourhood::Room::kFree) {
        assert_true(writer.send(packet));
    }
    reader.read_packets([&](const near::RingPacket&) {
        while (writer.send(packet)) {
        }
    });
    assert_true(NearHosts::is_rung(writer));
    writer.wake_up();
    assert_false(writer.room_again());
    reader.read_packets([](const near::RingPacket&) {});
    assert_true(NearHosts::is_rung(writer));
    assert_true(writer.room_again());
}

// A process of an address with number WHICH of its shares, to which FROM sends.
struct Receiver {
    static constexpr Share::Words kWords = {1, 0x9e3779b9, 0x85ebca6b, 0xc2b2ae35};

    Receiver(near::SameHost& from, std::uint8_t number, std::uint32_t which, Memory& memory)
        : host(*near::Board::create(kHostsBoard, {Share(kWords, which), address(number)}), memory, counters),
          destination(address(number)) {
        set_life(host.board().life(), 1);
        reader.open({.own = host.board().sign(0), .neighbours = begun});
        while (Share::share_of(kWords, qpn) != which) {
            ++qpn;
        }
        near::Peer peer{.board = seen_by_others(host.board())};
        peer.from_it = std::make_unique<near::RingReader>(*near::RingReader::create());
        (void)from.add(std::move(peer));
        NearHosts::give_ring(from, host, Descriptor(dup(reader.descriptor())));
    }
    bool gets_from(near::SameHost& from) {
        OutPacket out;
        out.begin().bth.dest_qpn = qpn;
        out.packet.bth.opcode = wire::kRcSendOnly;
        out.finish();
        out.source = address(1);
        out.destination = destination;
        const bool sent = from.send(out);
        int packets = 0;
        assert_true(reader.read([&](const near::RingPacket&) { ++packets; }));
        assert_int_equal(packets, sent);
        return sent;
    }

    near::DirectCounters counters;
    near::SameHost host;
    Address destination;
    std::uint32_t qpn = 2;
    near::Sign begun = near::kHasWritten;
    near::RingReader reader = *near::RingReader::create();
};

// The process to which the last packet went is remembered: by its address and its number.
TEST(packet__for_another_process_than_the_last__goes_there) {
    PlainMemory memory;
    near::DirectCounters counters;
    near::SameHost from(living_board(1), memory, counters);
    Receiver first(from, 2, 0, memory);
    assert_true(first.gets_from(from));
    Receiver beside(from, 2, 5, memory);
    Receiver last(from, 3, 0, memory);
    for (int i = 0; i < 2; ++i) {
        assert_true(beside.gets_from(from));
        assert_true(first.gets_from(from));
        assert_true(last.gets_from(from));
    }
    set_life(first.host.board().life(), 0);
    from.forget_the_dead(); // the others move up
    assert_true(last.gets_from(from));
    assert_true(beside.gets_from(from));
    assert_false(first.gets_from(from));
    assert_true(last.gets_from(from));
    set_life(last.host.board().life(), 0);
    assert_false(last.gets_from(from));
}

// What this process said to the former one isn't for the next.
TEST(place__of_a_neighbour_that_has_ended__says_nothing_to_another_one) {
    PlainMemory memory;
    near::DirectCounters counters;
    near::SameHost from(living_board(1), memory, counters);
    Receiver first(from, 2, 0, memory);
    const Receiver beside(from, 2, 5, memory);
    assert_true(first.gets_from(from));
    assert_int_equal(from.board().sign(0), near::kIsOpen | near::kHasWritten);
    assert_int_equal(from.board().sign(1), near::kIsOpen);
    set_life(first.host.board().life(), 0);
    const std::unique_ptr<near::Board> board = living_board(3);
    const near::Peer* const next = from.add({.board = seen_by_others(*board)});
    assert_non_null(next);
    assert_int_equal(next->place, 0);
    assert_int_equal(from.board().sign(0), 0);
}

TEST(answer__with_a_place_that_can_not_be__gives_no_ring) {
    Neighbours two;
    NearHosts::give_ring(two.hosts.right, two.hosts.left, two.hosts.left_ring);
    for (const std::uint64_t place : {std::uint64_t{near::kPlaces}, ~std::uint64_t{0}}) {
        near::SameHost::Ways ways = NearHosts::ways_to(two.hosts.right, two.hosts.right_ring);
        ways.place = place;
        two.hosts.left.waits_for_us(two.hosts.right.board().id(), 0, std::move(ways));
        assert_int_equal(two.hosts.left.room(two.ends()), Neighbourhood::Room::kNoWay);
    }
    NearHosts::give_ring(two.hosts.left, two.hosts.right, two.hosts.right_ring);
    assert_int_equal(two.hosts.left.room(two.ends()), Neighbourhood::Room::kFree);
}

// Not a socket, a pipe that is full, or none: nobody waits for it, and nobody gets a signal.
TEST(bell__that_is_none__does_no_harm) {
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const Descriptor full(ends[1]);
    Descriptor reader(ends[0]);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], "x", 1) == 1) {
    }
    fcntl(ends[1], F_SETFL, 0);
    near::Bell::ring(full);
    reader.reset();
    near::Bell::ring(full);
    near::Bell::ring(Descriptor());
    near::Bell::ring(Descriptor(open("/dev/zero", O_RDWR | O_CLOEXEC)));
}

TEST(answer__of_another_process__is_not_the_board_s) {
    Neighbours two;
    NearHosts::give_ring(two.hosts.right, two.hosts.left, two.hosts.left_ring);
    two.hosts.left.waits_for_us(two.hosts.right.board().id(), 4711,
                                NearHosts::ways_to(two.hosts.right, two.hosts.right_ring));
    assert_int_equal(two.hosts.left.room(two.ends()), Neighbourhood::Room::kNoWay);
}

TEST(board__that_two_processes_send__gets_no_packets_through_memory) {
    Neighbours two;
    two.hosts.give_rings(two.bench.net);
    assert_non_null(two.hosts.left.add({.board = seen_by_others(two.hosts.right.board()), .pid = 4711}));
    send(two, 64);
    expect_sent(two, 1);
    assert_int_equal(two.bench.net.packets_through_memory, 0);
}

// Then nobody makes room any more, and the connection's own clock goes on.
TEST(peer__that_dies_with_a_full_ring__is_known_to_be_gone) {
    WithoutReader two;
    send(two, WithoutReader::kTooMuch);
    assert_true(two.bench.net.step());
    set_life(two.hosts.right.board().life(), 1 | FUTEX_OWNER_DIED);
    two.bench.net.tap = [](Host&, std::vector<std::uint8_t>&) { return false; };
    two.hosts.left.forget_the_dead();
    assert_true(two.hosts.left.room_again());
    two.bench.net.left.engine.room_again();
    assert_true(two.bench.net.run());
    const auto sent = two.bench.sent();
    assert_true(sent && sent->status == Status::kRetryExceeded);
}

TEST(peer__that_writes_garbage__loses_its_ring_alone) {
    Neighbours two;
    two.hosts.give_rings(two.bench.net);
    send(two, 64);
    expect_sent(two, 1);
    const std::uint64_t before = two.bench.net.packets_through_memory;
    const std::uint32_t impossible = 1U << 20;
    for (off_t line = 0; line < 16; ++line) { // wherever the next packet is looked for
        assert_int_equal(
            pwrite(two.hosts.right_ring.get(), &impossible, sizeof impossible, off_t{64} * 1024 + line * 64),
            sizeof impossible);
    }
    near::Bell::ring(Descriptor(dup(two.hosts.right.bell().far_end())));
    assert_true(NearHosts::take(two.bench.net, two.hosts.right, two.bench.net.right));
    send(two, 64);
    expect_sent(two, 1);
    // Answers come back on the way of the request.
    assert_int_equal(two.bench.net.packets_through_memory, before);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.near_rings");
}
