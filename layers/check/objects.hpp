// SPDX-License-Identifier: BSD-3-Clause
//
// What is known of a program's verbs objects. The objects themselves stay the provider's, and nothing of ours
// is in them but functions in the tables that they have for that.
//
// A record's lock is held while the provider's function runs that posts to the object or polls it, so that
// requests and completions are seen in the order in which the device sees them. A completion queue's lock
// comes before that of a queue pair, and a queue pair's before that of a shared receive queue.
//
// Two locks are held from one call of the program to another, as providers hold theirs: a queue pair's for
// sending, and that of a completion queue that is polled in steps. Between the calls the program may post
// receives, poll other queues, and end objects. So a queue pair has a second lock for what is known of it,
// and a completion queue's lock may be taken again by the thread that has it.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "core/sync.hpp"
#include "layers/check/places.hpp"
#include "layers/check/requests.hpp"

namespace sluice::layers::check {

class SLUICE_TSA(capability("mutex")) ReentrantMutex {
  public:
    void lock() SLUICE_TSA(acquire_capability()) { mutex_.lock(); }
    void unlock() SLUICE_TSA(release_capability()) { mutex_.unlock(); }

  private:
    std::recursive_mutex mutex_;
};

// What a context's tables held before ours was put there.
struct Operations {
    decltype(ibv_context_ops::poll_cq) poll_cq = nullptr;
    decltype(ibv_context_ops::req_notify_cq) req_notify_cq = nullptr;
    decltype(ibv_context_ops::post_send) post_send = nullptr;
    decltype(ibv_context_ops::post_recv) post_recv = nullptr;
    decltype(ibv_context_ops::post_srq_recv) post_srq_recv = nullptr;
    decltype(ibv_context_ops::bind_mw) bind_mw = nullptr;
    decltype(verbs_context::create_qp_ex) create_qp_ex = nullptr;
    decltype(verbs_context::create_cq_ex) create_cq_ex = nullptr;
    decltype(verbs_context::create_srq_ex) create_srq_ex = nullptr;
    decltype(verbs_context::alloc_parent_domain) alloc_parent_domain = nullptr;
};

struct Context {
    const ibv_context* verbs = nullptr;
    std::string device;
    bool keeps_completions = false; // of a queue pair that ends
    Operations real;
};

struct Domain {
    const ibv_pd* pd = nullptr;
    const ibv_pd* root = nullptr; // of a parent domain: the one that it was made of; otherwise itself
    const ibv_context* context = nullptr;
    Place made = nullptr;
};

// A memory region.
struct Region {
    const ibv_context* context = nullptr;
    const ibv_pd* pd = nullptr;
    const void* object = nullptr; // the program's ibv_mr
    std::uint64_t memory = 0;     // where it is for the program
    std::uint64_t first = 0;      // what requests call that; the same, unless the program has chosen
    std::uint64_t length = 0;
    int access = 0;
    std::uint32_t local_key = 0;
    std::uint32_t remote_key = 0;
    bool is_on_demand = false; // its pages may come and go
    bool has_memory = true;    // false: a device's, or somebody else's
    Place made = nullptr;
    std::atomic<Place> ended = nullptr;
    std::atomic<Place> unmapped =
        nullptr; // where a part of its memory was given back, in numbers of the program's
    std::atomic<std::uint64_t> unmapped_first = 0;
    std::atomic<std::uint64_t> unmapped_bytes = 0;
};

struct Channel {
    const ibv_comp_channel* object = nullptr;
    const ibv_context* context = nullptr;
    int fd = -1;
    Place made = nullptr;
};

struct QueuePair;

struct Queue { // of completions
    ibv_cq* object = nullptr;
    const ibv_comp_channel* channel = nullptr;
    std::shared_ptr<const Context> context;
    std::uint32_t number = 0; // ours, from 1
    Place made = nullptr;
    bool is_single_threaded = false;
    bool ignores_overrun = false;

    std::atomic<std::uint32_t> owed = 0; // completions that may be in it, or come
    std::atomic<bool> is_told_overrun = false;

    std::atomic<std::uint32_t> events_unacknowledged = 0;
    std::atomic<const void*> last_getter = nullptr; // the thread that took the last event

