// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/netlink.hpp"

#include <net/if.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <rdma/rdma_netlink.h>

#include <array>
#include <memory>

#include "core/boundary.hpp"
#include "ibverbs-glue/adaptors.hpp"

namespace sluice::glue {

namespace {

using Socket = std::unique_ptr<nl_sock, decltype(&nl_socket_free)>;
using Message = std::unique_ptr<nl_msg, decltype(&nlmsg_free)>;
using Cache = std::unique_ptr<nl_cache, decltype(&nl_cache_free)>;

Result<Socket> connect_socket(int protocol) {
    Socket socket(nl_socket_alloc(), nl_socket_free);
    if (!socket) {
        return Error(ErrorKind::kInsufficientResources, "no memory for a netlink socket", ENOMEM);
    }
    if (Result<int> connected = from_nl(nl_connect(socket.get(), protocol), "connecting to netlink");
        !connected) {
        return std::move(connected).error();
    }
    return socket;
}

Result<Message> make_dump_request(int command) {
    Message message(nlmsg_alloc_simple(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), NLM_F_DUMP), nlmsg_free);
    if (!message) {
        return Error(ErrorKind::kInsufficientResources, "no memory for a netlink message", ENOMEM);
    }
    return message;
}

// What a dump collects; an error ends it.
struct Collected {
    std::vector<RdmaLink> links;
    Result<void> status;
};

int collect(nl_msg* message, void* to) noexcept {
    auto& collected = *static_cast<Collected*>(to);
    collected.status = at_boundary("rdma_links", [&]() -> Result<void> {
        Result<RdmaLink> link = parse_rdma_link(nlmsg_hdr(message));
        if (!link) {
            return std::move(link).error();
        }
        collected.links.push_back(*std::move(link));
        return {};
    });
    return collected.status ? NL_OK : NL_STOP;
}

// All messages that answer COMMAND about DEVICE_INDEX, or about all devices.
Result<std::vector<RdmaLink>> dump(nl_sock* socket, int command, const unsigned* device_index) {
    Result<Message> message = make_dump_request(command);
    if (!message) {
        return std::move(message).error();
    }
    if (device_index != nullptr) {
        Result<int> put =
            from_nl(nla_put_u32(message->get(), RDMA_NLDEV_ATTR_DEV_INDEX, *device_index), "asking netlink");
        if (!put) {
            return std::move(put).error();
        }
    }
    Collected collected;
    nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, collect, &collected);
    // What the kernel answers last to a dump is no acknowledgement.
    nl_socket_disable_auto_ack(socket);
    Result<int> done = from_nl(nl_send_auto(socket, message->get()), "asking netlink for RDMA devices");
    if (done) {
        done = from_nl(nl_recvmsgs_default(socket), "listing RDMA devices by netlink");
    }
    if (!done) {
        return std::move(done).error();
    }
    if (!collected.status) {
        return std::move(collected.status).error();
    }
    return std::move(collected.links);
}

std::string text_of(nlattr* attribute) {
    return attribute == nullptr ? std::string() : std::string(nla_get_string(attribute));
}

unsigned number_of(nlattr* attribute) {
    return attribute == nullptr ? 0 : nla_get_u32(attribute);
}

} // namespace

