// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>

namespace sluice::tools {

// What stands below a command's help: lines that somebody may type. COMMAND is such as "dat check"; empty:
// sluice itself.
std::string examples_of(std::string_view command);

} // namespace sluice::tools
