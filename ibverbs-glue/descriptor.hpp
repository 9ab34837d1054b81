// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "core/result.hpp"

namespace sluice::glue {

// Descriptors that libibverbs and librdmacm make block; ours are polled.
Result<void> make_non_blocking(int fd);

} // namespace sluice::glue
