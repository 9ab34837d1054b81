// SPDX-License-Identifier: BSD-3-Clause
//
// The life of an id, up to the device that its address means.
#include "layers/preload/id.hpp"

#include <arpa/inet.h>
#include <sys/random.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/log.hpp"
#include "ibverbs-glue/adaptors.hpp"
#include "layers/hooks/real.hpp"
#include "layers/preload/acknowledgements.hpp"

namespace sluice::layers::preload {

namespace {

constexpr std::uint16_t kDefaultKey = 0xffff;
constexpr std::uint8_t kHopLimit = 64;

// For threads that wait for events to be acknowledged. Few do, so that one is enough for all ids.
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

ibv_qp_type qp_type_of(rdma_port_space port_space) noexcept {
    return port_space == RDMA_PS_UDP || port_space == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
}

void put_source(Id& id, const glue::Address& address) noexcept {
    std::memcpy(&id.visible->route.addr.src_storage, address.get(), address.size());
    id.visible->route.addr.addr.ibaddr.sgid = gid_of(address);
    id.visible->route.addr.addr.ibaddr.pkey = htons(kDefaultKey);
}

void put_destination(Id& id, const glue::Address& address) noexcept {
    std::memcpy(&id.visible->route.addr.dst_storage, address.get(), address.size());
    id.visible->route.addr.addr.ibaddr.dgid = gid_of(address);
}

Result<void> put_device(Id& id, ibv_context* context) {
    Result<ibv_pd*> domain = default_pd(context);
    if (!domain) {
        return std::move(domain).error();
    }
    id.visible->verbs = context;
    id.visible->pd = *domain;
    id.visible->port_num = 1;
    return {};
}

// A sync id has a channel that nobody else has. Its events are ours alone.
Result<void> ensure_channel(Id& id) {
    if (id.channel == nullptr) {
        Result<std::unique_ptr<Channel>> made =
            Channel::make(id.own == nullptr ? id.kernels_channel : nullptr);
        if (!made) {
            return std::move(made).error();
        }
        rdma_event_channel* const visible = (*made)->visible();
        id.channel = &Channels::instance().add(visible, *std::move(made));
    }
    return {};
}

Result<sluice_cm_id*> make_cm_id(Id& id, ibv_context* context) {
    Result<void> ready = ensure_channel(id);
    if (!ready) {
        return std::move(ready).error();
    }
    Result<sluice_cm_channel*> channel = id.channel->of(context);
    if (!channel) {
        return std::move(channel).error();
    }
    sluice_cm_id* made = nullptr;
    Result<void> done = glue::from_rc(sluice_cm_create_id(*channel, id.visible->ps, &id, &made),
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

Result<void> bind_to(Id& id, const Found& device, std::uint16_t port) {
    Result<sluice_cm_id*> made = make_cm_id(id, device.context);
    if (!made) {
        return std::move(made).error();
    }
    id.cm = *made;
    id.is_on_uroce = true;
    id.visible->channel = id.channel->visible();
    put_source(id, device.address.with_port(port_or_any(port)));
    return put_device(id, device.context);
}

Result<Answer> leave_to_kernel(const Id& id) {
    if (id.own != nullptr) {
        return Error(ErrorKind::kNotFound,
                     "no uroce device has or reaches this address, and this kernel has no RDMA connections; "
                     "`sluice devices` lists uroce's addresses",
                     ENODEV);
    }
    return Answer::kByKernel;
}

std::uint8_t path_mtu_of(ibv_context* context) noexcept {
    ibv_port_attr port{};
    const verbs_context* const whole = verbs_get_ctx_op(context, query_port);
    const bool known = whole != nullptr && whole->query_port(context, 1, &port, sizeof port) == 0;
    return static_cast<std::uint8_t>(known ? port.active_mtu : IBV_MTU_1024);
}

void put_path(Id& id) noexcept {
    const rdma_ib_addr& ends = id.visible->route.addr.addr.ibaddr;
    id.path = {};
    id.path.dgid = ends.dgid;
    id.path.sgid = ends.sgid;
    id.path.pkey = ends.pkey;
    id.path.hop_limit = kHopLimit;
    id.path.reversible = 1;
    id.path.numb_path = 1;
    id.path.mtu = path_mtu_of(id.visible->verbs);
    id.visible->route.path_rec = &id.path;
    id.visible->route.num_paths = 1;
}

// Everything that we made, so that what librdmacm made is as it made it.
void undo(Id& id) noexcept {
    for (const Id::Listener& each : id.listeners) {
        (void)sluice_cm_destroy_id(each.cm);
    }
    id.listeners.clear();
    if (id.cm != nullptr) {
        (void)sluice_cm_destroy_id(id.cm);
    }
    if (id.own == nullptr && id.is_on_uroce) {
        rdma_cm_id& visible = *id.visible;
        visible.channel = id.kernels_channel;
        visible.event = nullptr;
        if (id.cm != nullptr) {
            visible.verbs = nullptr;
            visible.pd = nullptr;
            visible.qp = nullptr;
            visible.route = {};
        }
    }
}

void put_port(Id& id, std::uint16_t port) noexcept {
    id.visible->route.addr.src_sin.sin_port = htons(port); // where an IPv6 address has it, too
    SLUICE_LOG(kInfo, "preload", "listening at port %u", static_cast<unsigned>(port));
}

Result<void> listen_at(Id& id, ibv_context* context, const sockaddr* address, int backlog) {
    Result<sluice_cm_id*> made = make_cm_id(id, context);
    if (!made) {
        return std::move(made).error();
    }
    Result<void> done = glue::from_rc(sluice_cm_listen(*made, address, backlog), "listening for connections");
    if (!done) {
        (void)sluice_cm_destroy_id(*made);
        return done;
    }
    id.listeners.push_back({context, *made});
    return {};
}

// The same port everywhere: the kernel's, the program's, or the first device's.
Result<void> listen_everywhere(Id& id, int backlog) {
    const bool listens_in_kernel = id.own == nullptr;
    if (listens_in_kernel && hooks::real_cm()->listen(id.visible, backlog) != 0) {
        return Error::from_errno(errno, "listening in the kernel");
    }
    sockaddr& any = id.visible->route.addr.src_addr;
    any.sa_family = any.sa_family == AF_UNSPEC ? static_cast<sa_family_t>(AF_INET) : any.sa_family;
    Result<std::vector<Found>> devices = all_contexts();
    if (!devices) {
        return listens_in_kernel ? Result<void>() : std::move(devices).error();
    }
    for (const Found& device : *devices) {
        Result<void> done = listen_at(id, device.context, &any, backlog);
        if (!done) {
            return done;
        }
        put_port(id, sluice_cm_local_port(id.listeners.back().cm));
    }
    return {};
}

} // namespace

Result<rdma_cm_id*> make_id(Channel* channel, void* context, rdma_port_space port_space) {
    auto id = std::make_unique<Id>();
    id->channel = channel;
    id->is_sync = channel == nullptr;
    const bool asks_kernel = channel != nullptr ? channel->kernels() != nullptr : hooks::kernel_connects();
    if (asks_kernel) {
        rdma_event_channel* const kernels = channel != nullptr ? channel->kernels() : nullptr;
        if (hooks::real_cm()->create_id(kernels, &id->visible, context, port_space) != 0) {
            return Error::from_errno(errno, "making an id of the kernel's");
        }
        id->kernels_channel = id->visible->channel;
    } else {
        id->own = std::make_unique<rdma_cm_id>();
        id->visible = id->own.get();
        id->visible->context = context;
        id->visible->ps = port_space;
        id->visible->qp_type = qp_type_of(port_space);
        Result<void> ready = ensure_channel(*id);
        if (!ready) {
            return std::move(ready).error();
        }
        id->visible->channel = id->channel->visible();
    }
    rdma_cm_id* const visible = id->visible;
    Ids::instance().add(visible, std::move(id));
    return visible;
}

Result<Id*> make_request(Id& listener, const sluice_cm_event& event) {
    auto request = std::make_unique<Id>();
    request->own = std::make_unique<rdma_cm_id>();
    request->visible = request->own.get();
    request->channel = listener.channel;
    request->is_on_uroce = true;
    request->type_of_service = listener.type_of_service;
    request->ack_timeout = listener.ack_timeout;
    rdma_cm_id& visible = *request->visible;
    visible.context = listener.visible->context;
    visible.channel = listener.channel->visible();
    visible.ps = listener.visible->ps;
    visible.qp_type = listener.visible->qp_type;
    const Result<glue::Address> local = glue::Address::from(reinterpret_cast<const sockaddr*>(&event.local));
    const Result<glue::Address> peer = glue::Address::from(reinterpret_cast<const sockaddr*>(&event.peer));
    if (!local || !peer) {
        return Error(ErrorKind::kProtocol, "a request from no address");
    }
    put_source(*request, *local);
    put_destination(*request, *peer);
    Result<Found> device = contexts().at(*local);
    Result<void> bound = device ? put_device(*request, device->context) : std::move(device).error();
    if (!bound) {
        return std::move(bound).error();
    }
    put_path(*request);
    request->cm = event.id;
    (void)sluice_cm_set_context(request->cm, request.get());
    return &Ids::instance().add(&visible, std::move(request));
}

Result<void> destroy_id(Id& id) {
    rdma_cm_id* const visible = id.visible;
    if (id.is_ours() && visible->event != nullptr) {
        (void)acknowledge(std::exchange(visible->event, nullptr));
    }
    if (id.channel != nullptr) {
        (void)id.channel->take_told(id);
    }
    await_acknowledgements(id);
    undo(id);
    const std::shared_ptr<Id> last = Ids::instance().take(visible);
    const std::shared_ptr<Channel> its =
        id.is_sync && id.channel != nullptr ? Channels::instance().take(id.channel->visible()) : nullptr;
    if (id.own == nullptr && hooks::real_cm()->destroy_id(visible) != 0) {
        return Error::from_errno(errno, "destroying an id of the kernel's");
    }
    return {};
}

Result<void> migrate_id(Id& id, Channel* channel) {
    if (id.own == nullptr &&
        hooks::real_cm()->migrate_id(id.visible, channel == nullptr ? nullptr : channel->kernels()) != 0) {
        return Error::from_errno(errno, "migrating an id of the kernel's");
    }
    const std::shared_ptr<Channel> before =
        id.is_sync && id.channel != nullptr ? Channels::instance().take(id.channel->visible()) : nullptr;
    Channel* const from = std::exchange(id.channel, channel);
    id.is_sync = channel == nullptr;
    if (id.own == nullptr) {
        id.kernels_channel = id.visible->channel;
    }
    if (!id.is_ours() && id.listeners.empty()) {
        return {};
    }
    Result<void> ready = ensure_channel(id);
    if (!ready) {
        return ready;
    }
    if (id.is_ours()) {
        id.visible->channel = id.channel->visible();
    }
    id.channel->tell(from->take_told(id));
    std::vector<Id::Listener> moved = id.listeners;
    if (id.cm != nullptr) {
        moved.push_back({id.visible->verbs, id.cm});
    }
    for (const Id::Listener& each : moved) {
        Result<sluice_cm_channel*> to = id.channel->of(each.context);
        if (!to) {
            return std::move(to).error();
        }
        Result<void> done = glue::from_rc(sluice_cm_migrate_id(each.cm, *to), "migrating an id of uroce's");
        if (!done) {
            return done;
        }
    }
    return {};
}

// What the kernel's id is bound to already is the kernel's.
Result<Answer> bind_address(Id& id, sockaddr* address) {
    const Result<glue::Address> local = glue::Address::from(address);
    if (!local) {
        return id.own == nullptr ? Result<Answer>(Answer::kByKernel) : local.error().clone();
    }
    if (is_wildcard(*local)) {
        if (id.own == nullptr) {
            return Answer::kByKernel; // where the port is chosen; listen() sees to the rest
        }
        put_source(id, local->with_port(port_or_any(local->port())));
        return Answer::kDone;
    }
    if (!glue::is_uroce_address(*local)) {
        return leave_to_kernel(id);
    }
    Result<Found> device = contexts().at(*local);
    if (!device) {
        return std::move(device).error();
    }
    Result<void> bound = bind_to(id, *device, local->port());
    if (!bound) {
        return std::move(bound).error();
    }
    return Answer::kDone;
}

namespace {

Result<std::optional<Found>> device_between(const sockaddr* source, const glue::Address& peer) {
    const Result<glue::Address> from = glue::Address::from(source);
    if (!from || is_wildcard(*from)) {
        return contexts().towards(peer);
    }
    if (!glue::is_uroce_address(*from)) {
        return std::optional<Found>();
    }
    Result<Found> device = contexts().at(*from);
    if (!device) {
        return std::move(device).error();
    }
    return std::optional<Found>(*device);
}

} // namespace

Result<Answer> resolve_address(Id& id, const sockaddr* source, const sockaddr* destination) {
    const bool is_kernels = id.own == nullptr && !id.is_on_uroce && id.visible->verbs != nullptr;
    const Result<glue::Address> peer = glue::Address::from(destination);
    if (is_kernels || !peer) {
        return id.own == nullptr ? Result<Answer>(Answer::kByKernel) : peer.error().clone();
    }
    if (id.cm == nullptr) {
        Result<std::optional<Found>> device = device_between(source, *peer);
        if (!device) {
            return std::move(device).error();
        }
        if (!*device) {
            return leave_to_kernel(id);
        }
        const Result<glue::Address> from =
            glue::Address::from(source != nullptr ? source : &id.visible->route.addr.src_addr);
        Result<void> bound = bind_to(id, **device, from ? from->port() : 0);
        if (!bound) {
            return std::move(bound).error();
        }
    }
    put_destination(id, *peer);
    if (!id.is_sync) {
        id.channel->tell(id, id.visible, RDMA_CM_EVENT_ADDR_RESOLVED);
    }
    return Answer::kDone;
}

Result<void> resolve_route(Id& id) {
    if (id.cm == nullptr || id.visible->route.addr.dst_addr.sa_family == AF_UNSPEC) {
        return Error(ErrorKind::kInvalidState, "the address isn't resolved yet", EINVAL);
    }
    put_path(id);
    if (!id.is_sync) {
        id.channel->tell(id, id.visible, RDMA_CM_EVENT_ROUTE_RESOLVED);
    }
    return {};
}

Result<void> listen(Id& id, int backlog) {
    if (id.cm == nullptr) {
        return listen_everywhere(id, backlog);
    }
    Result<void> done = glue::from_rc(sluice_cm_listen(id.cm, &id.visible->route.addr.src_addr, backlog),
                                      "listening for connections");
    if (done) {
        put_port(id, sluice_cm_local_port(id.cm));
    }
    return done;
}

} // namespace sluice::layers::preload
