// SPDX-License-Identifier: BSD-3-Clause
//
// Event dispatchers of our provider, with software events.
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <thread>

#include "tests/cancelled.hpp"
#include "tests/unit/udapl/dapl.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr DAT_RETURN kBadState = DAT_CLASS_ERROR | DAT_INVALID_STATE;
constexpr DAT_TIMEOUT kShort = 1000;

// A thread in dat_evd_wait(). It is there for sure when a dequeue is refused.
class Waiter {
  public:
    Waiter(DAT_EVD_HANDLE evd, DAT_COUNT threshold)
        : thread_([this, evd, threshold] {
              status = dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, threshold, &event, &left);
          }) {
        DAT_EVENT none{};
        while (dat_evd_dequeue(evd, &none) != (kBadState | DAT_INVALID_STATE_EVD_WAITER)) {
            std::this_thread::yield();
        }
    }
    void join() { thread_.join(); }
    std::thread& thread() { return thread_; }

    DAT_RETURN status = DAT_SUCCESS;
    DAT_EVENT event{};
    DAT_COUNT left = -1;

  private:
    std::thread thread_; // the last: it uses the others
};

TEST(evd_create__queried__as_asked) {
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd(5);
    DAT_EVD_PARAM param{};
    assert_int_equal(dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param), DAT_SUCCESS);
    assert_ptr_equal(param.ia_handle, opened.ia);
    assert_true(param.evd_qlen >= 5);
    assert_int_equal(param.evd_flags, DAT_EVD_SOFTWARE_FLAG);
    assert_int_equal(param.evd_state,
                     DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_WAITABLE | DAT_EVD_STATE_CONFIG_THRESHOLD);
    assert_null(param.cno_handle);
}

TEST(evd_create__wrong_arguments__the_code_of_each) {
    const Opened opened;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    const auto create = [&](DAT_COUNT length, int flags) {
        return dat_evd_create(opened.ia, length, DAT_HANDLE_NULL, static_cast<DAT_EVD_FLAGS>(flags), &evd);
    };
    assert_int_equal(create(0, DAT_EVD_DTO_FLAG), coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    assert_int_equal(create(-1, DAT_EVD_DTO_FLAG), coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    assert_int_equal(create(0x7fffffff, DAT_EVD_DTO_FLAG),
                     coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD));
    assert_int_equal(create(4, 0), coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4));
    assert_int_equal(create(4, DAT_EVD_DEFAULT_FLAG), coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4));
    assert_int_equal(create(4, 0x2), coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4));
    assert_null(evd);
}

TEST(dequeue__events_posted__in_order_then_empty) {
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd();
    for (std::uintptr_t round = 0; round < 3; ++round) { // around the ring's end, too
        assert_int_equal(post(evd, round), DAT_SUCCESS);
        assert_int_equal(post(evd, round + 100), DAT_SUCCESS);
        assert_int_equal(post(evd, round + 200), DAT_SUCCESS);
        must_dequeue(evd, round);
        must_dequeue(evd, round + 100);
        must_dequeue(evd, round + 200);
    }
    DAT_EVENT event{};
    assert_int_equal(dat_evd_dequeue(evd, &event), coded(DAT_QUEUE_EMPTY));
}

TEST(post_se__full__queue_full_and_nothing_lost) {
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd(2);
    assert_int_equal(post(evd, 1), DAT_SUCCESS);
    assert_int_equal(post(evd, 2), DAT_SUCCESS);
    assert_int_equal(post(evd, 3), coded(DAT_QUEUE_FULL));
    must_dequeue(evd, 1);
    must_dequeue(evd, 2);
    DAT_EVENT event{};
    assert_int_equal(dat_evd_dequeue(opened.async_evd, &event), coded(DAT_QUEUE_EMPTY));
}

