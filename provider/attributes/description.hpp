// SPDX-License-Identifier: BSD-3-Clause
//
// Attributes in words.
#pragma once

#include "core/result.hpp"
#include "sluice/sluice.h"

namespace sluice::attributes {

// kNotFound when there is no attribute at INDEX within the first ATTRIBUTES_SIZE bytes.
Result<sluice_attribute_description> describe(const sluice_device_attributes& attributes,
                                              std::size_t attributes_size, unsigned index);

const char* coherence_name(std::uint64_t coherence) noexcept;
const char* source_name(std::uint32_t source) noexcept;
const char* confidence_name(std::uint32_t confidence) noexcept;

} // namespace sluice::attributes
