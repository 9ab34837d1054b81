// SPDX-License-Identifier: BSD-3-Clause
//
// What open() and its like may have behind their flags.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstdarg>

namespace sluice::layers::hooks {

// Of the arguments behind FLAGS, which are the mode of a file that is to be made, or none.
inline mode_t mode_among(va_list& rest, int flags) noexcept {
    const bool makes_file = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    return makes_file ? va_arg(rest, mode_t) : 0;
}

} // namespace sluice::layers::hooks
