// SPDX-License-Identifier: BSD-3-Clause
//
// The verbs objects of uroce, and the way from the public structure to ours: as for rxe and siw, each
// begins with the public one.
//
// What an object has in the engine, and the counts of events that were reported for it, belong to
// the device's lock. Counts of users are atomic: they make destroying fail while somebody uses it.
#pragma once

#include <sluice/sluice.h>

#include <array>
#include <memory>
#include <thread>

#include "core/verbs_values.hpp"
#include "provider/abi/completion_counter.hpp"
#include "provider/common/number_of.hpp"
#include "provider/common/objects.hpp"
#include "provider/common/queue_lock.hpp"
#include "provider/common/wr_functions.hpp"
#include "provider/uroce/verbs/context.hpp"

namespace sluice::uroce::verbs {

using provider::domain_of;
using provider::fail_with;
using provider::number_of;
using provider::ProtectionDomain;
using provider::QueueLock;

// What a device offers; limits that no object exceeds.
constexpr std::uint32_t kMaxWr = 32768; // a power of two, as what a send queue's memory is rounded up to
constexpr std::uint32_t kMaxCqe = 1U << 20;
constexpr std::uint32_t kMaxInlineBytes = 1024;
constexpr std::uint32_t kMaxRdAtomic = 16;
constexpr std::uint64_t kMaxDeviceMemory = std::uint64_t{64} << 20; // of one allocation
constexpr std::uint32_t kMaxObjects = 65536;                        // of kinds that only memory limits
constexpr std::uint8_t kPort = 1;
constexpr std::uint32_t kMaxSrqNumber = 0xffffff;

// The mask of kinds of access that a region or a queue pair may be given.
constexpr unsigned kRemoteAccessMask = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                       IBV_ACCESS_REMOTE_ATOMIC | unsigned{SLUICE_ACCESS_FLUSH_GLOBAL} |
                                       unsigned{SLUICE_ACCESS_FLUSH_PERSISTENT};

// From here on the core takes what a provider doesn't know out of the flags, or leaves it.
constexpr unsigned kOptionalAccess = 0x3ff00000;

// One user of an object, for as long as it lives.
using Users = std::atomic<int>;

struct Domain : provider::ProtectionDomain {
    Membership membership;
};

struct ThreadDomain : provider::ThreadDomain {
    Membership membership;
};

// Pages that only copies and regions reach. The public part's copies are made by functions of ours.
struct DeviceMemory : ibv_dm {
    DeviceMemory() noexcept : ibv_dm{} {}
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    std::byte* bytes = nullptr;
    std::size_t len_bytes = 0;
    std::size_t mapped_bytes = 0;
    Users users{0};
    Membership membership;
};

struct MemoryRegion : provider::MemoryRegion {
    std::uint64_t iova = 0;
    DeviceMemory* device_memory = nullptr; // whose it is a part of
    void* mapping = nullptr;               // of a DMA buffer
    std::size_t mapping_bytes = 0;
    Membership membership;
};

struct MemoryWindow : provider::MemoryWindow {
    Membership membership;
};

struct AddressHandle : ibv_ah {
    engine::Address source;
    engine::Address destination;
    Membership membership;
};

struct Cq : ibv_cq_ex {
    // The engine's part knows its way back.
    struct Queue : engine::CompletionQueue {
        Queue(Cq& owner, std::uint32_t capacity, Notify notify)
            : engine::CompletionQueue(capacity, notify), cq(owner) {}
        Cq& cq;
    };

    // Sends its program the event that it has armed the queue for.
    struct Wakeup : device::Device::Wakeup {
        Wakeup(Cq& owner, Wake wake) : device::Device::Wakeup(wake), cq(owner) {}
        Cq& cq;
    };

    Cq(ibv_context& its_context, std::uint32_t capacity, engine::CompletionQueue::Notify notify,
       Wakeup::Wake wake)
        : ibv_cq_ex{}, queue(*this, capacity, notify), wakeup(*this, wake) {
        context = &its_context;
    }
    Context& owner() const noexcept { return context_of(context); }

