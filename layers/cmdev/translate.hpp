// SPDX-License-Identifier: BSD-3-Clause
//
// What uroce's connection manager reports, in the words that the kernel has for librdmacm.
#pragma once

#include <sluice/sluice.h>

#include <optional>

#include "layers/cmdev/event.hpp"

namespace sluice::layers::cmdev {

// SOURCE isn't needed any more then. Nothing: it is of no meaning to librdmacm.
std::optional<Event> translate(const sluice_cm_event& source);

} // namespace sluice::layers::cmdev
