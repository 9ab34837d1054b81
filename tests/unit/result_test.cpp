// SPDX-License-Identifier: BSD-3-Clause
#include "core/result.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>

#include "tests/cmocka.hpp"

using sluice::Error;
using sluice::ErrorKind;
using sluice::Result;

namespace {

Result<int> half(int n) {
    if (n % 2 != 0) {
        return Error(ErrorKind::kInvalidArgument, "odd");
    }
    return n / 2;
}

Result<void> even(int n) {
    if (n % 2 != 0) {
        return Error(ErrorKind::kInvalidArgument, "odd");
    }
    return {};
}

TEST(value__is_given_back) {
    const Result<int> result = half(8);
    assert_true(result.ok());
    assert_int_equal(*result, 4);
}

TEST(error__is_given_back) {
    const Result<int> result = half(7);
    assert_false(result.ok());
    assert_true(result.error().kind() == ErrorKind::kInvalidArgument);
    assert_string_equal(result.error().text(), "odd");
}

TEST(move_only_value__can_be_taken_out) {
    Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
    const std::unique_ptr<int> taken = *std::move(result);
    assert_int_equal(*taken, 5);
}

TEST(and_then__value__goes_on) {
    assert_int_equal(*half(8).and_then(half), 2);
    assert_int_equal(*even(8).and_then([] { return half(6); }), 3);
}

TEST(and_then__error__stops_at_the_first) {
    const Result<int> result = half(7).and_then([](int) -> Result<int> { return 99; });
    assert_string_equal(result.error().text(), "odd");
    assert_false(even(1).and_then([]() -> Result<void> { return {}; }).ok());
}

TEST(value_or__uses_the_fallback_only_on_error) {
    assert_int_equal(half(7).value_or(-1), -1);
    assert_int_equal(half(6).value_or(-1), 3);
}

// Runs BODY in a child and tells which signal ended it.
template<typename Body>
int signal_of(Body body) {
    const pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(wrong_side__ends_the_program) {
    assert_int_equal(signal_of([] { (void)*half(7); }), SIGABRT);
    assert_int_equal(signal_of([] { (void)half(8).error(); }), SIGABRT);
    assert_int_equal(signal_of([] { (void)even(8).error(); }), SIGABRT);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("core.result");
}
