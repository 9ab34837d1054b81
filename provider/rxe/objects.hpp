// SPDX-License-Identifier: BSD-3-Clause
//
// The queues of rxe. Each begins with libibverbs' structure of the same name; what the data path
// touches stands together.
#pragma once

#include <memory>

#include "provider/common/completion_queue.hpp"
#include "provider/common/queue_pair.hpp"
#include "provider/common/shared_receive_queue.hpp"
#include "provider/rxe/header_places.hpp"
#include "provider/rxe/ring.hpp"
#include "provider/rxe/wqe.hpp"

namespace sluice::provider::rxe {

struct Qp;
struct Cq;

// A queue pair's place in the list of those that complete in a CQ. One that sends and receives
// there has two.
struct Membership {
    Qp* qp = nullptr;
    Cq* cq = nullptr;
    bool sends = false;
    Membership* next = nullptr; // guarded by the CQ's members_mutex
};

// A ring that a resize replaced. Its memory is given back, but its address range stays taken: a
// look without the lock may still be on its way there.
struct RetiredRing {
    abi::Mapping mapping;
    std::unique_ptr<RetiredRing> older;
};

struct Cq : CompletionQueue {
    // The two words that a look without the lock compares: the kernel's, and ours.
    std::atomic<const std::uint32_t*> produced_word{nullptr};
    std::atomic<std::uint32_t> next{0};      // the next element to read; written under the lock
    std::atomic<std::uint32_t> datagrams{0}; // members with HeaderPlaces; written under members_mutex
    Ring ring;
    std::uint32_t cursor = 0;              // of start_poll() to end_poll(): the element ...
    const ib_uverbs_wc* current = nullptr; // ... that is being read ...
    std::uint64_t header = 0;              // ... and where its header is, or 0

    abi::Mapping mapping;
    std::unique_ptr<RetiredRing> retired;
    // Queue pairs that complete here, for the day when the device is gone.
    Mutex members_mutex;
    Membership* members SLUICE_TSA(guarded_by(members_mutex)) = nullptr;
    ib_uverbs_wc flushed{}; // a completion of our own making
};

inline Cq& cq_of(ibv_cq* cq) noexcept {
    return static_cast<Cq&>(completion_queue_of(cq));
}
inline Cq& cq_of(ibv_cq_ex* cq) noexcept {
    return static_cast<Cq&>(completion_queue_of(cq));
}

// Receive requests: those of a queue pair, or shared.
struct RecvQueue {
    ProducerRing ring;
    QueueLock lock;
    std::uint32_t max_sge = 0;
    std::uint32_t flushed = 0;             // elements that were completed by us after the device was gone
    std::unique_ptr<HeaderPlaces> headers; // of datagrams; they are found with the CQ's members_mutex
    abi::Mapping mapping;
};

struct Srq : abi::VerbsSrq {
    RecvQueue queue;
};

inline Srq& srq_of(ibv_srq* srq) noexcept {
    return *static_cast<Srq*>(reinterpret_cast<abi::VerbsSrq*>(srq));
}

struct SendQueue {
    ProducerRing ring;
    QueueLock lock;
    SendLimits limits{};
    bool signal_all = false; // each request is reported, whether it asks for that or not
    // Between wr_start() and wr_complete().
    std::uint32_t building = 0;      // elements begun
    int error = 0;                   // the first that went wrong
    bool needs_address = false;      // the datagram that was begun last has no destination yet
    rxe_send_wqe* current = nullptr; // the element that setters write to; null after an error
    std::uint32_t flushed = 0;
    abi::Mapping mapping;
};

struct Qp : QueuePair {
    Qp() noexcept : QueuePair(IBV_QPS_RESET) {}

    SendQueue send;
    RecvQueue recv;
    Membership send_member;
    Membership recv_member;
};

inline Qp& qp_of(ibv_qp* qp) noexcept {
    return static_cast<Qp&>(queue_pair_of(qp));
}

struct Ah : ibv_ah {
    std::uint32_t number = 0; // the kernel's, for requests; never 0
};

inline const Ah& ah_of(const ibv_ah* ah) noexcept {
    return *static_cast<const Ah*>(ah);
}

} // namespace sluice::provider::rxe
