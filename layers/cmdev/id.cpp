// SPDX-License-Identifier: BSD-3-Clause
//
// The life of an id, and the device that its address means.
#include "layers/cmdev/id.hpp"

#include <arpa/inet.h>
#include <sys/random.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "core/log.hpp"
#include "ibverbs-glue/adaptors.hpp"
#include "layers/hooks/real.hpp"

namespace sluice::layers::cmdev {

namespace ids {

namespace {

struct All {
    Mutex mutex;
    std::unordered_map<std::uint32_t, std::shared_ptr<SharedId>> by_handle SLUICE_TSA(guarded_by(mutex));
    std::unordered_map<std::uint32_t, std::uint32_t> members SLUICE_TSA(guarded_by(mutex)); // by group
};

All& all_ids() {
    static All& instance = *new All();
    return instance;
}

} // namespace

std::uint32_t next_handle() noexcept {
    // Above all numbers that the kernel has come to, and positive for those that take it for an int.
    constexpr std::uint32_t kFirst = 0x4000'0000, kCount = 0x3fff'ffff;
    static std::atomic<std::uint32_t> next{0};
    return kFirst + next.fetch_add(1, std::memory_order_relaxed) % kCount;
}

void add(std::shared_ptr<SharedId> id) {
    All& all = all_ids();
    const std::uint32_t handle = id->handle;
    const LockGuard guard(all.mutex);
    all.by_handle[handle] = std::move(id);
}

std::shared_ptr<SharedId> find(std::uint32_t handle) {
    All& all = all_ids();
    const LockGuard guard(all.mutex);
    const auto found = all.by_handle.find(handle);
    return found == all.by_handle.end() ? nullptr : found->second;
}

std::shared_ptr<SharedId> take(std::uint32_t handle) {
    All& all = all_ids();
    const LockGuard guard(all.mutex);
    const auto found = all.by_handle.find(handle);
    if (found == all.by_handle.end()) {
        return nullptr;
    }
    std::shared_ptr<SharedId> id = std::move(found->second);
    all.by_handle.erase(found);
    return id;
}

void add_group(std::uint32_t group, std::uint32_t handle) {
    All& all = all_ids();
    const LockGuard guard(all.mutex);
    all.members[group] = handle;
}

std::optional<std::uint32_t> find_member(std::uint32_t group) {
    All& all = all_ids();
    const LockGuard guard(all.mutex);
    const auto found = all.members.find(group);
    return found == all.members.end() ? std::nullopt : std::optional(found->second);
}

void remove_group(std::uint32_t group) {
    All& all = all_ids();
    const LockGuard guard(all.mutex);
    all.members.erase(group);
}

namespace {

std::vector<std::shared_ptr<SharedId>> everyone() {
    std::vector<std::shared_ptr<SharedId>> every;
    All& all = all_ids();
    const LockGuard guard(all.mutex);
    for (const auto& each : all.by_handle) {
        every.push_back(each.second);
    }
    return every;
}

} // namespace

} // namespace ids

bool is_wildcard(const glue::Address& address) noexcept {
    if (address.family() == AF_INET) {
        return reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr.s_addr == INADDR_ANY;
    }
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr);
}

ibv_gid gid_of(const glue::Address& address) noexcept {
    ibv_gid gid{};
    if (address.family() == AF_INET) {
        gid.raw[10] = gid.raw[11] = 0xff;
        std::memcpy(gid.raw + 12, &reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr, 4);
    } else {
        std::memcpy(gid.raw, &reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr, sizeof gid);
    }
    return gid;
}

std::uint8_t gid_index_of(const Id& id) noexcept {
    const hooks::RealVerbs* const real = hooks::real_verbs();
    const ibv_gid source = gid_of(id.source);
    ibv_gid gid{};
    for (std::uint8_t index = 0;
         real != nullptr && index < UINT8_MAX && real->query_gid(id.device->context, 1, index, &gid) == 0;
         ++index) {
        if (std::memcmp(&gid, &source, sizeof gid) == 0) {
            return index;
        }
    }
    return 0;
}

