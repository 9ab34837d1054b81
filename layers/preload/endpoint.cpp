// SPDX-License-Identifier: BSD-3-Clause
#include "layers/preload/endpoint.hpp"

#include <netdb.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "layers/preload/queue_pair.hpp"

namespace sluice::layers::preload {

namespace {

// As rdma_freeaddrinfo() frees them.
// NOLINTBEGIN(cppcoreguidelines-no-malloc)
sockaddr* copy_of(const sockaddr* address, socklen_t bytes) noexcept {
    auto* const copy = static_cast<sockaddr*>(std::malloc(bytes));
    if (copy != nullptr) {
        std::memcpy(copy, address, bytes);
    }
    return copy;
}

struct FreeAddresses {
    void operator()(rdma_addrinfo* info) const noexcept {
        std::free(info->ai_src_addr);
        std::free(info->ai_dst_addr);
        std::free(info);
    }
};

using OwnAddresses = std::unique_ptr<rdma_addrinfo, FreeAddresses>;

OwnAddresses make_addresses(const rdma_addrinfo* hints) {
    OwnAddresses made(static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo))));
    if (made != nullptr) {
        const bool is_datagram =
            hints != nullptr && (hints->ai_port_space == RDMA_PS_UDP || hints->ai_qp_type == IBV_QPT_UD);
        made->ai_flags = hints != nullptr ? hints->ai_flags : 0;
        made->ai_qp_type = is_datagram ? IBV_QPT_UD : IBV_QPT_RC;
        made->ai_port_space = is_datagram ? RDMA_PS_UDP : RDMA_PS_TCP;
    }
    return made;
}
// NOLINTEND(cppcoreguidelines-no-malloc)

// The same words as the names' own.
addrinfo to_hints(const rdma_addrinfo* wanted, bool is_datagram) noexcept {
    addrinfo hints{};
    hints.ai_socktype = is_datagram ? SOCK_DGRAM : SOCK_STREAM;
    if (wanted != nullptr) {
        hints.ai_flags = ((wanted->ai_flags & RAI_PASSIVE) != 0 ? AI_PASSIVE : 0) |
                         ((wanted->ai_flags & RAI_NUMERICHOST) != 0 ? AI_NUMERICHOST : 0);
        hints.ai_family = (wanted->ai_flags & RAI_FAMILY) != 0 ? wanted->ai_family : AF_UNSPEC;
    }
    return hints;
}

Result<void> fill_source(rdma_addrinfo& to, const rdma_addrinfo* hints) {
    if (hints == nullptr || hints->ai_src_len == 0 || to.ai_src_addr != nullptr) {
        return {};
    }
    to.ai_src_addr = copy_of(hints->ai_src_addr, hints->ai_src_len);
    to.ai_src_len = hints->ai_src_len;
    return to.ai_src_addr != nullptr
               ? Result<void>()
               : Error(ErrorKind::kInsufficientResources, "no memory for an address", ENOMEM);
}

Result<void> prepare(Id& id, const rdma_addrinfo& way, ibv_pd* domain, ibv_qp_init_attr* queues) {
    if ((way.ai_flags & RAI_PASSIVE) != 0) {
        id.visible->pd = domain != nullptr ? domain : id.visible->pd;
        if (queues != nullptr) {
            queues->qp_type = static_cast<ibv_qp_type>(way.ai_qp_type);
            id.queues_of_requests = *queues;
        }
        return {};
    }
    Result<void> done = resolve_route(id);
    if (!done || queues == nullptr) {
        return done;
    }
    queues->qp_type = static_cast<ibv_qp_type>(way.ai_qp_type);
    return create_queue_pair(id, domain, *queues);
}

} // namespace

Result<Answer> create_endpoint(rdma_cm_id** visible, const rdma_addrinfo& way, ibv_pd* domain,
                               ibv_qp_init_attr* queues) {
    Result<rdma_cm_id*> made = make_id(nullptr, nullptr, static_cast<rdma_port_space>(way.ai_port_space));
    if (!made) {
        return std::move(made).error();
    }
    Id& id = *Ids::instance().find(*made);
    id.visible->qp_type = static_cast<ibv_qp_type>(way.ai_qp_type);
    Result<Answer> bound = (way.ai_flags & RAI_PASSIVE) != 0
                               ? bind_address(id, way.ai_src_addr)
                               : resolve_address(id, way.ai_src_addr, way.ai_dst_addr);
    if (!bound || *bound == Answer::kByKernel) {
        (void)destroy_id(id);
        return bound;
    }
    const auto* const data = static_cast<const std::uint8_t*>(way.ai_connect);
    id.connect_data.assign(data, data + (data != nullptr ? way.ai_connect_len : 0));
    Result<void> done = prepare(id, way, domain, queues);
    if (!done) {
        (void)destroy_id(id);
        return std::move(done).error();
    }
    *visible = *made;
    return Answer::kDone;
}

Result<rdma_addrinfo*> find_addresses(const char* node, const char* service, const rdma_addrinfo* hints) {
    OwnAddresses made = make_addresses(hints);
    if (made == nullptr) {
        return Error(ErrorKind::kInsufficientResources, "no memory for an address", ENOMEM);
    }
    if (node != nullptr || service != nullptr) {
        const addrinfo wanted = to_hints(hints, made->ai_port_space == RDMA_PS_UDP);
        addrinfo* found = nullptr;
        if (const int status = getaddrinfo(node, service, &wanted, &found); status != 0) {
            return Error::format(ErrorKind::kNotFound, status == EAI_SYSTEM ? errno : ENODATA,
                                 "'%s' port '%s': %s", node == nullptr ? "" : node,
                                 service == nullptr ? "" : service, gai_strerror(status));
        }
        const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
        const bool is_passive = (made->ai_flags & RAI_PASSIVE) != 0;
        made->ai_family = found->ai_family;
        (is_passive ? made->ai_src_addr : made->ai_dst_addr) = copy_of(found->ai_addr, found->ai_addrlen);
        (is_passive ? made->ai_src_len : made->ai_dst_len) = found->ai_addrlen;
        if ((is_passive ? made->ai_src_addr : made->ai_dst_addr) == nullptr) {
            return Error(ErrorKind::kInsufficientResources, "no memory for an address", ENOMEM);
        }
    }
    Result<void> done = fill_source(*made, hints);
    if (!done) {
        return std::move(done).error();
    }
    return made.release();
}

} // namespace sluice::layers::preload
