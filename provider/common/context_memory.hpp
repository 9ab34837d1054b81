// SPDX-License-Identifier: BSD-3-Clause
//
// The memory of a context. libibverbs allocates its struct verbs_context and, in the same piece, room for our
// part. verbs_context has a size that differs between versions, but always ends in the ibv_context that
// programs hold, so our part is found right behind that.
#pragma once

#include <cstddef>

#include "provider/abi/probe.hpp"

namespace sluice::provider {

// What libibverbs' layout was found to be. Set once, before the first device is opened.
const abi::Abi& current_abi() noexcept;
void set_current_abi(const abi::Abi& measured) noexcept;

// A context in libibverbs' memory, with OWN_BYTES of ours right behind its ibv_context. Owns CMD_FD,
// whether it fails or not. Null with errno set.
ibv_context* allocate_context(ibv_device* device, int cmd_fd, std::size_t own_bytes,
                              std::uint32_t driver_id) noexcept;
// The structure that CONTEXT is the end of.
verbs_context* whole_context(ibv_context* context) noexcept;
// Closes its descriptors and gives back the memory, in which nothing of ours may live any more.
void free_context_memory(ibv_context* context) noexcept;

} // namespace sluice::provider
