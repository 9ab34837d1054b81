// SPDX-License-Identifier: BSD-3-Clause
//
// What netlink says: the addresses of a network namespace of the test's own, and answers about RDMA
// devices, true and false ones. With a kernel that has devices it is tested in the lab.
#include "ibverbs-glue/netlink.hpp"

#include <net/if.h>
#include <netlink/msg.h>
#include <rdma/rdma_netlink.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "tests/cmocka.hpp"

using sluice::ErrorKind;
using sluice::Result;
using sluice::glue::NetdevAddress;
using sluice::glue::RdmaLink;

namespace {

using Message = std::unique_ptr<nl_msg, decltype(&nlmsg_free)>;

// An answer as the kernel gives it.
Message good_answer() {
    Message message(nlmsg_alloc_simple(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_PORT_GET), NLM_F_MULTI),
                    nlmsg_free);
    nla_put_u32(message.get(), RDMA_NLDEV_ATTR_DEV_INDEX, 3);
    nla_put_string(message.get(), RDMA_NLDEV_ATTR_DEV_NAME, "rxe0");
    nla_put_u32(message.get(), RDMA_NLDEV_ATTR_PORT_INDEX, 1);
    nla_put_u8(message.get(), RDMA_NLDEV_ATTR_PORT_STATE, 4);
    nla_put_u32(message.get(), RDMA_NLDEV_ATTR_NDEV_INDEX, 2);
    nla_put_string(message.get(), RDMA_NLDEV_ATTR_NDEV_NAME, "eth0");
    return message;
}

TEST(parse__whole_answer__is_understood) {
    const Message message = good_answer();
    const Result<RdmaLink> link = sluice::glue::parse_rdma_link(nlmsg_hdr(message.get()));
    assert_true(link.ok());
    assert_string_equal(link->device.c_str(), "rxe0");
    assert_int_equal(link->device_index, 3);
    assert_int_equal(link->port, 1);
    assert_string_equal(link->netdev.c_str(), "eth0");
    assert_int_equal(link->netdev_index, 2);
}

TEST(parse__device_without_interface__has_none) {
    const Message message(nlmsg_alloc(), nlmsg_free);
    nlmsg_put(message.get(), 0, 0, 0, 0, 0);
    nla_put_u32(message.get(), RDMA_NLDEV_ATTR_DEV_INDEX, 3);
    nla_put_string(message.get(), RDMA_NLDEV_ATTR_DEV_NAME, "ib0");
    const Result<RdmaLink> link = sluice::glue::parse_rdma_link(nlmsg_hdr(message.get()));
    assert_true(link.ok());
    assert_string_equal(link->netdev.c_str(), "");
    assert_int_equal(link->netdev_index, 0);
}

TEST(parse__cut_anywhere__never_reads_further) {
    const Message message = good_answer();
    const nlmsghdr* const whole = nlmsg_hdr(message.get());
    for (std::uint32_t length = 0; length < whole->nlmsg_len; ++length) {
        // In a block of that size: a sanitizer sees one byte too many.
        const auto cut = std::make_unique<unsigned char[]>(std::max<std::size_t>(length, sizeof(nlmsghdr)));
        std::memcpy(cut.get(), whole, std::max<std::size_t>(length, sizeof(nlmsghdr)));
        auto* const header = reinterpret_cast<nlmsghdr*>(cut.get());
        header->nlmsg_len = length;
        const Result<RdmaLink> link = sluice::glue::parse_rdma_link(header);
        if (!link) {
            assert_int_equal(link.error().kind(), ErrorKind::kProtocol);
        } else {
            assert_string_equal(link->device.c_str(), "rxe0");
        }
    }
}

TEST(parse__wrong_attributes__protocol_error) {
    const auto assert_refused = [](auto fill) {
        const Message message(nlmsg_alloc(), nlmsg_free);
        nlmsg_put(message.get(), 0, 0, 0, 0, 0);
        fill(message.get());
        const Result<RdmaLink> link = sluice::glue::parse_rdma_link(nlmsg_hdr(message.get()));
        assert_false(link.ok());
        assert_int_equal(link.error().kind(), ErrorKind::kProtocol);
    };
    assert_refused([](nl_msg*) {});
    assert_refused([](nl_msg* to) { nla_put_u32(to, RDMA_NLDEV_ATTR_DEV_INDEX, 3); });
    assert_refused([](nl_msg* to) { nla_put_string(to, RDMA_NLDEV_ATTR_DEV_NAME, "rxe0"); });
    assert_refused([](nl_msg* to) {
        nla_put_u16(to, RDMA_NLDEV_ATTR_DEV_INDEX, 3);
        nla_put_string(to, RDMA_NLDEV_ATTR_DEV_NAME, "rxe0");
    });
    assert_refused([](nl_msg* to) {
        nla_put_u32(to, RDMA_NLDEV_ATTR_DEV_INDEX, 3);
        nla_put(to, RDMA_NLDEV_ATTR_DEV_NAME, 4, "rxe0"); // without an end
    });
    assert_refused([](nl_msg* to) {
        nla_put_u32(to, RDMA_NLDEV_ATTR_DEV_INDEX, 3);
        nla_put_string(to, RDMA_NLDEV_ATTR_DEV_NAME, std::string(100, 'n').c_str());
    });
}

bool has(const std::vector<NetdevAddress>& addresses, const char* text) {
    return std::ranges::any_of(addresses, [text](const NetdevAddress& each) {
        return each.netdev == "lo" && each.netdev_index == if_nametoindex("lo") &&
               each.address.to_string() == text;
    });
}

TEST(addresses__of_this_namespace__all_of_them) {
    Result<std::vector<NetdevAddress>> addresses = sluice::glue::netdev_addresses();
    assert_true(addresses.ok());
    assert_int_equal(addresses->size(), 0);
    const int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    auto* const address = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(0xc0000207); // 192.0.2.7
    assert_int_equal(ioctl(socket_fd, SIOCSIFADDR, &request), 0);
    request.ifr_flags = IFF_UP;
    assert_int_equal(ioctl(socket_fd, SIOCSIFFLAGS, &request), 0);
    close(socket_fd);
    addresses = sluice::glue::netdev_addresses();
    assert_true(addresses.ok());
    assert_true(has(*addresses, "192.0.2.7"));
    assert_false(has(*addresses, "192.0.2.8"));
    if (access("/proc/sys/net/ipv6", F_OK) == 0) {
        assert_true(has(*addresses, "::1"));
    }
}

TEST(links__kernel_without_rdma_or_devices__none) {
    const Result<std::vector<RdmaLink>> links = sluice::glue::rdma_links();
    if (links) {
        assert_int_equal(links->size(), 0); // of a namespace that was made a moment ago
    } else {
        assert_int_equal(links.error().kind(), ErrorKind::kNotSupported);
    }
}

} // namespace

int main() {
    if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        std::puts("SKIP: no network namespace can be made here");
        return 77;
    }
    return sluice::test::run_all_tests();
}
