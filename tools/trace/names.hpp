// SPDX-License-Identifier: BSD-3-Clause
//
// What numbers in events are called. "?" is a number that nobody has given a name.
#pragma once

#include <string>

#include "layers/trace/file/layout.hpp"

namespace sluice::tools::trace {

std::string name_of_post(const layers::trace::file::Event& event); // such as "Write", or "Receive"
std::string name_of_status(std::uint8_t status);                   // such as "IBV_WC_WR_FLUSH_ERR"
std::string name_of_sync(std::uint8_t code);                       // the function's
std::string name_of_connection_event(std::uint8_t type);           // such as "RDMA_CM_EVENT_ESTABLISHED"
std::string name_of_pair_type(std::uint8_t type);                  // such as "RC"

} // namespace sluice::tools::trace
