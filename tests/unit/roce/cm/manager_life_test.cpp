// SPDX-License-Identifier: BSD-3-Clause
//
// Established connections whose peers are asked whether they still have them.
#include <tuple>

#include "tests/unit/roce/cm/manager_bench.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::cm;
using namespace sluice::roce::cm::test;

namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr std::uint16_t kQuestion = wire::CmLap::kAttributeId;

bool has_ended(const std::vector<Event>& events) {
    return std::ranges::find(events, EventType::kDisconnected, &Event::type) != events.end();
}

// Up, and both sides ask each second.
struct Watched : Bench {
    explicit Watched(bool is_near = false, const Timing& its_timing = kFastTiming)
        : Bench({}, {.keepalive = kSecond}) {
        timing = its_timing;
        if (is_near) {
            net.left.where = sluice::roce::test::loopback(1);
            net.right.where = sluice::roce::test::loopback(2);
        }
        std::tie(active, passive) = establish();
    }
    void run_for(Nanoseconds time) {
        const Nanoseconds end = net.now + time;
        while (net.next() <= end) {
            assert_true(net.step());
            show();
        }
        net.now = end;
    }
    // What SIGHT says of each that doesn't answer.
    void show() {
        for (Node* const node : {&net.left, &net.right}) {
            ConnectionManager::Doubtful doubtful;
            while (node->manager.next_doubtful(doubtful)) {
                assert_true(doubtful.ends.local == node->where);
                assert_true(doubtful.ends.remote == net.other(*node).where);
                ++doubts;
                node->manager.peer_seen(doubtful.id, sight, net.now);
            }
        }
        net.settle();
    }
    Ends ends() const {
        return {.local = net.left.where, .qpn = kLeftQpn, .remote = net.right.where, .peer_qpn = kRightQpn};
    }
    // By the process that has the right side's numbers.
    void deny(const Ends& what) {
        net.left.manager.peer_denies(what, net.now);
        net.settle();
    }
    bool is_up() const { return left.size() == 1 && right.size() == 2; }
    std::size_t questions() const { return count(sent_left, kQuestion); }

    ConnectionId active = ConnectionId::kNone, passive = ConnectionId::kNone;
    Sight sight = Sight::kSilent;
    int doubts = 0;
};

TEST(peer__answers__asked_as_often_as_was_said_and_the_connection_stays) {
    Watched bench;
    bench.run_for(10 * kSecond + kSecond / 2);
    assert_int_equal(bench.questions(), 10);
    assert_int_equal(bench.count(bench.sent_right, kQuestion), 10);
    assert_true(bench.is_up());
    assert_int_equal(bench.doubts, 0);
}

TEST(peer__without_a_time_or_on_loopback__isnt_asked) {
    Bench without;
    (void)without.establish();
    assert_true(without.net.next() == kNever);
    Bench near({}, {.keepalive = kSecond});
    near.net.left.where = sluice::roce::test::loopback(1);
    near.net.right.where = sluice::roce::test::loopback(2);
    (void)near.establish();
    assert_true(near.net.run());
    assert_int_equal(near.count(near.sent_left, kQuestion), 0);
}

// A process was killed, and another one at its address answers.
TEST(peer__has_no_such_connection__disconnected) {
    Watched bench;
    bench.swallow = wire::CmDreq::kAttributeId;
    bench.net.right.manager.destroy(bench.passive, bench.net.now);
    bench.run_for(5 * kSecond); // until the other side has given up saying it
    assert_true(has_ended(bench.left));
    assert_int_equal(bench.left[1].reason, reason::kProcessEnded);
    assert_true(bench.net.run());
    bench.net.left.manager.destroy(bench.active, bench.net.now);
    assert_int_equal(bench.net.left.manager.live(), 0);
}

TEST(peer__silent_and_its_port_refused_twice__disconnected_within_three_seconds) {
    Watched bench;
    bench.swallow = kQuestion;
    bench.sight = Sight::kRefused;
    bench.run_for(3 * kSecond);
    assert_true(has_ended(bench.left));
    assert_true(has_ended(bench.right));
}

