// SPDX-License-Identifier: BSD-3-Clause
//
// How long ids, events and channels live while others use them, and who waits for whom.
#include <chrono>
#include <thread>

#include "tests/cancelled.hpp"
#include "tests/unit/uroce/connect/service_bench.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::cm;
using namespace sluice::uroce::connect;
using namespace sluice::uroce::connect::test;

namespace {

// Keeps the thread that sends by PORT until it is let go.
class HeldSender {
  public:
    explicit HeldSender(DirectPort& port) : port_(port) {
        port.lose = [this](const OutMad&) {
            sending_ = true;
            while (!released_) {
                std::this_thread::yield();
            }
            return false;
        };
    }
    ~HeldSender() { port_.lose = nullptr; }
    HeldSender(const HeldSender&) = delete;
    HeldSender& operator=(const HeldSender&) = delete;
    void await() const {
        while (!sending_) {
            std::this_thread::yield();
        }
    }
    void let_go() { released_ = true; }

  private:
    DirectPort& port_;
    std::atomic<bool> sending_{false};
    std::atomic<bool> released_{false};
};

// For as long as a thread that doesn't wait would need many times over.
void expect_stays_false(const std::atomic<bool>& done) {
    for (int turns = 0; turns < 2000; ++turns) {
        std::this_thread::yield();
        assert_false(done);
    }
}

TEST(destroy__connected__peer_is_told) {
    Bench bench;
    bench.establish();
    bench.left.destroy_id(*bench.active);
    bench.active = nullptr;
    assert_int_equal(bench.next_right(), SLUICE_CM_DISCONNECTED);
    bench.pass_time();
    assert_int_equal(bench.next_left(), 0);
}

TEST(destroy__listener_with_requests_not_taken__refused) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    bench.right.destroy_id(*bench.listener);
    bench.listener = nullptr;
    assert_int_equal(bench.next_left(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.last.status, SLUICE_CM_STATUS_REFUSED);
    assert_int_equal(bench.next_right(), 0);
    assert_false(readable(*bench.right_channel));
    assert_true(bench.right.destroy_channel(*bench.right_channel).ok());
    bench.right_channel = *bench.right.create_channel();
}

TEST(process_ended__request_of_its__is_over) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    bench.right.process_ended(ipv4(1), Share{});
    assert_int_equal(bench.next_right(), SLUICE_CM_DISCONNECTED);
    assert_false(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
}

// Also what it has never sent anything to.
TEST(process_ended__connected__the_queue_pair_has_no_peer_any_more) {
    Bench bench;
    bench.establish();
    bench.left.process_ended(ipv4(2), Share{});
    bench.left.process_ended(ipv4(2), Share{}); // once is enough
    assert_int_equal(bench.next_left(), SLUICE_CM_DISCONNECTED);
    assert_int_equal(bench.left_port.bereaved.size(), 1);
    const Ends& ends = bench.left_port.bereaved.front();
    assert_true(ends.local == ipv4(1) && ends.remote == ipv4(2));
    assert_int_equal(ends.qpn, 0x100);
    assert_int_equal(ends.peer_qpn, 0x200);
    assert_int_equal(bench.next_left(), 0);
}

// A program that opens the device, closes it and opens it again, as libfabric does, takes the seat of its
// former self, and may ask before its end is looked at.
TEST(process_ended__request_of_the_next_one_in_its_seat__is_accepted) {
    Bench bench;
    bench.right_port.is_seat_taken = true;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    bench.right.process_ended(ipv4(1), Share{});
    assert_int_equal(bench.next_right(), 0);
    assert_true(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_ESTABLISHED);
}

TEST(destroy__event_not_acknowledged__waits_for_it) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_true(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
    sluice_cm_event* event = *event_of(bench.left, *bench.left_channel, 0);
    assert_int_equal(bench.next_right(), SLUICE_CM_ESTABLISHED);
    std::atomic<bool> destroyed{false};
    std::thread destroyer([&] {
        bench.left.destroy_id(*bench.active);
        destroyed = true;
    });
    // The peer hears of the end before the destroyer waits.
    sluice_cm_event* end = *event_of(bench.right, *bench.right_channel, -1);
    assert_int_equal(end->type, SLUICE_CM_DISCONNECTED);
    Service::acknowledge(*end);
    expect_stays_false(destroyed);
    Service::acknowledge(*event);
    destroyer.join();
    bench.active = nullptr;
}

// The peer has ended the connection, and the confirmation is in another thread's hands until it is let go:
// the call that a program makes then, and may end its process after, returns when it is sent.
void expect_waits_for_confirmation(Bench& bench, const std::function<void()>& call) {
    HeldSender held(bench.right_port);
    std::thread network([&] { assert_true(bench.left.disconnect(*bench.active).ok()); });
    held.await();
    std::atomic<bool> returned{false};
    std::thread program([&] {
        call();
        returned = true;
    });
    expect_stays_false(returned);
    held.let_go();
    network.join();
    program.join();
}

TEST(destroy__confirmation_on_its_way__waits_until_it_is_sent) {
    Bench bench;
    bench.establish();
    expect_waits_for_confirmation(bench, [&] { bench.right.destroy_id(*bench.passive); });
    bench.passive = nullptr;
}

TEST(get_event__confirmation_on_its_way__waits_until_it_is_sent) {
    Bench bench;
    bench.establish();
    expect_waits_for_confirmation(bench,
                                  [&] { assert_int_equal(bench.next_right(), SLUICE_CM_DISCONNECTED); });
}

// The other thread may take ours from the manager, too; who ends the process after the call shall have sent
// it.
TEST(reject__another_thread_sends__returns_when_all_has_left) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    HeldSender held(bench.right_port);
    Id* const other = *bench.left.create_id(*bench.left_channel, SLUICE_CM_TCP, nullptr);
    PaperQp other_qp{0x300};
    std::thread network([&] { // is refused: nobody listens there
        assert_true(bench.left.connect(*other, plain(at(2, kPort + 1)), Bench::params(&other_qp)).ok());
    });
    held.await();
    std::atomic<bool> rejected{false};
    std::thread rejecter([&] {
        assert_true(bench.right.reject(*bench.passive, reason::kConsumer, {}).ok());
        rejected = true;
    });
    expect_stays_false(rejected);
    held.let_go();
    rejecter.join();
    network.join();
    assert_int_equal(bench.next_left(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.next_left(), SLUICE_CM_REJECTED);
    bench.left.destroy_id(*other);
}

TEST(get_event__thread_cancelled__event_is_the_next_ones) {
    Bench bench;
    sluice_cm_event* event = nullptr;
    const auto wait = [&] { (void)bench.left.get_event(*bench.left_channel, -1, event); };
    assert_true(sluice::test::is_cancelled_in(wait));
    assert_true(sluice::test::is_cancelled_asleep_in(wait));
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_true(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
    assert_int_equal(bench.left.get_event(*bench.left_channel, -1, event), 0);
    assert_int_equal(event->type, SLUICE_CM_ESTABLISHED);
    Service::acknowledge(*event);
}

TEST(get_event__nothing_there__waits_as_long_as_told) {
    Bench bench;
    const auto before = std::chrono::steady_clock::now();
    assert_int_equal(event_of(bench.left, *bench.left_channel, 20).error().os_errno(), EAGAIN);
    assert_true(std::chrono::steady_clock::now() - before >= std::chrono::milliseconds(20));
    std::thread connector([&] { assert_true(bench.connect(Bench::params(&bench.left_qp), kPort + 1).ok()); });
    sluice_cm_event* event = *event_of(bench.left, *bench.left_channel, -1);
    connector.join();
    assert_int_equal(event->type, SLUICE_CM_REJECTED);
    Service::acknowledge(*event);
}

TEST(migrate__event_waits__comes_along) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp), kPort + 1).ok());
    Channel* other = *bench.left.create_channel();
    assert_int_equal(bench.left.migrate(*bench.active, *bench.right_channel).error().to_errno(), EINVAL);
    assert_true(bench.left.migrate(*bench.active, *other).ok());
    assert_false(readable(*bench.left_channel));
    assert_int_equal(bench.next_left(), 0);
    assert_int_equal(bench.next(bench.left, *other), SLUICE_CM_REJECTED);
    assert_int_equal(bench.left.destroy_channel(*other).error().to_errno(), EBUSY);
    assert_true(bench.left.migrate(*bench.active, *bench.left_channel).ok());
    assert_true(bench.left.destroy_channel(*other).ok());
}

TEST(migrate__listener_with_requests__they_come_along) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    Channel* other = *bench.right.create_channel();
    assert_true(bench.right.migrate(*bench.listener, *other).ok());
    assert_int_equal(bench.next_right(), 0);
    assert_int_equal(bench.next(bench.right, *other), SLUICE_CM_CONNECT_REQUEST);
    bench.right.destroy_id(*reinterpret_cast<Id*>(bench.last.id));
    assert_true(bench.right.migrate(*bench.listener, *bench.right_channel).ok());
    assert_true(bench.right.destroy_channel(*other).ok());
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.connect.service_lifetime");
}
