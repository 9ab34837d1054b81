// SPDX-License-Identifier: BSD-3-Clause
//
// Processes that share an address: who gets which packet, and what remains when one of them dies.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "roce/group/messages.hpp"
#include "roce/group/stopwatch.hpp"
#include "roce/wire/cm.hpp"
#include "tests/unit/roce/group_members.hpp"

using namespace sluice;
using namespace sluice::roce;
using namespace sluice::roce::test;
using group::further_place;
using group::Holder;
using group::kMaxFurther;
using group::kSeats;
using group::Place;
using group::Table;

namespace {

constexpr std::uint32_t kSquattersUser = 65534;

TEST(numbers__of_64_shares__each_has_one_owner_and_all_have_some) {
    Random random(kGroupSeed);
    const engine::Share::Words words = {0x12345678, 0x9abcdef0, 0x0badcafe, 0x2f6e2b1d};
    std::array<int, kSeats> owned{};
    for (int i = 0; i < 64'000; ++i) {
        const auto number = static_cast<std::uint32_t>(random.next()) & 0xffffff;
        const std::uint32_t owner = engine::Share::share_of(words, number);
        assert_true(owner < kSeats);
        assert_true(engine::Share(words, owner).owns(number));
        assert_false(engine::Share(words, (owner + 1) % kSeats).owns(number));
        ++owned[owner];
    }
    for (const int count : owned) {
        assert_in_range(count, 700, 1300); // of 1000
    }
}

// A process draws the numbers of a slot until one is its own. With one multiplication less these words left
// some seats without any.
TEST(numbers__of_one_slot__each_share_has_some) {
    constexpr std::uint32_t kSlots = 4096;
    for (const engine::Share::Words& words :
         {engine::Share::Words{0x1b30caf4, 0x21f3908f, 0x1e01fde2, 0x16889b6f},
          {0x2efc226f, 0x355e56ed, 0x6f11c320, 0x50ad8f49}}) {
        for (std::uint32_t slot = 0; slot < kSlots; slot += 64) {
            std::array<int, kSeats> owned{};
            for (std::uint32_t tag = 0; tag < (1U << 24) / kSlots; ++tag) {
                ++owned[engine::Share::share_of(words, tag * kSlots + slot)];
            }
            assert_true(*std::ranges::min_element(owned) > 0);
        }
    }
}

TEST(packets__to_members_numbers__arrive_at_their_sockets_and_no_others) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const Stranger stranger;
    std::vector<std::unique_ptr<Member>> running;
    for (int i = 0; i < 5; ++i) {
        running.push_back(std::make_unique<Member>(address));
    }
    Random random(kGroupSeed);
    for (int i = 0; i < 500; ++i) {
        const std::size_t to = random.next() % running.size();
        const std::uint32_t qpn = number_of(*running[to]->group, random);
        stranger.send(packet_to(qpn, 1, stranger.address, address, 0), address);
        assert_true(arrives(running[to]->group->socket()));
        for (const auto& other : running) {
            assert_true(is_empty(other->group->socket()));
        }
    }
}