// An answer that nobody here asked for is easily made.
TEST(port__refused_while_the_peer_answers__nothing_happens) {
    Watched bench;
    for (int i = 0; i < 20; ++i) {
        bench.swallow = kQuestion;
        ConnectionManager::Doubtful doubtful;
        while (!bench.net.left.manager.next_doubtful(doubtful)) {
            assert_true(bench.net.step());
        }
        bench.net.left.manager.peer_seen(doubtful.id, Sight::kRefused, bench.net.now);
        bench.swallow = 0; // the next question is answered
        const std::size_t answers = bench.count(bench.sent_right, wire::CmApr::kAttributeId);
        while (bench.count(bench.sent_right, wire::CmApr::kAttributeId) == answers) {
            assert_true(bench.net.step());
        }
        bench.net.run_until(bench.net.now + kSecond / 10);
    }
    assert_int_equal(bench.left.size(), 1);
}

TEST(peer__silent_for_half_a_minute_after_an_answer__disconnected) {
    Watched bench;
    bench.run_for(2 * kSecond);
    bench.swallow = kQuestion;
    bench.run_for(29 * kSecond);
    assert_true(bench.is_up());
    bench.run_for(4 * kSecond);
    assert_true(has_ended(bench.left));
}

// As the kernel's, which doesn't know that question on RoCE.
TEST(peer__has_never_answered__asked_rarely_and_the_connection_stays) {
    Watched bench;
    bench.swallow = kQuestion;
    bench.run_for(600 * kSecond);
    assert_true(bench.is_up());
    assert_in_range(bench.questions(), 150, 200); // four in each fourteen seconds
}

TEST(peer__is_on_this_machine_and_stopped__the_connection_stays) {
    Watched bench;
    bench.run_for(2 * kSecond);
    bench.swallow = kQuestion;
    bench.sight = Sight::kHere;
    bench.run_for(300 * kSecond);
    assert_true(bench.is_up());
    bench.sight = Sight::kGone;
    bench.run_for(2 * kSecond);
    assert_true(has_ended(bench.left));
}

// On loopback, where nobody is asked otherwise.
struct Near : Watched {
    Near() : Watched(true) {
        sight = Sight::kHere; // a process lives there, whichever
    }
    void replace() { net.left.manager.process_replaced(net.right.where, Share{}, net.now); }
};

TEST(process__replaced_and_the_peer_has_the_connection__asked_once_and_it_stays) {
    Near bench;
    bench.replace();
    bench.run_for(10 * kSecond);
    assert_int_equal(bench.questions(), 1);
    assert_false(has_ended(bench.left));
}

TEST(process__replaced_by_one_that_has_no_such_connection__disconnected_at_once) {
    Near bench;
    bench.swallow = wire::CmDreq::kAttributeId;
    bench.net.right.manager.destroy(bench.passive, bench.net.now);
    bench.run_for(5 * kSecond); // until the other side has given up saying it
    assert_false(has_ended(bench.left));
    bench.replace();
    bench.run_for(kSecond / 10);
    assert_true(has_ended(bench.left));
}

// The new process speaks no rdma_cm yet; its device knows what it has no connection with.
TEST(process__replaced_by_one_that_doesnt_answer__asked_until_it_denies) {
    Near bench;
    bench.swallow = kQuestion;
    bench.replace();
    bench.run_for(5 * kSecond);
    assert_true(bench.doubts >= 4);
    Ends former = bench.ends();
    ++former.peer_qpn;
    bench.deny(former);
    former = bench.ends();
    former.remote = ipv4(3);
    bench.deny(former);
    bench.run_for(kSecond / 10);
    assert_false(has_ended(bench.left));
    bench.deny(bench.ends());
    bench.run_for(kSecond / 10);
    assert_true(has_ended(bench.left));
}

TEST(peer__denies_what_nobody_doubts__nothing_happens) {
    Watched bench;
    bench.deny(bench.ends());
    bench.run_for(kSecond / 10);
    assert_true(bench.is_up());
}

