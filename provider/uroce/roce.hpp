// SPDX-License-Identifier: BSD-3-Clause
//
// The rooms of the RoCEv2 stack, under the short names that this folder uses.
#pragma once

namespace sluice {

namespace roce {
namespace wire {}
namespace engine {}
namespace socket {}
namespace cm {}
namespace group {}
namespace near {}
} // namespace roce

namespace uroce {
namespace wire = roce::wire;
namespace engine = roce::engine;
namespace socket = roce::socket;
namespace cm = roce::cm;
namespace group = roce::group;
namespace near = roce::near;
} // namespace uroce

} // namespace sluice
