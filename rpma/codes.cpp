// SPDX-License-Identifier: BSD-3-Clause
#include "rpma/codes.hpp"

#include <cerrno>

namespace sluice::rpma {

int code_of(const Error& error) noexcept {
    if (error.os_errno() == ENOMEM) {
        return RPMA_E_NOMEM;
    }
    if (error.os_errno() != 0) {
        return RPMA_E_PROVIDER;
    }
    switch (error.kind()) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kOutOfRange:
        return RPMA_E_INVAL;
    case ErrorKind::kInsufficientResources:
        return RPMA_E_NOMEM;
    case ErrorKind::kNotSupported:
        return RPMA_E_NOSUPP;
    case ErrorKind::kNotFound:
    case ErrorKind::kExists:
    case ErrorKind::kBusy:
    case ErrorKind::kPermission:
    case ErrorKind::kProtection:
    case ErrorKind::kTimedOut:
    case ErrorKind::kConnection:
    case ErrorKind::kDeviceGone:
    case ErrorKind::kInvalidState:
        return RPMA_E_PROVIDER;
    case ErrorKind::kInvalidHandle:
    case ErrorKind::kInterrupted:
    case ErrorKind::kProtocol:
    case ErrorKind::kInternal:
        break;
    }
    return RPMA_E_UNKNOWN;
}

} // namespace sluice::rpma