Result<RdmaLink> parse_rdma_link(const nlmsghdr* message) {
    static const std::array<nla_policy, RDMA_NLDEV_ATTR_MAX> policy = [] {
        std::array<nla_policy, RDMA_NLDEV_ATTR_MAX> all{};
        all[RDMA_NLDEV_ATTR_DEV_INDEX].type = NLA_U32;
        all[RDMA_NLDEV_ATTR_DEV_NAME] = {.type = NLA_STRING, .minlen = 0, .maxlen = 64};
        all[RDMA_NLDEV_ATTR_PORT_INDEX].type = NLA_U32;
        all[RDMA_NLDEV_ATTR_NDEV_INDEX].type = NLA_U32;
        all[RDMA_NLDEV_ATTR_NDEV_NAME] = {.type = NLA_STRING, .minlen = 0, .maxlen = IFNAMSIZ};
        return all;
    }();
    std::array<nlattr*, RDMA_NLDEV_ATTR_MAX> attributes{};
    // libnl takes what it doesn't change through a pointer that would allow it.
    const Result<int> parsed = from_nl(nlmsg_parse(const_cast<nlmsghdr*>(message), 0, attributes.data(),
                                                   RDMA_NLDEV_ATTR_MAX - 1, policy.data()),
                                       "reading an answer of RDMA netlink");
    if (!parsed) {
        return Error(ErrorKind::kProtocol, parsed.error().text(), parsed.error().os_errno());
    }
    if (attributes[RDMA_NLDEV_ATTR_DEV_INDEX] == nullptr || attributes[RDMA_NLDEV_ATTR_DEV_NAME] == nullptr) {
        return Error(ErrorKind::kProtocol, "an answer of RDMA netlink names no device", EPROTO);
    }
    RdmaLink link;
    link.device = text_of(attributes[RDMA_NLDEV_ATTR_DEV_NAME]);
    link.device_index = number_of(attributes[RDMA_NLDEV_ATTR_DEV_INDEX]);
    link.port = number_of(attributes[RDMA_NLDEV_ATTR_PORT_INDEX]);
    link.netdev = text_of(attributes[RDMA_NLDEV_ATTR_NDEV_NAME]);
    link.netdev_index = number_of(attributes[RDMA_NLDEV_ATTR_NDEV_INDEX]);
    return link;
}

Result<std::vector<RdmaLink>> rdma_links() {
    Result<Socket> socket = connect_socket(NETLINK_RDMA);
    if (!socket) {
        return std::move(socket).error();
    }
    Result<std::vector<RdmaLink>> devices = dump(socket->get(), RDMA_NLDEV_CMD_GET, nullptr);
    if (!devices) {
        return std::move(devices).error();
    }
    std::vector<RdmaLink> links;
    for (const RdmaLink& device : *devices) {
        Result<std::vector<RdmaLink>> ports =
            dump(socket->get(), RDMA_NLDEV_CMD_PORT_GET, &device.device_index);
        if (!ports) {
            if (ports.error().kind() == ErrorKind::kInvalidArgument ||
                ports.error().kind() == ErrorKind::kDeviceGone) {
                continue; // it went in the meantime
            }
            return std::move(ports).error();
        }
        links.insert(links.end(), ports->begin(), ports->end());
    }
    return links;
}

Result<std::vector<NetdevAddress>> netdev_addresses() {
    Result<Socket> socket = connect_socket(NETLINK_ROUTE);
    if (!socket) {
        return std::move(socket).error();
    }
    nl_cache* raw = nullptr;
    Result<int> listed =
        from_nl(rtnl_addr_alloc_cache(socket->get(), &raw), "listing the addresses of network interfaces");
    if (!listed) {
        return std::move(listed).error();
    }
    const Cache cache(raw, nl_cache_free);
    std::vector<NetdevAddress> addresses;
    for (nl_object* object = nl_cache_get_first(raw); object != nullptr; object = nl_cache_get_next(object)) {
        auto* const entry = reinterpret_cast<rtnl_addr*>(object);
        const nl_addr* const local = rtnl_addr_get_local(entry);
        const auto index = static_cast<unsigned>(rtnl_addr_get_ifindex(entry));
        std::array<char, IF_NAMESIZE> name{};
        if (local == nullptr || if_indextoname(index, name.data()) == nullptr) {
            continue; // the interface went in the meantime
        }
        const void* const bytes = nl_addr_get_binary_addr(local);
        if (nl_addr_get_family(local) == AF_INET && nl_addr_get_len(local) == 4) {
            addresses.push_back({index, name.data(), Address::ipv4(bytes)});
        } else if (nl_addr_get_family(local) == AF_INET6 && nl_addr_get_len(local) == 16) {
            const bool is_link_local = rtnl_addr_get_scope(entry) == RT_SCOPE_LINK;
            addresses.push_back({index, name.data(), Address::ipv6(bytes, is_link_local ? index : 0)});
        }
    }
    return addresses;
}

} // namespace sluice::glue
