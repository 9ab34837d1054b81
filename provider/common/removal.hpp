// SPDX-License-Identifier: BSD-3-Clause
//
// A device may go while it is in use, and neither rdma_rxe nor siw tells. The kernel takes the
// device's file out of sysfs and then waits, for as long as it takes, until every program has
// closed the device. So programs must be told to: their queue pairs are led to the error state,
// which has the kernel flush what they wait for, and IBV_EVENT_DEVICE_FATAL is reported.
//
// A kernel that can cut off its programs answers EIO from then on, and reports that event itself.
//
// There is no thread that watches. A thread that polls in vain or arms a completion queue looks, ten
// times in a second at most. docs/adr/0025 tells why, and how the event comes about.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "provider/abi/uverbs.hpp"

namespace sluice::provider {

// Counts polls in vain, so that only now and then one of them looks at the clock. Relaxed: a count
// that two threads spoil is as good.
class EmptyPolls {
  public:
    bool are_few() noexcept {
        const std::int32_t left = left_.load(std::memory_order_relaxed) - 1;
        left_.store(left, std::memory_order_relaxed);
        return left >= 0;
    }
    void restart() noexcept { left_.store(kPolls, std::memory_order_relaxed); }

  private:
    // A microsecond of polling without pause, or a second of one poll in four milliseconds.
    static constexpr std::int32_t kPolls = 256;

    std::atomic<std::int32_t> left_{kPolls};
};

// The verbs of a driver that report() makes the event with.
struct DriverVerbs {
    ibv_pd* (*alloc_pd)(ibv_context* context) noexcept;
    int (*dealloc_pd)(ibv_pd* pd) noexcept;
    ibv_cq* (*create_cq)(ibv_context* context, int cqe, ibv_comp_channel* channel, int vector) noexcept;
    int (*destroy_cq)(ibv_cq* cq) noexcept;
    ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attr) noexcept;
    int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attr, int mask) noexcept;
    int (*destroy_qp)(ibv_qp* qp) noexcept;
    int (*post_recv)(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept;
};

// What an opened device knows of its own end.
class Removal {
  public:
    explicit Removal(const abi::KernelCalls& kernel) noexcept : kernel_(kernel) {}
    ~Removal();
    Removal(const Removal&) = delete;
    Removal& operator=(const Removal&) = delete;

    // Opens the file of DEVICE that vanishes with it. Without one, as where sysfs isn't mounted,
    // a removal goes unnoticed. An imported context reports no event: the kernel would send it to
    // the process that the context comes from.
    void watch(const ibv_device& device, const DriverVerbs& verbs, bool imported) noexcept;

    bool begun() const noexcept { return begun_.load(std::memory_order_relaxed); }
    // Whether it is time to look again; true for one thread only.
    bool is_time() noexcept;
    // Whether the device has gone since the last call.
    bool begins() noexcept;

    // Makes the kernel report an event of CONTEXT, once.
    void report(ibv_context* context) noexcept;
    // Turns the kernel's event into the one that is meant, if it is that.
    void translate(ibv_async_event& event) noexcept;
    // Before the device is closed.
    void clean_up() noexcept;

  private:
    int make_event(ibv_context* context) noexcept;
    int overrun() noexcept;

    const abi::KernelCalls& kernel_;
    const DriverVerbs* verbs_ = nullptr;
    int file_ = -1;
    bool reports_ = false;
    std::atomic<std::int64_t> next_look_ms_{0};
    std::atomic<bool> begun_{false};
    // Objects that nobody but us knows.
    ibv_pd* pd_ = nullptr;
    std::atomic<ibv_cq*> cq_{nullptr};
    ibv_qp* qp_ = nullptr;
};

} // namespace sluice::provider
