// SPDX-License-Identifier: BSD-3-Clause
//
// From a library that a program asks the loader for to the drop-in that stands before it (ADR 75).
#pragma once

namespace sluice::layers::preload {

// Whether FILE, as dlopen() gets it, may be a library that there is a drop-in for.
bool may_have_drop_in(const char* file) noexcept;

// As dlopen(), for such a file: the drop-in, if FILE leads to the library that it stands before. Otherwise
// what FILE leads to, as somebody's own libibverbs isn't the one behind ours.
void* open_drop_in(const char* file, int mode) noexcept;

} // namespace sluice::layers::preload
