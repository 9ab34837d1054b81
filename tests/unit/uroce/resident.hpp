// SPDX-License-Identifier: BSD-3-Clause
//
// How much memory this process has of its own.
#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace sluice::uroce::test {

// A sanitizer keeps what is freed, so that there its own memory would be measured.
inline std::size_t resident_kib() {
#ifdef SLUICE_UNDER_SANITIZER
    return 0;
#else
    std::ifstream status("/proc/self/status");
    std::string word;
    std::size_t kib = 0;
    while (status >> word) {
        if (word == "RssAnon:") {
            status >> kib;
        }
    }
    return kib;
#endif
}

} // namespace sluice::uroce::test
