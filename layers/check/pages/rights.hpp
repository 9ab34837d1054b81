// SPDX-License-Identifier: BSD-3-Clause
//
// What the program may do with its memory, and what of it is safe to protect, as the kernel tells it.
//
// Stacks are the difficult part: a thread that meets a protected page of its own stack can't even be sent the
// fault. The main thread's has a name among the mappings. Of every other thread the kernel knows the list of
// robust mutexes, which C libraries keep in the thread's descriptor, at the upper end of its stack.
#pragma once

#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "layers/check/pages/protection.hpp"

namespace sluice::layers::check::pages {

// In order, and as far as there are mappings. Reads files of /proc and allocates.
Result<std::vector<KnownRange>> read_rights(PageRange pages);

// Those of the stack whose upper end is at TOP. It reaches down to the end of the memory that may be read, or
// to a stack's usual size.
PageRange stack_below(std::string_view maps, std::uint64_t top, std::uint64_t usual_bytes);

} // namespace sluice::layers::check::pages
