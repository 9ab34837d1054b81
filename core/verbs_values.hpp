// SPDX-License-Identifier: BSD-3-Clause
//
// Values of libibverbs and of the kernel's interface to it that are younger than the headers that we may be
// compiled with.
#pragma once

#include <cstdint>

namespace sluice {

// enum ibv_wr_opcode
constexpr std::uint32_t kWrFlush = 14;
constexpr std::uint32_t kWrAtomicWrite = 15;

// enum ibv_wc_opcode
constexpr int kWcFlush = 8;

// Bits of ibv_device_attr_ex::device_cap_flags_ex
constexpr std::uint64_t kDeviceFlushGlobal = 1ULL << 38;
constexpr std::uint64_t kDeviceFlushPersistent = 1ULL << 39;
constexpr std::uint64_t kDeviceAtomicWrite = 1ULL << 40;
constexpr std::uint64_t kDeviceDmaBounce = 1ULL << 41;

} // namespace sluice
