// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <cstring>

namespace sluice::provider {

// A caller in C may put any number into an enumeration; read as one, it would be undefined here.
template<typename Enumeration>
std::uint32_t number_of(const Enumeration& value) noexcept {
    static_assert(sizeof value == sizeof(std::uint32_t));
    std::uint32_t number = 0;
    std::memcpy(&number, &value, sizeof number);
    return number;
}

} // namespace sluice::provider
