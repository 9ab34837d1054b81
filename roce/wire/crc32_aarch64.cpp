// SPDX-License-Identifier: BSD-3-Clause
//
// CRC-32 by the instructions that arm64 has for exactly this polynomial (optional in ARMv8.0,
// required since 8.1). One of them takes eight bytes, with a latency of two or three cycles and a
// throughput of one: three independent streams would hide the latency, at the price of joining
// them by a multiplication. Packets are short, so one stream it is.
#if defined(__aarch64__)

#include "roce/wire/crc32_arch.hpp"

#include <arm_acle.h>
#include <sys/auxv.h>

#include <cstring>

#include "roce/wire/crc32.hpp"

namespace sluice::roce::wire {
namespace {

// The bit that the kernel gives in AT_HWCAP; <asm/hwcap.h> calls it HWCAP_CRC32.
constexpr unsigned long kHwcapCrc32 = 1UL << 7;

} // namespace

bool crc32_arm64_usable() noexcept {
    return (getauxval(AT_HWCAP) & kHwcapCrc32) != 0;
}

[[gnu::target("+crc")]] std::uint32_t crc32_arm64(std::uint32_t state, const std::uint8_t* data,
                                                  std::size_t len_bytes) noexcept {
    for (; len_bytes >= 8; data += 8, len_bytes -= 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, data, sizeof word);
        state = __crc32d(state, word);
    }
    for (; len_bytes != 0; ++data, --len_bytes) {
        state = __crc32b(state, *data);
    }
    return state;
}

} // namespace sluice::roce::wire

#endif
