// SPDX-License-Identifier: BSD-3-Clause
//
// From an address to the device that has it, or that leads there.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <infiniband/verbs.h>

#include "ibverbs-glue/address.hpp"

namespace sluice::glue {

// What HOST and SERVICE, names or numbers, mean; SERVICE may be null. FOR_LISTENING: an address of this
// machine. May ask name servers. kNotFound when they mean nothing.
Result<Address> look_up(const char* host, const char* service, bool for_listening);

// The same for numbers alone, at once: kInvalidArgument for names.
Result<Address> address_from_numbers(const char* host, const char* service);

// The device that LOCAL is an address of. It is opened once for the process and stays open: every
// call gives the same one. Loopback addresses, and those that a uroce device was given, are uroce's.
Result<ibv_context*> context_at(const Address& local);

// A device that PEER can be reached from, under the same rules. A uroce device on this machine is reached
// from one on another address, unless it lives in this process: an address has one process.
Result<ibv_context*> context_towards(const Address& peer, int timeout_ms);

} // namespace sluice::glue
