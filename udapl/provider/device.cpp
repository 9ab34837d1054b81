// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/device.hpp"

#include <pthread.h>

#include <cerrno>
#include <map>

#include "core/log.hpp"
#include "core/sync.hpp"
#include "udapl/provider/of_process.hpp"
#include "udapl/provider/sync_check.hpp"

namespace sluice::dapl {

namespace {

// Those that are open.
struct OpenDevices {
    Mutex mutex;
    std::map<std::string, std::weak_ptr<Device>> devices SLUICE_TSA(guarded_by(mutex));
};

OfProcess<OpenDevices>& open_devices() {
    static OfProcess<OpenDevices> instance;
    return instance;
}

[[gnu::constructor]] void renew_devices_in_children() noexcept {
    (void)open_devices(); // made while there is one thread
    pthread_atfork(nullptr, nullptr, [] { open_devices().renew(); });
}

// iWARP's siw registers memory by its own address and says nothing, so that the device would be at the
// program's memory after all.
Result<DeviceMemory> make_simulated(const glue::Context& context) {
    if (context.is_iwarp()) {
        return Error::format(ErrorKind::kNotSupported, EOPNOTSUPP,
                             "SLUICE_COHERENCE=simulated: %s speaks iWARP, and may not register memory under "
                             "other addresses than its own; use a device of rxe's or uroce's",
                             context.device_name());
    }
    auto simulated = std::make_unique<SimulatedMemory>(SyncCheck::wanted());
    Result<std::unique_ptr<coherence::Engine>> engine =
        coherence::Engine::make_non_coherent(simulated->ops(), coherence::EdgePolicy::kCount);
    if (!engine) {
        return std::move(engine).error();
    }
    return DeviceMemory{std::move(simulated), *std::move(engine)};
}

Result<std::unique_ptr<coherence::Engine>> make_engine(bool is_coherent) {
    if (is_coherent) {
        return coherence::Engine::make_coherent(coherence::native_barriers());
    }
    Result<const coherence::Ops*> ops = coherence::native_ops();
    if (!ops) {
        return std::move(ops).error();
    }
    return coherence::Engine::make_non_coherent(**ops, coherence::EdgePolicy::kCount);
}

Result<DeviceMemory> make_memory(const glue::Context& context) {
    const Result<glue::Coherence> coherence = context.query_coherence();
    if (!coherence) {
        return coherence.error().clone();
    }
    if (*coherence == glue::Coherence::kSimulated) {
        return make_simulated(context);
    }
    // What isn't known is taken for the worse.
    Result<std::unique_ptr<coherence::Engine>> engine = make_engine(*coherence == glue::Coherence::kCoherent);
    if (!engine) {
        return std::move(engine).error();
    }
    return DeviceMemory{nullptr, *std::move(engine)};
}

} // namespace

bool is_absence(const Error& error) noexcept {
    return error.kind() == ErrorKind::kNotFound || error.kind() == ErrorKind::kDeviceGone;
}

Device::Device(std::string name, glue::Address address, glue::Context context, const ibv_device_attr& limits,
               DeviceMemory memory, std::shared_ptr<Loop> loop)
    : name_(std::move(name)), address_(address), context_(std::move(context)), limits_(limits),
      memory_(std::move(memory)),
      sync_counters_(context_.device_name(), address_.is_set() ? address_.to_string().c_str() : ""),
      loop_(std::move(loop)), solicited_notice_(context_.solicited_notice()) {}

Device::~Device() {
    loop_->remove(context_.async_fd(), *this);
}

Result<std::shared_ptr<Device>> Device::make(glue::Device found) {
    Result<glue::Context> context = glue::Context::open(found.name);
    if (!context) {
        return std::move(context).error();
    }
    Result<ibv_device_attr_ex> limits = context->query_device();
    if (!limits) {
        return std::move(limits).error();
    }
    Result<DeviceMemory> memory = make_memory(*context);
    if (!memory) {
        return std::move(memory).error();
    }
    Result<std::shared_ptr<Loop>> loop = Loop::get();
    if (!loop) {
        return std::move(loop).error();
    }
    const glue::Address address = found.addresses.empty() ? glue::Address() : found.addresses.front();
    std::shared_ptr<Device> device(new Device(std::move(found.name), address, *std::move(context),
                                              limits->orig_attr, *std::move(memory), *std::move(loop)));
    if (Result<void> added = device->loop_->add(device->context_.async_fd(), *device); !added) {
        return std::move(added).error();
    }
    return device;
}

Result<std::shared_ptr<Device>> Device::open(const std::string& name) {
    Result<glue::Device> found = glue::resolve_device(name);
    if (!found) {
        return std::move(found).error();
    }
    OpenDevices& open = open_devices().get();
    const LockGuard guard(open.mutex);
    // uroce's devices have several names of their own; their address is the same.
    const std::string key = found->is_uroce ? found->addresses.front().to_string() : found->name;
    std::weak_ptr<Device>& known = open.devices[key];
    if (std::shared_ptr<Device> device = known.lock()) {
        return device;
    }
    Result<std::shared_ptr<Device>> made = make(*std::move(found));
    if (made) {
        known = *made;
    }
    return made;
}

void Device::join(AsyncEventTarget& user, bool is_ready) {
    const LockGuard guard(mutex_);
    users_[&user] = is_ready;
}

void Device::leave(AsyncEventTarget& user) noexcept {
    const LockGuard guard(mutex_);
    users_.erase(&user);
}

void Device::on_readable() noexcept {
    while (true) {
        Result<std::optional<glue::AsyncEvent>> event = context_.next_async_event();
        if (!event) {
            SLUICE_LOG(kWarning, "dat", "%s: %s", name_.c_str(), event.error().text());
            return;
        }
        if (!*event) {
            return;
        }
        deliver(***event);
    }
}

void Device::deliver(const ibv_async_event& event) noexcept {
    const auto give_to = [&](void* target) {
        static_cast<AsyncEventTarget*>(target)->on_async_event(event.event_type);
    };
    switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
        give_to(event.element.qp->qp_context);
        return;
    case IBV_EVENT_CQ_ERR:
        give_to(event.element.cq->cq_context);
        return;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
    case IBV_EVENT_SRQ_ERR:
        give_to(event.element.srq->srq_context);
        return;
    case IBV_EVENT_DEVICE_FATAL:
        report_lost();
        return;
    default: // of ports and paths: connections will fail
        SLUICE_LOG(kInfo, "dat", "%s: event %u", name_.c_str(), static_cast<unsigned>(event.event_type));
        return;
    }
}

// With the lock, so that no user leaves meanwhile.
void Device::report_lost() noexcept {
    const LockGuard guard(mutex_);
    for (const auto& [user, is_ready] : users_) {
        if (is_ready) {
            user->on_async_event(IBV_EVENT_DEVICE_FATAL);
        }
    }
}

} // namespace sluice::dapl
