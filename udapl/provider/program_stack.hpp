// SPDX-License-Identifier: BSD-3-Clause
//
// Where the program is in a finding: a stack without what stands between the program and this library.
//
// Thread safety: may be called from any thread.
#pragma once

#include "core/report/stack.hpp"

namespace sluice::dapl {

report::Stack of_program(const report::Stack& stack) noexcept;

} // namespace sluice::dapl
