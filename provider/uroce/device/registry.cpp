// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/registry.hpp"

#include <pthread.h>

#include <algorithm>

#include "core/settings.hpp"
#include "provider/uroce/device/seed.hpp"
#include "provider/uroce/device/udp_link.hpp"
#include "provider/uroce/verbs/events.hpp"
#include "roce/socket/guarded_memory.hpp"

namespace sluice::uroce {

namespace {

// The way to the program's memory, one for all devices.
Result<port::GuardedMemory*> program_memory() {
    static port::GuardedMemory* memory = nullptr; // never deleted: devices of a forked child refer to it
    if (memory == nullptr) {
        auto method = port::parse_guard_method(setting_value(Setting::kUroceGuard));
        if (!method) {
            return std::move(method).error();
        }
        auto made = port::GuardedMemory::create(*method);
        if (!made) {
            return std::move(made).error();
        }
        memory = made->release();
    }
    return memory;
}

} // namespace

Registry& Registry::instance() {
    static Registry* const registry = new Registry; // never deleted, see above
    return *registry;
}

Registry::Registry() {
    entries_.reserve(kMaxDevices);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

Result<Device*> Registry::acquire(const LocalAddress& where) {
    const LockGuard guard(changing_);
    for (Entry& entry : entries_) {
        if (entry.device->where().gid == where.gid) {
            ++entry.users;
            return entry.device;
        }
    }
    return make_locked(where);
}

Result<Device*> Registry::make_locked(const LocalAddress& where) {
    if (entries_.size() == kMaxDevices) {
        return Error(ErrorKind::kInsufficientResources, "256 uroce devices are open; close one first");
    }
    Result<std::uint64_t> seed = random_seed();
    if (!seed) {
        return std::move(seed).error();
    }
    Result<SysfsDirectory> directory = SysfsDirectory::make(where);
    if (!directory) {
        return std::move(directory).error();
    }
    Result<port::GuardedMemory*> memory = program_memory();
    if (!memory) {
        return std::move(memory).error();
    }
    auto faults = port::FaultSchedule::parse(setting_value(Setting::kUroceFaults));
    if (!faults) {
        return std::move(faults).error();
    }
    Device::Extras extras;
    if (!faults->empty()) {
        extras.faults = std::make_unique<DeviceFaults>(*std::move(faults));
    }
    Result<port::PcapRecorder*> recorder = port::PcapRecorder::by_setting();
    if (!recorder) {
        return std::move(recorder).error();
    }
    extras.recorder = *recorder;
    Result<std::unique_ptr<UdpLink>> link = UdpLink::open(where.gid, **memory, *recorder);
    if (!link) {
        return std::move(link).error();
    }
    auto device = std::make_unique<Device>(where, *seed, **memory, face::report_event, std::move(*directory),
                                           std::move(*link), std::move(extras));
    const LockGuard guard(finding_);
    entries_.push_back({device.get(), 1});
    return device.release();
}

void Registry::release(Device& device) noexcept {
    const LockGuard guard(changing_);
    const auto entry = std::ranges::find(entries_, &device, &Entry::device);
    if (entry == entries_.end() || --entry->users != 0) {
        return; // or, in the child of a fork, nobody's
    }
    {
        const LockGuard finding(finding_);
        entries_.erase(entry);
    }
    // Nobody finds it any more; who has found it before holds its lock.
    { const Device::Session last(device); }
    delete &device;
}

void Registry::before_fork() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    instance().changing_.lock();
    instance().finding_.lock();
}

void Registry::after_fork_in_parent() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    instance().finding_.unlock();
    instance().changing_.unlock();
}

void Registry::after_fork_in_child() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    for (const Entry& entry : instance().entries_) {
        entry.device->poison();
    }
    instance().entries_.clear();
    after_fork_in_parent();
}

} // namespace sluice::uroce