TEST(train__segments_for_two_members__what_isnt_the_readers_is_handed_on) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const Stranger stranger;
    Member reader(address);
    Member other(address);
    Random random(kGroupSeed);
    const std::uint32_t readers = number_of(*reader.group, random);
    const std::uint32_t others = number_of(*other.group, random);
    stranger.send_train({packet_to(readers, 10, stranger.address, address, 0),
                         packet_to(others, 11, stranger.address, address, 1),
                         packet_to(readers, 12, stranger.address, address, 2),
                         packet_to(others, 13, stranger.address, address, 3)},
                        address);
    pollfd wanted = {.fd = reader.group->socket(), .events = POLLIN, .revents = 0};
    assert_int_equal(poll(&wanted, 1, 10'000), 1);
    socket::Receiver receiver(reader.group->socket(), address, nullptr);
    std::vector<std::uint32_t> own;
    while (receiver.fetch(16) != 0) {
        receiver.deliver([&](const engine::InPacket& in) {
            if (reader.group->owns(in.packet, in.destination)) {
                own.push_back(in.packet.bth.psn);
            } else {
                reader.group->hand_on(in);
            }
        });
    }
    assert_true(own == (std::vector<std::uint32_t>{10, 12}));
    assert_true(other.taken.wait_for(11));
    assert_true(other.taken.wait_for(13));
}

TEST(members__begin_for_two_seconds__unless_one_has_been_there_for_longer) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const group::Stopwatch since;
    const Member first(address);
    assert_true(first.group->may_all_claim_soon());
    while (first.group->may_all_claim_soon()) {
        assert_true(since.passed_ms() < 60'000);
        group::Stopwatch::pause();
    }
    assert_true(since.passed_ms() >= 2000);
    const Member second(address);
    assert_false(first.group->may_all_claim_soon());
    assert_false(second.group->may_all_claim_soon());
}

TEST(services__taken_once_and_free_when_their_seat_is) {
    const Result<std::unique_ptr<Table>> made = Table::create();
    assert_true(made.ok());
    Table& table = **made;
    constexpr Holder kOne = 0x1'0000'0003, kOther = 0x1'0000'0005;
    const std::uint64_t service = wire::cm_service_id(wire::kPortSpaceTcp, 7174);
    assert_true(table.take_seat(3, kOne, 0));
    assert_true(table.take_seat(4, kOther, 0));
    assert_false(table.take_seat(4, kOne, 0));
    assert_int_equal(table.seat_of_service(service, Place::kHome), kSeats);
    assert_true(table.take_service(service, Place::kHome, kOne));
    assert_int_equal(table.seat_of_service(service, Place::kHome), 3);
    assert_false(table.take_service(service, Place::kHome, kOther));
    assert_true(table.take_service(wire::cm_service_id(wire::kPortSpaceUdp, 7174), Place::kHome, kOther));
    table.give_up_service(service, Place::kHome, kOther); // it isn't that one's
    assert_int_equal(table.seat_of_service(service, Place::kHome), 3);
    table.give_up_seat(3, kOne); // as the survivors do
    assert_int_equal(table.seat_of_service(service, Place::kHome), kSeats);
    assert_true(table.take_service(service, Place::kHome, kOther));
    assert_int_equal(table.seat_of_service(service, Place::kHome), 4);
    // Whoever had it last answers until another one takes it.
    table.give_up_service(service, Place::kHome, kOther);
    assert_int_equal(table.seat_of_service(service, Place::kHome), 4);
    constexpr Holder kThird = 0x1'0000'0007;
    assert_true(table.take_seat(5, kThird, 0));
    assert_true(table.take_service(service, Place::kHome, kThird));
    assert_int_equal(table.seat_of_service(service, Place::kHome), 5);
    assert_false(table.take_service(service, Place::kHome, kOther));
}

TEST(seats__taken_at_a_time__which_the_next_holder_does_not_inherit) {
    const Result<std::unique_ptr<Table>> made = Table::create();
    assert_true(made.ok());
    Table& table = **made;
    assert_false(table.has_member_before(INT64_MAX));
    assert_true(table.take_seat(0, 5, 1000) && table.take_seat(7, 7, 3000));
    assert_false(table.take_seat(7, 9, 10));
    assert_true(table.has_member_before(1001));
    assert_false(table.has_member_before(1000));
    table.give_up_seat(0, 5);
    assert_false(table.has_member_before(3000));
    assert_true(table.has_member_before(3001));
    assert_true(table.take_seat(0, 9, 4000));
    assert_false(table.has_member_before(3000));
}

// As rdma_cm has it: two processes may have one port at two addresses, and everywhere is all of them.
TEST(services__at_several_places__everywhere_excludes_the_others) {
    const Result<std::unique_ptr<Table>> made = Table::create();
    assert_true(made.ok());
    Table& table = **made;
    constexpr Holder kOne = 0x1'0000'0003, kOther = 0x1'0000'0005;
    const std::uint64_t service = wire::cm_service_id(wire::kPortSpaceTcp, 7174);
    const Place last = further_place(kMaxFurther - 1);
    assert_true(table.take_seat(3, kOne, 0) && table.take_seat(4, kOther, 0));
    assert_true(table.take_service(service, Place::kHome, kOne));
    assert_true(table.take_service(service, last, kOther));
    assert_int_equal(table.seat_of_service(service, Place::kHome), 3);
    assert_int_equal(table.seat_of_service(service, last), 4);
    assert_int_equal(table.seat_of_service(service, Place::kFirstFurther), kSeats);
    assert_false(table.take_service(service, Place::kEverywhere, kOne));
    assert_int_equal(table.seat_of_service(service, Place::kFirstFurther), kSeats); // nothing is left of it
    table.give_up_service(service, last, kOther);
    assert_true(table.take_service(service, Place::kEverywhere, kOne));
    assert_false(table.take_service(service, last, kOther));
    // What listens comes before what did.
    assert_int_equal(table.seat_of_service(service, last), 3);
    assert_int_equal(table.seat_of_service(service, Place::kFirstFurther), 3);
    assert_true(table.is_service_taken(service, Place::kEverywhere));
    assert_false(table.is_service_taken(service, last));
    table.give_up_service(service, Place::kEverywhere, kOne);
    assert_false(table.is_service_taken(service, Place::kEverywhere));
    assert_int_equal(table.seat_of_service(service, last), 4);
    assert_int_equal(table.seat_of_service(service, Place::kFirstFurther), 3);
}

TEST(member__dies__its_seat_and_its_port_are_free_for_the_next) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const MemberProcess survivor(address);
    for (int i = 0; i < 20; ++i) {
        const MemberProcess second(address);
        assert_true(second.ready());
    }
    const Member third(address);
    assert_int_equal(third.group->share().which(), 1);
}

