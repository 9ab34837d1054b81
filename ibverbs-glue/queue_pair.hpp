// SPDX-License-Identifier: BSD-3-Clause
//
// Queue pairs and shared receive queues.
#pragma once

#include "ibverbs-glue/completion.hpp"
#include "ibverbs-glue/memory.hpp"

namespace sluice::glue {

// Younger than the libibverbs that we may be compiled with.
constexpr std::uint64_t kWithFlush = SLUICE_QP_EX_WITH_FLUSH;

class SharedReceiveQueue : public Owned<ibv_srq, ibv_destroy_srq> {
  public:
    // ATTRIBUTES become what the device gave.
    static Result<SharedReceiveQueue> make(const ProtectionDomain& pd, ibv_srq_init_attr& attributes);

    Result<void> modify(ibv_srq_attr& attributes, int mask) const;
    Result<ibv_srq_attr> query() const;

    // The data path: 0, ENOMEM when the queue is full, or another errno; BAD is the first that was
    // not posted.
    int post_recv(ibv_recv_wr* requests, ibv_recv_wr** bad) const noexcept {
        return ibv_post_srq_recv(get(), requests, bad);
    }

  private:
    using Owned::Owned;
};

// Its protection domain and its queues outlive it.
class QueuePair : public Owned<ibv_qp, ibv_destroy_qp> {
  public:
    // ATTRIBUTES become what the device gave.
    static Result<QueuePair> make(const ProtectionDomain& pd, ibv_qp_init_attr& attributes);
    // With requests that are built by calls, IBV_QP_EX_WITH_* or kWithFlush in SEND_OPS. An error with
    // EOPNOTSUPP where the device has no such requests.
    static Result<QueuePair> make_extended(const ProtectionDomain& pd, const ibv_qp_init_attr& attributes,
                                           std::uint64_t send_ops);

    std::uint32_t number() const noexcept { return get()->qp_num; }
    // Whom it is connected to. kInvalidState where it isn't, or where the device doesn't say.
    struct Peer {
        Address address;
        std::uint32_t number = 0;
    };
    Result<Peer> peer() const;

    Result<void> modify(ibv_qp_attr& attributes, int mask) const;
    // Receives may be posted from then on. ACCESS: what a peer may do, bits IBV_ACCESS_REMOTE_*.
    Result<void> to_init(std::uint8_t port, unsigned access) const;
    // Flushes what is posted.
    Result<void> to_error() const;
    // As new.
    Result<void> to_reset() const;

    // The data path: 0, ENOMEM when the queue is full, or another errno; BAD is the first that was
    // not posted.
    int post_send(ibv_send_wr* requests, ibv_send_wr** bad) const noexcept {
        return ibv_post_send(get(), requests, bad);
    }
    int post_recv(ibv_recv_wr* requests, ibv_recv_wr** bad) const noexcept {
        return ibv_post_recv(get(), requests, bad);
    }

    // Requests of an extended queue pair: 0 or an errno. FLAGS: bits IBV_SEND_*.
    struct Target {
        std::uint32_t key;
        std::uint64_t address;
    };
    // The eight bytes at VALUE are taken at once.
    int post_atomic_write(std::uint64_t id, unsigned flags, Target target, const void* value) const noexcept;
    // What was written before to LENGTH bytes is visible, or persistent, when it completes.
    int post_flush(std::uint64_t id, unsigned flags, Target target, std::size_t length,
                   bool is_persistent) const noexcept;

  private:
    using Owned::Owned;

    Result<void> to_state(ibv_qp_state state) const;
};

} // namespace sluice::glue
