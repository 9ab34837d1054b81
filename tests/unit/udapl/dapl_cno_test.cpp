// SPDX-License-Identifier: BSD-3-Clause
//
// Consumer notification objects of our provider: hints, waiters, agents, and what ends them.
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "tests/cancelled.hpp"
#include "tests/unit/udapl/dapl_pair.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr DAT_OS_WAIT_PROXY_AGENT kNoAgent{nullptr, nullptr};
constexpr DAT_RETURN kInUse = coded(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_IN_USE);

DAT_CNO_HANDLE make_cno(const Opened& opened, DAT_OS_WAIT_PROXY_AGENT agent = kNoAgent) {
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    assert_int_equal(dat_cno_create(opened.ia, agent, &cno), DAT_SUCCESS);
    return cno;
}

DAT_EVD_HANDLE make_evd(const Opened& opened, DAT_CNO_HANDLE cno, int flags = DAT_EVD_SOFTWARE_FLAG) {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    assert_int_equal(dat_evd_create(opened.ia, 16, cno, static_cast<DAT_EVD_FLAGS>(flags), &evd),
                     DAT_SUCCESS);
    return evd;
}

DAT_EVD_HANDLE hint(DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout = kLong) {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    assert_int_equal(dat_cno_wait(cno, timeout, &evd), DAT_SUCCESS);
    return evd;
}

void must_be_quiet(DAT_CNO_HANDLE cno) {
    DAT_EVD_HANDLE evd = cno;
    assert_int_equal(dat_cno_wait(cno, 0, &evd), coded(DAT_QUEUE_EMPTY));
    assert_null(evd);
}

// A thread in dat_cno_wait(), or on its way there.
class Waiter {
  public:
    explicit Waiter(DAT_CNO_HANDLE cno)
        : thread_([this, cno] {
              is_begun = true;
              status = dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &evd);
              is_over = true;
          }) {}
    void join() { thread_.join(); }

    DAT_RETURN status = DAT_SUCCESS;
    DAT_EVD_HANDLE evd = this;
    std::atomic<bool> is_begun{false};
    std::atomic<bool> is_over{false};

  private:
    std::thread thread_; // the last: it uses the others
};

// Counts its calls, and remembers the last dispatcher.
struct Counter {
    static void call(DAT_PVOID self, DAT_EVD_HANDLE evd) {
        auto& counter = *static_cast<Counter*>(self);
        counter.is_entered = true;
        counter.is_entered.notify_all();
        counter.may_return.wait(false);
        counter.last = evd;
        counter.calls.fetch_add(1);
        counter.calls.notify_all();
    }
    DAT_OS_WAIT_PROXY_AGENT agent() { return {this, call}; }
    void await(int wanted) const {
        for (int now = calls; now < wanted; now = calls) {
            calls.wait(now);
        }
        assert_int_equal(calls, wanted);
    }

    std::atomic<bool> is_entered{false};
    std::atomic<bool> may_return{true};
    std::atomic<int> calls{0};
    std::atomic<DAT_EVD_HANDLE> last{nullptr};
};

TEST(cno__created_and_queried__as_asked) {
    const Opened opened;
    Counter counter;
    const DAT_CNO_HANDLE cno = make_cno(opened, counter.agent());
    DAT_CNO_PARAM param{};
    assert_int_equal(dat_cno_query(cno, DAT_CNO_FIELD_ALL, &param), DAT_SUCCESS);
    assert_ptr_equal(param.ia_handle, opened.ia);
    assert_ptr_equal(param.agent.instance_data, &counter);
    assert_true(param.agent.proxy_agent_func == Counter::call);
    assert_int_equal(dat_cno_modify_agent(cno, kNoAgent), DAT_SUCCESS);
    assert_int_equal(dat_cno_query(cno, DAT_CNO_FIELD_AGENT, &param), DAT_SUCCESS);
    assert_null(param.agent.instance_data);
    DAT_HANDLE_TYPE type{};
    assert_int_equal(dat_get_handle_type(cno, &type), DAT_SUCCESS);
    assert_int_equal(type, DAT_HANDLE_TYPE_CNO);
    assert_int_equal(dat_cno_free(cno), DAT_SUCCESS);
    assert_int_equal(dat_cno_free(cno), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CNO));
}

TEST(wait__event_came_before__hinted_once) {
    const Opened opened;
    const DAT_CNO_HANDLE cno = make_cno(opened);
    const DAT_EVD_HANDLE evd = make_evd(opened, cno);
    must_be_quiet(cno);
    assert_int_equal(post(evd, 1), DAT_SUCCESS);
    assert_int_equal(post(evd, 2), DAT_SUCCESS);
    assert_ptr_equal(hint(cno), evd);
    must_be_quiet(cno);
}

