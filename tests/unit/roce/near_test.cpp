// SPDX-License-Identifier: BSD-3-Clause
//
// Requests that a process executes itself on the memory of a peer of the same machine: which ones, and what
// happens to the others. Both ends are in this process; near_processes_test.cpp has two.
#include <atomic>
#include <thread>

// Last: its macros are common words.
#include "tests/unit/roce/near_neighbours.hpp"

using namespace sluice;
using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::test;

namespace {

constexpr std::size_t kLongBlock = std::size_t{4} << 20; // of some turns

TEST(write_and_read__first_in_line__executed_without_a_packet) {
    Neighbours two(usual_attributes(), kLongBlock);
    for (const std::uint32_t len : {1U, 7U, 8U, 9U, 4096U, 4097U, 1U << 20, (1U << 20) + 1, (3U << 20) + 5}) {
        two.expect_direct(two.write(3, len, 11));
        assert_memory_equal(two.bench.right.data() + 11, two.bench.left.data() + 3, len);
        two.expect_direct(two.bench.wr(WrOpcode::kRead, two.bench.at_left(0, len), 11));
        assert_memory_equal(two.bench.left.data(), two.bench.right.data() + 11, len);
    }
    assert_int_equal(two.hosts.left_counters.bytes_sent, two.hosts.left_counters.bytes_received);
    assert_int_equal(two.bench.net.left.events.peers_heard, 1); // its memory was touched
    assert_int_equal(two.bench.net.right.events.peers_heard, 0);
}

TEST(write__gathered_and_longer_than_a_turn__every_byte_arrives) {
    Neighbours two(usual_attributes(), kLongBlock);
    const Sge list[] = {two.bench.at_left(5, 700'000), two.bench.at_left(1'000'000, 1),
                        two.bench.at_left(2'000'000, 900'000), two.bench.at_left(0, 300'003)};
    SendWr wr = two.write(0, 1, 17);
    wr.sges = list;
    two.expect_direct(wr);
    std::size_t at = 17;
    for (const Sge& sge : list) {
        assert_memory_equal(two.bench.right.data() + at, reinterpret_cast<const void*>(sge.addr),
                            sge.len_bytes);
        at += sge.len_bytes;
    }
}

TEST(write__inline__as_it_was_when_it_was_posted) {
    Neighbours two;
    const std::vector<std::uint8_t> before(two.bench.left.begin(), two.bench.left.begin() + 40);
    SendWr wr = two.write(0, 40, 100);
    wr.flags |= kInline;
    assert_true(two.bench.post(wr) == Post::kPosted);
    two.bench.left.assign(kBlock, 0);
    assert_true(two.bench.net.run());
    assert_memory_equal(two.bench.right.data() + 100, before.data(), before.size());
    assert_int_equal(two.direct(), 1);
}

TEST(write__behind_an_unanswered_send__goes_behind_it) {
    Neighbours two;
    assert_true(two.bench.post_receive(0, 64) == Post::kPosted);
    assert_true(two.bench.post(two.bench.wr(WrOpcode::kSend, two.bench.at_left(0, 64), 0, 1)) ==
                Post::kPosted);
    assert_true(two.bench.post(two.write(64, 64, 4096)) == Post::kPosted);
    assert_true(two.bench.net.run());
    assert_int_equal(two.bench.sent()->wr_id, 1);
    assert_int_equal(two.bench.sent()->status, Status::kSuccess);
    assert_int_equal(two.direct(), 0);
    two.expect_direct(two.write(64, 64, 8192)); // all are answered
}

// A stream that began before the two knew each other.
TEST(writes__behind_those_that_left_as_packets__become_direct) {
    NearHosts hosts;
    Bench bench(usual_attributes(), kBlock, hosts.both);
    const auto post = [&](std::uint64_t id) {
        assert_true(bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(256 * id, 256), 256 * id, id)) ==
                    Post::kPosted);
    };
    post(0);
    (void)bench.net.step();
    hosts.introduce(bench.net);
    for (std::uint64_t id = 1; id < 8; ++id) {
        post(id);
    }
    const std::uint64_t packets = bench.net.packets;
    assert_true(bench.net.run());
    for (std::uint64_t id = 0; id < 8; ++id) {
        const auto sent = bench.sent();
        assert_true(sent && sent->wr_id == id && sent->status == Status::kSuccess);
    }
    assert_memory_equal(bench.right.data(), bench.left.data(), std::size_t{8} * 256);
    assert_int_equal(hosts.left_counters.requests, 7);
    assert_int_equal(bench.net.packets, packets + 1); // the first one's acknowledgement
}

