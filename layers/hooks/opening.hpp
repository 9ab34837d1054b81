// SPDX-License-Identifier: BSD-3-Clause
//
// Calls that open a device lead to each other: sluice_open_uroce() to ibv_open_device(). A layer puts its
// functions into a context behind the outermost only. Otherwise two layers would each find the other's
// functions there a second time, take them for the provider's, and call each other without end.
#pragma once

#include <utility>

namespace sluice::layers::hooks {

// Each layer has a count of its own, as this is linked into each.
[[gnu::tls_model("initial-exec")]] inline constinit thread_local unsigned calls_that_open = 0;

// What CALL gives, and whether no other call of this thread is around it.
template<typename Call>
auto open_by(Call&& call) -> std::pair<decltype(call()), bool> {
    ++calls_that_open;
    auto* const opened = call();
    return {opened, --calls_that_open == 0};
}

} // namespace sluice::layers::hooks
