// SPDX-License-Identifier: BSD-3-Clause
//
// What went wrong, in our own words.
//
// An Error has a kind (which the outward tables of each C ABI turn into their codes), the errno
// that the system gave if there was one, and a text. The text says what was tried, what the
// limit was and what to do about it: it is what a user of the tool or a reader of the log sees.
//
// Making an Error from a literal allocates nothing, so data paths may do it. format() allocates
// for its text; if even that fails, the format string itself is kept.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace sluice {

enum class ErrorKind : std::uint8_t {
    kInvalidArgument,       // the caller passed something that can't be right
    kInvalidHandle,         // not a handle of ours, not of this kind, or freed
    kInvalidState,          // right object, wrong moment
    kNotFound,              // no such device, name, address
    kExists,                // a name or address that is taken
    kBusy,                  // in use by somebody; try again after they let go
    kPermission,            // the system, or the region's privileges, refuse it
    kProtection,            // protection zones or keys that don't belong together
    kInsufficientResources, // memory, slots, descriptors, locked pages
    kOutOfRange,            // outside a region, a ring or a limit that can be named
    kNotSupported,          // this device, kernel or CPU can't do it
    kTimedOut,
    kInterrupted, // a signal ended the wait
    kConnection,  // refused, reset, unreachable
    kDeviceGone,  // unplugged or its module removed
    kProtocol,    // a peer or a file said something that doesn't parse
    kInternal,    // our mistake: please report it
};

std::string_view to_string(ErrorKind kind) noexcept;

class [[nodiscard]] Error {
  public:
    // TEXT must live as long as the program: pass a literal.
    explicit Error(ErrorKind kind, const char* text = "", int os_errno = 0) noexcept
        : literal_(text), os_errno_(os_errno), kind_(kind) {}

    [[gnu::format(printf, 3, 4)]] static Error format(ErrorKind kind, int os_errno, const char* format,
                                                      ...) noexcept;

    // From errno as the system left it: the kind follows from the number.
    static Error from_errno(int os_errno, const char* text) noexcept;

    ErrorKind kind() const noexcept { return kind_; }
    int os_errno() const noexcept { return os_errno_; }
    const char* text() const noexcept { return owned_ ? owned_.get() : literal_; }

    // The errno that a C function in the style of libibverbs should give for this error:
    // the system's own if there was one, otherwise the closest to the kind. Never 0.
    int to_errno() const noexcept;

    // An Error is moved, so that its text has one owner; a copy must be asked for.
    Error clone() const noexcept;

  private:
    std::unique_ptr<char[]> owned_;
    const char* literal_;
    int os_errno_;
    ErrorKind kind_;
};

// The kind that an errno means when nothing more is known about the call.
ErrorKind kind_of_errno(int os_errno) noexcept;

} // namespace sluice