// Where direct requests fail, packets go on without a pause between them.
TEST(writes__that_can_not_be_direct__are_a_stream_of_packets) {
    Neighbours two;
    const std::uint32_t unknown = two.bench.net.right.add(two.bench.right, kEverything);
    two.hosts.right.withdraw_region(unknown >> engine::kKeyVariantBits & (kHostsBoard.regions - 1));
    for (std::uint64_t id = 0; id < 8; ++id) {
        SendWr wr = two.write(256 * id, 256, 256 * id);
        wr.rkey = unknown;
        assert_true(two.bench.post(wr) == Post::kPosted);
    }
    (void)two.bench.net.step();
    assert_int_equal(two.bench.net.packets, 8);
    assert_true(two.bench.net.run());
    assert_int_equal(two.direct(), 0);
}

TEST(write__then_send__the_send_comes_later) {
    Neighbours two;
    assert_true(two.bench.post_receive(0, 64) == Post::kPosted);
    assert_true(two.bench.post(two.write(64, 64, 4096)) == Post::kPosted);
    assert_true(two.bench.post(two.bench.wr(WrOpcode::kSend, two.bench.at_left(0, 64), 0, 2)) ==
                Post::kPosted);
    bool was_there = false;
    two.bench.net.tap = [&](Host&, std::vector<std::uint8_t>&) {
        was_there = std::memcmp(two.bench.right.data() + 4096, two.bench.left.data() + 64, 64) == 0;
        return true;
    };
    assert_true(two.bench.net.run());
    assert_true(was_there);
    assert_int_equal(two.direct(), 1);
    assert_int_equal(two.bench.received()->status, Status::kSuccess);
}

// The peer's engine says what is wrong, whatever it is.
TEST(write__that_does_not_fit__the_peer_refuses_it) {
    using Spoil = void (*)(Neighbours & two, SendWr & wr);
    const Spoil spoilers[] = {
        [](Neighbours&, SendWr& wr) { wr.rkey ^= 1; },
        [](Neighbours&, SendWr& wr) { wr.rkey ^= 0x100; },
        [](Neighbours& two, SendWr& wr) { wr.remote_addr = Bench::addr(two.bench.right, kBlock - 63); },
        [](Neighbours& two, SendWr& wr) { wr.remote_addr = Bench::addr(two.bench.right) - 1; },
        [](Neighbours&, SendWr& wr) { wr.remote_addr = ~std::uint64_t{0} - 10; },
        [](Neighbours& two, SendWr& wr) { wr.rkey = two.bench.net.right.add(two.bench.right, kRemoteRead); },
        [](Neighbours& two, SendWr& wr) {
            wr.rkey = *two.bench.net.right.engine.regions().add_region(Host::kPd + 1, wr.remote_addr,
                                                                       wr.remote_addr, 4096, kEverything);
        },
        [](Neighbours& two, SendWr&) {
            assert_true(two.bench.net.right.engine.regions().remove_region(two.bench.right_key).ok());
        },
        [](Neighbours& two, SendWr& wr) { // a window of another queue pair's
            RegionTable& regions = two.bench.net.right.engine.regions();
            const std::uint32_t window = *regions.add_window(Host::kPd, WindowType::kType2);
            assert_true(
                regions.bind({window, window ^ 1, two.bench.right_key, wr.remote_addr, 4096, kRemoteWrite},
                             Host::kPd, two.bench.pair.right->qpn() ^ 1));
            wr.rkey = window ^ 1;
        }};
    for (const Spoil spoil : spoilers) {
        Neighbours two;
        SendWr wr = two.write(0, 64, 0);
        spoil(two, wr);
        two.expect_packets(wr, Status::kRemoteAccess);
    }
}

TEST(write__to_a_page_that_is_gone__the_peer_says_so) {
    Neighbours two;
    two.bench.net.right.memory.make_hole(Bench::addr(two.bench.right, 4096), 4096);
    two.expect_packets(two.write(0, 8192, 100), Status::kRemoteOperation);
}

TEST(write__without_the_right_of_the_connection__the_peer_refuses_it) {
    QpAttributes attributes = usual_attributes();
    attributes.access &= ~std::uint32_t{kRemoteWrite};
    Neighbours two(attributes);
    two.expect_packets(two.write(0, 64, 0), Status::kRemoteInvalidRequest);
}

