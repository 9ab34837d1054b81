// SPDX-License-Identifier: BSD-3-Clause
//
// One RDMA device of this process, shared by every IA that opened it: a region that one IA registered may
// be named in another's sync call.
//
// It takes the device's asynchronous events, and tells them to whom they are about (device_events.cpp).
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

namespace sluice::dapl {

class Ia;

// What a device's view of memory is.
struct DeviceMemory {
    std::unique_ptr<SimulatedMemory> simulated; // null where it isn't; before the engine, which works on it
    std::unique_ptr<coherence::Engine> engine;
};

class Device final : private Watched {
  public:
    // NAME: the device's, its interface's, or an IP address there. Opened once, closed with the last
    // user. kNotFound; kNotSupported where the CPU can't do what the device's memory needs.
    static Result<std::shared_ptr<Device>> open(const std::string& name);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    const glue::Context& context() const noexcept { return context_; }
    coherence::Engine& memory() const noexcept { return *memory_.engine; }
    LmrIndex& lmrs() noexcept { return lmrs_; }
    // Null where the device has the program's memory itself.
    SimulatedMemory* simulated() const noexcept { return memory_.simulated.get(); }
    const ibv_device_attr& limits() const noexcept { return limits_; }
    // Where its connections leave from; unset when it has no address.
    const glue::Address& address() const noexcept { return address_; }
    const std::string& name() const noexcept { return name_; }
    // What completions notify who doesn't want to know of each.
    glue::SolicitedNotice solicited_notice() const noexcept { return solicited_notice_; }
    Loop& loop() const noexcept { return *loop_; }

    // IA is told when the device is lost, from when its handle is known. Allocates at first.
    void join(const Ia* ia, void* handle);
    void leave(const Ia* ia) noexcept;

  private:
    Device(std::string name, glue::Address address, glue::Context context, const ibv_device_attr& limits,
           DeviceMemory memory, std::shared_ptr<Loop> loop) noexcept;
    void on_readable() noexcept override;
    void tell(const ibv_async_event& event) noexcept;
    void tell_gone() noexcept;
    static Result<std::shared_ptr<Device>> make(glue::Device found);

    const std::string name_;
    const glue::Address address_;
    const glue::Context context_;
    const ibv_device_attr limits_;
    const DeviceMemory memory_;
    LmrIndex lmrs_;
    const std::shared_ptr<Loop> loop_;
    const glue::SolicitedNotice solicited_notice_;

    Mutex mutex_;
    std::map<const Ia*, void*> ias_ SLUICE_TSA(guarded_by(mutex_));
};

} // namespace sluice::dapl
