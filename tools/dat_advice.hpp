// SPDX-License-Identifier: BSD-3-Clause
//
// What to do where an adapter can't be opened, isn't there, or none is.
#pragma once

#include <string>
#include <vector>

#include "tools/dat_entries.hpp"

namespace sluice::tools {

// Why there is no adapter, and what makes one; ends with a newline.
std::string why_no_adapters(const Options& options, const std::vector<DatEntry>& entries);

// What programs can open. False: nothing.
bool print_adapters_or_why_none(const Options& options);

// Why none of ADAPTERS has that name. ENTRIES are those that programs see.
Failure no_such_adapter(const Options& options, const std::string& name, const std::vector<DatEntry>& entries,
                        const std::vector<Adapter>& adapters);

// What keeps ADAPTER from being opened, and what to type; never empty.
std::string why_not_opened(const Options& options, const Adapter& adapter,
                           const std::vector<DatEntry>& entries);

} // namespace sluice::tools
