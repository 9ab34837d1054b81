// SPDX-License-Identifier: BSD-3-Clause
//
// A call asks for memory and the like, and each of these requests fails once, one after another. Each time
// the call answers with a code that says so, or does without, leaves no descriptor and no memory behind, and
// can be made again.
#pragma once

#include <dirent.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <utility>

#include "tests/unit/shortage.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace sluice::test {

constexpr int kMostRequests = 5000;

// For calls with hundreds of requests: TEST_SHORTAGE_STRIDE is 1 by night.
inline int stride(int by_day) {
    const char* const given = std::getenv("TEST_SHORTAGE_STRIDE");
    return given != nullptr ? std::max(1, static_cast<int>(std::strtol(given, nullptr, 10))) : by_day;
}

// What a process has, as far as it counts that.
struct Held {
    std::size_t descriptors = open_descriptors();
    long allocations = live_allocations.load();

  private:
    static std::size_t open_descriptors() {
        std::size_t count = 0;
        DIR* const directory = opendir("/proc/self/fd");
        assert_non_null(directory);
        while (readdir(directory) != nullptr) {
            ++count;
        }
        closedir(directory);
        return count;
    }
};

inline bool is_errno_of_shortage(int error) {
    constexpr std::array kErrors = {ENOMEM, EMFILE, ENFILE, EAGAIN, ENOBUFS, ENOSPC};
    return std::ranges::find(kErrors, error) != kErrors.end();
}

// Runs CALL with what fails, and everything before it without.
template<typename Before, typename Call>
auto after(const Before& before, const Call& call) {
    const int failure = std::exchange(until_failure, -1);
    before();
    until_failure = failure;
    return call();
}

struct Sweep {
    const char* what;
    std::function<int()> make; // 0, and something for UNDO, or a code
    std::function<void()> undo;
    std::function<bool(int code)> is_shortage;
    bool asks_for_nothing = false;
    bool keeps_memory = false; // for a while, as a connection's end does
    int step = 1;              // 2: every other request fails

    void run() const {
        make_and_undo();
        int failures = 0;
        int number = 0;
        while (must_hold(number, failures)) {
            number += step;
            assert_true(number < kMostRequests);
        }
        print_message("%s: %d of %d requests lead to a code\n", what, failures, number);
        assert_int_equal(failures == 0, asks_for_nothing);
    }

  private:
    void make_and_undo() const {
        assert_int_equal(make(), 0);
        undo();
    }
    // False: there is no such request.
    bool fail_at(int number, int& code) const {
        until_failure = number;
        code = make();
        const bool was_reached = until_failure < 0;
        until_failure = -1;
        return was_reached;
    }
    // What is kept for the next time comes with the first rounds, and what a thread closes goes with the
    // next.
    bool must_hold(int number, int& failures) const {
        constexpr int kRounds = 5;
        for (int round = 0; round < kRounds; ++round) {
            const Held before;
            int code = 0;
            const bool was_reached = fail_at(number, code);
            if (code == 0) {
                undo();
            } else if (!was_reached || !is_shortage(code)) {
                complain(number, code, "this code says something else");
            }
            failures += code != 0 && round == 0 ? 1 : 0;
            make_and_undo();
            const Held after;
            if (after.descriptors <= before.descriptors &&
                (keeps_memory || after.allocations <= before.allocations)) {
                return was_reached;
            }
        }
        complain(number, 0, "something is left each time");
    }
    [[noreturn]] void complain(int number, int code, const char* why) const {
        print_failed_stack();
        fail_msg("%s answers 0x%x where %s fails (%d): %s", what, static_cast<unsigned>(code), last_failure,
                 number, why);
        std::abort();
    }
};

// What other threads ask for while STEP runs fails, one request after another. STEP must not notice.
template<typename Step>
void sweep_elsewhere(const char* what, const Step& step) {
    is_here = true;
    bool was_reached = true;
    int number = 0;
    for (; was_reached; ++number) {
        assert_true(number < kMostRequests);
        until_failure_elsewhere = number;
        step();
        was_reached = until_failure_elsewhere.exchange(-1) < 0;
        step();
    }
    is_here = false;
    print_message("%s: %d requests of other threads\n", what, number - 1);
}

} // namespace sluice::test