TEST(wait__several_dispatchers__none_is_forgotten) {
    const Opened opened;
    const DAT_CNO_HANDLE cno = make_cno(opened);
    const DAT_EVD_HANDLE evds[] = {make_evd(opened, cno), make_evd(opened, cno), make_evd(opened, cno)};
    for (const DAT_EVD_HANDLE evd : evds) {
        assert_int_equal(post(evd, 1), DAT_SUCCESS);
    }
    for (const DAT_EVD_HANDLE evd : evds) {
        assert_ptr_equal(hint(cno), evd);
    }
    must_be_quiet(cno);
}

TEST(wait__many_threads__each_event_wakes_one) {
    const Opened opened;
    const DAT_CNO_HANDLE cno = make_cno(opened);
    const DAT_EVD_HANDLE first = make_evd(opened, cno);
    const DAT_EVD_HANDLE second = make_evd(opened, cno);
    Waiter one(cno);
    Waiter other(cno);
    assert_int_equal(post(first, 1), DAT_SUCCESS);
    assert_int_equal(post(second, 1), DAT_SUCCESS);
    one.join();
    other.join();
    assert_int_equal(one.status, DAT_SUCCESS);
    assert_int_equal(other.status, DAT_SUCCESS);
    assert_true((one.evd == first && other.evd == second) || (one.evd == second && other.evd == first));
}

TEST(wait__signal__interrupted) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    assert_int_equal(sigaction(SIGUSR1, &action, nullptr), 0);
    const Opened opened;
    const DAT_CNO_HANDLE cno = make_cno(opened);
    std::atomic<bool> is_over{false};
    DAT_RETURN status = DAT_SUCCESS;
    std::thread thread([&] {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        status = dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &evd);
        is_over = true;
    });
    while (!is_over) { // one that comes before the thread sleeps is lost on it
        pthread_kill(thread.native_handle(), SIGUSR1);
        std::this_thread::yield();
    }
    thread.join();
    assert_int_equal(status, coded(DAT_INTERRUPTED_CALL, DAT_SUB_INTERRUPTED));
}

TEST(wait__thread_cancelled__waits_no_more) {
    const Opened opened;
    const DAT_CNO_HANDLE cno = make_cno(opened);
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    const auto wait = [&] { (void)dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &evd); };
    assert_true(sluice::test::is_cancelled_in(wait));
    assert_true(sluice::test::is_cancelled_asleep_in(wait));
    evd = make_evd(opened, cno);
    assert_int_equal(post(evd, 1), DAT_SUCCESS);
    assert_ptr_equal(hint(cno), evd);
    assert_int_equal(dat_evd_free(evd), DAT_SUCCESS);
    assert_int_equal(dat_cno_free(cno), DAT_SUCCESS);
}

TEST(wait__last_dispatcher_goes__all_are_released) {
    const Opened opened;
    const DAT_CNO_HANDLE cno = make_cno(opened);
    Waiter one(cno);
    Waiter other(cno);
    while (!one.is_over || !other.is_over) { // who isn't there yet isn't released
        assert_int_equal(dat_evd_free(make_evd(opened, cno)), DAT_SUCCESS);
        std::this_thread::yield();
    }
    one.join();
    other.join();
    for (const Waiter* each : {&one, &other}) {
        assert_int_equal(each->status, DAT_SUCCESS);
        assert_null(each->evd);
    }
    assert_int_equal(dat_cno_free(cno), DAT_SUCCESS);
}

TEST(wait__dispatcher_made_to_wake__woken_though_it_is_gone) {
    const Opened opened;
    const DAT_CNO_HANDLE cno = make_cno(opened);
    const DAT_EVD_HANDLE stays = make_evd(opened, cno);
    const DAT_EVD_HANDLE evd = make_evd(opened, cno);
    assert_int_equal(post(evd, 1), DAT_SUCCESS);
    assert_int_equal(dat_evd_free(evd), DAT_SUCCESS);
    assert_null(hint(cno));
    must_be_quiet(cno);
    assert_int_equal(dat_evd_free(stays), DAT_SUCCESS);
}

