// SPDX-License-Identifier: BSD-3-Clause
//
// The devices that librdmacm is shown: those that the program is shown, and behind them those that ids were
// bound to although nobody lists them, because uroce has a device at every loopback address. librdmacm finds
// the device of an id by its GUID in this list.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "core/result.hpp"
#include "ibverbs-glue/address.hpp"

namespace sluice::layers::cmdev {

// From now on the device at ADDRESS, which CONTEXT has open, is in the list. Its GUID.
Result<std::uint64_t> show_device(const glue::Address& address, ibv_context* context);

// In place of libibverbs' functions, for librdmacm.
ibv_device** list_devices(int* count);
void free_device_list(ibv_device** list);
__be64 device_guid(ibv_device* device);
int device_index(ibv_device* device);
ibv_context* open_device(ibv_device* device);

} // namespace sluice::layers::cmdev
