// SPDX-License-Identifier: BSD-3-Clause
//
// Notices a device that is going, on behalf of programs that poll or wait.
#pragma once

#include <infiniband/verbs.h>

namespace sluice::provider {

// Looks after the device, if it is time to. True: the kernel answers nothing any more, and what it
// left is for us to complete. Takes locks; call it with none held.
bool look_after_device(ibv_context* context) noexcept;

} // namespace sluice::provider
