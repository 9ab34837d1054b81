// SPDX-License-Identifier: BSD-3-Clause
//
// This process's memory, where another thread may close or unmap it at any moment.
//
// Thread safety: everything may be called from any thread, and within a signal's handler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sluice {

// Copies the bytes from ADDRESS on, by the kernel, and gives how many it did: up to the first page that can't
// be read. Nothing where the calls that copy are refused, or no descriptor is free for
// one of them.
std::optional<std::size_t> copy_own_memory(std::uintptr_t address, std::span<std::byte> to) noexcept;

} // namespace sluice
