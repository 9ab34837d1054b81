// SPDX-License-Identifier: BSD-3-Clause
//
// The names of adapters that libdat opens.
#pragma once

#include <string>

namespace sluice::dapl {

// The device that IA_NAME means: what dat.conf says, or the name itself.
std::string device_of(const char* ia_name);

} // namespace sluice::dapl
