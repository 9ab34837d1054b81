// SPDX-License-Identifier: BSD-3-Clause
//
// Numbers that a peer shouldn't guess: parts of keys and queue pair numbers. The stream starts from
// a seed that the device takes from the system, and a test from itself.
#pragma once

#include <cstdint>

namespace sluice::roce::engine {

// splitmix64, upper half.
inline std::uint32_t draw(std::uint64_t& state) noexcept {
    state += 0x9e3779b97f4a7c15;
    std::uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return static_cast<std::uint32_t>((z ^ z >> 31) >> 32);
}

} // namespace sluice::roce::engine
