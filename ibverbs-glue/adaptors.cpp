// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/adaptors.hpp"

#include <netlink/errno.h>

namespace sluice::glue {

namespace {

// The errno that a code of libnl stands for; libnl made most of them from one.
int errno_of_nl(int code) noexcept {
    switch (code) {
    case NLE_INTR:
    case NLE_DUMP_INTR:
        return EINTR;
    case NLE_BAD_SOCK:
        return EBADF;
    case NLE_AGAIN:
        return EAGAIN;
    case NLE_NOMEM:
        return ENOMEM;
    case NLE_EXIST:
        return EEXIST;
    case NLE_INVAL:
    case NLE_MISSING_ATTR:
    case NLE_IMMUTABLE:
        return EINVAL;
    case NLE_RANGE:
    case NLE_ATTRSIZE:
        return ERANGE;
    case NLE_MSGSIZE:
        return EMSGSIZE;
    case NLE_OPNOTSUPP:
    case NLE_MSGTYPE_NOSUPPORT:
        return EOPNOTSUPP;
    case NLE_AF_NOSUPPORT:
        return EAFNOSUPPORT;
    case NLE_PROTO_MISMATCH: // a kernel that doesn't have it
        return EPROTONOSUPPORT;
    case NLE_OBJ_NOTFOUND:
        return ENOENT;
    case NLE_NODEV:
        return ENODEV;
    case NLE_NOADDR:
        return EADDRNOTAVAIL;
    case NLE_BUSY:
        return EBUSY;
    case NLE_NOACCESS:
        return EACCES;
    case NLE_PERM:
        return EPERM;
    default: // what only a broken answer gives
        return EPROTO;
    }
}

} // namespace

Result<int> from_nl(int value, const char* tried) noexcept {
    if (value < 0) {
        return failed_by(errno_of_nl(-value), tried);
    }
    return value;
}

} // namespace sluice::glue
