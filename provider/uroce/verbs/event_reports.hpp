// SPDX-License-Identifier: BSD-3-Clause
//
// From an event of the engine to the asynchronous events of libibverbs that it means.
#pragma once

#include "provider/uroce/roce.hpp"
#include "roce/engine/types.hpp"

namespace sluice::uroce::verbs {

// Reports EVENT to the context of OWNER, which is a Qp. The caller holds the device's lock.
void report_event(void* owner, engine::AsyncEvent event) noexcept;

} // namespace sluice::uroce::verbs
