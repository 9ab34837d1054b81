// SPDX-License-Identifier: BSD-3-Clause
//
// The yardstick for what moves packets: the same bytes over the loopback interface, through bare sendmmsg()
// with segmentation and recvmmsg() with its inverse. No headers to make, no checksum, nothing is sent again.
#pragma once

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "tests/bench/failure.hpp"
#include "tests/bench/harness.hpp"

namespace sluice::bench {

inline constexpr std::uint32_t kMtu = 4096;
inline constexpr std::uint32_t kPackets = 16;
inline constexpr std::uint32_t kMessageBytes = kMtu * kPackets;

class BareSocket {
  public:
    static constexpr std::uint16_t kSegment = kMtu + 16; // with BTH and ICRC
    static constexpr std::size_t kMessageOnWire = std::size_t{kSegment} * kPackets;
    static constexpr std::size_t kRoom = std::size_t{16} * 65536; // that take() needs

    BareSocket() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        local_.sin_family = AF_INET;
        local_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const int buffer = 4 << 20;
        const int on = 1;
        if (setsockopt(fd_, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) != 0) {
            setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
        }
        setsockopt(fd_, SOL_UDP, UDP_GRO, &on, sizeof on);
        socklen_t bytes = sizeof local_;
        if (fd_ < 0 || bind(fd_, reinterpret_cast<sockaddr*>(&local_), bytes) != 0 ||
            getsockname(fd_, reinterpret_cast<sockaddr*>(&local_), &bytes) != 0) {
            die("binding a socket");
        }
    }
    ~BareSocket() { close(fd_); }
    BareSocket(const BareSocket&) = delete;
    BareSocket& operator=(const BareSocket&) = delete;

    const sockaddr_in& local() const { return local_; }

    // A message of FROM, of as many packets as the kernel takes at once, and the rest.
    void send(const Buffer& from, const sockaddr_in& to) const {
        constexpr std::size_t kFirst = std::size_t{kSegment} * (kPackets - 1);
        sockaddr_in destination = to;
        std::array<mmsghdr, 2> messages{};
        std::array<iovec, 2> vectors = {iovec{from.data(), kFirst}, iovec{from.data() + kFirst, kSegment}};
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof kSegment)> control{};
        for (std::size_t i = 0; i < messages.size(); ++i) {
            messages[i].msg_hdr.msg_name = &destination;
            messages[i].msg_hdr.msg_namelen = sizeof destination;
            messages[i].msg_hdr.msg_iov = &vectors[i];
            messages[i].msg_hdr.msg_iovlen = 1;
        }
        messages[0].msg_hdr.msg_control = control.data();
        messages[0].msg_hdr.msg_controllen = control.size();
        cmsghdr* const segment = CMSG_FIRSTHDR(&messages[0].msg_hdr);
        segment->cmsg_level = SOL_UDP;
        segment->cmsg_type = UDP_SEGMENT;
        segment->cmsg_len = CMSG_LEN(sizeof kSegment);
        std::memcpy(CMSG_DATA(segment), &kSegment, sizeof kSegment);
        if (sendmmsg(fd_, messages.data(), messages.size(), 0) != static_cast<int>(messages.size())) {
            die("sendmmsg");
        }
    }

    // One byte.
    void answer(const sockaddr_in& to) const {
        const char byte = 'a';
        (void)!sendto(fd_, &byte, 1, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    }

    // Takes what is there, sleeping if there is nothing, or, with MSG_DONTWAIT, not. Returns how many bytes.
    std::size_t take(const Buffer& into, int flags = MSG_WAITFORONE) const {
        std::array<mmsghdr, 16> messages{};
        std::array<iovec, 16> vectors{};
        std::array<std::array<char, 64>, 16> controls{};
        for (std::size_t i = 0; i < messages.size(); ++i) {
            vectors[i] = {into.data() + i * 65536, 65536};
            messages[i].msg_hdr.msg_iov = &vectors[i];
            messages[i].msg_hdr.msg_iovlen = 1;
            messages[i].msg_hdr.msg_control = controls[i].data();
            messages[i].msg_hdr.msg_controllen = controls[i].size();
        }
        const int taken = recvmmsg(fd_, messages.data(), messages.size(), flags, nullptr);
        std::size_t bytes = 0;
        for (int i = 0; i < taken; ++i) {
            bytes += messages[static_cast<std::size_t>(i)].msg_len;
        }
        return bytes;
    }

    // The end of the benchmark, if nothing comes.
    void await_readable() const {
        pollfd wanted = {.fd = fd_, .events = POLLIN, .revents = 0};
        if (poll(&wanted, 1, 2000) != 1) {
            die("a packet of the bare sockets was lost on the loopback interface");
        }
    }

  private:
    int fd_;
    sockaddr_in local_{};
};

} // namespace sluice::bench
