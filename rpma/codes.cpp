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

const char* text_of(rpma_conn_event event) noexcept {
    switch (event) {
    case RPMA_CONN_UNDEFINED:
        return "Undefined connection event";
    case RPMA_CONN_ESTABLISHED:
        return "Connection established";
    case RPMA_CONN_CLOSED:
        return "Connection closed";
    case RPMA_CONN_LOST:
        return "Connection lost";
    case RPMA_CONN_REJECTED:
        return "Connection rejected";
    case RPMA_CONN_UNREACHABLE:
        return "Connection unreachable";
    }
    return "Unsupported connection event";
}

} // namespace sluice::rpma
