// SPDX-License-Identifier: BSD-3-Clause
//
// Rights by the list of mappings, where the kernel has nothing better to ask.
#include "sync/access.hpp"

#include "tests/cmocka.hpp"

using sluice::Result;
using sluice::sync::Access;
using sluice::sync::check_listed;
using sluice::sync::is_sound;

namespace {

constexpr std::string_view kMaps = "1000-3000 rw-p 00000000 00:00 0\n"
                                   "3000-4000 r--p 00000000 00:00 0\n"
                                   "4000-5000 ---p 00000000 00:00 0\n"
                                   "8000-9000 rw-p 00000000 00:00 0\n";

int listed(std::uintptr_t address, std::uint64_t length, Access access) {
    const Result<void> answer = check_listed(kMaps, {address, length}, access);
    return answer ? 0 : answer.error().to_errno();
}

TEST(listed__within_mappings__by_their_rights) {
    assert_int_equal(listed(0x1000, 0x2000, Access::kWrite), 0);
    assert_int_equal(listed(0x2fff, 2, Access::kRead), 0);
    assert_int_equal(listed(0x2fff, 2, Access::kWrite), EACCES);
    assert_int_equal(listed(0x3fff, 1, Access::kWrite), EACCES);
}

TEST(listed__a_page_that_cannot_be_read_or_is_missing__efault) {
    assert_int_equal(listed(0x3fff, 2, Access::kRead), EFAULT);
    assert_int_equal(listed(0x4000, 1, Access::kWrite), EFAULT);
    assert_int_equal(listed(0xfff, 2, Access::kRead), EFAULT);
    assert_int_equal(listed(0x7fff, 2, Access::kRead), EFAULT);
    assert_int_equal(listed(0x8fff, 2, Access::kRead), EFAULT);
    assert_int_equal(listed(0x9000, 1, Access::kRead), EFAULT);
}

TEST(listed__no_text__efault) {
    assert_int_equal(check_listed("", {0x1000, 1}, Access::kRead).error().to_errno(), EFAULT);
}

TEST(sound__ends_of_the_address_space__no_wrap_and_no_null) {
    constexpr std::uintptr_t kTop = ~std::uintptr_t{0};
    assert_true(is_sound({0, 0}) && is_sound({1, kTop - 1}) && is_sound({kTop - 1, 1}) &&
                is_sound({kTop, 0}));
    assert_false(is_sound({0, 1}) || is_sound({kTop, 1}) || is_sound({2, kTop - 1}) ||
                 is_sound({kTop, kTop}));
}

} // namespace

int main() {
    return sluice::test::run_all_tests("sync.access");
}
