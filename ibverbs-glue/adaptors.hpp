// SPDX-License-Identifier: BSD-3-Clause
//
// The four ways in which the C libraries below us say that something failed, each turned into a
// Result. One of them stands around every call that can fail; nobody else looks at errno.
//
// TRIED is a literal that says what was tried ("creating a completion queue"). None of these
// allocates, but where the program has no descriptor left, which is said.
#pragma once

#include <cerrno>

#include "core/result.hpp"

namespace sluice::glue {

inline Error failed_by(int os_errno, const char* tried) noexcept {
    const char* const remedy = os_errno == EMFILE   ? "raise `ulimit -n`"
                               : os_errno == ENFILE ? "raise fs.file-max by sysctl(8)"
                                                    : nullptr;
    return remedy != nullptr ? Error::format(kind_of_errno(os_errno), os_errno, "%s; %s", tried, remedy)
                             : Error::from_errno(os_errno, tried);
}

// Null, with errno set: what makes an object.
template<typename T>
Result<T*> from_null(T* object, const char* tried) noexcept {
    if (object == nullptr) {
        return failed_by(errno, tried);
    }
    return object;
}

// The error itself, 0 for success: most of libibverbs. A few old providers return -1 and set errno.
inline Result<void> from_rc(int rc, const char* tried) noexcept {
    if (rc == 0) {
        return {};
    }
    return failed_by(rc == -1 ? errno : (rc < 0 ? -rc : rc), tried);
}

// -1, with errno set: librdmacm and the system.
inline Result<int> from_minus_one(int value, const char* tried) noexcept {
    if (value == -1) {
        return failed_by(errno, tried);
    }
    return value;
}

// The negative of a code of libnl's own, 0 or more for success.
Result<int> from_nl(int value, const char* tried) noexcept;

} // namespace sluice::glue
