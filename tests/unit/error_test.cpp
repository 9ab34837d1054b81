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

void format__arguments__are_in_the_text(void**) {
    const Error error = Error::format(ErrorKind::kInsufficientResources, ENOMEM, "need %d, limit %d", 7, 3);
    assert_string_equal(error.text(), "need 7, limit 3");
    assert_true(error.kind() == ErrorKind::kInsufficientResources);
    assert_int_equal(error.os_errno(), ENOMEM);
}

void format__text_longer_than_the_buffer__is_cut_not_overrun(void**) {
    const std::string longer(5000, 'x');
    const Error error = Error::format(ErrorKind::kInternal, 0, "%s", longer.c_str());
    assert_int_equal(std::strlen(error.text()), 511);
}

void literal__is_kept_by_pointer(void**) {
    static const char text[] = "no such device";
    const Error error(ErrorKind::kNotFound, text);
    assert_ptr_equal(error.text(), text);
}

void move__text_survives(void**) {
    Error first = Error::format(ErrorKind::kBusy, 0, "slot %d", 4);
    const Error second = std::move(first);
    assert_string_equal(second.text(), "slot 4");
}

void clone__has_its_own_text(void**) {
    const Error first = Error::format(ErrorKind::kBusy, EBUSY, "slot %d", 4);
    const Error second = first.clone();
    assert_string_equal(second.text(), first.text());
    assert_ptr_not_equal(second.text(), first.text());
    assert_int_equal(second.os_errno(), EBUSY);
}

void to_errno__prefers_what_the_system_said(void**) {
    assert_int_equal(Error(ErrorKind::kNotFound, "", ENODEV).to_errno(), ENODEV);
}

void to_errno__no_kind_gives_success(void**) {
    for (int kind = 0; kind <= static_cast<int>(ErrorKind::kInternal); ++kind) {
        assert_true(Error(static_cast<ErrorKind>(kind)).to_errno() > 0);
    }
}

void to_string__every_kind_has_a_name_of_its_own(void**) {
    for (int a = 0; a <= static_cast<int>(ErrorKind::kInternal); ++a) {
        assert_true(to_string(static_cast<ErrorKind>(a)) != "unknown error");
        for (int b = 0; b < a; ++b) {
            assert_true(to_string(static_cast<ErrorKind>(a)) != to_string(static_cast<ErrorKind>(b)));
        }
    }
}

void from_errno__kind_follows_the_number(void**) {
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
    const CMUnitTest tests[] = {
        cmocka_unit_test(format__arguments__are_in_the_text),
        cmocka_unit_test(format__text_longer_than_the_buffer__is_cut_not_overrun),
        cmocka_unit_test(literal__is_kept_by_pointer),
        cmocka_unit_test(move__text_survives),
        cmocka_unit_test(clone__has_its_own_text),
        cmocka_unit_test(to_errno__prefers_what_the_system_said),
        cmocka_unit_test(to_errno__no_kind_gives_success),
        cmocka_unit_test(to_string__every_kind_has_a_name_of_its_own),
        cmocka_unit_test(from_errno__kind_follows_the_number),
    };
    return cmocka_run_group_tests_name("core.error", tests, nullptr, nullptr);
}
