// SPDX-License-Identifier: BSD-3-Clause
//
// Completion queues that are polled in steps, each with functions of its own.
#include "layers/check/completions.hpp"
#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/operations.hpp"
#include "layers/check/registry.hpp"
#include "layers/check/touches.hpp"
#include "layers/check/vain_polls.hpp"
#include "layers/check/waits.hpp"

namespace sluice::layers::check {

namespace {

std::shared_ptr<Queue> queue_of(ibv_cq_ex* polled) noexcept {
    return Registry::instance().queues.find(ibv_cq_ex_to_cq(polled));
}

// What stands in the queue's own fields.
void take_current(Queue& queue, ibv_cq_ex* polled) noexcept {
    const bool is_right = polled->status == IBV_WC_SUCCESS;
    take_completion(queue,
                    {.id = polled->wr_id,
                     .status = polled->status,
                     .pair_number = queue.real->read_qp_num(polled),
                     .is_receive = is_right && (queue.real->read_opcode(polled) & IBV_WC_RECV) != 0},
                    queue.polled);
}

// A program has promised one thread at a time. True: another one is in it, and the provider has no lock.
bool is_taken(Queue& queue, Place place) noexcept {
    const void* const other = queue.polling.load();
    if (!queue.is_single_threaded || other == nullptr || other == this_thread()) {
        return false;
    }
    tell("two-threads-at-once",
         {{"this thread polls it", place},
          {"the other thread polls it", queue.polled},
          {"the queue was made", queue.made}},
         [&] {
             return Told{name_of(queue),
                         "two threads poll it at a time, and it was made with "
                         "IBV_CREATE_CQ_ATTR_SINGLE_THREADED",
                         "poll it in one thread, or under a lock, or make it without that flag"};
         });
    return true;
}

// The lock is held from a start that brought something until the end.
int start_poll(ibv_cq_ex* polled, ibv_poll_cq_attr* how) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    const std::shared_ptr<Queue> queue = queue_of(polled);
    const Place place = here();
    take_look(*queue);
    touches::tell_all();
    if (is_taken(*queue, place)) {
        return queue->real->start_poll(polled, how);
    }
    queue->mutex.lock();
    queue->polling = this_thread();
    queue->polled = place;
    const touches::ForDevice calling;
    const int error = queue->real->start_poll(polled, how);
    take_poll(*queue, error == 0 ? 1 : 0);
    if (error == 0) {
        take_current(*queue, polled);
        return 0;
    }
    if (queue->lost_with_pairs.load(std::memory_order_relaxed) != 0) {
        take_empty_poll(*queue, place);
    }
    queue->polling = nullptr;
    queue->mutex.unlock();
    return error;
}

int next_poll(ibv_cq_ex* polled) noexcept {
    const std::shared_ptr<Queue> queue = queue_of(polled);
    const touches::ForDevice calling;
    const int error = queue->real->next_poll(polled);
    if (error == 0 && queue->polling == this_thread()) {
        take_current(*queue, polled);
    }
    return error;
}

void end_poll(ibv_cq_ex* polled) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    const std::shared_ptr<Queue> queue = queue_of(polled);
    queue->real->end_poll(polled);
    if (queue->polling == this_thread()) {
        queue->polling = nullptr;
        queue->mutex.unlock();
    }
}

} // namespace

void take_over(Queue& queue, ibv_cq_ex* made) noexcept {
    if (made->start_poll == nullptr || made->read_qp_num == nullptr || made->read_opcode == nullptr) {
        return; // it names no queue pair, and ibv_poll_cq() is all that is left
    }
    queue.real = std::make_unique<const ibv_cq_ex>(*made);
    made->start_poll = &start_poll;
    made->next_poll = &next_poll;
    made->end_poll = &end_poll;
}

} // namespace sluice::layers::check
