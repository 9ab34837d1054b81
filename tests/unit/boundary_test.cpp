// SPDX-License-Identifier: BSD-3-Clause
#include "core/boundary.hpp"

#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "core/log.hpp"
#include "tests/cmocka.hpp"

using sluice::at_boundary;
using sluice::Error;
using sluice::ErrorKind;
using sluice::Result;

namespace {

TEST(body__value_and_error__pass_through) {
    assert_int_equal(*at_boundary("f", []() -> Result<int> { return 5; }), 5);
    const Result<int> failed =
        at_boundary("f", []() -> Result<int> { return Error(ErrorKind::kBusy, "taken"); });
    assert_true(failed.error().kind() == ErrorKind::kBusy);
    assert_true(at_boundary("f", []() -> Result<void> { return {}; }).ok());
}

TEST(body__out_of_memory__is_insufficient_resources) {
    const Result<void> result = at_boundary("f", []() -> Result<void> { throw std::bad_alloc(); });
    assert_true(result.error().kind() == ErrorKind::kInsufficientResources);
}

TEST(body__system_error__keeps_the_number) {
    const Result<void> result = at_boundary(
        "f", []() -> Result<void> { throw std::system_error(EAGAIN, std::generic_category(), "thread"); });
    assert_int_equal(result.error().os_errno(), EAGAIN);
    assert_true(result.error().kind() == ErrorKind::kBusy);
}

// Runs BODY and gives the error text and what was logged, joined.
template<typename Body>
std::string text_and_log(Body body) {
    std::string logged;
    sluice::set_log_sink([](void* context, int, const char*,
                            const char* message) { *static_cast<std::string*>(context) += message; },
                         &logged);
    const Result<void> result = at_boundary("dat_thing", body);
    sluice::set_log_sink(nullptr, nullptr);
    assert_true(result.error().kind() == ErrorKind::kInternal);
    return std::string(result.error().text()) + "|" + logged;
}

TEST(body__unexpected_exception__is_internal_and_logged_with_the_function) {
    const std::string known = text_and_log([]() -> Result<void> { throw std::logic_error("oops"); });
    assert_non_null(std::strstr(known.c_str(), "dat_thing: oops|"));
    assert_non_null(std::strstr(known.c_str(), "|dat_thing: unexpected exception: oops"));
    const std::string unknown = text_and_log([]() -> Result<void> { throw 7; });
    assert_non_null(std::strstr(unknown.c_str(), "|dat_thing: unexpected exception"));
}

} // namespace

int main() {
    return sluice::test::run_all_tests("core.boundary");
}
