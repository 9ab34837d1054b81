// SPDX-License-Identifier: BSD-3-Clause
//
// librdmacm's endpoints, which are ids with everything made at once, and its addresses.
#pragma once

#include "layers/preload/id.hpp"

namespace sluice::layers::preload {

// Nothing, with *FACE as it was: the kernel's to make.
Result<Answer> create_endpoint(rdma_cm_id** visible, const rdma_addrinfo& way, ibv_pd* domain,
                               ibv_qp_init_attr* queues);

// As rdma_getaddrinfo(), where the kernel has no connections; rdma_freeaddrinfo() frees it.
Result<rdma_addrinfo*> find_addresses(const char* node, const char* service, const rdma_addrinfo* hints);

} // namespace sluice::layers::preload
