// SPDX-License-Identifier: BSD-3-Clause
//
// CMocka as a C++ test sees it. Its header has no extern "C" and leaves four standard headers
// to the includer; both are settled here, once.
//
// A test registers itself; a program's tests run in the order in which its source has them:
//
//     TEST(divide__by_zero__invalid_argument) {
//         ...
//     }
//     int main() {
//         return sluice::test::run_all_tests();
//     }
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {
#include <cmocka.h>
}

#include <vector>

// They are functions, for so many others have these names.
#undef fail
#undef skip
inline void fail(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    _fail(file, line);
}
inline void skip(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    _skip(file, line);
}

namespace sluice::test {

inline std::vector<CMUnitTest>& registered_tests() {
    static std::vector<CMUnitTest> tests;
    return tests;
}

struct Registration {
    explicit Registration(const char* name, CMUnitTestFunction test, CMFixtureFunction setup = nullptr,
                          CMFixtureFunction teardown = nullptr) {
        registered_tests().push_back({name, test, setup, teardown, nullptr});
    }
};

// The exit status: how many have failed. SETUP and TEARDOWN are called once for all of them.
inline int run_all_tests(const char* group = program_invocation_short_name, CMFixtureFunction setup = nullptr,
                         CMFixtureFunction teardown = nullptr) {
    const std::vector<CMUnitTest>& tests = registered_tests();
    return _cmocka_run_group_tests(group, tests.data(), tests.size(), setup, teardown);
}

} // namespace sluice::test

// TEST(name), TEST(name, setup) or TEST(name, setup, teardown), and its body.
#define TEST(name, ...)                                                                                      \
    void name(void**);                                                                                       \
    const ::sluice::test::Registration registration_of_##name(#name, name __VA_OPT__(, ) __VA_ARGS__);       \
    void name(void** /*state*/)