TEST(peer__asked__answers_whether_it_has_the_connection) {
    if (cannot_share()) {
        return;
    }
    Random random(kGroupSeed);
    const engine::Address address = next_address();
    Member first(address);
    auto second = std::make_unique<Member>(address);
    const std::uint32_t seat = second->group->share().which();
    const std::uint32_t theirs = number_of(*second->group, random);
    while (first.group->ask({.local = address, .qpn = theirs - 1, .remote = address, .peer_qpn = theirs}) ==
           engine::Peer::kUnknown) {
        sched_yield(); // the first hasn't read yet who has called
    }
    assert_true(first.taken.wait_for_answer(theirs - 1) == std::optional(true));
    assert_true(
        first.group->ask({.local = address, .qpn = theirs - 2, .remote = address, .peer_qpn = theirs}) ==
        engine::Peer::kLives);
    assert_true(first.taken.wait_for_answer(theirs - 2) == std::optional(false));
    assert_true(first.taken.remote_told() == address);
    second.reset();
    assert_true(first.taken.wait_for_end_of(seat));
    assert_true(first.group->is_empty(address, seat));
    assert_true(
        first.group->ask({.local = address, .qpn = theirs - 1, .remote = address, .peer_qpn = theirs}) ==
        engine::Peer::kGone);
}

// As a program opens a socket that gets the number of a line which ended just now, and finds a message in it
// that is for nobody else.
void open_and_read_sockets() {
    constexpr std::size_t kAtOnce = 32;
    for (int turns = 0; turns < 200; ++turns) {
        std::array<std::array<Descriptor, 2>, kAtOnce> pairs;
        for (auto& pair : pairs) {
            int ends[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
            pair = {Descriptor(ends[0]), Descriptor(ends[1])};
            assert_int_equal(::send(ends[0], "x", 1, 0), 1);
            assert_int_equal(::send(ends[1], "x", 1, 0), 1);
        }
        for (const auto& pair : pairs) {
            for (const Descriptor& end : pair) {
                char got = 0;
                assert_int_equal(recv(end.get(), &got, sizeof got, MSG_DONTWAIT), 1);
            }
        }
    }
}

// The visitor is answered before the ends of the lines are looked at one by one: by then they were all seen.
TEST(lines__several_end_while_a_visitor_asks__no_other_socket_is_read) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const Member member(address);
    for (int turns = 0; turns < 50; ++turns) {
        const Caller caller(address);
        std::array<Descriptor, 12> lines;
        for (Descriptor& line : lines) {
            line = caller.call_member();
        }
        caller.ask_for_sockets();
        for (Descriptor& line : lines) {
            line.reset();
        }
        open_and_read_sockets();
    }
}

