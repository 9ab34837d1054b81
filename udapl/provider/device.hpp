// SPDX-License-Identifier: BSD-3-Clause
//
// One RDMA device of this process, shared by every IA that opened it: a region that one IA registered may
// be named in another's sync call.
//
// In the loop's thread it takes the device's asynchronous events and gives each to the object that it is
// about. An object can't be destroyed before its events are acknowledged, which is done last: so the pointers
// in an event are good, and no thread may wait for such a destruction with a lock that is taken here.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/coherence/engine.hpp"
#include "ibverbs-glue/context.hpp"
#include "ibverbs-glue/devices.hpp"
#include "udapl/provider/lmr_index.hpp"
#include "udapl/provider/loop.hpp"
#include "udapl/provider/simulated_memory.hpp"
#include "udapl/provider/sync_counters.hpp"

namespace sluice::dapl {

// An object of the program's that the device knows: the context of its queue pair, completion queue or shared
// receive queue is a pointer to this.
class AsyncEventTarget {
  public:
    // In the loop's thread.
    virtual void on_async_event(ibv_event_type type) noexcept = 0;

  protected:
    ~AsyncEventTarget() = default;
};

// What a device's view of memory is.
struct DeviceMemory {
    std::unique_ptr<SimulatedMemory> simulated; // null where it isn't; before the engine, which works on it
    std::unique_ptr<coherence::Engine> engine;
};

// Whether ERROR says that there is no such device. After any other the device is there, or may be.
bool is_absence(const Error& error) noexcept;

class Device final : private DescriptorHandler {
  public:
    // NAME: the device's, its interface's, or an IP address there. Opened once, closed with the last
    // user. kNotFound; kNotSupported where the CPU can't do what the device's memory needs.
    static Result<std::shared_ptr<Device>> open(const std::string& name);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    const glue::Context& context() const noexcept { return context_; }
    coherence::Engine& memory() const noexcept { return *memory_.engine; }
    SyncCounters& sync_counters() noexcept { return sync_counters_; }
    LmrIndex& lmrs() noexcept { return lmrs_; }
    // Null where the device has the program's memory itself.
    SimulatedMemory* simulated() const noexcept { return memory_.simulated.get(); }
    const ibv_device_attr& limits() const noexcept { return limits_; }
    // Where its connections leave from; unset when it has no address.
    const glue::Address& address() const noexcept { return address_; }
    const std::string& name() const noexcept { return name_; }
    // Which completions notify a queue that isn't armed for each.
    glue::SolicitedNotice solicited_notice() const noexcept { return solicited_notice_; }
    Loop& loop() const noexcept { return *loop_; }

    // USER gets IBV_EVENT_DEVICE_FATAL when the device is lost, if IS_READY. It may be joined again to become
    // so, which doesn't allocate.
    void join(AsyncEventTarget& user, bool is_ready);
    // Waits until an event was delivered.
    void leave(AsyncEventTarget& user) noexcept;

  private:
    Device(std::string name, glue::Address address, glue::Context context, const ibv_device_attr& limits,
           DeviceMemory memory, std::shared_ptr<Loop> loop);
    void on_readable() noexcept override;
    void deliver(const ibv_async_event& event) noexcept;
    void report_lost() noexcept;
    static Result<std::shared_ptr<Device>> make(glue::Device found);

    const std::string name_;
    const glue::Address address_;
    const glue::Context context_;
    const ibv_device_attr limits_;
    const DeviceMemory memory_;
    SyncCounters sync_counters_;
    LmrIndex lmrs_;
    const std::shared_ptr<Loop> loop_;
    const glue::SolicitedNotice solicited_notice_;

    Mutex mutex_;
    std::map<AsyncEventTarget*, bool> users_ SLUICE_TSA(guarded_by(mutex_)); // whether each is ready
};

} // namespace sluice::dapl
