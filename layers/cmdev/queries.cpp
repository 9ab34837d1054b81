// SPDX-License-Identifier: BSD-3-Clause
#include "layers/cmdev/queries.hpp"

#include <arpa/inet.h>
#include <infiniband/sa.h>

namespace sluice::layers::cmdev {

namespace {

constexpr std::uint16_t kDefaultKey = 0xffff;
constexpr std::uint32_t kNoIndex = 0xffff'ffff; // of a device that the kernel hasn't numbered

std::uint8_t path_mtu_of(ibv_context* context) noexcept {
    ibv_port_attr port{};
    const verbs_context* const whole = verbs_get_ctx_op(context, query_port);
    const bool known = whole != nullptr && whole->query_port(context, 1, &port, sizeof port) == 0;
    return static_cast<std::uint8_t>(known ? port.active_mtu : IBV_MTU_1024);
}

// Its GIDs are known with its device, the rest with its route.
void fill_route(rdma_ucm_query_route_resp& to, const Id& id) {
    to.node_guid = id.device->guid;
    to.port_num = 1;
    ib_user_path_rec& path = to.ib_route[0];
    std::ranges::copy(gid_of(id.source).raw, path.sgid);
    path.pkey = htons(kDefaultKey);
    if (id.destination.is_set()) {
        std::ranges::copy(gid_of(id.destination).raw, path.dgid);
    }
    if (id.has_route) {
        to.num_paths = 1;
        path.mtu = path_mtu_of(id.device->context);
        path.hop_limit = kHopLimit;
        path.traffic_class = id.type_of_service;
        path.reversible = 1;
        path.numb_path = 1;
    }
}

template<typename Storage>
std::uint16_t put_address(Storage& to, const glue::Address& address) noexcept {
    const std::size_t bytes = address.is_set() ? address.size() : 0;
    std::memcpy(&to, address.get(), bytes);
    return static_cast<std::uint16_t>(bytes);
}

// Also where there is no device yet: where no kernel connects, nobody else knows its addresses.
template<typename Body>
Result<Answer> with_addresses(const Request& request, std::uint32_t handle, Body&& body) {
    return with_id(request, handle, [&](Id& id) -> Result<Answer> {
        return id.device || !id.is_in_kernel ? done_if(body(id)) : Result<Answer>(Answer::kByKernel);
    });
}

// The address of InfiniBand's family, as the kernel has it in <rdma/ib.h>.
struct GidAddress {
    std::uint16_t family;
    std::uint16_t key;
    std::uint32_t flow;
    ibv_gid gid;
    std::uint64_t service;
    std::uint64_t service_mask;
    std::uint64_t scope;
};

std::uint16_t put_gid(__kernel_sockaddr_storage& to, const glue::Address& address) noexcept {
    GidAddress made{};
    made.family = kInfinibandFamily;
    made.key = htons(kDefaultKey);
    if (address.is_set()) {
        made.gid = gid_of(address);
    }
    std::memcpy(&to, &made, sizeof made);
    return sizeof made;
}

// Both addresses, each as PUT writes it.
template<typename Put>
Result<void> query_addresses(const Request& request, std::uint64_t to, const Id& id, Put&& put) {
    rdma_ucm_query_addr_resp answer{};
    answer.src_size = put(answer.src_addr, id.source);
    answer.dst_size = put(answer.dst_addr, id.destination);
    answer.ibdev_index = kNoIndex;
    if (id.device) {
        answer.node_guid = id.device->guid;
        answer.port_num = 1;
        answer.pkey = htons(kDefaultKey);
    }
    return request.answer(to, answer, offsetof(rdma_ucm_query_addr_resp, ibdev_index));
}

Result<void> query_path(const Request& request, std::uint64_t to, const Id& id) {
    struct {
        std::uint32_t paths;
        std::uint32_t reserved;
        ibv_path_data path;
    } answer{};
    static_assert(offsetof(decltype(answer), path) == sizeof(rdma_ucm_query_path_resp));
    if (id.device && id.has_route) {
        constexpr std::uint8_t kExactly = 2 << 6;
        answer.paths = 1;
        answer.path.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
        ibv_path_record& path = answer.path.path;
        path.sgid = gid_of(id.source);
        path.dgid = gid_of(id.destination);
        path.flowlabel_hoplimit = htonl(kHopLimit);
        path.tclass = id.type_of_service;
        path.reversible_numpath = 1 << 7 | 1;
        path.pkey = htons(kDefaultKey);
        path.mtu = kExactly | path_mtu_of(id.device->context);
    }
    const std::size_t bytes = answer.paths == 0 ? sizeof(rdma_ucm_query_path_resp) : sizeof answer;
    return request.answer(to, answer, bytes);
}

} // namespace

Result<Answer> query_route(const Request& request) {
    const Result<rdma_ucm_query> command = request.as<rdma_ucm_query>(offsetof(rdma_ucm_query, option));
    if (!command) {
        return command.error().clone();
    }
    return with_addresses(request, command->id, [&](const Id& id) {
        rdma_ucm_query_route_resp answer{};
        (void)put_address(answer.src_addr, id.source);
        (void)put_address(answer.dst_addr, id.destination);
        answer.ibdev_index = kNoIndex;
        if (id.device) {
            fill_route(answer, id);
        }
        return request.answer(command->response, answer, offsetof(rdma_ucm_query_route_resp, ibdev_index));
    });
}

Result<Answer> query(const Request& request) {
    const Result<rdma_ucm_query> command = request.as<rdma_ucm_query>();
    if (!command) {
        return command.error().clone();
    }
    return with_addresses(request, command->id, [&](const Id& id) -> Result<void> {
        switch (command->option) {
        case RDMA_USER_CM_QUERY_ADDR:
            return query_addresses(request, command->response, id, put_address<__kernel_sockaddr_storage>);
        case RDMA_USER_CM_QUERY_PATH:
            return query_path(request, command->response, id);
        case RDMA_USER_CM_QUERY_GID:
            return query_addresses(request, command->response, id, put_gid);
        default:
            return Error(ErrorKind::kNotSupported, "uroce's ids have addresses, GIDs and paths only", ENOSYS);
        }
    });
}

} // namespace sluice::layers::cmdev
