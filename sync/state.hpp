// SPDX-License-Identifier: BSD-3-Clause
//
// What is the same for every call of this process: the table of the CPU, and whether pages are checked.
//
// Thread safety: all of it, from any thread.
#pragma once

#include <atomic>

#include "core/coherence/cacheflush.hpp"
#include "core/result.hpp"

namespace sluice::sync {

using coherence::Ops;

// The table, once it is known and as long as nothing is to be checked. Acquire: its partner publishes the
// table.
extern std::atomic<const Ops*> ready_ops;

// The table of what this process runs on, the same each time: the CPU in libsluice-sync, which native.cpp
// has, and a simulated host in what `sluice sync run` preloads in its place (layers/hosts).
Result<const Ops*> machine_ops();

// The table in any case; leaves it in ready_ops where nothing is to be checked. Errors as machine_ops().
Result<const Ops*> prepare_ops();

// As set_checking() says, or SLUICE_SYNC_CHECK before it is called.
bool is_checking() noexcept;
void set_checking(bool on) noexcept;

} // namespace sluice::sync
