// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/registry.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/log.hpp"
#include "core/settings.hpp"
#include "provider/uroce/device/udp_link.hpp"
#include "roce/socket/address_list.hpp"
#include "roce/socket/guarded_memory.hpp"
#include "roce/socket/pushed_memory.hpp"

namespace sluice::uroce::device {

namespace {

// The way to the program's memory, one for all devices.
Result<engine::Memory*> program_memory() {
    static engine::Memory* memory = nullptr; // never deleted: devices of a forked child refer to it
    if (memory == nullptr) {
        auto method = socket::parse_guard_method(setting_value(Setting::kUroceGuard));
        if (!method) {
            return std::move(method).error();
        }
        auto made = socket::GuardedMemory::create(*method);
        if (!made) {
            return std::move(made).error();
        }
        memory = made->release();
        if (socket::PushedMemory::is_wanted()) {
            memory = new socket::PushedMemory(*memory);
        }
    }
    return memory;
}

// Whether other processes of this host are reached through memory, as SLUICE_UROCE_NEIGHBOURS has it; null or
// empty means the default.
Result<bool> parse_neighbours(const char* text) {
    const std::string_view given = text != nullptr ? text : "";
    if (given.empty()) {
        return true;
    }
    const Result<Choice> choice = parse_choice(Setting::kUroceNeighbours, given);
    return choice ? Result<bool>(choice->index == 0) : choice.error().clone(); // "memory"
}

// What SETTING says; nothing means USUALLY.
Result<engine::Nanoseconds> read_seconds(Setting setting, unsigned usually) {
    constexpr engine::Nanoseconds kUnit = 1'000'000'000;
    const char* const text = setting_value(setting);
    const Result<unsigned> seconds = parse_seconds(setting, text != nullptr ? text : "", usually);
    return seconds ? Result<engine::Nanoseconds>(*seconds * kUnit) : seconds.error().clone();
}

Result<Device::Patience> read_patience() {
    constexpr unsigned kUsualSilence = 8, kUsualKeepalive = 2;
    const Result<engine::Nanoseconds> min_silence = read_seconds(Setting::kUroceSilence, kUsualSilence);
    if (!min_silence) {
        return min_silence.error().clone();
    }
    const Result<engine::Nanoseconds> keepalive = read_seconds(Setting::kUroceKeepalive, kUsualKeepalive);
    if (!keepalive) {
        return keepalive.error().clone();
    }
    return Device::Patience{.min_silence = *min_silence, .keepalive = *keepalive};
}

// What the user has set for all devices.
struct DeviceSettings {
    engine::Memory* memory = nullptr;
    Device::Patience patience;
    bool is_near = false; // other processes of this host are reached through memory
    Device::Instrumentation instrumentation;
};

Result<DeviceSettings> read_device_settings() {
    Result<engine::Memory*> memory = program_memory();
    if (!memory) {
        return std::move(memory).error();
    }
    auto faults = socket::FaultSchedule::parse(setting_value(Setting::kUroceFaults));
    if (!faults) {
        return std::move(faults).error();
    }
    const Result<Device::Patience> patience = read_patience();
    if (!patience) {
        return patience.error().clone();
    }
    Result<socket::PcapRecorder*> recorder = socket::PcapRecorder::by_setting();
    if (!recorder) {
        return std::move(recorder).error();
    }
    const Result<bool> is_near = parse_neighbours(setting_value(Setting::kUroceNeighbours));
    if (!is_near) {
        return is_near.error().clone();
    }
    // What a peer writes through memory, this process's device couldn't tell the simulation of.
    const bool may_be_near = *is_near && !socket::PushedMemory::is_wanted();
    DeviceSettings read{
        .memory = *memory, .patience = *patience, .is_near = may_be_near, .instrumentation = {}};
    read.instrumentation.recorder = *recorder;
    if (!faults->empty()) {
        read.instrumentation.faults = std::make_unique<DeviceFaults>(*std::move(faults));
    }
    return read;
}

// Null where nobody may go past the packets: faults are injected into them, a recording has them, or the
// address is this process's alone.
std::unique_ptr<near::SameHost> open_same_host(const DeviceSettings& settings, const near::BoardOwner& owner,
                                               DeviceCounters& counters) {
    const Device::Instrumentation& instrumentation = settings.instrumentation;
    if (!settings.is_near || instrumentation.faults != nullptr || instrumentation.recorder != nullptr ||
        owner.share.is_all()) {
        return nullptr;
    }
    Result<std::unique_ptr<near::Board>> board =
        near::Board::create({.connections = Device::kMaxQueuePairs, .regions = Device::kMaxRegions}, owner);
    if (!board) {
        SLUICE_LOG(kInfo, "uroce", "packets go to other processes of this host over UDP: %s",
                   board.error().text());
        return nullptr;
    }
    return std::make_unique<near::SameHost>(*std::move(board), *settings.memory, counters.direct);
}

// One that takes packets.
Result<std::unique_ptr<Device>> make_device(const LocalAddress& where, Neighbours& neighbours,
                                            DeviceCounters& counters, engine::QueuePairRows* rows,
                                            Device::Report report) {
    const Result<RandomKey> secret = RandomKey::from_system();
    if (!secret) {
        return secret.error().clone();
    }
    Result<SysfsDirectory> directory = SysfsDirectory::make(where);
    if (!directory) {
        return std::move(directory).error();
    }
    Result<DeviceSettings> settings = read_device_settings();
    if (!settings) {
        return std::move(settings).error();
    }
    Result<std::unique_ptr<UdpLink>> link =
        UdpLink::open(where.gid, *settings->memory, settings->instrumentation.recorder, &counters.port);
    if (!link) {
        return std::move(link).error();
    }
    Device::Paths paths{.same_host = open_same_host(*settings, {(*link)->share(), where.gid}, counters)};
    paths.link = *std::move(link);
    auto device = std::make_unique<Device>(where, *secret, *settings->memory, neighbours, counters, rows,
                                           report, settings->patience, std::move(*directory),
                                           std::move(paths), std::move(settings->instrumentation));
    Result<void> started = device->start_link();
    if (!started) {
        return std::move(started).error();
    }
    return device;
}

} // namespace

Result<void> check_setting(Setting setting, const char* text) {
    const auto verdict = [](const auto& parsed) {
        return parsed ? Result<void>() : Result<void>(parsed.error().clone());
    };
    switch (setting) {
    case Setting::kUroce:
        return verdict(socket::parse_device_list(text));
    case Setting::kUroceFaults:
        return verdict(socket::FaultSchedule::parse(text));
    case Setting::kUroceGuard:
        return verdict(socket::parse_guard_method(text));
    case Setting::kUroceNeighbours:
        return verdict(parse_neighbours(text));
    case Setting::kUroceKeepalive:
    case Setting::kUroceSilence:
        return verdict(parse_seconds(setting, text, 0));
    default: // of somebody else, or any text will do
        return {};
    }
}

Registry& Registry::instance() {
    static Registry* const registry = new Registry; // never deleted, see above
    return *registry;
}

Registry::Registry() {
    entries_.reserve(kMaxDevices);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    std::atexit(at_exit);
}

// Acknowledgements that wait for the program's next call would never leave, and the peer believe that what
// the program has seen was lost.
void Registry::at_exit() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    Registry& registry = instance();
    if (!registry.changing_.try_lock()) {
        return; // a thread opens or closes a device, maybe this one, interrupted by a signal
    }
    for (const Entry& entry : registry.entries_) {
        entry.device->send_rest();
    }
    registry.changing_.unlock();
}