// False: the waiter came too late to wait.
bool close_under_a_waiter(bool has_dispatcher) {
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    std::string name = own_device();
    assert_int_equal(dat_ia_open(name.data(), 8, &async_evd, &ia), DAT_SUCCESS);
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    assert_int_equal(dat_cno_create(ia, kNoAgent, &cno), DAT_SUCCESS);
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    if (has_dispatcher) {
        assert_int_equal(dat_evd_create(ia, 4, cno, DAT_EVD_SOFTWARE_FLAG, &evd), DAT_SUCCESS);
    }
    Waiter waiter(cno);
    while (!waiter.is_begun) {
        std::this_thread::yield();
    }
    std::this_thread::yield(); // so that it comes in time, mostly
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    waiter.join();
    if (waiter.status == coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CNO)) {
        return false;
    }
    assert_int_equal(waiter.status, coded(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_DEAD));
    assert_null(waiter.evd);
    return true;
}

TEST(ia_close__somebody_waits__dead) {
    const Opened kept; // opening the device anew takes longer than all else
    while (!close_under_a_waiter(false)) {
    }
}

// It goes with the adapter, too: that isn't what the waiter hears of.
TEST(ia_close__somebody_waits_and_there_is_a_dispatcher__dead) {
    constexpr int kTimes = 100;
    const Opened kept;
    for (int in_time = 0; in_time < kTimes;) {
        in_time += close_under_a_waiter(true) ? 1 : 0;
    }
}

TEST(free__dispatcher_attached__in_use) {
    const Opened opened;
    const DAT_CNO_HANDLE cno = make_cno(opened);
    const DAT_EVD_HANDLE evd = make_evd(opened, cno);
    assert_int_equal(dat_cno_free(cno), kInUse);
    assert_int_equal(dat_evd_modify_cno(evd, DAT_HANDLE_NULL), DAT_SUCCESS);
    assert_int_equal(dat_cno_free(cno), DAT_SUCCESS);
}

TEST(disable__events__trigger_nothing_and_dont_later) {
    const Opened opened;
    const DAT_CNO_HANDLE cno = make_cno(opened);
    const DAT_EVD_HANDLE evd = make_evd(opened, cno);
    assert_int_equal(dat_evd_disable(evd), DAT_SUCCESS);
    assert_int_equal(dat_evd_disable(evd), DAT_SUCCESS);
    assert_int_equal(post(evd, 1), DAT_SUCCESS);
    must_be_quiet(cno);
    assert_int_equal(dat_evd_enable(evd), DAT_SUCCESS);
    must_be_quiet(cno);
    assert_int_equal(post(evd, 2), DAT_SUCCESS);
    assert_ptr_equal(hint(cno), evd);
}

TEST(modify_cno__events_before_and_after__only_the_later_trigger) {
    const Opened opened;
    const DAT_CNO_HANDLE one = make_cno(opened);
    const DAT_CNO_HANDLE other = make_cno(opened);
    const DAT_EVD_HANDLE evd = make_evd(opened, DAT_HANDLE_NULL);
    assert_int_equal(post(evd, 1), DAT_SUCCESS);
    assert_int_equal(dat_evd_modify_cno(evd, one), DAT_SUCCESS);
    must_be_quiet(one);
    DAT_EVD_PARAM param{};
    assert_int_equal(dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param), DAT_SUCCESS);
    assert_ptr_equal(param.cno_handle, one);
    assert_int_equal(dat_evd_modify_cno(evd, other), DAT_SUCCESS);
    assert_int_equal(post(evd, 2), DAT_SUCCESS);
    must_be_quiet(one);
    assert_ptr_equal(hint(other), evd);
    assert_int_equal(dat_evd_modify_cno(evd, evd), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CNO));
}

TEST(modify_cno__to_the_same__nothing_is_lost_and_nobody_released) {
    const Opened opened;
    const DAT_CNO_HANDLE cno = make_cno(opened);
    const DAT_EVD_HANDLE evd = make_evd(opened, cno);
    assert_int_equal(post(evd, 1), DAT_SUCCESS);
    assert_int_equal(dat_evd_modify_cno(evd, cno), DAT_SUCCESS);
    assert_ptr_equal(hint(cno), evd);
    must_be_quiet(cno);
}

TEST(unwaitable__with_a_cno__still_triggers) {
    const Opened opened;
    const DAT_CNO_HANDLE cno = make_cno(opened);
    const DAT_EVD_HANDLE evd = make_evd(opened, cno);
    assert_int_equal(dat_evd_set_unwaitable(evd), DAT_SUCCESS);
    assert_int_equal(post(evd, 1), DAT_SUCCESS);
    assert_ptr_equal(hint(cno), evd);
    must_dequeue(evd, 1);
}