TEST(window__bound_and_invalidated__opens_and_closes_direct_access) {
    Neighbours two;
    RegionTable& regions = two.bench.net.right.engine.regions();
    const std::uint32_t fresh = *regions.add_window(Host::kPd, WindowType::kType2);
    const std::uint32_t window = fresh ^ 1;
    const std::uint64_t at = Bench::addr(two.bench.right, 8192);
    assert_true(regions.bind({fresh, window, two.bench.right_key, at, 4096, kRemoteWrite}, Host::kPd,
                             two.bench.pair.right->qpn()));
    SendWr wr = two.write(0, 64, 8192);
    wr.rkey = window;
    two.expect_direct(wr);
    assert_true(regions.invalidate(window, Host::kPd, two.bench.pair.right->qpn()));
    two.expect_packets(wr, Status::kRemoteAccess);
}

TEST(region__changed__the_new_place_is_written) {
    Neighbours two;
    RegionTable& regions = two.bench.net.right.engine.regions();
    const std::uint64_t begin = Bench::addr(two.bench.right);
    assert_true(
        regions.change_region(two.bench.right_key, Host::kPd, begin + 4096, begin, 4096, kEverything).ok());
    two.expect_direct(two.write(0, 64, 0));
    assert_memory_equal(two.bench.right.data() + 4096, two.bench.left.data(), 64);
}

TEST(atomics__first_in_line__executed_without_a_packet) {
    Neighbours two;
    std::uint64_t word = 40;
    std::memcpy(two.bench.right.data() + 64, &word, sizeof word);
    SendWr wr = two.bench.wr(WrOpcode::kFetchAdd, two.bench.at_left(8, 8), 64);
    wr.compare_add = 2;
    two.expect_direct(wr);
    std::memcpy(&word, two.bench.left.data() + 8, sizeof word);
    assert_int_equal(word, 40);
    for (const std::uint64_t expected : {41, 42}) {
        wr = two.bench.wr(WrOpcode::kCompareSwap, two.bench.at_left(8, 8), 64);
        wr.compare_add = expected;
        wr.swap = 7;
        two.expect_direct(wr);
        std::memcpy(&word, two.bench.left.data() + 8, sizeof word);
        assert_int_equal(word, 42);
    }
    std::memcpy(&word, two.bench.right.data() + 64, sizeof word);
    assert_int_equal(word, 7);
}

TEST(atomics__where_they_may_not_be__the_peer_refuses_them) {
    Neighbours two;
    SendWr wr = two.bench.wr(WrOpcode::kFetchAdd, two.bench.at_left(8, 8), 68);
    two.expect_packets(wr, Status::kRemoteInvalidRequest);
}

TEST(atomics__at_an_odd_address_of_the_region__the_peer_refuses_them) {
    Neighbours two;
    const std::uint64_t begin = Bench::addr(two.bench.right);
    SendWr wr = two.bench.wr(WrOpcode::kFetchAdd, two.bench.at_left(8, 8), 64);
    wr.rkey =
        *two.bench.net.right.engine.regions().add_region(Host::kPd, begin, begin + 4, 4096, kEverything);
    wr.remote_addr = begin + 4 + 64; // where the memory is even
    two.expect_packets(wr, Status::kRemoteInvalidRequest);
}

TEST(atomics__whose_result_has_no_place__end_the_queue_pair) {
    Neighbours two;
    two.bench.net.left.memory.make_hole(Bench::addr(two.bench.left, 4096), 4096);
    SendWr wr = two.bench.wr(WrOpcode::kFetchAdd, two.bench.at_left(4096, 8), 64);
    assert_int_equal(two.run(wr), Status::kLocalProtection);
    assert_int_equal(two.bench.pair.left->state(), QpState::kError);
}

TEST(peer__in_error__gets_packets_that_nobody_answers) {
    QpAttributes attributes = usual_attributes();
    attributes.retry_count = 0;
    Neighbours two(attributes);
    assert_true(two.bench.pair.right->modify(QpState::kError, {}).ok());
    two.expect_packets(two.write(0, 64, 0), Status::kRetryExceeded);
}

TEST(peer__without_a_sign_of_life__gets_packets) {
    Neighbours two;
    set_life(two.hosts.right.board().life(), 0);
    two.expect_packets(two.write(0, 64, 0), Status::kSuccess);
    set_life(two.hosts.right.board().life(), 1 | FUTEX_OWNER_DIED);
    two.expect_packets(two.write(0, 64, 0), Status::kSuccess);
    two.hosts.left.forget_the_dead();
    set_life(two.hosts.right.board().life(), 1);
    two.expect_packets(two.write(0, 64, 0), Status::kSuccess);
}

