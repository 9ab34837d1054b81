// SPDX-License-Identifier: BSD-3-Clause
//
// Processes of different addresses: what one learns of the other, and of its end.
#include <sched.h>

#include "tests/unit/roce/group_members.hpp"

using namespace sluice;
using namespace sluice::roce;
using namespace sluice::roce::test;

namespace {

// Until there is a line, nobody is asked.
void ask_until_answered(Member& here, const engine::Address& there, std::uint32_t theirs) {
    while (!here.taken.has_answer(theirs - 1)) {
        (void)here.group->ask({.local = {}, .qpn = theirs - 1, .remote = there, .peer_qpn = theirs});
        sched_yield();
    }
}

// A line to the process that has the number, at another address.
TEST(peer_at_another_address__watched__answers_and_its_end_is_reported) {
    if (cannot_share()) {
        return;
    }
    Random random(kGroupSeed);
    const engine::Address there = next_address();
    Member here(next_address());
    const Member other(there); // which has nothing to do with it
    auto peer = std::make_unique<Member>(there);
    const std::uint32_t theirs = number_of(*peer->group, random);
    const std::uint32_t seat = peer->group->share().which();
    here.group->watch(there, theirs);
    ask_until_answered(here, there, theirs);
    assert_true(here.taken.wait_for_answer(theirs - 1) == std::optional(true));
    peer.reset();
    assert_true(here.taken.wait_for_end_of(seat));
    assert_true(here.group->is_empty(there, seat));
    const Member next(there); // before anybody has looked whether the seat is empty
    assert_int_equal(next.group->share().which(), seat);
    assert_false(here.group->is_empty(there, seat));
}

// The only process of its address, and after it another one.
TEST(peer_at_another_address__last_of_its_group__its_end_is_not_that_of_the_next_group) {
    if (cannot_share()) {
        return;
    }
    Random random(kGroupSeed);
    const engine::Address there = next_address();
    Member here(next_address());
    auto peer = std::make_unique<Member>(there);
    const std::uint32_t theirs = number_of(*peer->group, random);
    const std::uint32_t seat = peer->group->share().which();
    here.group->watch(there, theirs);
    ask_until_answered(here, there, theirs);
    peer.reset();
    assert_true(here.taken.wait_for_end_of(seat));
    assert_true(here.group->is_empty(there, seat));
    const Member next(there);
    assert_false(here.group->is_empty(there, seat));
}

// The end that connects first has nobody to call: the peer comes to its address later, and is heard.
TEST(peer_at_another_address__heard_after_a_knock_in_vain__has_a_line) {
    if (cannot_share()) {
        return;
    }
    Random random(kGroupSeed);
    const engine::Address there = next_address();
    Member here(next_address());
    here.group->watch(there, 77);
    assert_int_equal(here.taken.wait_for_nobody_at(there), 1);
    auto peer = std::make_unique<Member>(there);
    here.group->hear(there, number_of(*peer->group, random));
    here.taken.wait_for_line();
    const std::uint32_t seat = peer->group->share().which();
    peer.reset();
    assert_true(here.taken.wait_for_end_of(seat));
}

// As a process does that disconnects and ends, while this one's thread is busy.
TEST(peer_at_another_address__sends_a_message_and_ends__the_message_arrives_first) {
    if (cannot_share()) {
        return;
    }
    Random random(kGroupSeed);
    const engine::Address address = next_address(), there = next_address();
    const Stranger stranger;
    Member here(address);
    auto peer = std::make_unique<Member>(there);
    const std::uint32_t theirs = number_of(*peer->group, random);
    const std::uint32_t seat = peer->group->share().which();
    here.group->watch(there, theirs);
    ask_until_answered(here, there, theirs);
    {
        const auto shut = here.taken.answer_gate.shut();
        (void)here.group->ask({.local = {}, .qpn = theirs - 1, .remote = there, .peer_qpn = theirs});
        here.taken.answer_gate.wait_until_reached();
        stranger.send(packet_to(wire::kGsiQpn, 77, stranger.address, address, 0), address);
        peer.reset();
    }
    assert_true(here.taken.wait_for_end_of(seat));
    assert_true(here.taken.psns_at_end().contains(77));
}

// It had ended before anybody called it.
TEST(peer_at_another_address__that_has_ended__is_reported_when_watched) {
    if (cannot_share()) {
        return;
    }
    Random random(kGroupSeed);
    const engine::Address there = next_address();
    Member here(next_address());
    const Member other(there);
    auto peer = std::make_unique<Member>(there);
    const std::uint32_t theirs = number_of(*peer->group, random);
    const std::uint32_t seat = peer->group->share().which();
    peer.reset();
    here.group->watch(there, theirs);
    assert_true(here.taken.wait_for_end_of(seat));
}

// A line to the process that has the number at a further address of its group, where no process joins.
TEST(peer_at_a_further_address__watched__answers_and_its_end_is_reported) {
    if (cannot_share()) {
        return;
    }
    Random random(kGroupSeed);
    const engine::Address there = next_address(), further = next_address();
    Member here(next_address());
    const Member other(there);
    auto peer = std::make_unique<Member>(there);
    (void)opened(other, further);
    const std::uint32_t theirs = number_of(*peer->group, random);
    const std::uint32_t seat = peer->group->share().which();
    here.group->watch(further, theirs);
    ask_until_answered(here, further, theirs);
    assert_true(here.taken.wait_for_answer(theirs - 1) == std::optional(true));
    assert_false(group::is_shared(further));
    peer.reset();
    assert_true(here.taken.wait_for_end_of(seat));
    assert_true(here.group->is_empty(further, seat));
}

// All processes of the address have changed: what is known of the former ones counts for nothing.
TEST(peer_at_another_address__of_a_group_that_was_founded_anew__is_found) {
    if (cannot_share()) {
        return;
    }
    Random random(kGroupSeed);
    const engine::Address there = next_address();
    Member here(next_address());
    for (int life = 0; life < 3; ++life) {
        const Member peer(there);
        const std::uint32_t theirs = number_of(*peer.group, random);
        here.group->watch(there, theirs);
        ask_until_answered(here, there, theirs);
        assert_true(here.taken.wait_for_answer(theirs - 1) == std::optional(true));
    }
}

// A process of another address that says what it likes.
struct Impostor {
    explicit Impostor(const engine::Address& its_address)
        : address(its_address), table(*group::Table::create()),
          door(*group::bind_name(group::door_name(address))),
          line_door(*group::bind_name(group::line_name(table->group(), kHolder))) {
        assert_true(table->take_seat(0, kHolder, 1));
        assert_true(group::listen_at(door.get()).ok());
        assert_true(group::listen_at(line_door.get()).ok());
    }
    // For HERE, which wants a number of the first seat.
    void open_line_to(Member& here) {
        here.group->watch(address, number_in(share(0), random));
        const Descriptor visitor = accept(door.get());
        say(visitor, group::Welcome(), std::array{table->descriptor(), door.get(), door.get()});
        line = accept(line_door.get());
    }
    engine::Share share(std::uint32_t seat) const { return {table->words(), seat}; }
    engine::Ends ends(std::uint32_t qpn, std::uint32_t seat) {
        return {.local = {}, .qpn = qpn, .remote = address, .peer_qpn = number_in(share(seat), random)};
    }
    static Descriptor accept(int socket) {
        pollfd wanted = {.fd = socket, .events = POLLIN, .revents = 0};
        assert_int_equal(poll(&wanted, 1, 10'000), 1);
        return group::accept_caller(socket);
    }

    static constexpr group::Holder kHolder = 7;
    const engine::Address address;
    Random random{kGroupSeed};
    const std::unique_ptr<group::Table> table;
    const Descriptor door, line_door;
    Descriptor line;
};

TEST(answer_from_another_address__about_the_number_of_another_process__isnt_taken) {
    if (cannot_share()) {
        return;
    }
    Member here(next_address());
    Impostor impostor(next_address());
    impostor.open_line_to(here);
    engine::Ends elsewhere = impostor.ends(5, 0);
    elsewhere.remote = next_address();
    say(impostor.line, group::Tell{.ends = elsewhere});
    say(impostor.line, group::Tell{.ends = impostor.ends(6, 1)});
    say(impostor.line, group::Tell{.connected = 1, .ends = impostor.ends(7, 0)});
    assert_true(here.taken.wait_for_answer(7) == std::optional(true));
    assert_true(here.taken.remote_told() == impostor.address);
    assert_false(here.taken.has_answer(5));
    assert_false(here.taken.has_answer(6));
}

// A peer that was there has ended before anybody knocked; another one may still come to its address.
TEST(address_of_nobody__watched__is_reported_until_somebody_comes) {
    if (cannot_share()) {
        return;
    }
    Random random(kGroupSeed);
    Member here(next_address());
    const engine::Address there = next_address();
    here.group->watch(there, 77);
    assert_int_equal(here.taken.wait_for_nobody_at(there), 1);
    assert_true(here.group->is_empty(there, engine::Share().which()));
    assert_true(here.group->ask({.local = {}, .qpn = 76, .remote = there, .peer_qpn = 77}) ==
                engine::Peer::kUnknown);
    const Member peer(there);
    assert_false(here.group->is_empty(there, engine::Share().which()));
    const std::uint32_t theirs = number_of(*peer.group, random);
    here.group->watch(there, theirs);
    assert_true(here.group->ask({.local = {}, .qpn = theirs - 1, .remote = there, .peer_qpn = theirs}) !=
                engine::Peer::kGone);
    ask_until_answered(here, there, theirs);
    assert_true(here.taken.wait_for_answer(theirs - 1) == std::optional(true));
}

// There is a line to one of its processes, and none yet to another. The device asks about its queue pairs
// when it hears of an end.
TEST(address_with_a_line__that_all_have_left__both_ends_are_reported) {
    if (cannot_share()) {
        return;
    }
    Random random(kGroupSeed);
    const engine::Address there = next_address(), other = next_address();
    auto first = std::make_unique<MemberProcess>(there); // before this process has threads
    auto second = std::make_unique<MemberProcess>(there);
    Member here(next_address());
    const Member bystander(other);
    const std::uint32_t theirs = number_of(*bystander.group, random);
    assert_true(first->ready() && second->ready());
    std::vector<engine::Share> taken;
    {
        const Caller caller(there);
        for (std::uint32_t seat = 0; seat < group::kSeats; ++seat) {
            if (caller.table->holder(seat) != group::kNobody) {
                taken.emplace_back(caller.table->words(), seat);
            }
        }
    }
    assert_int_equal(taken.size(), 2);
    const std::uint32_t known = number_in(taken[0], random), unknown = number_in(taken[1], random);
    here.taken.at_end = [group = here.group.get(), there, unknown] {
        (void)group->ask({.local = {}, .qpn = unknown - 1, .remote = there, .peer_qpn = unknown});
    };
    for (const auto& [address, qpn] : {std::pair(there, known), std::pair(other, theirs)}) {
        here.group->watch(address, qpn);
        ask_until_answered(here, address, qpn);
    }
    {
        const auto shut = here.taken.answer_gate.shut();
        (void)here.group->ask({.local = {}, .qpn = theirs - 1, .remote = other, .peer_qpn = theirs});
        here.taken.answer_gate.wait_until_reached();
        here.group->watch(there, unknown);
        first.reset();
        second.reset();
    }
    assert_true(here.taken.wait_for_end_of(taken[0].which()));
    assert_true(here.taken.wait_for_nobody_at(there) > 0);
    assert_true(here.group->is_empty(there, engine::Share().which()));
    const Member next(there);
    assert_false(here.group->is_empty(there, engine::Share().which()));
}

// A queue pair that is connected meanwhile may have a peer there: the last knock counts.
TEST(address_of_nobody__watched_several_times__is_reported_once) {
    if (cannot_share()) {
        return;
    }
    Random random(kGroupSeed);
    const engine::Address there = next_address(), other = next_address();
    Member here(next_address());
    const Member peer(other);
    const std::uint32_t theirs = number_of(*peer.group, random);
    here.group->watch(other, theirs);
    ask_until_answered(here, other, theirs);
    {
        const auto shut = here.taken.answer_gate.shut();
        (void)here.group->ask({.local = {}, .qpn = theirs - 1, .remote = other, .peer_qpn = theirs});
        here.taken.answer_gate.wait_until_reached();
        for (const std::uint32_t qpn : {77, 78, 79}) {
            here.group->watch(there, qpn);
        }
    }
    assert_int_equal(here.taken.wait_for_nobody_at(there), 1);
}

// Of another machine, or of this one, where a program that isn't ours has the port.
TEST(address_of_others__watched__nothing_is_known) {
    if (cannot_share()) {
        return;
    }
    Random random(kGroupSeed);
    const engine::Address there = next_address(), known = next_address();
    const engine::Address far_away = *socket::parse_address("192.0.2.1");
    const Descriptor stranger(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const socket::SocketAddress at = socket::to_socket_address(there, wire::kRocePort, 0);
    assert_int_equal(bind(stranger.get(), &at.any, at.bytes), 0);
    const Member peer(known);
    const std::uint32_t theirs = number_of(*peer.group, random);
    Member here(next_address());
    for (const engine::Address& address : {there, far_away}) {
        here.group->watch(address, 77);
        here.group->watch(known, theirs); // the thread answers when it has looked at the others, too
    }
    ask_until_answered(here, known, theirs);
    for (const engine::Address& address : {there, far_away}) {
        assert_true(here.group->ask({.local = {}, .qpn = 76, .remote = address, .peer_qpn = 77}) ==
                    engine::Peer::kUnknown);
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
