// SPDX-License-Identifier: BSD-3-Clause
#include "tools/seed.hpp"

#include <sys/random.h>

#include "tools/output.hpp"

namespace sluice::tools {

std::uint64_t drawn_seed(const std::string& subcommand) {
    std::uint32_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) {
        throw Failure(kExitFailure, subcommand + ": no random numbers; name a seed by --seed");
    }
    return seed;
}

} // namespace sluice::tools
