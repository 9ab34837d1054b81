// SPDX-License-Identifier: BSD-3-Clause
//
// Shared receive queues, as far as rxe and siw are alike.
#pragma once

#include "provider/common/objects.hpp"

namespace sluice::provider {

// 0 if nothing speaks against making a queue on attr.pd, or an errno.
int check_extended_request(const ibv_context* context, const ibv_srq_init_attr_ex& attr) noexcept;

// Makes the kernel's half and fills in ours. 0 or an errno.
int make_in_kernel(abi::VerbsSrq& srq, ibv_pd* pd, void* srq_context, const ibv_srq_attr& attr,
                   ib_uverbs_create_srq_resp& answer, const abi::DriverData& driver) noexcept;
// Undoes that, for a queue that no program has seen.
void unmake_in_kernel(const abi::VerbsSrq& srq) noexcept;
// The kernel forgets it, and the program has acknowledged its events. 0, or an errno with nothing done.
int retire(abi::VerbsSrq& srq) noexcept;

} // namespace sluice::provider
