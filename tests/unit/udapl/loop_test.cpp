// SPDX-License-Identifier: BSD-3-Clause
//
// The timers of the provider's thread.
#include "udapl/provider/loop.hpp"

#include <atomic>
#include <thread>
#include <vector>

#include "tests/cmocka.hpp"

using namespace sluice;
using namespace sluice::dapl;

namespace {

std::shared_ptr<Loop> open_loop() {
    Result<std::shared_ptr<Loop>> loop = Loop::get();
    assert_true(loop.ok());
    return *loop;
}

// Runs once: the loop has called every timer that was due before.
class Barrier final : public Task {
  public:
    explicit Barrier(Loop& loop) : loop_(loop) {}
    ~Barrier() { loop_.cancel(*this); }
    Barrier(const Barrier&) = delete;
    Barrier& operator=(const Barrier&) = delete;
    void pass() {
        has_run_ = false;
        loop_.schedule(*this);
        has_run_.wait(false);
    }

  private:
    void run() noexcept override {
        has_run_ = true;
        has_run_.notify_all();
    }

    Loop& loop_;
    std::atomic<bool> has_run_{false};
};

// Notes its calls, in the order of several.
class Noting final : public Timer {
  public:
    explicit Noting(std::vector<const Timer*>& calls) : calls_(calls) {}
    void await() const { is_called_.wait(false); }

  private:
    void on_time() noexcept override {
        calls_.push_back(this);
        is_called_ = true;
        is_called_.notify_all();
    }

    std::vector<const Timer*>& calls_;
    std::atomic<bool> is_called_{false};
};

TEST(timers__several__called_in_the_order_of_their_times) {
    constexpr std::uint64_t kMillisecond = 1'000'000;
    const std::shared_ptr<Loop> loop = open_loop();
    std::vector<const Timer*> calls; // by the loop's thread, until the last was awaited
    Noting first(calls);
    Noting second(calls);
    Noting third(calls);
    const std::uint64_t now = now_ns();
    loop->wake_at(third, now + 30 * kMillisecond);
    loop->wake_at(first, now + 10 * kMillisecond);
    loop->wake_at(second, now + 20 * kMillisecond);
    third.await();
    assert_true(now_ns() >= now + 30 * kMillisecond);
    Barrier(*loop).pass();
    assert_int_equal(calls.size(), 3);
    assert_ptr_equal(calls[0], &first);
    assert_ptr_equal(calls[1], &second);
}

TEST(timers__set_again__called_at_the_last_time_only) {
    const std::shared_ptr<Loop> loop = open_loop();
    std::vector<const Timer*> calls;
    Noting timer(calls);
    loop->wake_at(timer, now_ns() + kNanosecondsPerSecond * 3600);
    loop->wake_at(timer, now_ns());
    timer.await();
    Barrier(*loop).pass();
    assert_int_equal(calls.size(), 1);
}

TEST(timers__called_off__not_called) {
    const std::shared_ptr<Loop> loop = open_loop();
    std::vector<const Timer*> calls;
    Noting timer(calls);
    Noting later(calls);
    const std::uint64_t soon = now_ns() + kNanosecondsPerSecond / 100;
    loop->wake_at(timer, soon);
    loop->wake_at(later, soon + 1);
    loop->wake_at(timer, kNever);
    later.await();
    Barrier(*loop).pass();
    assert_int_equal(calls.size(), 1);
}

// Sets a time for itself while it is called, as a dispatcher does that looks again and again.
class Again final : public Timer {
  public:
    explicit Again(Loop& loop) : loop_(loop) {}

    std::atomic<bool> is_entered{false};
    std::atomic<bool> may_return{false};
    std::atomic<int> calls{0};

  private:
    void on_time() noexcept override {
        is_entered = true;
        is_entered.notify_all();
        may_return.wait(false);
        ++calls;
        loop_.wake_at(*this, now_ns());
    }

    Loop& loop_;
};

TEST(cancel__timer_that_sets_itself_again__returned_and_over) {
    const std::shared_ptr<Loop> loop = open_loop();
    Again timer(*loop);
    loop->wake_at(timer, now_ns());
    timer.is_entered.wait(false);
    std::thread other([&] {
        timer.may_return = true;
        timer.may_return.notify_all();
    });
    loop->cancel(timer);
    const int calls = timer.calls;
    assert_true(calls >= 1);
    other.join();
    Barrier(*loop).pass();
    assert_int_equal(timer.calls, calls);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
