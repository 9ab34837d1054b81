// SPDX-License-Identifier: BSD-3-Clause
//
// A uroce device of the test's process: its address is made from the process's number.
#pragma once

#include <arpa/inet.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace sluice::preload::test {

inline const std::string& own_address() {
    static const std::string address = [] {
        constexpr int kHosts = 254;
        const int number = getpid();
        return "127." + std::to_string(8 + number / kHosts / 256) + "." +
               std::to_string(number / kHosts % 256) + "." + std::to_string(number % kHosts + 1);
    }();
    return address;
}

inline int use_own_device(void**) {
    return setenv("SLUICE_UROCE", ("uroce0=" + own_address()).c_str(), 1);
}

} // namespace sluice::preload::test
