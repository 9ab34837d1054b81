// SPDX-License-Identifier: BSD-3-Clause
//
// Multicast groups that ids join. librdmacm attaches the queue pair itself, when it gets the event: what it
// needs from here is the event, with the way to the group.
#pragma once

#include "layers/cmdev/request.hpp"

namespace sluice::layers::cmdev {

Result<Answer> join_multicast_ip(const Request& request); // the older command
Result<Answer> join_multicast(const Request& request);
Result<Answer> leave_multicast(const Request& request);

bool is_of_group(const Event& event) noexcept;
// The one that EVENT is about; null: ID has left it.
Id::Group* group_of(const Event& event, Id& id) noexcept;

} // namespace sluice::layers::cmdev
