// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/looking_ahead.hpp"

#include "core/boundary.hpp"
#include "layers/check/touches.hpp"

namespace sluice::layers::check {

void look_ahead(Queue& queue) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        const LockGuard lock(queue.mutex);
        const touches::ForDevice calling;
        ibv_wc completion;
        while (queue.real == nullptr && queue.context->real.poll_cq(queue.object, 1, &completion) == 1) {
            queue.ahead.push_back(completion);
        }
        return {};
    });
}

} // namespace sluice::layers::check
