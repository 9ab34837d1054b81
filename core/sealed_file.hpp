// SPDX-License-Identifier: BSD-3-Clause
//
// Memory files that several processes map. Their size is sealed: nobody can take pages away from under
// another's mapping.
#pragma once

#include <cstddef>
#include <optional>

#include "core/descriptor.hpp"
#include "core/result.hpp"

namespace sluice {

Result<Descriptor> make_memory_file(const char* name, std::size_t len_bytes);
// FURTHER: seals besides those of the size. No seals can be added later.
Result<void> seal_size(const Descriptor& file, int further = 0);
// None: FILE's size may change, or it is no such file.
std::optional<std::size_t> sealed_bytes(const Descriptor& file) noexcept;

} // namespace sluice