Result<Device*> Registry::acquire(const LocalAddress& where, Device::Report report) {
    const LockGuard guard(changing_);
    for (Entry& entry : entries_) {
        if (entry.device->where().gid == where.gid) {
            ++entry.users;
            return entry.device;
        }
    }
    return make_locked(where, report);
}

CounterFile& Registry::counter_file_locked() {
    if (counters_ == nullptr) {
        counters_ = std::make_unique<CounterFile>();
    }
    return *counters_;
}

Result<Device*> Registry::make_locked(const LocalAddress& where, Device::Report report) {
    if (entries_.size() == kMaxDevices) {
        return Error(ErrorKind::kInsufficientResources, "256 uroce devices are open; close one first");
    }
    if (tables_ == nullptr) {
        auto tables = std::make_unique<Tables>();
        tables->first.reserve(kMaxDevices);
        tables->second.reserve(kMaxDevices);
        tables_ = std::move(tables);
    }
    CounterFile& file = counter_file_locked();
    const auto give_back = [&file](DeviceCounters* counters) { file.release(*counters); };
    std::unique_ptr<DeviceCounters, decltype(give_back)> counters(&file.acquire(where), give_back);
    Result<std::unique_ptr<Device>> made = make_device(where, *this, *counters, file.rows(*counters), report);
    if (!made) {
        return std::move(made).error();
    }
    std::unique_ptr<Device> device = *std::move(made);
    device->start_following();
    (void)counters.release();              // release() gives them back
    entries_.push_back({device.get(), 1}); // there is room
    publish_locked();
    return device.release();
}

