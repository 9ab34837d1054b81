// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "layers/cmdev/request.hpp"

namespace sluice::layers::cmdev {

// What an id's addresses are, and the way between them: the older command, which has everything in one
// answer, and the newer one.
Result<Answer> query_route(const Request& request);
Result<Answer> query(const Request& request);

} // namespace sluice::layers::cmdev
