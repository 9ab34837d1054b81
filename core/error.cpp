// SPDX-License-Identifier: BSD-3-Clause
#include "core/error.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>

namespace sluice {

std::string_view to_string(ErrorKind kind) noexcept {
    switch (kind) {
    case ErrorKind::kInvalidArgument:
        return "invalid argument";
    case ErrorKind::kInvalidHandle:
        return "invalid handle";
    case ErrorKind::kInvalidState:
        return "invalid state";
    case ErrorKind::kNotFound:
        return "not found";
    case ErrorKind::kExists:
        return "already exists";
    case ErrorKind::kBusy:
        return "busy";
    case ErrorKind::kPermission:
        return "permission denied";
    case ErrorKind::kProtection:
        return "protection violation";
    case ErrorKind::kInsufficientResources:
        return "insufficient resources";
    case ErrorKind::kOutOfRange:
        return "out of range";
    case ErrorKind::kNotSupported:
        return "not supported";
    case ErrorKind::kTimedOut:
        return "timed out";
    case ErrorKind::kInterrupted:
        return "interrupted";
    case ErrorKind::kConnection:
        return "connection failed";
    case ErrorKind::kDeviceGone:
        return "device gone";
    case ErrorKind::kProtocol:
        return "protocol error";
    case ErrorKind::kInternal:
        return "internal error";
    }
    return "unknown error";
}

ErrorKind kind_of_errno(int os_errno) noexcept {
    switch (os_errno) {
    case EINVAL:
    case EFAULT:
    case EDOM:
        return ErrorKind::kInvalidArgument;
    case EBADF:
        return ErrorKind::kInvalidHandle;
    case ENOENT:
    case ENXIO:
    case ESRCH:
        return ErrorKind::kNotFound;
    case EEXIST:
    case EADDRINUSE:
        return ErrorKind::kExists;
    case EBUSY:
    case EAGAIN:
        return ErrorKind::kBusy;
    case EPERM:
    case EACCES:
        return ErrorKind::kPermission;
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
        return ErrorKind::kInsufficientResources;
    case ERANGE:
    case EOVERFLOW:
    case E2BIG:
    case EMSGSIZE:
        return ErrorKind::kOutOfRange;
    case EOPNOTSUPP:
    case ENOSYS:
    case EPROTONOSUPPORT:
    case EAFNOSUPPORT:
        return ErrorKind::kNotSupported;
    case ETIMEDOUT:
        return ErrorKind::kTimedOut;
    case EINTR:
    case ECANCELED:
        return ErrorKind::kInterrupted;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
        return ErrorKind::kConnection;
    case ENODEV:
    case EIO:
        return ErrorKind::kDeviceGone;
    case EPROTO:
    case EBADMSG:
        return ErrorKind::kProtocol;
    case EISCONN:
    case ENOTCONN:
        return ErrorKind::kInvalidState;
    default:
        return ErrorKind::kInternal;
    }
}

int Error::to_errno() const noexcept {
    if (os_errno_ != 0) {
        return os_errno_;
    }
    switch (kind_) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kInvalidHandle:
    case ErrorKind::kInvalidState:
    case ErrorKind::kProtection:
        return EINVAL;
    case ErrorKind::kNotFound:
        return ENOENT;
    case ErrorKind::kExists:
        return EEXIST;
    case ErrorKind::kBusy:
        return EBUSY;
    case ErrorKind::kPermission:
        return EPERM;
    case ErrorKind::kInsufficientResources:
        return ENOMEM;
    case ErrorKind::kOutOfRange:
        return ERANGE;
    case ErrorKind::kNotSupported:
        return EOPNOTSUPP;
    case ErrorKind::kTimedOut:
        return ETIMEDOUT;
    case ErrorKind::kInterrupted:
        return EINTR;
    case ErrorKind::kConnection:
        return ECONNREFUSED;
    case ErrorKind::kDeviceGone:
        return ENODEV;
    case ErrorKind::kProtocol:
        return EPROTO;
    case ErrorKind::kInternal:
        return EIO;
    }
    return EIO;
}

Error Error::from_errno(int os_errno, const char* text) noexcept {
    return Error(kind_of_errno(os_errno), text, os_errno);
}

Error Error::format(ErrorKind kind, int os_errno, const char* format, ...) noexcept {
    Error error(kind, format, os_errno);
    std::va_list args;
    va_start(args, format);
    char text[512];
    const int written = std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (written < 0) {
        return error;
    }
    const std::size_t length = std::strlen(text);
    error.owned_.reset(new (std::nothrow) char[length + 1]);
    if (error.owned_) {
        std::memcpy(error.owned_.get(), text, length + 1);
    }
    return error;
}

Error Error::clone() const noexcept {
    if (!owned_) {
        return Error(kind_, literal_, os_errno_);
    }
    return format(kind_, os_errno_, "%s", owned_.get());
}

} // namespace sluice
