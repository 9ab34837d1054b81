// SPDX-License-Identifier: BSD-3-Clause
#include "layers/cmdev/multicast.hpp"

#include <netinet/in.h>

#include "layers/cmdev/queue_pair.hpp"

namespace sluice::layers::cmdev {

namespace {

constexpr std::uint32_t kEverybody = 0xff'ffff; // the queue pair number of multicast
constexpr std::uint8_t kLocalHops = 1;          // as the kernel has it: a group is one of this network
constexpr std::uint32_t kHighestJoinFlag =
    1; // of members that only send; librdmacm attaches nothing for them

struct Wanted {
    std::uint64_t response;
    std::uint64_t uid;
    std::uint32_t flags;
};

bool is_multicast(const glue::Address& address) noexcept {
    if (address.family() == AF_INET) {
        return IN_MULTICAST(ntohl(reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr.s_addr));
    }
    return IN6_IS_ADDR_MULTICAST(&reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr);
}

Result<void> check(const Id& id, const Result<glue::Address>& group, const Wanted& wanted) noexcept {
    if (!group) {
        return group.error().clone();
    }
    if (!id.is_datagram || !id.listeners.empty()) {
        return invalid(
            "only an id for datagrams (RDMA_PS_UDP) that doesn't listen can join a multicast group");
    }
    if (!is_multicast(*group)) {
        return invalid(
            "this is no multicast address: 224.0.0.0 to 239.255.255.255, or one that begins with ff");
    }
    return wanted.flags <= kHighestJoinFlag ? Result<void>() : invalid("this flag for joining isn't known");
}

Event joined(const Id& id, std::uint32_t number, const glue::Address& group) noexcept {
    Event event = make_event(id.handle, EventType::kMulticastJoin);
    event.response.id = number;
    rdma_ucm_ud_param& way = event.response.param.ud;
    way.qp_num = kEverybody;
    way.qkey = kDatagramKey;
    way.ah_attr.is_global = 1;
    way.ah_attr.port_num = 1;
    std::ranges::copy(gid_of(group).raw, way.ah_attr.grh.dgid);
    way.ah_attr.grh.sgid_index = gid_index_of(id);
    way.ah_attr.grh.hop_limit = kLocalHops;
    way.ah_attr.grh.traffic_class = id.type_of_service;
    return event;
}

Result<Answer> join(const Request& request, std::uint32_t handle, const Result<glue::Address>& group,
                    const Wanted& wanted) {
    return with_device(request, handle, [&](Id& id) -> Result<void> {
        Result<void> done = check(id, group, wanted);
        if (!done) {
            return done;
        }
        const rdma_ucm_create_id_resp made{.id = ids::next_handle()};
        done = request.answer(wanted.response, made);
        if (!done) {
            return done;
        }
        id.groups.push_back({.handle = made.id, .uid = wanted.uid});
        ids::add_group(made.id, id.handle);
        id.file->post(joined(id, made.id, *group));
        return {};
    });
}

} // namespace

Result<Answer> join_multicast_ip(const Request& request) {
    const Result<rdma_ucm_join_ip_mcast> command = request.as<rdma_ucm_join_ip_mcast>();
    if (!command) {
        return command.error().clone();
    }
    return join(request, command->id, address_in(command->addr),
                {.response = command->response, .uid = command->uid, .flags = 0});
}

Result<Answer> join_multicast(const Request& request) {
    const Result<rdma_ucm_join_mcast> command = request.as<rdma_ucm_join_mcast>();
    if (!command) {
        return command.error().clone();
    }
    return join(request, command->id, address_in(command->addr, command->addr_size),
                {.response = command->response, .uid = command->uid, .flags = command->join_flags});
}

// An event of the group's that nobody has taken yet finds that the group is gone.
Result<Answer> leave_multicast(const Request& request) {
    const Result<rdma_ucm_destroy_id> command = request.as<rdma_ucm_destroy_id>();
    if (!command) {
        return command.error().clone();
    }
    const std::optional<std::uint32_t> member = ids::find_member(command->id);
    if (!member) {
        return request.file().kernels() >= 0
                   ? Result<Answer>(Answer::kByKernel)
                   : Error(ErrorKind::kNotFound, "there is no such multicast group of this id's", ENOENT);
    }
    return with_id(request, *member, [&](Id& id) -> Result<Answer> {
        const auto group = std::ranges::find(id.groups, command->id, &Id::Group::handle);
        if (group == id.groups.end()) {
            return Error(ErrorKind::kNotFound, "another thread has left the multicast group", ENOENT);
        }
        const rdma_ucm_destroy_id_resp ended{.events_reported = group->reported};
        Result<void> answered = request.answer(command->response, ended);
        if (answered) {
            ids::remove_group(group->handle);
            id.groups.erase(group);
        }
        return done_if(std::move(answered));
    });
}

bool is_of_group(const Event& event) noexcept {
    return event.response.event == static_cast<std::uint32_t>(EventType::kMulticastJoin);
}

Id::Group* group_of(const Event& event, Id& id) noexcept {
    const auto group = std::ranges::find(id.groups, event.response.id, &Id::Group::handle);
    return group == id.groups.end() ? nullptr : &*group;
}

} // namespace sluice::layers::cmdev
