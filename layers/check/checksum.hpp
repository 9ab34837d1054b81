// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>

#include "layers/check/requests.hpp"

namespace sluice::layers::check {

// Of all that REQUEST sends, but for whole pages that are protected. Nothing where a page of it is gone, or
// forbidden.
std::optional<std::uint64_t> checksum_of(const Request& request) noexcept;

} // namespace sluice::layers::check
