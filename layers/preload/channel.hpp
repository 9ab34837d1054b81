// SPDX-License-Identifier: BSD-3-Clause
//
// An event channel as a program has it: one descriptor for the events of the kernel's ids and of uroce's.
//
// The descriptor is an epoll descriptor around the kernel's channel, one of libsluice's for each device
// that ids are bound to, and the events that are told here: addresses and routes have nothing to be found.
// So it can be polled, and its O_NONBLOCK is the program's to set, as with librdmacm's.
#pragma once

#include <rdma/rdma_cma.h>
#include <sluice/sluice.h>

#include <deque>
#include <memory>
#include <vector>

#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "core/sync.hpp"
#include "layers/hooks/table.hpp"

namespace sluice::layers::preload {

struct Id;

// What the program gets is its first part.
struct Event {
    rdma_cm_event visible{};
    sluice_cm_event* source = nullptr; // is acknowledged with it; null for what is told here
    Id* told_to = nullptr;             // the id whose destruction waits for this event
};

using Events = hooks::Table<rdma_cm_event, Event>;

class Channel {
  public:
    // KERNELS stays the caller's, and outlives it; null where the kernel connects nobody.
    static Result<std::unique_ptr<Channel>> make(rdma_event_channel* kernels);
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    ~Channel();

    // A thread that waits sleeps on, as with librdmacm: its program is about to end and expects no error. A
    // thread that is taking an event is waited for, since it uses what goes.
    void close();

    rdma_event_channel* visible() noexcept { return &face_; }
    rdma_event_channel* kernels() {
        const LockGuard guard(mutex_);
        return kernels_;
    }

    // Where libsluice tells events of CONTEXT's device; made at its first use.
    Result<sluice_cm_channel*> of(ibv_context* context);

    // FACE is ID as the program has it.
    void tell(Id& id, rdma_cm_id* visible, rdma_cm_event_type type);
    // What was told to ID and not taken; it is no more of this channel.
    std::vector<std::unique_ptr<Event>> take_told(const Id& id);
    void tell(std::vector<std::unique_ptr<Event>> events);

    // libsluice's event as the program gets it; null if it means nothing any more.
    using Translate = Result<std::unique_ptr<Event>> (*)(sluice_cm_event* source);
    // Waits unless the descriptor is non-blocking (EAGAIN). May be an event of the kernel's.
    Result<rdma_cm_event*> next(Translate translate);

  private:
    // A thread that takes an event.
    class Visit;

    struct OfDevice {
        ibv_context* context;
        sluice_cm_channel* channel;
    };

    Channel(Descriptor poller, Descriptor bell, rdma_event_channel* kernels) noexcept
        : poller_(std::move(poller)), bell_(std::move(bell)), face_{poller_.get()}, kernels_(kernels) {}

    Result<void> watch(int fd);
    void unwatch(int fd) noexcept;
    Result<rdma_cm_event*> next_at_once(Translate translate);
    std::unique_ptr<Event> next_told();
    Result<rdma_cm_event*> next_of_kernel();
    std::vector<sluice_cm_channel*> of_devices();

    const Descriptor poller_;
    const Descriptor bell_; // an eventfd that is readable while something is told
    rdma_event_channel face_;
    Mutex mutex_;
    ConditionVariable left_; // the last visit is over
    std::uint32_t visits_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    Mutex kernels_turn_; // the thread that has seen an event of the kernel's takes it
    rdma_event_channel* kernels_ SLUICE_TSA(guarded_by(mutex_));
    std::vector<OfDevice> of_devices_ SLUICE_TSA(guarded_by(mutex_));
    std::deque<std::unique_ptr<Event>> told_ SLUICE_TSA(guarded_by(mutex_));
};

using Channels = hooks::Table<rdma_event_channel, Channel>;

// What to do with a program's channels. rping, and many that learned from it, destroy theirs when the thread
// that takes its events is about to ask for the next: it must sleep, be it in time or late.
void add_channel(std::unique_ptr<Channel> channel);
void destroy_channel(rdma_event_channel* visible);
bool was_destroyed(const rdma_event_channel* visible);

// False: it is none of ours.
bool acknowledge(rdma_cm_event* event);

} // namespace sluice::layers::preload
