// SPDX-License-Identifier: BSD-3-Clause
//
// Events of uroce's ids, as a program of librdmacm gets them. Taking an event may move a queue pair: the
// answer to a request leads to RTS, a rejection to the error state.
#pragma once

#include <memory>

#include "layers/preload/id.hpp"

namespace sluice::layers::preload {

// SOURCE as the program gets it, with its queue pair moved; null if it means nothing any more.
Result<std::unique_ptr<Event>> translate(sluice_cm_event* source);

// For calls that end with an event: a sync id waits for it, and keeps it until the next call.
Result<void> complete(Id& id);

} // namespace sluice::layers::preload