TEST(answer__to_no_question_or_from_elsewhere__counted_and_nothing_happens) {
    Watched bench;
    bench.swallow = kQuestion;
    bench.run_for(kSecond + kSecond / 10);
    const auto lap = message_of<wire::CmLap>(bench.last(bench.sent_left, kQuestion));
    const Mad question = bench.last(bench.sent_left, kQuestion);
    const auto tid =
        wire::decode<wire::MadHeader>(std::span(question).first<wire::MadHeader::kBytes>()).transaction_id;
    wire::CmApr no;
    no.local_comm_id = lap.remote_comm_id;
    no.remote_comm_id = lap.local_comm_id;
    no.status = 1;
    bench.give_left(to_mad(tid + 1, no));
    bench.give_left(to_mad(tid, no), ipv4(3));
    wire::CmApr other = no;
    ++other.local_comm_id;
    bench.give_left(to_mad(tid, other));
    assert_int_equal(bench.net.left.manager.counters().dropped_unknown, 3);
    assert_true(bench.is_up());
    bench.give_left(to_mad(tid, no));
    assert_true(has_ended(bench.left));
}

// The left side ends the connection, and hears nothing.
struct Ending : Watched {
    explicit Ending(Sight what_is_seen, bool is_near = false, const Timing& its_timing = {})
        : Watched(is_near, its_timing) {
        swallow = wire::CmDreq::kAttributeId;
        sight = what_is_seen;
        assert_true(net.left.manager.disconnect(active, net.now).ok());
    }
    std::size_t requests() const { return count(sent_left, wire::CmDreq::kAttributeId); }
};

TEST(end__asked_of_a_process_that_has_ended__disconnected_at_once) {
    for (const bool is_near : {false, true}) {
        Ending bench(Sight::kGone, is_near);
        bench.run_for(kSecond / 2);
        assert_true(has_ended(bench.left));
        assert_int_equal(bench.left[1].reason, reason::kProcessEnded);
        assert_int_equal(bench.requests(), 1);
        assert_int_equal(bench.doubts, 1);
    }
}

TEST(end__asked_at_a_port_that_is_refused_twice__disconnected_before_it_is_asked_again) {
    Ending bench(Sight::kRefused);
    bench.run_for(kSecond);
    assert_false(has_ended(bench.left));
    bench.run_for(kSecond);
    assert_true(has_ended(bench.left));
    assert_int_equal(bench.requests(), 1);
}

// A look may find a process that speaks no rdma_cm; its device is asked, and answers.
TEST(end__denied_at_three_looks__asked_again_and_disconnected) {
    Ending bench(Sight::kHere, true, Timing{});
    bench.deny(bench.ends()); // to a question from before
    for (int look = 1; look <= 2; ++look) {
        bench.run_for(look == 1 ? kSecond / 2 : kSecond);
        assert_int_equal(bench.doubts, look);
        assert_int_equal(bench.requests(), look);
        bench.deny(bench.ends());
        bench.deny(bench.ends());
        bench.run_for(kSecond / 10);
        assert_int_equal(bench.requests(), look + 1);
        assert_false(has_ended(bench.left));
    }
    bench.run_for(kSecond);
    bench.deny(bench.ends());
    assert_true(has_ended(bench.left));
    assert_int_equal(bench.left[1].reason, reason::kProcessEnded);
    assert_int_equal(bench.requests(), 3);
}

TEST(end__that_is_asked_for_once__denied__not_asked_again) {
    Ending bench(Sight::kHere, true, {.max_retries = 0});
    bench.run_for(kSecond / 2);
    bench.deny(bench.ends());
    bench.run_for(kSecond / 2);
    assert_int_equal(bench.requests(), 1);
    assert_false(has_ended(bench.left));
}

// Its queue pair has failed, and the first request was lost.
TEST(end__denied_by_a_peer_that_lives__it_hears_of_the_end) {
    Ending bench(Sight::kHere, true, Timing{});
    bench.run_for(kSecond / 2);
    bench.swallow = 0;
    bench.deny(bench.ends());
    bench.run_for(kSecond / 2);
    assert_true(has_ended(bench.left));
    assert_true(has_ended(bench.right));
    assert_int_equal(bench.requests(), 2);
}

// One that is refused while the request is repeated often is no other one.
TEST(end__asked_where_answers_come_fast__ports_are_looked_at_as_rarely) {
    Ending bench(Sight::kRefused, false, {.response_timeout = 16, .packet_lifetime = 10}); // 0.27 s
    bench.run_for(kSecond + kSecond / 10);
    assert_int_equal(bench.doubts, 1);
    assert_in_range(bench.requests(), 2, 10);
    bench.run_for(kSecond);
    assert_true(has_ended(bench.left));
}

