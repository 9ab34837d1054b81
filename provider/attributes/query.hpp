// SPDX-License-Identifier: BSD-3-Clause
//
// Puts all answers about one device together.
#pragma once

#include <string_view>

#include "core/file_tree.hpp"
#include "provider/attributes/live_facts.hpp"
#include "sluice/sluice.h"

namespace sluice::attributes {

// How to reach the device, besides through files; called when it is known that it exists, with
// whether a registration would tell something. May give nothing.
using Asker = std::optional<LiveFacts> (*)(void* context, bool try_registration);

// kNotFound when there is no such device; the errors of the configuration.
Result<sluice_device_attributes> query(const FileTree& tree, std::string_view name, Asker ask, void* context);

} // namespace sluice::attributes