TEST(post_se__not_a_software_event_or_stream__argument) {
    const Opened opened;
    DAT_EVENT event{};
    event.event_number = DAT_DTO_COMPLETION_EVENT;
    assert_int_equal(dat_evd_post_se(opened.make_evd(), &event),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    assert_int_equal(post(opened.make_evd(4, DAT_EVD_CR_FLAG), 1),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
}

TEST(wait__event_there__taken_and_rest_counted) {
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd();
    assert_int_equal(post(evd, 7), DAT_SUCCESS);
    assert_int_equal(post(evd, 8), DAT_SUCCESS);
    DAT_EVENT event{};
    DAT_COUNT left = -1;
    assert_int_equal(dat_evd_wait(evd, 0, 1, &event, &left), DAT_SUCCESS);
    must_be(event, evd, 7);
    assert_int_equal(left, 1);
}

TEST(wait__too_few_in_time__timeout_and_nothing_taken) {
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd();
    assert_int_equal(post(evd, 7), DAT_SUCCESS);
    DAT_EVENT event{};
    DAT_COUNT left = -1;
    assert_int_equal(dat_evd_wait(evd, kShort, 2, &event, &left), coded(DAT_TIMEOUT_EXPIRED));
    assert_int_equal(left, 1);
    must_dequeue(evd, 7);
}

TEST(wait__threshold_out_of_range__argument_3) {
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd(4);
    DAT_EVENT event{};
    DAT_COUNT left = -1;
    for (const DAT_COUNT threshold : {-1, 0, 5}) {
        assert_int_equal(dat_evd_wait(evd, 0, threshold, &event, &left),
                         coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    }
}

TEST(wait__other_thread_posts__wakes_at_the_threshold) {
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd();
    Waiter waiter(evd, 3);
    for (std::uintptr_t number = 1; number <= 3; ++number) {
        assert_int_equal(waiter.left, -1);
        assert_int_equal(post(evd, number), DAT_SUCCESS);
    }
    waiter.join();
    assert_int_equal(waiter.status, DAT_SUCCESS);
    must_be(waiter.event, evd, 1);
    assert_int_equal(waiter.left, 2);
}

TEST(wait__somebody_waits__it_has_the_dispatcher_for_itself) {
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd();
    Waiter waiter(evd, 1);
    DAT_EVENT event{};
    DAT_COUNT left = -1;
    constexpr DAT_RETURN kWaiter = kBadState | DAT_INVALID_STATE_EVD_WAITER;
    assert_int_equal(dat_evd_wait(evd, 0, 1, &event, &left), kWaiter);
    assert_int_equal(dat_evd_resize(evd, 8), kWaiter);
    assert_int_equal(dat_evd_free(evd), kWaiter);
    assert_int_equal(post(evd, 1), DAT_SUCCESS);
    waiter.join();
    assert_int_equal(waiter.status, DAT_SUCCESS);
}

TEST(set_unwaitable__somebody_waits__ends_that_and_later_ones) {
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd();
    Waiter waiter(evd, 1);
    assert_int_equal(dat_evd_set_unwaitable(evd), DAT_SUCCESS);
    waiter.join();
    constexpr DAT_RETURN kUnwaitable = kBadState | DAT_INVALID_STATE_EVD_UNWAITABLE;
    assert_int_equal(waiter.status, kUnwaitable);
    assert_int_equal(post(evd, 5), DAT_SUCCESS); // events still queue
    assert_int_equal(dat_evd_wait(evd, 0, 1, &waiter.event, &waiter.left), kUnwaitable);
    assert_int_equal(dat_evd_clear_unwaitable(evd), DAT_SUCCESS);
    assert_int_equal(dat_evd_wait(evd, 0, 1, &waiter.event, &waiter.left), DAT_SUCCESS);
    must_be(waiter.event, evd, 5);
}

// Keeps a thread where it is, in a handler of SIGUSR1.
struct Keeper {
    static inline std::atomic<bool> is_kept{false};
    static inline std::atomic<bool> may_go{false};

    explicit Keeper(std::thread& thread) {
        struct sigaction action {};
        action.sa_handler = [](int) {
            is_kept = true;
            while (!may_go) {
                std::this_thread::yield();
            }
        };
        is_kept = may_go = false;
        assert_int_equal(sigaction(SIGUSR1, &action, nullptr), 0);
        while (!is_kept) { // the thread sanitizer keeps one that comes just before ppoll() until that returns
            pthread_kill(thread.native_handle(), SIGUSR1);
            std::this_thread::yield();
        }
    }
    ~Keeper() { may_go = true; }
    Keeper(const Keeper&) = delete;
    Keeper& operator=(const Keeper&) = delete;
};

TEST(set_unwaitable__waiter_has_not_run_since__later_events_are_the_cnos) {
    const Opened opened;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    assert_int_equal(dat_cno_create(opened.ia, {nullptr, nullptr}, &cno), DAT_SUCCESS);
    const DAT_EVD_HANDLE evd = opened.make_evd();
    assert_int_equal(dat_evd_modify_cno(evd, cno), DAT_SUCCESS);
    Waiter waiter(evd, 1);
    DAT_EVD_HANDLE hint = DAT_HANDLE_NULL;
    {
        const Keeper keeper(waiter.thread());
        assert_int_equal(dat_evd_set_unwaitable(evd), DAT_SUCCESS);
        assert_int_equal(post(evd, 1), DAT_SUCCESS);
        assert_int_equal(dat_cno_wait(cno, 0, &hint), DAT_SUCCESS);
        assert_ptr_equal(hint, evd);
        assert_int_equal(dat_evd_clear_unwaitable(evd), DAT_SUCCESS); // too late for who waited before
    }
    waiter.join();
    assert_int_equal(waiter.status, kBadState | DAT_INVALID_STATE_EVD_UNWAITABLE);
    must_dequeue(evd, 1);
}

TEST(wait__signal__interrupted) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    assert_int_equal(sigaction(SIGUSR1, &action, nullptr), 0);
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd();
    std::atomic<bool> is_over{false};
    DAT_RETURN status = DAT_SUCCESS;
    std::thread thread([&] {
        DAT_EVENT event{};
        DAT_COUNT left = 0;
        status = dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &left);
        is_over = true;
    });
    while (!is_over) { // one that comes before the thread sleeps is lost on it
        pthread_kill(thread.native_handle(), SIGUSR1);
        std::this_thread::yield();
    }
    thread.join();
    assert_int_equal(status, coded(DAT_INTERRUPTED_CALL, DAT_SUB_INTERRUPTED));
}

TEST(wait__thread_cancelled__event_is_the_next_waiters) {
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd();
    DAT_EVENT event{};
    DAT_COUNT left = 0;
    const auto wait = [&] { (void)dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &left); };
    assert_true(sluice::test::is_cancelled_in(wait));
    assert_true(sluice::test::is_cancelled_asleep_in(wait));
    Waiter waiter(evd, 1);
    assert_int_equal(post(evd, 5), DAT_SUCCESS);
    waiter.join();
    assert_int_equal(waiter.status, DAT_SUCCESS);
    must_be(waiter.event, evd, 5);
}

