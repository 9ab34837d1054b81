// SPDX-License-Identifier: BSD-3-Clause
#include "core/fault_access.hpp"

#include <asm/sigcontext.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

#include "core/own_memory.hpp"

namespace sluice {

namespace {

// The syndrome register, in one of the records behind the registers: Arm ARM, "ESR_EL1".
std::optional<std::uint64_t> syndrome_of(const ucontext_t& context) noexcept {
    const auto* const records = reinterpret_cast<const unsigned char*>(context.uc_mcontext.__reserved);
    constexpr std::size_t kBytes = sizeof context.uc_mcontext.__reserved;
    _aarch64_ctx head{};
    for (std::size_t at = 0; at + sizeof(esr_context) <= kBytes; at += head.size) {
        std::memcpy(&head, records + at, sizeof head);
        if (head.magic == ESR_MAGIC) {
            esr_context record{};
            std::memcpy(&record, records + at, sizeof record);
            return record.esr;
        }
        if (head.magic == 0 || head.size == 0) {
            break;
        }
    }
    return std::nullopt;
}

Access access_of_syndrome(std::uint64_t syndrome) noexcept {
    constexpr std::uint64_t kDataAbort = 0x24; // from a lower level
    constexpr std::uint64_t kWriteNotRead = 1U << 6;
    constexpr std::uint64_t kCacheMaintenance = 1U << 8;
    if ((syndrome >> 26 & 0x3FU) != kDataAbort || (syndrome & kCacheMaintenance) != 0) {
        return Access::kUnknown;
    }
    return (syndrome & kWriteNotRead) != 0 ? Access::kStore : Access::kLoad;
}

constexpr bool has(std::uint32_t instruction, std::uint32_t mask, std::uint32_t bits) noexcept {
    return (instruction & mask) == bits;
}

constexpr Access load_if(bool is_load) noexcept {
    return is_load ? Access::kLoad : Access::kStore;
}

// Bit 22 of those that are a load with it, and a store without.
constexpr Access by_bit_22(std::uint32_t instruction) noexcept {
    return load_if((instruction >> 22 & 1U) != 0);
}

// Arm ARM, "Atomic memory operations": one that loads and stores needs both rights, and is a store. LDAPR and
// LD64B only load.
constexpr Access access_of_atomic(std::uint32_t instruction) noexcept {
    return load_if(has(instruction, 7U << 13, 6U << 13));
}

// A register: Arm ARM, "Load/store register".
Access access_of_register(std::uint32_t instruction) noexcept {
    const std::uint32_t operation = instruction >> 22 & 3U;
    const bool has_offset = has(instruction, 1U << 24, 1U << 24); // an unsigned one, and nothing else
    if (!has_offset && has(instruction, 1U << 21, 1U << 21)) {
        if (has(instruction, 3U << 10, 0)) {
            return access_of_atomic(instruction);
        }
        if (has(instruction, 1U << 10, 1U << 10)) {
            return Access::kLoad; // by an authenticated pointer
        }
    }
    const bool is_vector = has(instruction, 1U << 26, 1U << 26);
    return load_if(is_vector ? (operation & 1U) != 0 : operation != 0);
}

// Exclusive and ordered ones, and those that compare and swap.
Access access_of_exclusive(std::uint32_t instruction) noexcept {
    const bool is_swap = has(instruction, 1U << 21, 1U << 21) &&
                         (has(instruction, 1U << 23, 1U << 23) || has(instruction, 1U << 31, 0));
    return is_swap ? Access::kStore : by_bit_22(instruction);
}

// Arm ARM, "Top-level A64 instruction set encoding", "Loads and stores", "SVE encodings".
Access access_of_instruction(std::uint32_t instruction) noexcept {
    if (has(instruction, 0x3F00'0000, 0x0800'0000)) {
        return access_of_exclusive(instruction);
    }
    if (has(instruction, 0xBE00'0000, 0x0C00'0000)) { // structures of vectors
        return by_bit_22(instruction);
    }
    if (has(instruction, 0x3B00'0000, 0x1800'0000)) { // a literal
        return Access::kLoad;
    }
    if (has(instruction, 0x3F20'0C00, 0x1900'0000)) { // ordered, with an offset
        return load_if((instruction >> 22 & 3U) != 0);
    }
    if (has(instruction, 0x3A00'0000, 0x2800'0000)) { // a pair
        return by_bit_22(instruction);
    }
    if (has(instruction, 0x3A00'0000, 0x3800'0000)) {
        return access_of_register(instruction);
    }
    if (has(instruction, 0x9E00'0000, 0x8400'0000)) { // SVE
        return load_if(!has(instruction, 0x6000'0000, 0x6000'0000));
    }
    return Access::kUnknown;
}

} // namespace

// QEMU's user mode leaves the syndrome out.
Access access_of_fault(const ucontext_t& context) noexcept {
    if (const std::optional<std::uint64_t> syndrome = syndrome_of(context)) {
        return access_of_syndrome(*syndrome);
    }
    std::uint32_t instruction = 0; // none
    (void)copy_own_memory(context.uc_mcontext.pc, std::as_writable_bytes(std::span(&instruction, 1)));
    return access_of_instruction(instruction);
}

} // namespace sluice