// The thread stops twice: until all have asked and ended, and then, while it answers the first, between its
// look at the others and the answers. There the program opens sockets, which get the numbers of those others.
TEST(visitors__several_ask_and_end__nothing_is_sent_to_other_sockets) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    Member member(address);
    std::vector<Caller> visitors;
    for (int i = 0; i < 4; ++i) {
        visitors.emplace_back(address);
    }
    const Descriptor before = visitors.front().call_member();
    const Descriptor last = visitors.front().call_member(); // is looked at behind the visitors
    auto question = member.taken.question_gate.shut();
    auto late_question = member.taken.late_question_gate.shut();
    say(before, group::Ask());
    member.taken.question_gate.wait_until_reached();
    for (const Caller& visitor : visitors) {
        visitor.ask_for_sockets();
    }
    say(last, group::Ask{.ends = {.local = {}, .remote = {}, .peer_qpn = Taken::kLateQpn}});
    visitors.clear();
    question.unlock();
    member.taken.late_question_gate.wait_until_reached();
    std::array<std::array<int, 2>, 32> pairs{};
    for (auto& pair : pairs) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()), 0);
    }
    late_question.unlock();
    const Caller next(address); // is let in when the others have been answered
    for (const auto& pair : pairs) {
        assert_true(is_empty(pair[0]) && is_empty(pair[1]));
        close(pair[0]);
        close(pair[1]);
    }
}

// By a process that has a seat of its own, or none.
TEST(answer__about_the_number_of_another_process__isnt_taken) {
    if (cannot_share()) {
        return;
    }
    constexpr std::uint32_t kSeat = 5;
    constexpr group::Holder kHolder = 77;
    Random random(kGroupSeed);
    const engine::Address address = next_address();
    Member member(address);
    const Member other(address);
    const Caller caller(address);
    const Descriptor line = caller.call_member();
    const auto answer = [&](std::uint32_t qpn, const engine::Address& remote, const engine::Share& its) {
        say(line, group::Tell{.connected = 1,
                              .ends = {.local = address,
                                       .qpn = qpn,
                                       .remote = remote,
                                       .peer_qpn = number_in(its, random)}});
    };
    const engine::Share seats(caller.table->words(), kSeat);
    answer(5, address, other.group->share());
    answer(6, address, seats);
    assert_true(caller.table->take_seat(kSeat, kHolder, 1));
    say(line, group::Hello{.seat = kSeat, .holder = kHolder});
    answer(7, address, other.group->share());
    answer(8, next_address(), seats);
    answer(9, address, seats);
    assert_true(member.taken.wait_for_answer(9) == std::optional(true));
    for (const std::uint32_t qpn : {5U, 6U, 7U, 8U}) {
        assert_false(member.taken.has_answer(qpn));
    }
}

TEST(founder__dies__the_others_go_on_and_take_new_members) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const Stranger stranger;
    auto founder = std::make_unique<MemberProcess>(address);
    Member second(address);
    founder.reset();
    Member third(address);
    Random random(kGroupSeed);
    for (const Member* const member : {&second, &third}) {
        const std::uint32_t qpn = number_of(*member->group, random);
        stranger.send(packet_to(qpn, 1, stranger.address, address, 0), address);
        assert_true(arrives(member->group->socket()));
    }
    assert_true(second.group->share().which() != third.group->share().which());
}

TEST(all__leave__the_address_is_free) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    {
        const Member first(address);
        const Member second(address);
    }
    const Stranger plain; // has a port of its own, so that the next isn't it
    Result<Descriptor> alone = socket::make_socket({.local = address}, socket::Sharing::kNone);
    assert_true(alone.ok());
    assert_true(socket::bind_socket(alone->get(), address, *socket::find_network_device(address)).ok());
}

TEST(address__of_a_program_that_shares_nothing__the_error_names_it) {
    if (cannot_share()) { // nor does it show the host's /proc in its own byte order
        return;
    }
    const Stranger holder;
    const Error error = refused_join(holder.address);
    assert_int_equal(error.to_errno(), EADDRINUSE);
    assert_non_null(std::strstr(error.text(), "this very process"));
}