void Registry::release(Device& device) noexcept {
    const LockGuard guard(changing_);
    const auto entry = std::ranges::find(entries_, &device, &Entry::device);
    if (entry == entries_.end() || --entry->users != 0) {
        return; // or, in the child of a fork, nobody's
    }
    entries_.erase(entry);
    publish_locked(); // nobody finds it any more, and a thread that had found it has given it back
    DeviceCounters& counters = device.counters();
    delete &device;
    counters_->release(counters);
}

std::vector<engine::Address> Registry::gids_of(const engine::Address& home) {
    const LockGuard guard(changing_);
    const auto open =
        std::ranges::find_if(entries_, [&](const Entry& one) { return one.device->where().gid == home; });
    std::vector<engine::Address> entries;
    if (open != entries_.end()) {
        const GidTable& gids = open->device->gids();
        for (std::size_t index = 0; index < gids.length(); ++index) {
            const engine::Address* const entry = gids.at(index);
            entries.push_back(entry != nullptr ? *entry : engine::Address{});
        }
    }
    return entries;
}

void Registry::publish_locked() noexcept {
    const Table* const old = published_.load(std::memory_order_relaxed);
    Table& next = old == &tables_->first ? tables_->second : tables_->first;
    next.clear();
    for (const Entry& entry : entries_) {
        next.push_back(entry.device);
    }
    published_.store(&next, std::memory_order_release); // partner: the acquire in find()
    for (Device* const device : *old) {
        const Device::ProgressSession passed(*device);
    }
}

Neighbour* Registry::find(const engine::Address& address) noexcept {
    const Table& table =
        *published_.load(std::memory_order_acquire); // partner: the release in publish_locked()
    const auto home =
        std::ranges::find_if(table, [&](const Device* device) { return device->where().gid == address; });
    if (home != table.end()) {
        return *home;
    }
    const auto found =
        std::ranges::find_if(table, [&](const Device* device) { return device->hears(address); });
    return found == table.end() ? nullptr : *found;
}

SyncCounts& Registry::acquire_sync_counts(std::string_view device, std::string_view address) {
    const LockGuard guard(changing_);
    return counter_file_locked().acquire(device, address).syncs;
}

void Registry::release(SyncCounts& counts) noexcept {
    const LockGuard guard(changing_);
    if (counters_ != nullptr) { // or, in the child of a fork, they are the parent's
        auto* const bytes = reinterpret_cast<std::uint8_t*>(&counts) - offsetof(DeviceCounters, syncs);
        counters_->release(*reinterpret_cast<DeviceCounters*>(bytes));
    }
}

Result<std::vector<ProcessUse>> Registry::counted() {
    const LockGuard guard(changing_);
    return read_counters(counters_ != nullptr ? counters_->fd() : -1);
}

void Registry::before_fork() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    instance().changing_.lock();
}

void Registry::after_fork_in_parent() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    instance().changing_.unlock();
}

void Registry::after_fork_in_child() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    for (const Entry& entry : instance().entries_) {
        entry.device->poison();
    }
    instance().entries_.clear();
    if (instance().counters_ != nullptr) {
        instance().counters_->abandon();
        (void)instance().counters_.release(); // poisoned devices refer to it
    }
    // Never freed: the child's allocator may be in any state.
    (void)instance().tables_.release();
    instance().published_.store(&instance().none_, std::memory_order_relaxed);
    after_fork_in_parent();
}

} // namespace sluice::uroce::device
