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

TEST(address_of_nobody__watched__nothing_is_known) {
    if (cannot_share()) {
        return;
    }
    Member here(next_address());
    const engine::Address there = next_address();
    here.group->watch(there, 77);
    assert_true(here.group->ask({.local = {}, .qpn = 76, .remote = there, .peer_qpn = 77}) ==
                engine::Peer::kUnknown);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
