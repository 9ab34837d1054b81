// SPDX-License-Identifier: BSD-3-Clause
//
// A uroce device of the test's process, at an address of this process alone.
#pragma once

#include <arpa/inet.h>

#include <cstdlib>
#include <string>

#include "tests/loopback.hpp"

namespace sluice::layers::preload::test {

using sluice::test::own_address;

inline int use_own_device(void**) {
    return setenv("SLUICE_UROCE", ("uroce0=" + own_address()).c_str(), 1);
}

} // namespace sluice::layers::preload::test
