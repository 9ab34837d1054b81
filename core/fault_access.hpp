// SPDX-License-Identifier: BSD-3-Clause
//
// Whether a fault was a load or a store: from what the kernel says of it, or from the instruction. An
// architecture that has a file here has either. An atomic operation is a store; on arm64 it may be a load on
// a page that may not even be read.
//
// Thread safety: everything may be called in any thread, and within a signal's handler.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace sluice {

enum class Access : std::uint8_t { kLoad, kStore, kUnknown };

// Whether access_of_fault() knows loads from stores at all.
#if defined(__x86_64__) || defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64)
constexpr bool kKnowsAccesses = true;
#else
constexpr bool kKnowsAccesses = false;
#endif

// In a fault's handler. Unknown, too, is an instruction that maintains caches, and one that isn't known here.
Access access_of_fault(const ucontext_t& context) noexcept;

} // namespace sluice
