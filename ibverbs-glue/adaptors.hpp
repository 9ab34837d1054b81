// SPDX-License-Identifier: BSD-3-Clause
//
// The four ways in which the C libraries below us say that something failed, each turned into a
// Result. One of them stands around every call that can fail; nobody else looks at errno.
//
// TRIED is a literal that says what was tried ("creating a completion queue"). None of these
// allocates.
#pragma once

#include <cerrno>

#include "core/result.hpp"

namespace sluice::glue {

// Null, with errno set: what makes an object.
template<typename T>
Result<T*> from_null(T* object, const char* tried) noexcept {
    if (object == nullptr) {
        return Error::from_errno(errno, tried);
    }
    return object;
}

// The error itself, 0 for success: most of libibverbs. A few old providers return -1 and set errno.
inline Result<void> from_rc(int rc, const char* tried) noexcept {
    if (rc == 0) {
        return {};
    }
    return Error::from_errno(rc == -1 ? errno : (rc < 0 ? -rc : rc), tried);
}

// -1, with errno set: librdmacm and the system.
inline Result<int> from_minus_one(int value, const char* tried) noexcept {
    if (value == -1) {
        return Error::from_errno(errno, tried);
    }
    return value;
}

// The negative of a code of libnl's own, 0 or more for success.
Result<int> from_nl(int value, const char* tried) noexcept;

} // namespace sluice::glue
