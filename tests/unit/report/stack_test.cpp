// SPDX-License-Identifier: BSD-3-Clause
//
// Stacks as capture() takes them, which remembers the last one, and as they are unwound each time.
//
// _Unwind_Backtrace() of this program counts its calls and goes on to that of the unwinder.
#include "core/report/stack.hpp"

#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <thread>

#include "tests/cmocka.hpp"

using sluice::report::capture;
using sluice::report::Stack;

namespace {

constexpr unsigned kSeed = 79;
#if defined(__x86_64__)
constexpr bool kRemembers = true;
#else
constexpr bool kRemembers = false;
#endif

thread_local int unwindings = 0;

struct Forwarded {
    _Unwind_Trace_Fn function = nullptr;
    void* argument = nullptr;
    bool is_past_us = false;
};

_Unwind_Reason_Code forward(_Unwind_Context* context, void* argument) {
    auto& to = *static_cast<Forwarded*>(argument);
    if (!to.is_past_us) {
        to.is_past_us = true;
        return _URC_NO_REASON;
    }
    return to.function(context, to.argument);
}

} // namespace

extern "C" _Unwind_Reason_Code _Unwind_Backtrace(_Unwind_Trace_Fn function, void* argument) {
    static auto* const real =
        reinterpret_cast<decltype(&_Unwind_Backtrace)>(dlsym(RTLD_NEXT, "_Unwind_Backtrace"));
    ++unwindings;
    Forwarded to = {.function = function, .argument = argument};
    const _Unwind_Reason_Code code = real(forward, &to);
    return code;
}

namespace {

struct Reference {
    Stack stack;
    bool is_past_us = false;
};

_Unwind_Reason_Code take(_Unwind_Context* context, void* argument) {
    auto& reference = *static_cast<Reference*>(argument);
    if (!reference.is_past_us) {
        reference.is_past_us = true;
        return _URC_NO_REASON;
    }
    const _Unwind_Ptr address = _Unwind_GetIP(context);
    if (address == 0 || reference.stack.count == Stack::kMost) {
        return _URC_END_OF_STACK;
    }
    reference.stack.addresses[reference.stack.count++] = reinterpret_cast<const void*>(address);
    return _URC_NO_REASON;
}

// Remembers nothing.
[[gnu::noinline]] Stack unwound() {
    Reference reference;
    (void)_Unwind_Backtrace(take, &reference);
    return reference.stack;
}

// Both of one caller, so that they differ in the line of the innermost frame alone.
[[gnu::noinline]] Stack compared() {
    const Stack captured = capture();
    const Stack wanted = unwound();
    assert_int_equal(captured.count, wanted.count);
    assert_true(captured.count > 1);
    assert_true(std::ranges::equal(captured.frames().subspan(1), wanted.frames().subspan(1)));
    return captured;
}

bool equal(const Stack& a, const Stack& b) {
    return std::ranges::equal(a.frames(), b.frames());
}

// What stands behind each call keeps it from becoming a jump.
volatile int calls_ended = 0;

[[gnu::noinline]] Stack caller_a() {
    const Stack found = compared();
    calls_ended = calls_ended + 1;
    return found;
}

[[gnu::noinline]] Stack caller_b() {
    const Stack found = compared();
    calls_ended = calls_ended + 2;
    return found;
}

[[gnu::noinline]] Stack deep(int calls) {
    const Stack found = calls == 0 ? compared() : deep(calls - 1);
    calls_ended = calls_ended + 1;
    return found;
}

TEST(capture__again_from_one_place__not_unwound_again) {
    Stack first;
    for (int i = 0; i < 10; ++i) {
        const int before = unwindings;
        const Stack found = capture();
        if (i == 0) {
            first = found;
        } else {
            assert_int_equal(unwindings - before, kRemembers ? 0 : 1);
        }
        assert_true(equal(found, first));
    }
}

TEST(capture__again_from_one_place__as_unwound) {
    for (int i = 0; i < 10; ++i) {
        (void)compared();
    }
}

TEST(capture__first_frame__that_of_the_caller) {
    const Stack found = capture();
    const Stack wanted = unwound();
    const auto* const address = static_cast<const char*>(found.addresses[0]);
    const auto* const near = static_cast<const char*>(wanted.addresses[0]);
    assert_true(address < near && near - address < 512);
}

TEST(capture__another_caller_with_the_same_frame__as_unwound) {
    const Stack of_a = caller_a();
    const Stack of_b = caller_b();
    assert_int_equal(of_a.count, of_b.count);
    assert_false(equal(of_a, of_b));
    for (int i = 0; i < 10; ++i) {
        (void)(i % 2 == 0 ? caller_a() : caller_b());
    }
}

TEST(capture__another_line_of_one_caller__as_unwound) {
    const Stack first = compared();
    const Stack second = compared();
    assert_int_equal(first.count, second.count);
    assert_ptr_equal(first.addresses[0], second.addresses[0]);
    assert_ptr_not_equal(first.addresses[1], second.addresses[1]);
}

TEST(capture__in_recursion__each_depth_as_unwound) {
    const int outside = compared().count;
    for (int round = 0; round < 3; ++round) {
        for (int calls = 0; calls < 40; ++calls) {
            const int most = Stack::kMost;
            assert_int_equal(deep(calls).count, std::min(outside + calls + 1, most));
        }
    }
}

TEST(capture__deeper_than_a_stack_keeps__the_innermost_frames) {
    const Stack found = deep(2 * Stack::kMost);
    assert_int_equal(found.count, Stack::kMost);
    for (std::size_t i = 3; i < Stack::kMost; ++i) {
        assert_ptr_equal(found.addresses[i], found.addresses[2]);
    }
}

// ---- by chance

[[gnu::noinline]] void go_on(std::mt19937& random, int depth);

[[gnu::noinline]] void go_a(std::mt19937& random, int depth) {
    volatile char room[64];
    room[0] = 1;
    go_on(random, depth);
    calls_ended = calls_ended + room[0];
}

[[gnu::noinline]] void go_b(std::mt19937& random, int depth) {
    volatile char room[64];
    room[0] = 2;
    go_on(random, depth);
    calls_ended = calls_ended + room[0];
}

[[gnu::noinline]] void go_on(std::mt19937& random, int depth) {
    const unsigned captures = random() % 3;
    for (unsigned i = 0; i < captures; ++i) {
        (void)compared();
    }
    const unsigned calls = depth == 0 ? 0 : random() % 4;
    for (unsigned i = 0; i < calls; ++i) {
        random() % 2 == 0 ? go_a(random, depth - 1) : go_b(random, depth - 1);
    }
    calls_ended = calls_ended + 1;
}

TEST(capture__by_chance__as_unwound) {
    std::printf("seed %u\n", kSeed);
    std::mt19937 random(kSeed);
    for (int round = 0; round < 30; ++round) {
        go_on(random, 8);
    }
}

TEST(capture__in_another_thread__as_unwound_and_the_own_one_is_kept) {
    const Stack own = caller_a();
    Stack others;
    std::thread([&others] {
        for (int i = 0; i < 100; ++i) {
            others = caller_a();
        }
    }).join();
    assert_false(equal(own, others));
    (void)caller_a();
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
