// SPDX-License-Identifier: BSD-3-Clause
//
// Numbers in the bytes that librpma's peers give each other. Pure functions.
#pragma once

#include <cstddef>

namespace sluice::rpma {

template<typename T>
void put_little_endian(T value, std::byte* to) noexcept {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        to[i] = static_cast<std::byte>(value >> (8 * i));
    }
}

template<typename T>
T get_little_endian(const std::byte* from) noexcept {
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        value |= std::to_integer<T>(from[i]) << (8 * i);
    }
    return value;
}

} // namespace sluice::rpma
