// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/object.hpp"

namespace sluice::dapl {

constinit HandleTable all_handles;

} // namespace sluice::dapl