namespace {

void* context_of(const Id& id) noexcept {
    return reinterpret_cast<void*>(std::uintptr_t{id.handle}); // NOLINT(performance-no-int-to-ptr): a cookie
}

Result<sluice_cm_id*> make_cm_id(Id& id, ibv_context* context) {
    Result<sluice_cm_channel*> channel = id.file->channel_of(context);
    if (!channel) {
        return std::move(channel).error();
    }
    sluice_cm_id* made = nullptr;
    Result<void> done = glue::from_rc(sluice_cm_create_id(*channel, id.port_space, context_of(id), &made),
                                      "this port space isn't uroce's: RDMA_PS_TCP and RDMA_PS_UDP are");
    if (!done) {
        return std::move(done).error();
    }
    return made;
}

// As in the kernel: programs tell their port to their peers before they listen or connect. Nobody else of
// this process gets it, unless by asking for it.
std::uint16_t port_or_any(std::uint16_t port) noexcept {
    constexpr std::uint32_t kFirstEphemeral = 32768, kCount = 28232;
    static std::atomic<std::uint32_t> next = [] {
        std::uint32_t start = 0;
        // Without it the first ones are the same each time.
        (void)!getrandom(&start, sizeof start, GRND_NONBLOCK);
        return start % kCount;
    }();
    const std::uint32_t any = next.fetch_add(1, std::memory_order_relaxed) % kCount;
    return port != 0 ? port : static_cast<std::uint16_t>(kFirstEphemeral + any);
}

Result<Id::Device> device_of(const Found& found) {
    const hooks::RealVerbs* const real = hooks::real_verbs();
    if (real == nullptr) {
        return Error(ErrorKind::kNotSupported, "there is no libibverbs", ENOSYS);
    }
    const std::uint64_t guid = real->get_device_guid(found.context->device);
    return Id::Device{.context = found.context, .address = found.address, .guid = guid};
}

// The kernel takes localhost for the wildcard. libfabric asks for any device by this address, and takes no
// other than the one that it gets, so that it must not get one that isn't listed.
bool names_no_device(const Id& id, const glue::Address& address) {
    const in_addr localhost{.s_addr = htonl(INADDR_LOOPBACK)};
    return !id.is_in_kernel && address.port() == 0 && address.is_same_host(glue::Address::ipv4(&localhost)) &&
           !glue::is_listed_uroce_address(address);
}

Result<void> bind_to(Id& id, const Found& found, std::uint16_t port) {
    Result<Id::Device> device = device_of(found);
    if (!device) {
        return std::move(device).error();
    }
    Result<sluice_cm_id*> made = make_cm_id(id, found.context);
    if (!made) {
        return std::move(made).error();
    }
    id.cm = *made;
    id.device = *device;
    id.source = found.address.with_port(port_or_any(port));
    return {};
}

Result<Answer> leave_to_kernel(Id& id) {
    if (!id.is_in_kernel) {
        return Error(ErrorKind::kNotFound,
                     "no uroce device has or reaches this address, and this kernel has no RDMA connections; "
                     "`sluice devices` lists uroce's addresses",
                     ENODEV);
    }
    id.is_kernels = true;
    return Answer::kByKernel;
}

Result<std::optional<Found>> device_between(const glue::Address& source, const glue::Address& peer) {
    if (!source.is_set() || is_wildcard(source)) {
        return contexts().towards(peer);
    }
    if (!glue::is_uroce_address(source)) {
        return std::optional<Found>();
    }
    Result<Found> device = contexts().at(source);
    if (!device) {
        return std::move(device).error();
    }
    return std::optional<Found>(*device);
}

Error wrong_state(const char* text) noexcept {
    return Error(ErrorKind::kInvalidState, text, EINVAL);
}

void post(Id& id, EventType type) {
    id.file->post(make_event(id.handle, type));
}

void say_port(const Id& id) {
    SLUICE_LOG(kInfo, "preload", "listening at port %u", static_cast<unsigned>(id.source.port()));
}

} // namespace

// What the kernel has bound is the kernel's.
Result<Answer> bind_address(Id& id, const glue::Address& address) {
    if (id.device || id.is_kernels) {
        return id.device ? Result<Answer>(wrong_state("this id has an address already")) : Answer::kByKernel;
    }
    if (is_wildcard(address)) {
        id.source = id.is_in_kernel ? address : address.with_port(port_or_any(address.port()));
        return id.is_in_kernel ? Answer::kByKernel : Answer::kDone;
    }
    if (names_no_device(id, address)) {
        id.source = address.with_port(port_or_any(0));
        return Answer::kDone;
    }
    if (!glue::is_uroce_address(address)) {
        return leave_to_kernel(id);
    }
    Result<Found> device = contexts().at(address);
    Result<void> bound = device ? bind_to(id, *device, address.port()) : std::move(device).error();
    if (!bound) {
        return std::move(bound).error();
    }
    return Answer::kDone;
}

Result<Answer> resolve_address(Id& id, const glue::Address& source, const glue::Address& destination) {
    if (id.is_kernels) {
        return Answer::kByKernel;
    }
    if (!id.device) {
        const glue::Address from = source.is_set() ? source : id.source;
        Result<std::optional<Found>> device = device_between(from, destination);
        if (!device) {
            return std::move(device).error();
        }
        if (!*device) {
            return leave_to_kernel(id);
        }
        Result<void> bound = bind_to(id, **device, from.is_set() ? from.port() : 0);
        if (!bound) {
            return std::move(bound).error();
        }
    }
    id.destination = destination;
    post(id, EventType::kAddrResolved);
    return Answer::kDone;
}

Result<void> resolve_route(Id& id) {
    if (!id.destination.is_set()) {
        return wrong_state("the address isn't resolved yet");
    }
    id.has_route = true;
    post(id, EventType::kRouteResolved);
    return {};
}

Result<void> take_device(Id& id) {
    if (id.device || id.is_kernels || !id.source.is_set() || is_wildcard(id.source)) {
        return {};
    }
    Result<Found> device = contexts().at(id.source);
    return device ? bind_to(id, *device, id.source.port()) : std::move(device).error();
}

