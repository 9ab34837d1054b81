// SPDX-License-Identifier: BSD-3-Clause
//
// What kind of machine it is, as far as memory is concerned.
#pragma once

#include <string>

#include "core/file_tree.hpp"

namespace sluice::attributes {

enum class Firmware { kUnknown, kDeviceTree, kAcpi };

struct Platform {
    std::string architecture; // as `uname -m`; empty when it isn't known
    int kernel_major = 0;     // 0 when it isn't known
    int kernel_minor = 0;
    Firmware firmware = Firmware::kUnknown;
    // A sign that this is a confidential guest, whose memory devices can't reach by themselves:
    // the path that shows it. Empty when there is none.
    std::string confidential_evidence;

    bool kernel_is_at_least(int major, int minor) const noexcept {
        return kernel_major > major || (kernel_major == major && kernel_minor >= minor);
    }
};

Platform read_platform(const FileTree& tree);

} // namespace sluice::attributes
