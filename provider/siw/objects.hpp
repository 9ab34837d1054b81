// SPDX-License-Identifier: BSD-3-Clause
//
// The queues of siw. Each begins with libibverbs' structure of the same name.
#pragma once

#include <atomic>

#include "provider/common/completion_queue.hpp"
#include "provider/common/queue_pair.hpp"
#include "provider/common/shared_receive_queue.hpp"
#include "provider/siw/ring.hpp"

namespace sluice::provider::siw {

struct Cq : CompletionQueue {
    Ring<siw_cqe> ring;
    std::atomic<siw_cqe*> head{nullptr}; // the element to read next, for a look without the lock
    ibv_wc current{};                    // of start_poll() to end_poll()

    siw_cq_ctrl& control() const noexcept { return *reinterpret_cast<siw_cq_ctrl*>(ring.end()); }
};

inline Cq& cq_of(ibv_cq* cq) noexcept {
    return static_cast<Cq&>(completion_queue_of(cq));
}
inline Cq& cq_of(ibv_cq_ex* cq) noexcept {
    return static_cast<Cq&>(completion_queue_of(cq));
}

struct RecvQueue {
    QueueLock lock;
    Ring<siw_rqe> ring;
    std::uint32_t max_sge = 0;
};

struct Srq : abi::VerbsSrq {
    RecvQueue queue;
};

inline Srq& srq_of(ibv_srq* srq) noexcept {
    return *static_cast<Srq*>(reinterpret_cast<abi::VerbsSrq*>(srq));
}

struct SendQueue {
    QueueLock lock;
    Ring<siw_sqe> ring;
    std::uint32_t max_sge = 0;
    unsigned signal_all = 0; // the flag of an element that asks for a completion, if all do
    // Between wr_start() and wr_complete().
    std::uint32_t building = 0;
    int error = 0;
    siw_sqe* current = nullptr;
};

// The connection manager leads its state in the kernel; the kernel doesn't tell it when asked. There
// is no state before the first: iWARP begins idle.
struct Qp : QueuePair {
    Qp() noexcept : QueuePair(IBV_QPS_INIT) {}

    SendQueue send;
    RecvQueue recv;
};

// The device was removed, and the queue pair led to the error state. The kernel doesn't look at what
// is posted there afterwards, not even to flush it.
inline bool is_closed(const Qp& qp) noexcept {
    return qp.state.load(std::memory_order_relaxed) == IBV_QPS_ERR &&
           context_of(qp.qp.context).removal.begun();
}

inline Qp& qp_of(ibv_qp* qp) noexcept {
    return static_cast<Qp&>(queue_pair_of(qp));
}

} // namespace sluice::provider::siw
