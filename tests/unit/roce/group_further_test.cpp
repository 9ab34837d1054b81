// SPDX-License-Identifier: BSD-3-Clause
//
// Processes that share an address, at its further addresses.
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "tests/unit/roce/group_members.hpp"

using namespace sluice;
using namespace sluice::roce;
using namespace sluice::roce::test;

namespace {

// One member opens a further address; those that were there before it and those that come after have sockets
// there, too.
TEST(further_address__opened_by_one__each_member_gets_its_packets_there) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address(), further = next_address();
    const Stranger stranger;
    std::vector<std::unique_ptr<Member>> running;
    std::vector<Descriptor> sockets;
    for (int i = 0; i < 3; ++i) {
        running.push_back(std::make_unique<Member>(address));
    }
    assert_false(running[1]->group->has(further));
    sockets.push_back(opened(*running[1], further));
    assert_true(running[1]->group->has(further));
    for (int i = 0; i < 3; ++i) {
        running.push_back(std::make_unique<Member>(address));
        assert_true(running.back()->group->has(further));
    }
    sockets.clear();
    for (const auto& member : running) {
        sockets.push_back(opened(*member, further));
    }
    Random random(kGroupSeed);
    for (int i = 0; i < 500; ++i) {
        const std::size_t to = random.next() % running.size();
        const std::uint32_t qpn = number_of(*running[to]->group, random);
        stranger.send(packet_to(qpn, 1, stranger.address, further, 0), further);
        assert_true(arrives(sockets[to].get()));
        for (const Descriptor& other : sockets) {
            assert_true(is_empty(other.get()));
        }
    }
}

// Its members go, but for the last one; no socket leaves the kernel's group.
TEST(further_address__its_founder_dies__others_have_it_and_its_seat_is_taken_again) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address(), further = next_address();
    const Stranger stranger;
    Random random(kGroupSeed);
    auto founder = std::make_unique<Member>(address);
    const Member second(address);
    (void)opened(*founder, further);
    (void)opened(second, further);
    founder.reset();
    const Member third(address);
    assert_int_equal(third.group->share().which(), 0);
    for (const Member* const member : {&second, &third}) {
        const Descriptor its = opened(*member, further);
        stranger.send(packet_to(number_of(*member->group, random), 1, stranger.address, further, 0), further);
        assert_true(arrives(its.get()));
    }
}

// Nobody but its thread reads that socket.
TEST(further_address__message_for_queue_pair_1__arrives_with_its_address) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address(), further = next_address();
    const Stranger stranger;
    Member only(address);
    (void)opened(only, further);
    stranger.send(packet_to(wire::kGsiQpn, 77, stranger.address, further, 0), further);
    assert_true(only.taken.wait_for(77));
    assert_true(only.taken.destination() == further);
}

TEST(further_address__that_processes_have_for_themselves__refused_and_not_taken) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address(), further = next_address();
    const Member member(address);
    {
        const Member other(further);
        const Result<Descriptor> refused = member.group->open_at(further);
        assert_false(refused.ok());
        assert_int_equal(refused.error().to_errno(), EADDRINUSE);
        assert_non_null(std::strstr(refused.error().text(), "as a device of its own"));
        assert_false(member.group->has(further));
    }
    const Stranger holder;
    const Result<Descriptor> refused = member.group->open_at(holder.address);
    assert_false(refused.ok());
    assert_int_equal(refused.error().to_errno(), EADDRINUSE);
    (void)opened(member, further);
    const Error error = refused_join(further);
    assert_int_equal(error.to_errno(), EADDRINUSE);
    assert_non_null(std::strstr(error.text(), "one of several addresses"));
}

TEST(further_addresses__as_many_as_there_can_be__the_next_is_told) {
    if (cannot_share()) {
        return;
    }
    const Member member(next_address());
    for (std::size_t i = 0; i < group::kMaxFurther; ++i) {
        (void)opened(member, next_address());
    }
    const Result<Descriptor> refused = member.group->open_at(next_address());
    assert_false(refused.ok());
    assert_int_equal(refused.error().to_errno(), ENOSPC);
    assert_non_null(std::strstr(refused.error().text(), "which is the most"));
}