// Writes down in which parts it is written.
class Recorded final : public near::PeerMemory {
  public:
    explicit Recorded(std::vector<std::pair<std::uint64_t, std::size_t>>& parts) : parts_(parts) {}
    bool write(std::uint64_t to, std::span<const iovec>, std::size_t len_bytes) noexcept override {
        parts_.emplace_back(to, len_bytes);
        return true;
    }
    bool read(std::span<const iovec>, std::uint64_t, std::size_t) noexcept override { return false; }

  private:
    std::vector<std::pair<std::uint64_t, std::size_t>>& parts_;
};

// Programs wait for the last byte.
TEST(write__its_last_word__is_written_last) {
    NearHosts hosts;
    Bench bench(usual_attributes(), 65536, hosts.both);
    std::vector<std::pair<std::uint64_t, std::size_t>> parts;
    assert_non_null(hosts.left.add(
        {.board = seen_by_others(hosts.right.board()), .memory = std::make_unique<Recorded>(parts)}));
    hosts.left.waits_for_us(hosts.right.board().id(), 0, {});
    const std::uint64_t at = Bench::addr(bench.right); // a multiple of 16, as all that is allocated
    const struct {
        std::size_t offset;
        std::uint32_t len;
        std::vector<std::pair<std::uint64_t, std::size_t>> wanted;
    } cases[] = {{0, 8, {{at, 8}}},
                 {0, 64, {{at, 56}, {at + 56, 8}}},
                 {3, 5, {{at + 3, 5}}},
                 {3, 10, {{at + 3, 5}, {at + 8, 5}}},
                 {1, 4099, {{at + 1, 4095}, {at + 4096, 4}}}};
    for (const auto& one : cases) {
        parts.clear();
        assert_true(bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, one.len), one.offset)) ==
                    Post::kPosted);
        assert_true(bench.net.run());
        assert_true(parts == one.wanted);
    }
}

// Whoever deregisters memory may use it for something else afterwards.
TEST(region__removed_while_a_peer_works__waits_for_its_turn) {
    Neighbours two;
    const near::PeerBoard seen = seen_by_others(two.hosts.right.board());
    std::atomic<bool> removed{false};
    bool is_well = false;
    two.hosts.left.board().begin_work();
    std::thread remover([&] {
        is_well = two.bench.net.right.engine.regions().remove_region(two.bench.right_key).ok();
        removed = true;
    });
    while (seen.region(two.bench.right_key)) {
        sched_yield();
    }
    const bool too_early = removed;
    two.hosts.left.board().end_work();
    remover.join();
    assert_true(is_well);
    assert_false(too_early);
}

// One that is stopped in the middle of a turn isn't waited for without end, and only once.
TEST(region__removed_while_a_peer_is_stopped__goes_on_after_a_moment) {
    Neighbours two;
    RegionTable& regions = two.bench.net.right.engine.regions();
    two.hosts.left.board().begin_work();
    assert_true(regions.remove_region(two.bench.right_key).ok());
    for (int i = 0; i < 1000; ++i) { // a quarter of an hour, if each waited
        const std::uint32_t key = two.bench.net.right.add(two.bench.right, kEverything);
        assert_true(regions.remove_region(key).ok());
    }
}

// All that a process of this host sends comes from one port, even if it hasn't sent anything yet.
TEST(packet__of_a_peer_on_this_host_from_another_port__is_dropped) {
    Neighbours two;
    two.bench.port = 50000;
    wire::Packet forged = two.bench.request(wire::kRcWriteOnly, 100, 8);
    two.bench.ask(forged, 8);
    assert_int_equal(two.bench.answers.size(), 0);
    assert_int_equal(two.bench.net.right.engine.counters().dropped_wrong_port, 1);
    two.bench.port = wire::kRocePort;
    two.bench.ask(forged, 8);
    assert_int_equal(two.bench.answers.size(), 1);
}

// It may be working still: there is a moment between the kernel's mark and the end of its threads.
TEST(peer__killed_in_the_middle_of_a_turn__is_forgotten_after_it_was_waited_for) {
    Neighbours two;
    two.hosts.left.board().begin_work();
    set_life(two.hosts.left.board().life(), 1 | FUTEX_OWNER_DIED);
    two.hosts.right.forget_the_dead();
    const std::uint64_t before = monotonic_us();
    assert_true(two.bench.net.right.engine.regions().remove_region(two.bench.right_key).ok());
    assert_true(monotonic_us() - before >= 5000);
}

