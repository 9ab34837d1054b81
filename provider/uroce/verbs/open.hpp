// SPDX-License-Identifier: BSD-3-Clause
//
// Opening a device without a kernel: a context of libibverbs' own making, on which its public calls
// work, though nothing that it believes in is there. Its command descriptor is an eventfd, which
// understands no command, so that libibverbs' own commands fail cleanly; what it reads from /sys it
// reads from files of ours.
#pragma once

#include <infiniband/verbs.h>

#include "core/result.hpp"

namespace sluice::uroce::verbs {

// The device of a name or an address; null is uroce0. ibv_close_device() closes.
Result<ibv_context*> open_context(const char* name_or_address);

// device_cap_flags_ex of every such device, for callers that open none.
std::uint64_t capabilities() noexcept;

// general_caps of every such device's on-demand paging, likewise.
std::uint64_t paging_capabilities() noexcept;

// max_sge of every such device.
std::uint32_t max_sge() noexcept;

// The largest max_inline_data of a queue pair of such a device.
std::uint32_t max_inline() noexcept;

// Whether this CPU can write lines back from its caches, which is what a persistent flush does.
bool can_write_back() noexcept;

// Whether CONTEXT is one of those.
bool is_ours(const ibv_context* context) noexcept;

// What ibv_create_comp_channel() can't do here, because it asks the kernel by a command. Everything
// else that there is for a channel works on it.
Result<ibv_comp_channel*> create_comp_channel(ibv_context* context);

} // namespace sluice::uroce::verbs
