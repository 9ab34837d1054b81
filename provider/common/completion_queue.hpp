// SPDX-License-Identifier: BSD-3-Clause
//
// Completion queues, as far as rxe and siw are alike: what a program asks for, and what the kernel
// is told.
#pragma once

#include "provider/common/objects.hpp"
#include "provider/common/queue_lock.hpp"

namespace sluice::provider {

struct CompletionQueue : ibv_cq_ex {
    QueueLock lock;
    EmptyPolls empty_polls;
};

inline CompletionQueue& completion_queue_of(ibv_cq* cq) noexcept {
    return *static_cast<CompletionQueue*>(reinterpret_cast<ibv_cq_ex*>(cq));
}
inline CompletionQueue& completion_queue_of(ibv_cq_ex* cq) noexcept {
    return *static_cast<CompletionQueue*>(cq);
}

struct CqRequest {
    std::uint32_t cqe;
    std::uint32_t vector;
    ibv_comp_channel* channel;
    void* cq_context;
    std::uint32_t kernel_flags;
    bool single_threaded;
};

CqRequest cq_request(int cqe, ibv_comp_channel* channel, int vector) noexcept;
// The same from an extended request, of which a driver can do FLAGS. 0 or an errno.
int read_extended_request(const ibv_context* context, const ibv_cq_init_attr_ex& attr, std::uint32_t flags,
                          CqRequest& request) noexcept;

// Makes the kernel's half and fills in ours. 0 or an errno.
int make_in_kernel(CompletionQueue& cq, ibv_context* context, const CqRequest& request,
                   const abi::DriverData& driver) noexcept;
// Undoes that, for a queue that no program has seen.
void unmake_in_kernel(const CompletionQueue& cq) noexcept;
// The kernel forgets it, and the program has acknowledged its events. 0, or an errno with nothing done.
int retire(CompletionQueue& cq) noexcept;

} // namespace sluice::provider
