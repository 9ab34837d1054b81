// SPDX-License-Identifier: BSD-3-Clause
//
// Files that the command needs beside itself, wherever it lies: paths from the command's directory to them.
#pragma once

#include <string>

namespace sluice::tools {

struct Part {
    const char* built; // in the build tree
    const char* installed;
};

inline constexpr Part kProviderProbe{"provider-probe", SLUICE_LIBEXEC_FROM_BIN "/provider-probe"};
inline constexpr Part kPreload{"../layers/preload/libsluice-preload.so",
                               SLUICE_LIB_FROM_BIN "/libsluice-preload.so"};
inline constexpr Part kHeap{"../layers/heap/libsluice-heap.so", SLUICE_LIB_FROM_BIN "/libsluice-heap.so"};
inline constexpr Part kCheck{"../layers/check/libsluice-check.so", SLUICE_LIB_FROM_BIN "/libsluice-check.so"};
inline constexpr Part kTrace{"../layers/trace/libsluice-trace.so", SLUICE_LIB_FROM_BIN "/libsluice-trace.so"};
inline constexpr Part kHosts{"../layers/hosts/libsluice-sync-hosts.so",
                             SLUICE_LIB_FROM_BIN "/libsluice-sync-hosts.so"};
inline constexpr Part kPower{"../layers/power/libsluice-power.so", SLUICE_LIB_FROM_BIN "/libsluice-power.so"};
inline constexpr Part kDropIns{"../layers/dropin/drop-in", SLUICE_LIB_FROM_BIN "/drop-in"};

// Throws a Failure when the part isn't there.
std::string find_part(const Part& part);
// Empty when the part isn't there, as in builds for sanitizers.
std::string find_part_or_nothing(const Part& part);

} // namespace sluice::tools
