// SPDX-License-Identifier: BSD-3-Clause
//
// What happens when an access meets a protected page.
//
// Thread safety: may be called in any thread at any time.
#pragma once

#include <cstddef>

#include "core/result.hpp"

namespace sluice::layers::check::pages {

// Puts our handler in front of the program's. One system call when it is there already; not in a handler.
Result<void> catch_faults();

// For a device in this process that copies to a protected page: opens it for good, without a touch, and with
// it the other pages of the request that it belongs to. True: the access is to be repeated. In a fault's
// handler, too.
bool open_for_device(const void* address) noexcept;

// IS_INSIDE says of the calling thread whether it accesses memory for a device: then a fault is no touch. It
// is called in fault's handlers. There is room for eight.
void add_device(bool (*is_inside)()) noexcept;
// Of the calling thread, now.
bool is_device() noexcept;

} // namespace sluice::layers::check::pages
