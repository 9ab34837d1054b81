// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "layers/cmdev/id.hpp"

namespace sluice::layers::cmdev {

inline constexpr std::uint32_t kDatagramKey = 0x0123'4567; // librdmacm's RDMA_UDP_QKEY

// What librdmacm needs to bring the queue pair of an id to STATE.
Result<ib_uverbs_qp_attr> queue_pair_attributes(const Id& id, ibv_qp_state state);

} // namespace sluice::layers::cmdev