// Who can't be waited for may not touch anything.
TEST(peer__that_has_not_taken_the_board__gets_packets) {
    NearHosts hosts;
    Bench bench(usual_attributes(), 65536, hosts.both);
    assert_non_null(hosts.left.add(
        {.board = seen_by_others(hosts.right.board()),
         .memory = std::make_unique<SimulatedMemory>(bench.net.left.memory, bench.net.right.memory)}));
    assert_true(bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 64))) == Post::kPosted);
    assert_true(bench.net.run());
    assert_int_equal(hosts.left_counters.requests, 0);
    hosts.left.waits_for_us(hosts.right.board().id() ^ 1, 0, {});
    hosts.left.waits_for_us(hosts.right.board().id(), 0, {});
    assert_true(bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 64))) == Post::kPosted);
    assert_true(bench.net.run());
    assert_int_equal(hosts.left_counters.requests, 1);
}

// Its peers forget who has none, and then wait for nobody.
TEST(process__without_a_sign_of_life__sends_packets) {
    Neighbours two;
    set_life(two.hosts.left.board().life(), 0);
    two.expect_packets(two.write(0, 64, 0), Status::kSuccess);
}

TEST(board__that_two_processes_send__is_nobody_s) {
    NearHosts hosts;
    Bench bench(usual_attributes(), 65536, hosts.both);
    for (const pid_t pid : {100, 101}) {
        assert_non_null(hosts.left.add(
            {.board = seen_by_others(hosts.right.board()),
             .pid = pid,
             .memory = std::make_unique<SimulatedMemory>(bench.net.left.memory, bench.net.right.memory)}));
    }
    hosts.left.waits_for_us(hosts.right.board().id(), 100, {});
    assert_true(bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 64))) == Post::kPosted);
    assert_true(bench.net.run());
    assert_int_equal(hosts.left_counters.requests, 0);
}

// One that can't be reached may reach this process: it is waited for.
TEST(peer__whose_memory_can_not_be_touched__gets_packets_and_is_waited_for) {
    NearHosts hosts;
    Bench bench(usual_attributes(), 65536, hosts.both);
    assert_non_null(hosts.left.add({.board = seen_by_others(hosts.right.board())}));
    hosts.left.waits_for_us(hosts.right.board().id(), 0, {});
    assert_true(bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 64))) == Post::kPosted);
    assert_true(bench.net.run());
    assert_int_equal(hosts.left_counters.requests, 0);
    hosts.right.board().begin_work();
    set_life(hosts.right.board().life(), 1 | FUTEX_OWNER_DIED);
    const std::uint64_t before = monotonic_us();
    assert_true(bench.net.left.engine.regions().remove_region(bench.left_key).ok());
    assert_true(monotonic_us() - before >= 5000);
}

// Ends the life of its process as soon as the first turn is written.
class LastTurn final : public near::PeerMemory {
  public:
    LastTurn(near::Board& board, int& turns) : board_(board), turns_(turns) {}
    bool write(std::uint64_t, std::span<const iovec>, std::size_t) noexcept override {
        ++turns_;
        set_life(board_.life(), 1 | FUTEX_OWNER_DIED);
        return true;
    }
    bool read(std::span<const iovec>, std::uint64_t, std::size_t) noexcept override { return false; }

  private:
    near::Board& board_;
    int& turns_;
};

// What is mapped at its addresses now may be something else.
TEST(peer__that_dies_between_two_turns__is_not_touched_again) {
    NearHosts hosts;
    Bench bench(usual_attributes(), kLongBlock, hosts.both);
    int turns = 0;
    assert_non_null(hosts.left.add({.board = seen_by_others(hosts.right.board()),
                                    .memory = std::make_unique<LastTurn>(hosts.right.board(), turns)}));
    hosts.left.waits_for_us(hosts.right.board().id(), 0, {});
    assert_true(bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 3U << 20))) == Post::kPosted);
    assert_true(bench.net.run());
    assert_int_equal(turns, 1);
    assert_int_equal(hosts.left_counters.requests, 0);
}

TEST(region__removed_while_a_dying_peer_works__goes_on) {
    Neighbours two;
    two.hosts.left.board().begin_work();
    set_life(two.hosts.left.board().life(), 1 | FUTEX_OWNER_DIED);
    assert_true(two.bench.net.right.engine.regions().remove_region(two.bench.right_key).ok());
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.near");
}
