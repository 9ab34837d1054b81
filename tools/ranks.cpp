// SPDX-License-Identifier: BSD-3-Clause
//
// The first rank is the server of most pairs, and most clients give up at once where nobody listens. So the
// others start when the first listens at a TCP port, has ended, has rested for a second, or has had five.
#include "tools/ranks.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "tools/copies.hpp"
#include "tools/output.hpp"

namespace sluice::tools {

namespace {

constexpr std::uint16_t kRocePort = 4791;

class Socket {
  public:
    explicit Socket(int type) : fd_(socket(AF_INET, type | SOCK_CLOEXEC, 0)) {}
    ~Socket() { close(fd_); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    bool bind_to(const std::string& address, std::uint16_t port) const {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_port = htons(port);
        return inet_pton(AF_INET, address.c_str(), &at.sin_addr) == 1 &&
               bind(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
    }
    std::uint16_t port() const {
        sockaddr_in at{};
        socklen_t bytes = sizeof at;
        return getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &bytes) == 0 ? ntohs(at.sin_port) : 0;
    }

  private:
    int fd_;
};

// COUNT neighbouring addresses of the loopback network that nobody uses, drawn by lot: several such runs may
// go on beside each other, and beside whatever else uses uroce here.
std::vector<std::string> free_addresses(unsigned count) {
    constexpr int kDraws = 1000;
    for (int draw = 0; draw < kDraws; ++draw) {
        std::array<unsigned char, 2> drawn{};
        if (getrandom(drawn.data(), drawn.size(), 0) != static_cast<ssize_t>(drawn.size())) {
            break;
        }
        const std::string network = "127." + std::to_string(drawn[0]) + "." + std::to_string(drawn[1]) + ".";
        std::vector<std::string> addresses;
        while (addresses.size() < count &&
               Socket(SOCK_DGRAM).bind_to(network + std::to_string(addresses.size() + 1), kRocePort)) {
            addresses.push_back(network + std::to_string(addresses.size() + 1));
        }
        if (addresses.size() == count) {
            return addresses;
        }
    }
    throw Failure(kExitNoDevice, "run: no free addresses in 127.0.0.0/8: UDP port " +
                                     std::to_string(kRocePort) +
                                     " can't be bound there; is the interface lo up?");
}

std::uint16_t free_tcp_port() {
    const Socket socket(SOCK_STREAM);
    if (!socket.bind_to("0.0.0.0", 0)) {
        throw Failure(kExitFailure, "run: no free TCP port");
    }
    return socket.port();
}

Facts facts_of(unsigned rank, const std::vector<std::string>& addresses, std::uint16_t port) {
    return {{"{rank}", "UROCE_RANK", std::to_string(rank)},
            {"{ranks}", "UROCE_RANKS", std::to_string(addresses.size())},
            {"{address}", "UROCE_ADDRESS", addresses[rank]},
            {"{peer}", "UROCE_PEER", addresses[rank == 0 ? 1 % addresses.size() : 0]},
            {"{port}", "UROCE_PORT", std::to_string(port)},
            {"", "SLUICE_UROCE", "uroce0=" + addresses[rank]}};
}

} // namespace

int run_ranks(const RankOptions& options, const std::vector<std::string>& command) {
    const std::vector<std::string> addresses = free_addresses(options.ranks);
    const std::uint16_t port = free_tcp_port();
    CopyOptions copies{.called = "rank",
                       .start = Start::kFirstListens,
                       .preloaded = kShowsUroce,
                       .timeout_seconds = options.timeout_seconds,
                       .environment = options.environment,
                       .facts = {}};
    for (unsigned rank = 0; rank < options.ranks; ++rank) {
        copies.facts.push_back(facts_of(rank, addresses, port));
    }
    return run_copies(copies, command);
}

} // namespace sluice::tools