TEST(seats__all_taken__the_next_is_told) {
    if (cannot_share()) {
        return;
    }
    const rlimit many{.rlim_cur = 16384, .rlim_max = 16384};
    if (setrlimit(RLIMIT_NOFILE, &many) != 0) {
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        assert_true(limit.rlim_cur >= 1024);
    }
    const engine::Address address = next_address();
    std::vector<std::unique_ptr<MemberProcess>> members;
    for (std::uint32_t i = 0; i < kSeats; ++i) {
        members.push_back(std::make_unique<MemberProcess>(address));
        assert_true(members.back()->ready());
    }
    const Error error = refused_join(address);
    assert_non_null(std::strstr(error.text(), "64 processes share"));
    members[17].reset();
    const Member last(address);
    assert_int_equal(last.group->share().which(), 17);
}

TEST(only_member__stopped__the_error_says_so_and_it_goes_on_later) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const MemberProcess only(address);
    assert_true(only.ready());
    int status = 0;
    assert_int_equal(kill(only.pid(), SIGSTOP), 0);
    assert_int_equal(waitpid(only.pid(), &status, WUNTRACED), only.pid());
    assert_true(WIFSTOPPED(status));
    const Error error = refused_join(address);
    assert_non_null(std::strstr(error.text(), "is it stopped?"));
    assert_non_null(std::strstr(error.text(), std::to_string(only.pid()).c_str()));
    assert_int_equal(kill(only.pid(), SIGCONT), 0);
    const Member second(address);
}

// What a founder is, until it listens.
TEST(founder__takes_longer_than_an_aftermath__the_next_waits_for_it) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    Result<Descriptor> name = group::bind_name(group::door_name(address));
    assert_true(name.ok());
    std::thread slow([&name] {
        for (const group::Stopwatch watch; watch.passed_ms() < 600;) { // what it takes
            group::Stopwatch::pause();
        }
        *name = Descriptor();
    });
    const Result<std::unique_ptr<Group>> next = Group::join({.local = address});
    slow.join();
    assert_true(next.ok());
}

TEST(founder__never_listens__the_error_says_what_to_do) {
    const engine::Address address = next_address();
    const Result<Descriptor> name = group::bind_name(group::door_name(address));
    assert_true(name.ok());
    const Error error = refused_join(address);
    assert_int_equal(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::kBusy));
    assert_non_null(std::strstr(error.text(), "is it stopped?"));
    assert_non_null(std::strstr(error.text(), "@sluice-uroce/"));
}

// A visitor that was let in.
Descriptor knock(const engine::Address& address) {
    Result<Descriptor> made = group::call(group::door_name(address));
    assert_true(made.ok());
    std::array<std::uint8_t, sizeof(group::Welcome)> bytes{};
    group::Received received;
    assert_true(group::receive_within(10'000, made->get(), bytes, received) == group::Receipt::kMessage);
    return *std::move(made);
}

// The first may have been killed after it asked: then the second has the joining lock.
TEST(visitors__two_ask_at_once__both_are_answered) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const MemberProcess only(address);
    assert_true(only.ready());
    const Descriptor visitors[] = {knock(address), knock(address)};
    int status = 0;
    assert_int_equal(kill(only.pid(), SIGSTOP), 0);
    assert_int_equal(waitpid(only.pid(), &status, WUNTRACED), only.pid());
    for (const Descriptor& visitor : visitors) {
        say(visitor, group::AskForSockets());
    }
    assert_int_equal(kill(only.pid(), SIGCONT), 0);
    for (const Descriptor& visitor : visitors) {
        std::array<std::uint8_t, sizeof(group::Sockets)> bytes{};
        group::Received received;
        assert_true(group::receive_within(10'000, visitor.get(), bytes, received) ==
                    group::Receipt::kMessage);
        assert_true(group::read_as<group::Sockets>({bytes.data(), received.bytes}).has_value());
    }
}

TEST(name__of_another_user__sharing_is_refused_and_the_user_named) {
    if (geteuid() != 0) {
        std::puts("SKIP: becoming another user needs root");
        return;
    }
    const engine::Address address = next_address();
    const group::SocketName name = group::door_name(address);
    const Child squatter([&] {
        static Descriptor door;
        if (setuid(kSquattersUser) != 0) {
            return false;
        }
        auto made = group::bind_name(name);
        door = made ? *std::move(made) : Descriptor();
        return group::listen_at(door.get()).ok();
    });
    assert_true(squatter.ready());
    const Error error = refused_join(address);
    assert_int_equal(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::kPermission));
    assert_non_null(std::strstr(error.text(), "user 65534"));
    assert_non_null(std::strstr(error.text(), std::to_string(squatter.pid()).c_str()));
}

// Whoever opens answers with DESCRIPTORS and a WELCOME.
void open_door_and_say(const engine::Address& address, const group::Welcome& welcome,
                       std::span<const int> descriptors) {
    const Child host([&] {
        static Descriptor door;
        auto made = group::bind_name(group::door_name(address));
        door = made ? *std::move(made) : Descriptor();
        if (!group::listen_at(door.get())) {
            return false;
        }
        static const std::vector<int> given(descriptors.begin(), descriptors.end());
        static const group::Welcome said = welcome;
        static std::vector<Descriptor> visitors;
        static pthread_t thread;
        pthread_create(
            &thread, nullptr,
            [](void*) -> void* {
                for (;;) {
                    pollfd wanted = {.fd = door.get(), .events = POLLIN, .revents = 0};
                    poll(&wanted, 1, -1);
                    Descriptor visitor = group::accept_caller(door.get());
                    const iovec piece{.iov_base = const_cast<group::Welcome*>(&said), .iov_len = sizeof said};
                    (void)group::send(visitor.get(), {&piece, 1}, given);
                    visitors.push_back(std::move(visitor));
                }
            },
            nullptr);
        return true;
    });
    assert_true(host.ready());
    const Error error = refused_join(address);
    assert_int_equal(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::kProtocol));
}