    // Between start_poll() and end_poll(): by the caller.
    bool is_open_here() const noexcept {
        return opener.load(std::memory_order_relaxed) == std::this_thread::get_id();
    }

    QueueLock lock; // of threads that take completions out
    Queue queue;
    Wakeup wakeup;
    const engine::Completion* current = nullptr; // from start_poll() to end_poll()
    std::atomic<std::thread::id> opener{};       // the thread between them
    Users users{0};
    std::uint32_t completions_reported = 0;
    std::uint32_t events_reported = 0;
    bool failure_reported = false;
    Membership membership;
    Membership channel_membership;
};

inline Cq& cq_of(ibv_cq* cq) noexcept {
    return *static_cast<Cq*>(reinterpret_cast<ibv_cq_ex*>(cq));
}
inline Cq& cq_of(ibv_cq_ex* cq) noexcept {
    return *static_cast<Cq*>(cq);
}

// One of the handles of an XRC domain.
struct Xrcd : ibv_xrcd {
    explicit Xrcd(ibv_context& its_context) noexcept : ibv_xrcd{} { context = &its_context; }
    Context& owner() const noexcept { return context_of(context); }

    device::XrcDomain* domain = nullptr; // none once its context is closed
    Users users{0};
    Membership membership;
};

inline Xrcd& xrcd_of(ibv_xrcd* xrcd) noexcept {
    return *static_cast<Xrcd*>(xrcd);
}

struct Srq : abi::VerbsSrq {
    Srq(ibv_context& context, std::uint32_t max_wr, std::uint32_t max_sge)
        : VerbsSrq{}, receives(max_wr, max_sge), limits{max_wr, max_sge, 0} {
        srq.context = &context;
    }
    Context& owner() const noexcept { return context_of(srq.context); }
    bool is_xrc() const noexcept { return srq_type == IBV_SRQT_XRC; } // then it has xrcd and cq

    engine::ReceiveQueue receives;
    ibv_srq_attr limits;
    Users users{0};
    std::uint32_t events_reported = 0;
    Membership membership;
};

inline Srq& srq_of(ibv_srq* srq) noexcept {
    return *static_cast<Srq*>(reinterpret_cast<abi::VerbsSrq*>(srq));
}

struct CompletionCounter : abi::CompCntr {
    explicit CompletionCounter(ibv_context& its_context) noexcept : CompCntr{} { context = &its_context; }
    Context& owner() const noexcept { return context_of(context); }

    engine::OperationCounter counts;
    Users users{0}; // kinds of operations of queue pairs
    Membership membership;
};

// Requests that are being built by ibv_wr_*; guarded by the queue pair's lock.
struct Builder {
    std::uint32_t room = 0;               // requests that fit
    std::uint32_t count = 0;              // requests begun
    int error = 0;                        // the first that went wrong
    bool needs_address = false;           // or, over XRC, a queue's number
    engine::SendEntry* current = nullptr; // what setters write to; null after an error
};

struct Qp : provider::WrQueuePair {
    explicit Qp(ibv_context& context) noexcept : WrQueuePair{} { qp.context = &context; }
    Context& owner() const noexcept { return context_of(qp.context); }

    engine::QueuePair* engine = nullptr;
    // Of XRC's receiver, which has neither a protection domain nor completion queues. All handles of one
    // engine's queue pair form a circle, guarded by the device's lock.
    Xrcd* xrcd = nullptr;
    Qp* next_handle = this;
    QueueLock lock; // of building, between wr_start() and wr_complete(); elided where nobody builds
    Builder builder;
    // What modify() was told and the engine doesn't keep; guarded by the device's lock.
    ibv_qp_init_attr init{};
    ibv_qp_attr attributes{};
    bool blocks_own_multicast = false;
    std::array<CompletionCounter*, engine::kCountedKinds> counters{};
    std::uint32_t events_reported = 0;
    Membership membership;
};

inline Qp& qp_of(ibv_qp* qp) noexcept {
    return *static_cast<Qp*>(reinterpret_cast<abi::VerbsQp*>(qp));
}

} // namespace sluice::uroce::verbs