// As often as the connection's timing says, looked for or not.
TEST(end__asked_of_a_process_that_is_stopped__asked_again_until_the_last) {
    for (const Sight sight : {Sight::kHere, Sight::kSilent}) {
        Ending bench(sight);
        bench.run_for(15 * (6 * kSecond + kSecond / 2));
        assert_false(has_ended(bench.left));
        assert_in_range(bench.requests(), 15, 16);
        bench.run_for(15 * kSecond);
        assert_true(has_ended(bench.left));
        assert_int_equal(bench.left[1].reason, reason::kTimeout);
        assert_int_equal(bench.requests(), 1 + Timing{}.max_retries);
    }
}

// When it last answered says nothing of a peer that isn't asked any more.
TEST(end__asked_of_a_peer_that_answered_long_ago__asked_again) {
    Watched bench(true, Timing{});
    bench.net.left.manager.process_replaced(bench.net.right.where, Share{}, bench.net.now);
    bench.run_for(60 * kSecond);
    assert_int_equal(bench.questions(), 1);
    bench.swallow = wire::CmDreq::kAttributeId;
    assert_true(bench.net.left.manager.disconnect(bench.active, bench.net.now).ok());
    bench.run_for(2 * kSecond);
    assert_int_equal(bench.doubts, 2);
    assert_false(has_ended(bench.left));
    bench.swallow = 0;
    bench.run_for(5 * kSecond);
    assert_true(has_ended(bench.left));
    assert_true(has_ended(bench.right));
}

TEST(end__asked_where_answers_come_fast__looked_for_between_two_requests) {
    Ending bench(Sight::kGone, true, kFastTiming);
    bench.run_for(kSecond / 100);
    assert_true(has_ended(bench.left));
    assert_int_equal(bench.requests(), 1);
}

// What is seen too late changes nothing.
TEST(end__confirmed_before_it_is_looked_at__one_event) {
    Ending bench(Sight::kGone);
    ConnectionManager::Doubtful doubtful;
    while (!bench.net.left.manager.next_doubtful(doubtful)) {
        assert_true(bench.net.step());
    }
    bench.swallow = 0;
    while (!has_ended(bench.left)) {
        assert_true(bench.net.step());
    }
    bench.net.left.manager.peer_seen(doubtful.id, Sight::kGone, bench.net.now);
    assert_true(bench.net.run());
    assert_int_equal(std::ranges::count(bench.left, EventType::kDisconnected, &Event::type), 1);
}

TEST(end__of_an_id_that_is_destroyed__nothing_is_left_of_a_process_that_has_ended) {
    Watched bench(true, Timing{});
    bench.swallow = wire::CmDreq::kAttributeId;
    bench.sight = Sight::kGone;
    bench.net.left.manager.destroy(bench.active, bench.net.now);
    bench.run_for(4 * kSecond); // time-wait takes two packets' lives
    assert_int_equal(bench.net.left.manager.live(), 0);
}

// The last message of the handshake was lost: the peer has the connection all the same.
TEST(peer__that_waits_for_the_end_of_the_handshake__has_the_connection) {
    Bench bench({}, {.keepalive = kSecond});
    ConnectParams params = bench.request();
    params.timing.response_timeout = 20; // says its answer again after four seconds
    const ConnectionId active = *bench.net.left.manager.connect(params, bench.net.now);
    const ConnectionId passive = bench.wait(bench.right).id;
    assert_true(bench.net.right.manager.accept(passive, Bench::acceptance(), bench.net.now).ok());
    bench.wait(bench.left);
    bench.swallow = wire::CmRtu::kAttributeId;
    assert_true(bench.net.left.manager.ready(active).ok());
    bench.net.run_until(bench.net.now + 2 * kSecond + kSecond / 2);
    bench.swallow = 0;
    assert_int_equal(bench.count(bench.sent_left, kQuestion), 2);
    assert_true(bench.wait(bench.right).type == EventType::kEstablished);
    assert_int_equal(bench.left.size(), 1);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