    // What an unfinished look leaves behind.
    std::atomic<bool> was_polled = false;
    std::atomic<bool> is_armed = false;             // and its event wasn't taken yet
    std::atomic<const void*> last_poller = nullptr; // the thread
    std::atomic<Place> armed_unseen = nullptr;      // armed while requests were posted, and not polled since
    std::atomic<const void*> last_armer = nullptr;  // the thread
    std::atomic<bool> is_armed_for_solicited = false; // alone
    std::atomic<bool> is_left_full = false;   // the last poll since the arming brought all that it asked for
    std::atomic<Place> polled_last = nullptr; // where that was
    std::atomic<Place> armed_last = nullptr;
    std::atomic<std::uint32_t> lost_with_pairs = 0; // requests of queue pairs that were destroyed
    std::atomic<std::uint32_t> polls_in_vain = 0;   // since then
    std::atomic<Place> pair_ended = nullptr;        // where that happened last
    std::atomic<std::uint32_t> vain_polls = 0;      // one after the other, since the last post
    std::atomic<const void*> last_poster = nullptr; // the thread that has sent requests last
    std::atomic<std::uint32_t> pairs = 0;           // that use it
    std::atomic<std::uint32_t> connected = 0;       // of these: that may get messages
    std::unique_ptr<const ibv_cq_ex> real;          // its functions, where it has more than one
    std::atomic<Place> polled = nullptr;            // between start_poll() and end_poll()
    std::atomic<const void*> polling = nullptr;     // the thread that is in it, where one was promised

    ReentrantMutex mutex;     // held while it is polled
    std::deque<ibv_wc> ahead; // taken by look_ahead(), and not given to the program yet
};

struct SharedQueue { // of receives
    ibv_srq* object = nullptr;
    const ibv_pd* pd = nullptr;
    std::shared_ptr<const Context> context;
    std::uint32_t number = 0;
    Place made = nullptr;

    Mutex mutex;
    Requests requests;
};

// A list of requests of which the last post has accepted a part.
struct RefusedList {
    const ibv_send_wr* first = nullptr; // null: none was refused since the last post
    const ibv_send_wr* bad = nullptr;
    std::size_t accepted = 0;
    Request request; // the first
    std::optional<std::uint64_t> checksum;
};

struct QueuePair {
    ibv_qp* object = nullptr;
    const ibv_pd* pd = nullptr;
    std::uint32_t number = 0;
    ibv_qp_type type = IBV_QPT_RC;
    bool signals_all = false;
    std::uint32_t max_inline = 0;
    std::uint32_t max_send_pieces = 0;
    std::uint32_t max_receive_pieces = 0;
    std::shared_ptr<const Context> context;
    std::shared_ptr<Queue> send_queue;
    std::shared_ptr<Queue> receive_queue;
    std::shared_ptr<SharedQueue> shared; // null: it has receives of its own
    Place made = nullptr;

    std::atomic<ibv_qp_state> state = IBV_QPS_RESET;
    unsigned process = 0;                               // as this_process() was when it was made
    std::atomic<bool> is_connected = false;             // RTR or RTS
    std::atomic<const void*> failure_seen_by = nullptr; // the thread that polled the first failure of a send
    std::atomic<Place> failure_seen = nullptr;          // and where
    std::atomic<ibv_wc_status> failure = IBV_WC_SUCCESS;
    std::atomic<std::uint64_t> arrivals = 0;   // receives that were polled with success
    std::atomic<Place> arrived_last = nullptr; // where that was
    std::atomic<int> reads_at_a_time = -1;     // as it was connected; -1: nobody knows
    std::atomic<Place> reads_agreed = nullptr;
    std::atomic<std::int64_t> q_key = -1; // -1: nobody knows
    std::atomic<Place> q_key_set = nullptr;
    std::atomic<const void*> refusal_seen_by = nullptr; // the thread that took librdmacm's event of it
    std::atomic<Place> refused = nullptr;

    std::unique_ptr<const ibv_qp_ex> real; // its functions, where it has any

    Mutex sending;                             // held while requests are sent; before the other one
    Mutex mutex;                               // held while requests are posted, and ended
    std::shared_ptr<struct Building> building; // between wr_start() and wr_complete()
    Requests sends;
    Requests receives;
    RefusedList refused_list;
};

// The events of an id of librdmacm.
struct ConnectionEvents {
    std::atomic<std::uint32_t> unacknowledged = 0;
    std::atomic<const void*> last_getter = nullptr; // the thread that took the last one
    std::atomic<Place> last_taken = nullptr;
};

struct AddressHandle {
    const ibv_ah* object = nullptr;
    const ibv_pd* pd = nullptr;
    std::shared_ptr<const Context> context;
    Place made = nullptr;
    bool is_own_address = false; // it leads to the device itself
};

} // namespace sluice::layers::check
