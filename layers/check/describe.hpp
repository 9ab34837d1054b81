// SPDX-License-Identifier: BSD-3-Clause
//
// What findings call objects and requests.
#pragma once

#include <string>

#include "layers/check/objects.hpp"

namespace sluice::layers::check {

std::string name_of(const QueuePair& pair); // "queue pair 17 of uroce0"
std::string name_of(const Queue& queue);    // "completion queue 2 of uroce0"
std::string name_of(const SharedQueue& queue);
std::string name_of(const Region& region);   // "region 0x2a01 (4096 bytes at 0x7f..)"
std::string name_of(const Request& request); // "Send 3"
std::string hex(std::uint64_t number);
std::string device_of(const ibv_context* context);
std::string status_name(ibv_wc_status status); // "remote access error"

} // namespace sluice::layers::check
