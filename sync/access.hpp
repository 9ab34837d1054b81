// SPDX-License-Identifier: BSD-3-Clause
//
// What a program may do with the pages of a range, as the kernel sees it.
//
// Thread safety: there is no state. The answer holds until somebody unmaps or protects the pages.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/coherence/segment.hpp"
#include "core/result.hpp"

namespace sluice::sync {

using coherence::Range;

enum class Access : bool { kRead, kWrite };

// Whether a range that isn't empty ends where addresses do, and begins with a page that can exist.
inline bool is_sound(Range range) noexcept {
    return range.address + range.length >= range.address && (range.address != 0 || range.length == 0);
}

// An error about RANGE whose text is "LENGTH bytes at ADDRESS: WHAT".
Error error_about(Range range, ErrorKind kind, const char* what, int os_errno = 0) noexcept;

// ERROR, said of segment INDEX of a batch.
Error error_in_segment(std::uint64_t index, const Error& error) noexcept;

// Nothing when ACCESS is possible on every page. EFAULT: a page isn't mapped, can't be read, or has lost its
// file; EACCES: one may not be written; ENOMEM: the kernel couldn't tell. RANGE is sound. Costs a system
// call, and where that can't tell it reads /proc/self/maps.
Result<void> check_access(Range range, Access access);

// OPEN is called before the kernel is asked about a range: pages of it may be closed to the program for a
// while, by somebody who isn't the program. Null: there is nobody.
void set_opener(void (*open)(Range range) noexcept) noexcept;

// The same by the text of /proc/self/maps, which knows mappings, and not what became of their files.
Result<void> check_listed(std::string_view maps, Range range, Access access) noexcept;

} // namespace sluice::sync
