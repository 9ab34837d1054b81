// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice {

// FROM into an array of C, which ends with a zero byte. Cuts what is too long.
template<std::size_t kSize>
void put_text(char (&to)[kSize], std::string_view from) noexcept {
    to[from.copy(to, kSize - 1)] = '\0';
}

} // namespace sluice