TEST(wait__thread_cancelled_and_event_there__taken) {
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd();
    assert_int_equal(post(evd, 5), DAT_SUCCESS);
    DAT_RETURN status = DAT_INTERNAL_ERROR;
    DAT_EVENT event{};
    assert_false(sluice::test::is_cancelled_in([&] {
        DAT_COUNT left = 0;
        status = dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &left);
    }));
    assert_int_equal(status, DAT_SUCCESS);
    must_be(event, evd, 5);
}

// None of them is a place where a thread is cancelled.
TEST(calls_that_dont_wait__thread_cancelled__done) {
    assert_false(sluice::test::is_cancelled_in([] {
        const Opened opened;
        const DAT_EVD_HANDLE evd = opened.make_evd();
        assert_int_equal(post(evd, 5), DAT_SUCCESS);
        must_dequeue(evd, 5);
        assert_int_equal(dat_evd_resize(evd, 64), DAT_SUCCESS);
        assert_int_equal(dat_evd_free(evd), DAT_SUCCESS);
    }));
}

TEST(ia_close__somebody_waits__aborted) {
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    std::string name = own_device();
    assert_int_equal(dat_ia_open(name.data(), 8, &async_evd, &ia), DAT_SUCCESS);
    Waiter waiter(async_evd, 1);
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    waiter.join();
    assert_int_equal(waiter.status, coded(DAT_ABORT));
    assert_int_equal(dat_evd_free(async_evd), coded(DAT_INVALID_HANDLE));
}

TEST(resize__events_queued__kept_or_refused) {
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd(4);
    assert_int_equal(post(evd, 0), DAT_SUCCESS);
    must_dequeue(evd, 0);
    for (std::uintptr_t number = 1; number <= 4; ++number) {
        assert_int_equal(post(evd, number), DAT_SUCCESS);
    }
    assert_int_equal(dat_evd_resize(evd, 3), kBadState | DAT_INVALID_STATE_EVD_IN_USE);
    assert_int_equal(dat_evd_resize(evd, 0), coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    assert_int_equal(dat_evd_resize(evd, 5), DAT_SUCCESS);
    assert_int_equal(post(evd, 5), DAT_SUCCESS);
    assert_int_equal(post(evd, 6), coded(DAT_QUEUE_FULL));
    for (std::uintptr_t number = 1; number <= 5; ++number) {
        must_dequeue(evd, number);
    }
}

TEST(disable__waits_and_events__no_difference) {
    const Opened opened;
    const DAT_EVD_HANDLE evd = opened.make_evd();
    assert_int_equal(dat_evd_disable(evd), DAT_SUCCESS);
    DAT_EVD_PARAM param{};
    assert_int_equal(dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param), DAT_SUCCESS);
    assert_int_equal(param.evd_state & (DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_DISABLED),
                     DAT_EVD_STATE_DISABLED);
    assert_int_equal(post(evd, 9), DAT_SUCCESS);
    must_dequeue(evd, 9);
    assert_int_equal(dat_evd_enable(evd), DAT_SUCCESS);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
