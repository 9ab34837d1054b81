// SPDX-License-Identifier: BSD-3-Clause
#include "tools/netlink.hpp"

#include <arpa/inet.h>
#include <linux/if.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <rdma/rdma_netlink.h>

#include <cstdlib>
#include <new>

#include "tools/output.hpp"

namespace sluice::tools {

namespace {

constexpr const char* kNeedsPrivilege =
    "; it needs CAP_NET_ADMIN in the first network namespace: run it as root";

// RESULT is libnl's: negative, and a code of its own.
[[noreturn]] void fail(const std::string& what, int result) {
    const bool forbidden = result == -NLE_PERM || result == -NLE_NOACCESS;
    throw Failure(forbidden ? kExitNoDevice : kExitFailure,
                  what + ": " + nl_geterror(result) + (forbidden ? kNeedsPrivilege : ""));
}

struct MessageFreer {
    void operator()(nl_msg* message) const noexcept { nlmsg_free(message); }
};
using Message = std::unique_ptr<nl_msg, MessageFreer>;

Message rdma_message(int command, int flags) {
    Message message(nlmsg_alloc_simple(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), flags));
    if (message == nullptr) {
        throw std::bad_alloc();
    }
    return message;
}

struct Wanted {
    const char* name;
    std::uint32_t index = 0;
    bool found = false;
};

int compare_name(nl_msg* message, void* context) {
    auto* const wanted = static_cast<Wanted*>(context);
    nlattr* attributes[RDMA_NLDEV_ATTR_MAX] = {};
    if (nlmsg_parse(nlmsg_hdr(message), 0, attributes, RDMA_NLDEV_ATTR_MAX - 1, nullptr) == 0 &&
        attributes[RDMA_NLDEV_ATTR_DEV_NAME] != nullptr && attributes[RDMA_NLDEV_ATTR_DEV_INDEX] != nullptr &&
        nla_strcmp(attributes[RDMA_NLDEV_ATTR_DEV_NAME], wanted->name) == 0) {
        wanted->index = nla_get_u32(attributes[RDMA_NLDEV_ATTR_DEV_INDEX]);
        wanted->found = true;
    }
    return NL_OK;
}

} // namespace

void NetlinkSocketCloser::operator()(nl_sock* socket) const noexcept {
    nl_socket_free(socket);
}

NetlinkSocket connect_netlink(int protocol) {
    NetlinkSocket socket(nl_socket_alloc());
    if (socket == nullptr) {
        throw std::bad_alloc();
    }
    const int result = nl_connect(socket.get(), protocol);
    if (result < 0) {
        if (protocol == NETLINK_RDMA) {
            // The kernel has tried to load its module by itself.
            throw Failure(kExitNoDevice, "this kernel has no RDMA: it can't load the module ib_core");
        }
        fail("netlink", result);
    }
    return socket;
}

bool add_dummy(nl_sock* route, const std::string& name, unsigned mtu) {
    const std::unique_ptr<rtnl_link, void (*)(rtnl_link*)> link(rtnl_link_alloc(), rtnl_link_put);
    if (link == nullptr) {
        throw std::bad_alloc();
    }
    rtnl_link_set_name(link.get(), name.c_str());
    rtnl_link_set_mtu(link.get(), mtu);
    rtnl_link_set_flags(link.get(), IFF_UP);
    int result = rtnl_link_set_type(link.get(), "dummy");
    if (result == 0) {
        result = rtnl_link_add(route, link.get(), NLM_F_CREATE | NLM_F_EXCL);
    }
    if (result == -NLE_EXIST) {
        return false;
    }
    if (result == -NLE_OPNOTSUPP) {
        throw Failure(kExitNoDevice, "this kernel has no dummy interfaces: it can't load the module dummy");
    }
    if (result < 0) {
        fail("adding the network interface " + name, result);
    }
    return true;
}

void add_address(nl_sock* route, unsigned interface, std::uint32_t address) {
    const std::unique_ptr<rtnl_addr, void (*)(rtnl_addr*)> entry(rtnl_addr_alloc(), rtnl_addr_put);
    const std::uint32_t bytes = htonl(address);
    const std::unique_ptr<nl_addr, void (*)(nl_addr*)> local(nl_addr_build(AF_INET, &bytes, sizeof bytes),
                                                             nl_addr_put);
    if (entry == nullptr || local == nullptr) {
        throw std::bad_alloc();
    }
    rtnl_addr_set_ifindex(entry.get(), static_cast<int>(interface));
    rtnl_addr_set_prefixlen(entry.get(), 32);
    int result = rtnl_addr_set_local(entry.get(), local.get());
    if (result == 0) {
        result = rtnl_addr_add(route, entry.get(), 0);
    }
    if (result < 0) {
        fail("giving the network interface its address", result);
    }
}

void delete_interface(nl_sock* route, unsigned interface) noexcept {
    rtnl_link* const link = rtnl_link_alloc();
    if (link != nullptr) {
        rtnl_link_set_ifindex(link, static_cast<int>(interface));
        rtnl_link_delete(route, link);
        rtnl_link_put(link);
    }
}

bool add_rxe(nl_sock* rdma, const std::string& name, const std::string& interface) {
    Message message = rdma_message(RDMA_NLDEV_CMD_NEWLINK, NLM_F_REQUEST | NLM_F_ACK);
    if (nla_put_string(message.get(), RDMA_NLDEV_ATTR_DEV_NAME, name.c_str()) != 0 ||
        nla_put_string(message.get(), RDMA_NLDEV_ATTR_LINK_TYPE, "rxe") != 0 ||
        nla_put_string(message.get(), RDMA_NLDEV_ATTR_NDEV_NAME, interface.c_str()) != 0) {
        throw std::bad_alloc();
    }
    const int result = nl_send_sync(rdma, message.release());
    if (result == -NLE_EXIST) {
        return false;
    }
    if (result == -NLE_INVAL) {
        // What the kernel answers for a type that it doesn't know and can't load.
        throw Failure(kExitNoDevice,
                      "this kernel has no Soft-RoCE: it can't load the module rdma_rxe (Debian's "
                      "cloud kernels leave it out; linux-image-amd64 has it)");
    }
    if (result < 0) {
        fail("adding the RDMA device " + name, result);
    }
    return true;
}

std::uint32_t rdma_index(nl_sock* rdma, const std::string& name) {
    Wanted wanted{name.c_str()};
    nl_socket_modify_cb(rdma, NL_CB_VALID, NL_CB_CUSTOM, compare_name, &wanted);
    int result =
        nl_send_simple(rdma, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), NLM_F_DUMP, nullptr, 0);
    if (result >= 0) {
        result = nl_recvmsgs_default(rdma);
    }
    nl_socket_modify_cb(rdma, NL_CB_VALID, NL_CB_DEFAULT, nullptr, nullptr);
    if (result < 0) {
        fail("listing RDMA devices", result);
    }
    if (!wanted.found) {
        throw Failure(kExitFailure, "the RDMA device " + name + " went as soon as it had come");
    }
    return wanted.index;
}

void delete_rdma(nl_sock* rdma, std::uint32_t index) noexcept {
    nl_msg* const message = nlmsg_alloc_simple(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_DELLINK),
                                               NLM_F_REQUEST | NLM_F_ACK);
    if (message != nullptr) {
        nla_put_u32(message, RDMA_NLDEV_ATTR_DEV_INDEX, index);
        nl_send_sync(rdma, message);
    }
}

} // namespace sluice::tools
