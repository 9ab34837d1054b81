// SPDX-License-Identifier: BSD-3-Clause
//
// The ways to compute a CRC that belong to one architecture; crc32.cpp chooses among them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::roce::wire {

#if defined(__x86_64__)
bool crc32_vpclmul_usable() noexcept;
std::uint32_t crc32_vpclmul(std::uint32_t state, const std::uint8_t* data, std::size_t len_bytes) noexcept;
bool crc32_pclmul_usable() noexcept;
std::uint32_t crc32_pclmul(std::uint32_t state, const std::uint8_t* data, std::size_t len_bytes) noexcept;
#elif defined(__aarch64__)
bool crc32_arm64_usable() noexcept;
std::uint32_t crc32_arm64(std::uint32_t state, const std::uint8_t* data, std::size_t len_bytes) noexcept;
#endif

} // namespace sluice::roce::wire
