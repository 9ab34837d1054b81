// SPDX-License-Identifier: BSD-3-Clause
#include "core/error.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "tests/cmocka.hpp"

using sluice::Error;
using sluice::ErrorKind;
using sluice::kind_of_errno;

namespace {

TEST(format__arguments__are_in_the_text) {
    const Error error = Error::format(ErrorKind::kInsufficientResources, ENOMEM, "need %d, limit %d", 7, 3);
    assert_string_equal(error.text(), "need 7, limit 3");
    assert_true(error.kind() == ErrorKind::kInsufficientResources);
    assert_int_equal(error.os_errno(), ENOMEM);
}

TEST(format__text_longer_than_the_buffer__is_cut_not_overrun) {
    const std::string longer(5000, 'x');
    const Error error = Error::format(ErrorKind::kInternal, 0, "%s", longer.c_str());
    assert_int_equal(std::strlen(error.text()), 511);
}

TEST(literal__is_kept_by_pointer) {
    static const char text[] = "no such device";
    const Error error(ErrorKind::kNotFound, text);
    assert_ptr_equal(error.text(), text);
}

TEST(move__text_survives) {
    Error first = Error::format(ErrorKind::kBusy, 0, "slot %d", 4);
    const Error second = std::move(first);
    assert_string_equal(second.text(), "slot 4");
}

TEST(clone__has_its_own_text) {
    const Error first = Error::format(ErrorKind::kBusy, EBUSY, "slot %d", 4);
    const Error second = first.clone();
    assert_string_equal(second.text(), first.text());
    assert_ptr_not_equal(second.text(), first.text());
    assert_int_equal(second.os_errno(), EBUSY);
}

TEST(to_errno__prefers_what_the_system_said) {
    assert_int_equal(Error(ErrorKind::kNotFound, "", ENODEV).to_errno(), ENODEV);
}

TEST(to_errno__no_kind_gives_success) {
    for (int kind = 0; kind <= static_cast<int>(ErrorKind::kInternal); ++kind) {
        assert_true(Error(static_cast<ErrorKind>(kind)).to_errno() > 0);
    }
}

TEST(to_string__every_kind_has_a_name_of_its_own) {
    for (int a = 0; a <= static_cast<int>(ErrorKind::kInternal); ++a) {
        assert_true(to_string(static_cast<ErrorKind>(a)) != "unknown error");
        for (int b = 0; b < a; ++b) {
            assert_true(to_string(static_cast<ErrorKind>(a)) != to_string(static_cast<ErrorKind>(b)));
        }
    }
}

TEST(from_errno__kind_follows_the_number) {
    assert_true(kind_of_errno(EINVAL) == ErrorKind::kInvalidArgument);
    assert_true(kind_of_errno(ENOMEM) == ErrorKind::kInsufficientResources);
    assert_true(kind_of_errno(EACCES) == ErrorKind::kPermission);
    assert_true(kind_of_errno(EOPNOTSUPP) == ErrorKind::kNotSupported);
    assert_true(kind_of_errno(ETIMEDOUT) == ErrorKind::kTimedOut);
    assert_true(Error::from_errno(ENODEV, "x").kind() == ErrorKind::kDeviceGone);
    assert_true(kind_of_errno(987654) == ErrorKind::kInternal);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("core.error");
}