TEST(waiter__on_the_dispatcher__goes_before_the_cno) {
    const Opened opened;
    const DAT_CNO_HANDLE cno = make_cno(opened);
    const DAT_EVD_HANDLE evd = make_evd(opened, cno);
    std::thread waiter([&] { must_be(next(evd), evd, 1); });
    DAT_EVENT none{};
    while (dat_evd_dequeue(evd, &none) != coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER)) {
        std::this_thread::yield();
    }
    assert_int_equal(post(evd, 1), DAT_SUCCESS);
    waiter.join();
    must_be_quiet(cno);
}

TEST(agent__every_trigger__called_every_time) {
    const Opened opened;
    Counter counter;
    const DAT_CNO_HANDLE cno = make_cno(opened, counter.agent());
    const DAT_EVD_HANDLE evd = make_evd(opened, cno);
    counter.may_return = false;
    assert_int_equal(post(evd, 1), DAT_SUCCESS);
    counter.is_entered.wait(false);
    for (std::uintptr_t number = 2; number <= 10; ++number) { // all of them while it runs
        assert_int_equal(post(evd, number), DAT_SUCCESS);
    }
    counter.may_return = true;
    counter.may_return.notify_all();
    counter.await(10);
    assert_ptr_equal(counter.last.load(), evd);
    assert_ptr_equal(hint(cno), evd); // who waits is told, too
    Counter other;
    assert_int_equal(dat_cno_modify_agent(cno, other.agent()), DAT_SUCCESS);
    assert_int_equal(post(evd, 11), DAT_SUCCESS);
    other.await(1);
    counter.await(10);
}

// An agent may do what any thread may.
struct Undertaker {
    static void call(DAT_PVOID self, DAT_EVD_HANDLE evd) {
        auto& undertaker = *static_cast<Undertaker*>(self);
        DAT_EVENT event{};
        undertaker.dequeued = dat_evd_dequeue(evd, &event);
        undertaker.evd_freed = dat_evd_free(evd);
        undertaker.cno_freed = dat_cno_free(undertaker.cno);
        undertaker.closed = dat_ia_close(undertaker.ia, DAT_CLOSE_ABRUPT_FLAG);
        undertaker.is_done = true;
        undertaker.is_done.notify_all();
    }

    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_RETURN dequeued = 1;
    DAT_RETURN evd_freed = 1;
    DAT_RETURN cno_freed = 1;
    DAT_RETURN closed = 1;
    std::atomic<bool> is_done{false};
};

TEST(agent__frees_everything__done) {
    Undertaker undertaker;
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    std::string name = own_device();
    assert_int_equal(dat_ia_open(name.data(), 8, &async_evd, &undertaker.ia), DAT_SUCCESS);
    assert_int_equal(dat_cno_create(undertaker.ia, {&undertaker, Undertaker::call}, &undertaker.cno),
                     DAT_SUCCESS);
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    assert_int_equal(dat_evd_create(undertaker.ia, 4, undertaker.cno, DAT_EVD_SOFTWARE_FLAG, &evd),
                     DAT_SUCCESS);
    assert_int_equal(post(evd, 1), DAT_SUCCESS);
    undertaker.is_done.wait(false);
    assert_int_equal(undertaker.dequeued, DAT_SUCCESS);
    assert_int_equal(undertaker.evd_freed, DAT_SUCCESS);
    assert_int_equal(undertaker.cno_freed, DAT_SUCCESS);
    assert_int_equal(undertaker.closed, DAT_SUCCESS);
}

TEST(completions__dispatcher_with_a_cno__trigger) {
    Pair pair;
    const DAT_CNO_HANDLE cno = make_cno(pair.passive.opened);
    assert_int_equal(dat_evd_modify_cno(pair.passive.transfers, cno), DAT_SUCCESS);
    assert_int_equal(pair.passive.receive(0, 10, 7), DAT_SUCCESS);
    assert_int_equal(pair.passive.receive(10, 10, 8), DAT_SUCCESS);
    pair.connect();
    must_be_quiet(cno);
    for (const std::uint64_t cookie : {7, 8}) {
        assert_int_equal(pair.active.send(0, 10), DAT_SUCCESS);
        assert_ptr_equal(hint(cno), pair.passive.transfers);
        pair.passive.must_complete(cookie, DAT_DTO_SUCCESS, 10);
    }
    assert_int_equal(dat_evd_modify_cno(pair.passive.transfers, DAT_HANDLE_NULL), DAT_SUCCESS);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