// Of the loopback network. Another process can have it for a device of its own then, and others their room.
TEST(further_addresses__their_last_users_end__given_back) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address(), used = next_address();
    const Member witness(address), user(address);
    (void)opened(user, used);
    std::vector<engine::Address> others;
    {
        const Member other(address);
        (void)opened(other, used);
        for (std::size_t i = 1; i < group::kMaxFurther; ++i) {
            others.push_back(next_address());
            (void)opened(other, others.back());
            assert_true(comes_true([&] { return witness.group->has(others.back()); }));
        }
        assert_int_equal(user.group->open_at(next_address()).error().to_errno(), ENOSPC);
    }
    for (const Member* const member : {&witness, &user}) {
        for (const engine::Address& gone : others) {
            assert_true(comes_true([&] { return !member->group->has(gone); }));
        }
        assert_true(member->group->has(used));
    }
    const Member alone(others[0]);
    assert_int_equal(user.group->open_at(others[0]).error().to_errno(), EADDRINUSE);
    (void)opened(user, others[1]);
    for (const engine::Address& again : {others[1], used}) {
        (void)opened(witness, again);
    }
}

// Whoever stands at the door has no answer, and the address isn't shared any more.
bool is_shared_by_a_group_that_closes_its_door(const engine::Address& address) {
    Result<Descriptor> door = group::bind_name(group::door_name(address));
    assert_true(door.ok() && group::listen_at(door->get()).ok());
    bool shared = true;
    std::thread visitor([&] { shared = group::is_shared(address); });
    pollfd knocks = {.fd = door->get(), .events = POLLIN, .revents = 0};
    assert_int_equal(poll(&knocks, 1, -1), 1);
    door->reset();
    visitor.join();
    return shared;
}

// One that stays open for long enough is a stopped process's: a busy machine may need a second time. The
// test's time limit is the limit.
TEST(is_shared__the_door_is_closed_before_it_answers__false) {
    const engine::Address address = next_address();
    while (is_shared_by_a_group_that_closes_its_door(address)) {
    }
}

// As a member that gives the address back: its port is free already.
void close_door_after(int knocks, Descriptor& door) {
    for (int i = 0; i < knocks; ++i) {
        pollfd knock = {.fd = door.get(), .events = POLLIN, .revents = 0};
        assert_int_equal(poll(&knock, 1, -1), 1);
        const Descriptor visitor = group::accept_caller(door.get());
        group::Welcome welcome{.is_further = 1};
        const iovec piece{.iov_base = &welcome, .iov_len = sizeof welcome};
        (void)group::send(visitor.get(), {&piece, 1}, {});
    }
    door.reset();
}

bool opens_beside_a_door_that_is_open_a_little_longer(const Member& member, const engine::Address& further) {
    Result<Descriptor> door = group::bind_name(group::door_name(further));
    assert_true(door.ok() && group::listen_at(door->get()).ok());
    constexpr int kKnocks = 3; // the first two are of one look
    std::thread holder([&] { close_door_after(kKnocks, *door); });
    const bool is_opened = member.group->open_at(further).ok();
    for (int left = kKnocks; !is_opened && left > 0; --left) {
        (void)group::call(group::door_name(further)); // it mustn't wait for ever
    }
    holder.join();
    return is_opened;
}

// A busy machine may close the door too late. The test's time limit is the limit.
TEST(further_address__its_door_is_closed_after_its_port__opened) {
    if (cannot_share()) {
        return;
    }
    const Member member(next_address());
    const engine::Address further = next_address();
    while (!opens_beside_a_door_that_is_open_a_little_longer(member, further)) {
    }
}

