// SPDX-License-Identifier: BSD-3-Clause
//
// The functions that ours stand before: those of the next library that has them, most often libibverbs'.
// Looked up at first use, so that a program that uses no RDMA doesn't load it for us.
#pragma once

#include <infiniband/verbs.h>

namespace sluice::layers::hooks {

struct RealVerbs {
    decltype(&::ibv_get_device_list) get_device_list = nullptr;
    decltype(&::ibv_free_device_list) free_device_list = nullptr;
    decltype(&::ibv_get_device_guid) get_device_guid = nullptr;
    decltype(&::ibv_get_device_index) get_device_index = nullptr; // null: a libibverbs older than 1.9
    decltype(&::ibv_open_device) open_device = nullptr;
    decltype(&::ibv_import_device) import_device = nullptr; // null: a libibverbs older than 1.10
    decltype(&::ibv_create_comp_channel) create_comp_channel = nullptr;
    decltype(&::ibv_create_ah) create_ah = nullptr;
    decltype(&::ibv_query_gid) query_gid = nullptr;
};

// Null without a libibverbs; errno is ENOSYS then.
const RealVerbs* real_verbs() noexcept;

} // namespace sluice::layers::hooks
