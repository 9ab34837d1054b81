// SPDX-License-Identifier: BSD-3-Clause
//
// The queue pair of an endpoint, and for each direction a ring of records and the dispatcher where they
// complete. It owns the setup and replaces the queue pair when the setup changes or a connection is over.
// Posts are in ep_post.hpp; they take the lock of their direction only. Everything else is called with the
// mutex of the endpoint's connection, by the program's threads and the loop's.
#pragma once

#include <optional>

#include "ibverbs-glue/queue_pair.hpp"
#include "udapl/provider/ep_options.hpp"
#include "udapl/provider/rmr.hpp"
#include "udapl/provider/sync_check.hpp"

namespace sluice::dapl {

class EpQueues {
  public:
    // OWNER is the endpoint, TARGET and REPORTS are, too: for the queue pair's asynchronous events, and the
    // task that takes the rings' reports. STATE decides whether a post is taken.
    EpQueues(const Object& owner, AsyncEventTarget& target, Task& reports, const std::atomic<EpState>& state,
             EpSetup setup);
    EpQueues(const EpQueues&) = delete;
    EpQueues& operator=(const EpQueues&) = delete;

    // Once, before anything else. kInvalidArgument where a dispatcher has endpoints of another model.
    Result<void> open();
    // Destroys the queue pair: from then on no record is in use, and no report comes. Before the end, also
    // where open() failed.
    void close() noexcept;

    const EpSetup& setup() const noexcept { return setup_; }
    const glue::QueuePair& queue_pair() const noexcept { return *qp_; }
    bool is_receive_idle() const noexcept { return receives_.is_idle(); }
    bool is_request_idle() const noexcept { return requests_.is_idle(); }
    // Looks at completions that are there.
    void collect() noexcept;
    // How many receives the program has to take, and from the first of them to the last. Looks first.
    ReceiveUse receive_use() noexcept;
    // Also without a dispatcher, for one that is to come.
    void set_watermarks(const Watermarks& watermarks) noexcept;
    // The connection is established: what was held before breaks it if that is too much.
    void check_watermarks() noexcept;

    // SETUP and FORMER become what was, on success; the caller destroys them without its mutex.
    EpAnswer change(EpSetup& setup, std::optional<glue::QueuePair>& former);
    // A queue pair as the present one.
    Result<glue::QueuePair> make_queue_pair() const { return make_queue_pair(setup_); }
    // FRESH takes the place of the present queue pair, which is given back. All records are free.
    glue::QueuePair replace(glue::QueuePair fresh);

    // The connection is over: what is posted is flushed. Completions that are there are queued before an
    // event that follows, where that comes to the same dispatcher.
    void flush_posted() noexcept;
    // Reports when all requests are done. False: that can't be known; but if they are done, it is true.
    bool begin_drain() noexcept;
    void end_drain() noexcept;
    // What completions of the present connection have meant since the last call.
    RingReport take_report() noexcept;

    EpAnswer post_receive(Segments segments, std::uint64_t cookie, PostFlags flags) noexcept;
    EpAnswer post_bind(const BindRequest& bind, std::uint64_t cookie, PostFlags flags) noexcept;
    // REMOTE means nothing for a send. An atomic takes as much as remote.length says, which is 8 bytes.
    template<EpRequest kKind>
    EpAnswer post_request(Segments segments, const RemoteSegment& remote, std::uint64_t cookie,
                          PostFlags flags, const RequestExtras& extras = {}) noexcept;

  private:
    Result<glue::QueuePair> make_queue_pair(const EpSetup& setup) const;
    bool join(const EpSetup& setup) noexcept;
    void leave(const EpSetup& setup) noexcept;
    void attach();
    // Where receives complete; null where there can't be any.
    EventQueue* receive_queue() const noexcept;
    bool needs_queue_pair(const EpSetup& setup) const noexcept;
    void forget_posted() noexcept;
    // Before QP is reset or destroyed.
    void take_back_shared(const glue::QueuePair& qp) noexcept;
    // Gives those that were counted by before; a soft one that was reported is infinite there.
    Watermarks count_receives(const Watermarks& watermarks) noexcept;

    EpAnswer check_state(PostFlags flags) const noexcept;
    static bool has_room_after_collecting_locked(DtoRing& ring, Evd& evd) noexcept
        SLUICE_TSA(requires_capability(ring.lock()));
    EpAnswer flush(Evd& evd, std::uint64_t cookie, DtoOperation operation) const noexcept;
    bool post_marker() noexcept;

    const Object& owner_;
    AsyncEventTarget& target_;
    coherence::Engine& memory_; // the device's
    SyncCheck* const check_;    // of its sync calls; null, as a rule
    const std::atomic<EpState>& state_;
    // Changed with the connection's mutex and the locks of both directions; read with any of these.
    EpSetup setup_;
    std::optional<glue::QueuePair> qp_;
    DtoRing requests_;
    DtoRing receives_;
    Watermarks watermarks_; // as they were set
};

} // namespace sluice::dapl
