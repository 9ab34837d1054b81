// SPDX-License-Identifier: BSD-3-Clause
//
// rxe's devices, as libibverbs opens them.
#pragma once

#include "provider/abi/layout.hpp"

namespace sluice::provider::rxe {

verbs_context* open(ibv_device* device, int cmd_fd, void* private_data) noexcept;
verbs_context* import(ibv_device* device, int cmd_fd) noexcept;

} // namespace sluice::provider::rxe
