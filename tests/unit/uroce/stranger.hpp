// SPDX-License-Identifier: BSD-3-Clause
//
// Packets as a program without a device makes them: by hand, through a UDP socket.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "roce/socket/datagram_frame.hpp"
#include "roce/wire/psn.hpp"
#include "tests/unit/uroce/opened.hpp"

namespace sluice::uroce::test {

using roce::engine::Address;
namespace socket = roce::socket;
namespace wire = roce::wire;

inline roce::engine::Address address_of(const union ibv_gid& gid) {
    roce::engine::Address address;
    std::memcpy(address.gid.data(), gid.raw, sizeof gid.raw);
    return address;
}

// A program on this machine without a device, which may send from each of the machine's addresses.
class Stranger {
  public:
    // PORT 0: any.
    Stranger(const Address& from, const Address& to, std::uint16_t port = 0)
        : from_(from), to_(to), fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        const int discover = IP_PMTUDISC_DO; // which makes the identification 0
        assert_int_equal(setsockopt(fd_, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover), 0);
        const socket::SocketAddress mine = socket::to_socket_address(from, port, 0);
        assert_int_equal(bind(fd_, &mine.any, mine.bytes), 0);
        sockaddr_in bound{};
        socklen_t bytes = sizeof bound;
        assert_int_equal(getsockname(fd_, reinterpret_cast<sockaddr*>(&bound), &bytes), 0);
        port_ = ntohs(bound.sin_port);
    }
    ~Stranger() { close(fd_); }
    Stranger(const Stranger&) = delete;
    Stranger& operator=(const Stranger&) = delete;

    void send(wire::ConstBytes bytes) const {
        const socket::SocketAddress victim = socket::to_socket_address(to_, wire::kRocePort, 0);
        assert_int_equal(sendto(fd_, bytes.data(), bytes.size(), 0, &victim.any, victim.bytes), bytes.size());
    }
    // Whether something has come back; it's taken.
    bool has_answer() const {
        std::uint8_t bytes[64];
        return recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT) > 0;
    }
    // With the checksum that it must have.
    std::vector<std::uint8_t> forge(const wire::Packet& packet, std::size_t payload_bytes) const {
        std::vector<std::uint8_t> bytes(128, 0);
        const std::size_t headers = wire::write_headers(packet, bytes);
        assert_true(headers != 0);
        bytes.resize(headers);
        bytes.resize(headers + payload_bytes, 0xee);
        const std::uint32_t icrc = wire::expected_icrc(socket::frame_between(from_, to_, port_, bytes));
        bytes.resize(bytes.size() + wire::kIcrcBytes);
        wire::icrc_store(icrc, std::span(bytes).last<wire::kIcrcBytes>());
        return bytes;
    }

  private:
    Address from_;
    Address to_;
    int fd_;
    std::uint16_t port_ = 0;
};

} // namespace sluice::uroce::test