Result<void> listen(Id& id, int backlog) {
    Result<void> done =
        glue::from_rc(sluice_cm_listen(id.cm, id.source.get(), backlog), "listening for connections");
    if (done) {
        id.source = id.source.with_port(sluice_cm_local_port(id.cm));
        say_port(id);
    }
    return done;
}

namespace {

// The same port everywhere: the kernel's, the program's, or the first device's.
Result<void> listen_at(Id& id, const Found& found, int backlog) {
    Result<Id::Device> device = device_of(found);
    if (!device) {
        return std::move(device).error();
    }
    Result<sluice_cm_id*> made = make_cm_id(id, found.context);
    if (!made) {
        return std::move(made).error();
    }
    Result<void> done =
        glue::from_rc(sluice_cm_listen(*made, id.source.get(), backlog), "listening for connections");
    if (!done) {
        (void)sluice_cm_destroy_id(*made);
        return done;
    }
    id.listeners.push_back({found.context, *made});
    id.source = id.source.with_port(sluice_cm_local_port(*made));
    return {};
}

} // namespace

Result<void> listen_everywhere(Id& id, int backlog, std::uint16_t port) {
    if (!id.listeners.empty()) {
        return wrong_state("this id listens already");
    }
    if (!id.source.is_set()) {
        const in_addr any{.s_addr = INADDR_ANY};
        id.source = glue::Address::ipv4(&any);
    }
    if (port != 0) {
        id.source = id.source.with_port(port);
    }
    Result<std::vector<Found>> devices = all_contexts();
    if (!devices) {
        return id.is_in_kernel ? Result<void>() : std::move(devices).error();
    }
    for (const Found& device : *devices) {
        Result<void> done = listen_at(id, device, backlog);
        if (!done) {
            return done;
        }
        say_port(id);
    }
    return {};
}

Result<std::shared_ptr<SharedId>> make_request(Id& listener, const sluice_cm_event& event) {
    const Result<glue::Address> local = glue::Address::from(reinterpret_cast<const sockaddr*>(&event.local));
    const Result<glue::Address> peer = glue::Address::from(reinterpret_cast<const sockaddr*>(&event.peer));
    if (!local || !peer) {
        return Error(ErrorKind::kProtocol, "a request from no address");
    }
    const Result<Found> found = contexts().at(*local);
    Result<Id::Device> device = found ? device_of(*found) : found.error().clone();
    if (!device) {
        return std::move(device).error();
    }
    rdma_ucm_create_id as_if{};
    as_if.ps = listener.port_space;
    as_if.qp_type = listener.is_datagram ? IBV_QPT_UD : IBV_QPT_RC;
    auto request = std::make_shared<SharedId>(ids::next_handle(), as_if, false);
    {
        const LockGuard guard(request->mutex);
        Id& id = request->id;
        id.file = listener.file;
        id.device = *device;
        id.cm = event.id;
        id.source = *local;
        id.destination = *peer;
        id.has_route = true;
        id.type_of_service = listener.type_of_service;
        id.ack_timeout = listener.ack_timeout;
        (void)sluice_cm_set_context(event.id, context_of(id));
    }
    ids::add(request);
    return request;
}

Result<void> migrate(Id& id, const std::shared_ptr<File>& to) {
    std::vector<Id::Listener> moved = id.listeners;
    if (id.cm != nullptr) {
        moved.push_back({id.device->context, id.cm});
    }
    for (const Id::Listener& each : moved) {
        Result<sluice_cm_channel*> channel = to->channel_of(each.context);
        if (!channel) {
            return std::move(channel).error();
        }
        Result<void> done =
            glue::from_rc(sluice_cm_migrate_id(each.cm, *channel), "migrating an id of uroce's");
        if (!done) {
            return done;
        }
    }
    const std::shared_ptr<File> from = std::exchange(id.file, to);
    for (const Event& each : from->take_posted_of(id.handle)) {
        to->post(each);
    }
    return {};
}

// Events that are being taken find that it is destroyed; only then nobody waits for them.
std::uint32_t destroy(SharedId& shared) {
    std::vector<Id::Listener> ended;
    std::uint32_t reported = 0;
    {
        const LockGuard guard(shared.mutex);
        Id& id = shared.id;
        if (std::exchange(id.is_destroyed, true)) {
            return 0;
        }
        ended = std::exchange(id.listeners, {});
        if (id.cm != nullptr) {
            ended.push_back({nullptr, std::exchange(id.cm, nullptr)});
        }
        (void)id.file->take_posted_of(id.handle);
        for (const Id::Group& group : id.groups) {
            ids::remove_group(group.handle);
        }
        reported = id.reported;
    }
    for (const Id::Listener& each : ended) {
        (void)sluice_cm_destroy_id(each.cm);
    }
    return reported;
}

void end(File& file) {
    file.close();
    for (const std::shared_ptr<SharedId>& shared : ids::everyone()) {
        const auto is_of_file = [&] {
            const LockGuard guard(shared->mutex);
            return shared->id.file.get() == &file;
        };
        if (is_of_file()) {
            (void)ids::take(shared->handle);
            (void)destroy(*shared);
        }
    }
}

} // namespace sluice::layers::cmdev
