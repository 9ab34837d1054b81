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
// what would tell something if it was tried. May give nothing.
using Asker = std::optional<LiveFacts> (*)(void* context, Trials trials);

// kNotFound when there is no such device; the errors of the configuration. MAY_TRY_QUEUE_PAIRS makes some,
// for attributes that nothing else shows.
Result<sluice_device_attributes> query(const FileTree& tree, std::string_view name, Asker ask, void* context,
                                       bool may_try_queue_pairs = true);

} // namespace sluice::attributes
