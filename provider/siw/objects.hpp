// SPDX-License-Identifier: BSD-3-Clause
//
// The queues of siw. Each begins with libibverbs' structure of the same name.
#pragma once

#include <atomic>

#include "provider/common/objects.hpp"
#include "provider/common/queue_lock.hpp"
#include "provider/siw/ring.hpp"

namespace sluice::provider::siw {

struct Cq : ibv_cq_ex {
    QueueLock lock;
    Ring<siw_cqe> ring;
    std::atomic<const siw_cqe*> head{nullptr}; // the element to read next, for a look without the lock
    ibv_wc current{};                          // of start_poll() to end_poll()

    siw_cq_ctrl& control() const noexcept { return *static_cast<siw_cq_ctrl*>(ring.behind()); }
};

inline Cq& cq_of(ibv_cq* cq) noexcept {
    return *static_cast<Cq*>(reinterpret_cast<ibv_cq_ex*>(cq));
}
inline Cq& cq_of(ibv_cq_ex* cq) noexcept {
    return *static_cast<Cq*>(cq);
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
    bool signal_all = false;
    // Between wr_start() and wr_complete().
    std::uint32_t building = 0;
    int error = 0;
    siw_sqe* current = nullptr;
};

struct Qp : abi::VerbsQp {
    Qp() noexcept : VerbsQp{} {}

    SendQueue send;
    RecvQueue recv;
    abi::SendDoorbell doorbell{0, {}, 0};
    std::uint32_t doorbell_answer = 0; // the kernel writes here; nobody reads it
    // What we know of the state. The connection manager leads it in the kernel; the kernel
    // doesn't tell it when asked. There is no state before the first: iWARP begins idle.
    std::atomic<ibv_qp_state> state{IBV_QPS_INIT};
};

inline Qp& qp_of(ibv_qp* qp) noexcept {
    return *static_cast<Qp*>(reinterpret_cast<abi::VerbsQp*>(qp));
}

} // namespace sluice::provider::siw
