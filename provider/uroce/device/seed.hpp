// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/random.h>

#include <cerrno>
#include <cstdint>

#include "core/result.hpp"

namespace sluice::uroce::device {

// From the system: what streams of numbers that peers shouldn't guess start from.
inline Result<std::uint64_t> random_seed() {
    std::uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) {
        return Error::from_errno(errno, "no random numbers for keys and queue pair numbers");
    }
    return seed;
}

} // namespace sluice::uroce::device
