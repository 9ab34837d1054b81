// SPDX-License-Identifier: BSD-3-Clause
//
// Where in the program something happened. Equal stacks are kept once, for good, so that a request takes a
// pointer: a program has some thousands of places at most.
#pragma once

#include "core/report/stack.hpp"

namespace sluice::layers::check {

using Place = const report::Stack*;

// Where the calling thread is. An empty stack, once there are too many. Allocates at a place that is new.
Place here() noexcept;

// A mark of the calling thread, unlike that of all others that live.
const void* this_thread() noexcept;

// A number of this process, which a child of fork() doesn't share.
unsigned this_process() noexcept;

} // namespace sluice::layers::check
