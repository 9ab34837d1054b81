// SPDX-License-Identifier: BSD-3-Clause
//
// The processes of a run in which one has stopped, since the power is to be cut there, and how all of them
// end.
#pragma once

#include "tools/running_command.hpp"

namespace sluice::tools::persist {

// Lets the others go on as far as they get without the one that has stopped: what they tell the world by
// then, they tell although the step hasn't come. Until all threads of all our descendants sleep, or have
// computed for a short time, where some never sleep.
void let_others_go_on(RunningCommand& running);

// None of our descendants does anything any more, but what the kernel has begun for it. False: some don't
// stop.
bool stop_all();
// Ends them, who are stopped. None sees that another is dead.
void end_all();

} // namespace sluice::tools::persist