TEST(door__opened_by_something_else__refused) {
    Result<std::unique_ptr<Table>> table = Table::create();
    assert_true(table.ok());
    const Descriptor small(memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    assert_int_equal(ftruncate(small.get(), 4096), 0);
    const Descriptor grows(memfd_create("grows", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    struct stat whole {};
    assert_int_equal(fstat((*table)->descriptor(), &whole), 0);
    assert_int_equal(ftruncate(grows.get(), whole.st_size), 0); // right size, not sealed
    const Descriptor empty(memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    assert_int_equal(ftruncate(empty.get(), whole.st_size), 0); // sealed, without a table
    assert_int_equal(fcntl(empty.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), 0);
    for (const int memory : {small.get(), grows.get(), empty.get()}) {
        open_door_and_say(next_address(), {}, std::array{memory, memory, memory});
    }
    open_door_and_say(next_address(), {}, std::array{(*table)->descriptor()});
    open_door_and_say(next_address(), {.version = group::Welcome::kVersion + 1},
                      std::array{(*table)->descriptor(), 0, 0});
    open_door_and_say(next_address(), {.kind = group::Kind::kHello},
                      std::array{(*table)->descriptor(), 0, 0});
}

bool join_and_die_at(const engine::Address& address, int call) {
    return run_and_die_at(call, [&] {
        Taken taken;
        Result<std::unique_ptr<Group>> made = Group::join({.local = address});
        if (made && (*made)->start(taken)) {
            made->reset(); // leaves, which has system calls, too
        }
    });
}

TEST(founder__killed_at_each_system_call__the_next_has_the_address) {
    if (cannot_share()) {
        return;
    }
    const int calls = die_everywhere([](int call) {
        const engine::Address address = next_address();
        const bool died = join_and_die_at(address, call);
        const Member next(address);
        return died;
    });
    assert_true(calls > 40);
}

// Each time in a group of its own: the second member is the one that makes a socket.
TEST(second__killed_at_each_system_call__others_join_and_get_their_packets) {
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
        const engine::Address address = next_address();
        const engine::Address further = next_address();
        const Member first(address);
        (void)opened(first, further);
        const bool died = join_and_die_at(address, call);
        const Member next(address);
        const Member after(address);
        for (const Member* const member : {&first, &next, &after}) {
            const std::uint32_t qpn = number_of(*member->group, random);
            stranger.send(packet_to(qpn, 1, stranger.address, address, 0), address);
            stranger.send(packet_to(qpn, 1, stranger.address, further, 0), further);
            if (!arrives(member->group->socket()) || !arrives(opened(*member, further).get())) {
                std::fprintf(stderr, "killed at stop %d: seat %u gets nothing\n", call,
                             member->group->share().which());
                return assert_true(false), false;
            }
        }
        return died;
    });
    assert_true(calls > 40);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
