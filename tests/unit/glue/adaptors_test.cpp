// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/adaptors.hpp"

#include <netlink/errno.h>

#include "tests/cmocka.hpp"

using sluice::ErrorKind;
using sluice::Result;
namespace glue = sluice::glue;

namespace {

constexpr const char* kTried = "trying something";

template<typename T>
void assert_error(const Result<T>& result, ErrorKind kind, int os_errno) {
    assert_false(result.ok());
    assert_int_equal(result.error().kind(), kind);
    assert_int_equal(result.error().os_errno(), os_errno);
    assert_string_equal(result.error().text(), kTried);
}

TEST(null__errno_is_taken) {
    int object = 0;
    errno = EPERM;
    assert_ptr_equal(*glue::from_null(&object, kTried), &object);
    assert_error(glue::from_null<int>(nullptr, kTried), ErrorKind::kPermission, EPERM);
}

TEST(rc__is_the_errno_whatever_its_sign) {
    errno = EBUSY;
    assert_true(glue::from_rc(0, kTried).ok());
    assert_error(glue::from_rc(ENOMEM, kTried), ErrorKind::kInsufficientResources, ENOMEM);
    assert_error(glue::from_rc(-EINVAL, kTried), ErrorKind::kInvalidArgument, EINVAL);
}

TEST(rc__minus_one__is_errno_s_business) {
    // Also EPERM, whose number is 1, when it is said as a negative: then errno says the same.
    errno = EBUSY;
    assert_error(glue::from_rc(-1, kTried), ErrorKind::kBusy, EBUSY);
    assert_error(glue::from_rc(EPERM, kTried), ErrorKind::kPermission, EPERM);
}

TEST(minus_one__alone_is_an_error) {
    errno = EAGAIN;
    assert_int_equal(*glue::from_minus_one(0, kTried), 0);
    assert_int_equal(*glue::from_minus_one(5, kTried), 5);
    assert_error(glue::from_minus_one(-1, kTried), ErrorKind::kBusy, EAGAIN);
}

TEST(nl__codes_of_its_own_become_errnos) {
    errno = EIO; // which it doesn't look at
    assert_int_equal(*glue::from_nl(0, kTried), 0);
    assert_int_equal(*glue::from_nl(64, kTried), 64);
    assert_error(glue::from_nl(-NLE_PERM, kTried), ErrorKind::kPermission, EPERM);
    assert_error(glue::from_nl(-NLE_NODEV, kTried), ErrorKind::kDeviceGone, ENODEV);
    assert_error(glue::from_nl(-NLE_EXIST, kTried), ErrorKind::kExists, EEXIST);
    assert_error(glue::from_nl(-NLE_INVAL, kTried), ErrorKind::kInvalidArgument, EINVAL);
    assert_error(glue::from_nl(-NLE_NOMEM, kTried), ErrorKind::kInsufficientResources, ENOMEM);
    assert_error(glue::from_nl(-NLE_OPNOTSUPP, kTried), ErrorKind::kNotSupported, EOPNOTSUPP);
    assert_error(glue::from_nl(-NLE_PROTO_MISMATCH, kTried), ErrorKind::kNotSupported, EPROTONOSUPPORT);
    assert_error(glue::from_nl(-NLE_MSG_TOOSHORT, kTried), ErrorKind::kProtocol, EPROTO);
    assert_error(glue::from_nl(-12345, kTried), ErrorKind::kProtocol, EPROTO);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
