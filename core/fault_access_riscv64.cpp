// SPDX-License-Identifier: BSD-3-Clause
#include "core/fault_access.hpp"

#include <array>
#include <cstddef>
#include <span>

#include "core/own_memory.hpp"

namespace sluice {

namespace {

// Instructions lie in halves of four bytes: the first one, and the second where there is one.
using Halves = std::array<std::uint16_t, 2>;

// By the kernel: what is executed may be closed to loads.
Halves halves_at(std::uintptr_t address) noexcept {
    Halves halves{};
    (void)copy_own_memory(address, std::as_writable_bytes(std::span(halves)));
    return halves;
}

// RISC-V, "RV32/64G Instruction Set Listings": the major opcode.
Access access_of_whole(std::uint32_t instruction) noexcept {
    constexpr std::uint32_t kLoadReserved = 2;
    switch (instruction & 0x7FU) {
    case 0x03: // of integers
    case 0x07: // of floating-point numbers and vectors
        return Access::kLoad;
    case 0x23:
    case 0x27:
        return Access::kStore;
    case 0x2F:
        return instruction >> 27 == kLoadReserved ? Access::kLoad : Access::kStore;
    default:
        return Access::kUnknown;
    }
}

// "Compressed instructions": three bits at the top say what it is, in the rows 0 and 2.
Access access_of_half(std::uint16_t instruction) noexcept {
    const unsigned row = instruction & 3U;
    const unsigned what = instruction >> 13;
    if (row == 1 || what == 0) {
        return Access::kUnknown;
    }
    if (what == 4) { // bytes and halves of words; jumps in row 2
        const bool is_store = (instruction >> 11 & 1U) != 0;
        return row == 2 ? Access::kUnknown : is_store ? Access::kStore : Access::kLoad;
    }
    return what < 4 ? Access::kLoad : Access::kStore;
}

} // namespace

// The kernel knows, and doesn't tell programs.
Access access_of_fault(const ucontext_t& context) noexcept {
    const Halves halves = halves_at(context.uc_mcontext.__gregs[REG_PC]);
    return (halves[0] & 3U) != 3 ? access_of_half(halves[0])
                                 : access_of_whole(halves[0] | static_cast<std::uint32_t>(halves[1]) << 16);
}

} // namespace sluice
