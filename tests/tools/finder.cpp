// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "core/report/finding.hpp"

extern "C" {
#include "tests/tools/finder.h"
}

namespace {

using namespace sluice::report;

Stack noted;

} // namespace

[[gnu::visibility("default")]] void finder_note() {
    noted = capture();
}

[[gnu::visibility("default")]] void finder_find(const char* rule) {
    const Stack here = capture();
    const std::array sides{Side{.title = "it was posted", .stack = &noted},
                           Side{.title = "it was written to", .stack = &here}};
    write({.rule = rule,
           .object = "Send 3 of queue pair 17 of uroce0",
           .what = "its buffer was changed, bytes 0 to 63",
           .remedy = "await the completion",
           .sides = sides});
}

[[gnu::visibility("default")]] void finder_find_blind_spot(const char* what) {
    write_blind_spot(what);
}
