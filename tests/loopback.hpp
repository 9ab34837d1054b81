// SPDX-License-Identifier: BSD-3-Clause
//
// Addresses of the loopback network and TCP ports that belong to this process alone until it ends.
//
// RoCE has one UDP port, 4791: tests that run at the same time differ in their addresses instead. An address
// is reserved by a Unix socket with an abstract name, which the kernel gives to one socket at a time and
// takes back when the last process that has the socket ends, however it ends. Names and addresses both belong
// to the network namespace: a reservation holds against other test runs, of other trees and other users, and
// against nobody else. Programs that are no tests reserve nothing. So an address counts as free only if port
// 4791 can be bound there.
//
// The functions here are safe for threads. A child of fork() has addresses of its own.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace sluice::test {

class Loopback {
  public:
    static Loopback& instance() {
        static Loopback one;
        return one;
    }
    Loopback(const Loopback&) = delete;
    Loopback& operator=(const Loopback&) = delete;

    // The same one for the same NUMBER, in this process.
    std::string address(unsigned number) {
        const std::lock_guard lock(mutex_);
        if (owner_ != getpid()) {
            owner_ = getpid();
            numbered_.clear(); // they are the parent's
        }
        while (numbered_.size() <= number) {
            numbered_.push_back(find([this] { return reserve_address(); }));
        }
        return numbered_[number];
    }
    // Another one at each call.
    std::string next_address() {
        const std::lock_guard lock(mutex_);
        return find([this] { return reserve_address(); });
    }
    // One that nothing listens at, on any address. Another one at each call.
    std::string next_tcp_port() {
        const std::lock_guard lock(mutex_);
        return find([this] { return reserve_tcp_port(); });
    }
    // What is reserved so far, for reservations that outlive exec().
    std::vector<int> descriptors() const { return descriptors_; }

  private:
    // The choice is printed, since what depends on an address should fail twice.
    Loopback() {
        const char* const given = std::getenv("TEST_LOOPBACK_SEED");
        const auto seed = given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 0))
                                           : static_cast<std::uint32_t>(std::random_device{}());
        random_.seed(seed);
        std::fprintf(stderr, "loopback addresses: TEST_LOOPBACK_SEED=%u\n", seed);
    }

    template<typename Reserve>
    static std::string find(Reserve&& reserve) {
        constexpr int kTries = 1000;
        for (int i = 0; i < kTries; ++i) {
            std::string found = reserve();
            if (!found.empty()) {
                return found;
            }
        }
        std::fprintf(
            stderr,
            "loopback: none of %d random addresses or ports is free (the last: %s); a program that has "
            "UDP port 4791 on all addresses, like the kernel's rdma_rxe, leaves none\n",
            kTries, std::strerror(errno));
        std::abort();
    }

    std::uint32_t random(std::uint32_t from, std::uint32_t to) {
        return std::uniform_int_distribution<std::uint32_t>(from, to)(random_);
    }

    // Not 127.0.x.y, where uroce0 and its like are, and name servers. Empty if it is somebody's.
    std::string reserve_address() {
        const std::string text = "127." + std::to_string(random(16, 254)) + "." +
                                 std::to_string(random(0, 255)) + "." + std::to_string(random(1, 254));
        sockaddr_in roce{};
        roce.sin_family = AF_INET;
        roce.sin_port = htons(4791);
        inet_pton(AF_INET, text.c_str(), &roce.sin_addr);
        const bool is_mine = reserve(text) && can_bind(SOCK_DGRAM, roce);
        return is_mine ? text : "";
    }

    // Below the ports that the kernel chooses for clients.
    std::string reserve_tcp_port() {
        const std::uint32_t port = random(20000, 29999);
        const std::string text = std::to_string(port);
        sockaddr_in6 any{};
        any.sin6_family = AF_INET6;
        any.sin6_port = htons(static_cast<std::uint16_t>(port));
        sockaddr_in any_v4{};
        any_v4.sin_family = AF_INET;
        any_v4.sin_port = any.sin6_port;
        const bool is_mine =
            reserve("tcp-" + text) && can_bind(SOCK_STREAM, any) && can_bind(SOCK_STREAM, any_v4);
        return is_mine ? text : "";
    }

    bool reserve(const std::string& what) {
        const std::string name = "sluice-test-" + what;
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        name.copy(address.sun_path + 1, sizeof address.sun_path - 1); // abstract: the first byte is 0
        const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
        const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (bind(fd, reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
            close(fd);
            return false;
        }
        descriptors_.push_back(fd);
        return true;
    }

    // Also where there is no such family of addresses.
    template<typename Address>
    static bool can_bind(int type, const Address& address) {
        const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
        const int fd = ::socket(generic->sa_family, type | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            return errno == EAFNOSUPPORT;
        }
        const int bound = bind(fd, generic, sizeof address);
        close(fd);
        return bound == 0;
    }

    std::mutex mutex_;
    std::mt19937 random_;
    std::vector<int> descriptors_; // never closed
    std::vector<std::string> numbered_;
    pid_t owner_ = getpid();
};

inline std::string own_address(unsigned number = 0) {
    return Loopback::instance().address(number);
}

} // namespace sluice::test