// In processes of their own: the joining lock doesn't keep threads of one process apart. And the next one
// starts before the witness has sockets at the further address, or it would have them, too.
TEST(further_address__its_user_is_killed_and_the_next_wants_it_at_once__opened_anew) {
    if (cannot_share()) {
        return;
    }
#if defined(__SANITIZE_THREAD__)
    std::puts("SKIP: the thread sanitizer takes no children of a process with threads");
    return;
#endif
    const engine::Address address = next_address(), further = next_address();
    const Stranger stranger;
    Random random(kGroupSeed);
    const Member witness(address);
    const auto gets_a_packet_there = [&] {
        if (!MemberProcess::join_for_good(address)) {
            return false;
        }
        const Group& own = *MemberProcess::member();
        const Result<Descriptor> its = MemberProcess::member()->open_at(further);
        if (!its) {
            std::fprintf(stderr, "%s\n", its.error().text());
            return false;
        }
        stranger.send(packet_to(number_of(own, random), 1, stranger.address, further, 0), further);
        return arrives(its->get());
    };
    for (int round = 0; round < 20; ++round) {
        const Signal begin, done;
        {
            const Child next([] { return true; }, [&] { done.give(begin.wait() && gets_a_packet_there()); });
            {
                const Child killed([&] {
                    return MemberProcess::join_for_good(address) && MemberProcess::open_for_good(further);
                });
                assert_true(killed.ready());
            }
            begin.give();
            assert_true(done.wait());
            assert_true(comes_true([&] { return witness.group->has(further); }));
        }
        // Or the next children would have the sockets, too.
        assert_true(comes_true([&] { return !witness.group->has(further); }));
    }
}

// Its group's thread does the most of it.
TEST(member__killed_at_each_system_call_of_opening_a_further_address__others_open_it) {
    if (cannot_share()) {
        return;
    }
#if defined(__SANITIZE_THREAD__)
    std::puts("SKIP: the thread sanitizer takes no children of a process with threads");
    return;
#endif
    const Stranger stranger;
    Random random(kGroupSeed);
    const int calls = die_everywhere([&](int call) {
        const engine::Address address = next_address(), further = next_address();
        const Member first(address);
        const bool died = run_and_die_at(call, [&] {
            if (MemberProcess::join_for_good(address)) {
                (void)MemberProcess::member()->open_at(further);
            }
        });
        // The joining lock doesn't keep threads of one process apart.
        assert_true(comes_true([&] { return !first.group->has(further); }));
        const Member next(address);
        const Descriptor firsts = opened(first, further);
        const Member after(address);
        for (const Member* const member : {&first, &next, &after}) {
            const Descriptor its = opened(*member, further);
            stranger.send(packet_to(number_of(*member->group, random), 1, stranger.address, further, 0),
                          further);
            if (!arrives(its.get())) {
                std::fprintf(stderr, "killed at stop %d: seat %u gets nothing\n", call,
                             member->group->share().which());
                return assert_true(false), false;
            }
        }
        return died;
    });
    assert_true(calls > 80);
}

// A socket that has a name, told to a member as that of a further address.
class ToldDoor {
  public:
    ToldDoor(const Descriptor& line, const engine::Address& address, std::uint64_t generation)
        : name_(group::door_name(next_address())) {
        const Descriptor door = *group::bind_name(name_);
        const group::Further head{.address = address, .generation = generation};
        const iovec piece{.iov_base = const_cast<group::Further*>(&head), .iov_len = sizeof head};
        const int descriptor = door.get();
        assert_true(group::send(line.get(), {&piece, 1}, {&descriptor, 1}));
    }
    bool is_held() const { return !group::bind_name(name_).ok(); }
    // The test's time limit is the limit.
    void wait_until_dropped() const {
        while (is_held()) {
            sched_yield();
        }
    }

  private:
    group::SocketName name_;
};

// A member reads line by line: what one says may come after what another said later.
TEST(further_address__told_in_another_order__the_newest_stays) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address(), further = next_address();
    const Member member(address);
    const Caller caller(address);
    const Descriptor line = caller.call_member();
    caller.table->use_further(0, 0, caller.table->holder(0)); // nobody finds it unused
    const ToldDoor before(line, further, 5);
    const ToldDoor newest(line, further, 6);
    before.wait_until_dropped();
    assert_true(newest.is_held());

    say(line, group::GivenBack{.generation = 5});
    ToldDoor(line, further, 5).wait_until_dropped();
    assert_true(newest.is_held());
    assert_true(member.group->has(further));

    say(line, group::GivenBack{.generation = 6});
    newest.wait_until_dropped();
    ToldDoor(line, further, 6).wait_until_dropped();
    assert_false(member.group->has(further));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
