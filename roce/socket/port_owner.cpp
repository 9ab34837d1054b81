// SPDX-License-Identifier: BSD-3-Clause
//
// Read from /proc/net/udp and udp6: address and port in hexadecimal, the socket's owner and inode;
// then from whichever /proc/PID/fd may be read, who has that socket open. rdma_rxe's sockets look
// like a process's there, but no process has them, and they are bound to every address.
#include "roce/socket/port_owner.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "roce/socket/address.hpp"
#include "roce/socket/words.hpp"
#include "roce/wire/ip.hpp"

namespace sluice::roce::socket {
namespace {

struct Holder {
    std::string inode;
    std::string user;
    bool every_address = false;
};

// The kernel prints each 32-bit word of an address as the number that it is on this machine.
std::string as_in_table(const std::uint8_t* bytes, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; i += 4) {
        std::uint32_t word = 0;
        std::memcpy(&word, bytes + i, sizeof word);
        char hex[9];
        std::snprintf(hex, sizeof hex, "%08X", word);
        text += hex;
    }
    return text;
}

std::optional<Holder> find_in_table(std::string_view table, const std::string& exact,
                                    const std::string& any) {
    char port[6];
    std::snprintf(port, sizeof port, ":%04X", wire::kRocePort);
    std::string_view rest = table;
    while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        // sl local remote state queues timer retransmits uid timeout inode
        const auto words = words_of<10>(line);
        const std::string_view local = words[1];
        if (!words[9].empty() && (local == exact + port || local == any + port)) {
            return Holder{.inode = std::string(words[9]),
                          .user = std::string(words[7]),
                          .every_address = local == any + port};
        }
    }
    return std::nullopt;
}

// The kernel's tables of sockets.
struct Tables {
    std::string udp;
    std::string udp6;
    bool are_whole = false;
};

Tables read_tables(const FileTree& tree) {
    constexpr char kUdp6[] = "/proc/net/udp6"; // missing where the kernel has no IPv6
    Result<std::string> udp = tree.read("/proc/net/udp", kMaxTableBytes);
    Result<std::string> udp6 = tree.read(kUdp6, kMaxTableBytes);
    const bool are_whole = udp.ok() && (udp6.ok() || !tree.exists(kUdp6));
    return {.udp = udp ? *std::move(udp) : std::string(),
            .udp6 = udp6 ? *std::move(udp6) : std::string(),
            .are_whole = are_whole};
}

std::optional<Holder> find_holder(const Tables& tables, const engine::Address& address) {
    const std::string any6(32, '0');
    if (engine::is_ipv4(address)) {
        const auto bytes = ipv4_bytes(address);
        auto holder = find_in_table(tables.udp, as_in_table(bytes.data(), 4), std::string(8, '0'));
        if (holder) {
            return holder;
        }
    }
    return find_in_table(tables.udp6, as_in_table(address.gid.data(), 16), any6);
}

bool has_open(const FileTree& tree, const std::string& process, const std::string& link) {
    const std::string directory = "/proc/" + process + "/fd";
    const auto files = tree.list(directory);
    if (!files) {
        return false;
    }
    return std::ranges::any_of(*files, [&](const std::string& file) {
        std::array<char, 64> target{};
        const std::string path = tree.outside(directory + "/" + file);
        const ssize_t len = readlink(path.c_str(), target.data(), target.size());
        return len > 0 && std::string_view(target.data(), static_cast<std::size_t>(len)) == link;
    });
}

std::optional<std::string> find_process(const FileTree& tree, const std::string& inode) {
    const auto processes = tree.list("/proc");
    if (!processes) {
        return std::nullopt;
    }
    const std::string link = "socket:[" + inode + "]";
    const auto found = std::ranges::find_if(*processes, [&](const std::string& name) {
        return !name.empty() && name[0] >= '1' && name[0] <= '9' && has_open(tree, name, link);
    });
    return found == processes->end() ? std::nullopt : std::optional(*found);
}

bool is_kernels(const FileTree& tree, const Holder& holder) {
    return holder.every_address && holder.user == "0" && tree.exists("/sys/module/rdma_rxe");
}

} // namespace

bool is_port_free(const FileTree& tree, const engine::Address& address) {
    const Tables tables = read_tables(tree);
    return tables.are_whole && !find_holder(tables, address);
}

bool is_kernels_port(const FileTree& tree, const engine::Address& address) {
    const auto holder = find_holder(read_tables(tree), address);
    return holder && is_kernels(tree, *holder) && !find_process(tree, holder->inode);
}

std::optional<std::string> find_port_owner(const FileTree& tree, const engine::Address& address) {
    const auto holder = find_holder(read_tables(tree), address);
    if (!holder) {
        return std::nullopt;
    }
    const auto process = find_process(tree, holder->inode);
    if (process) {
        if (tree.is_live() && *process == std::to_string(getpid())) {
            return "this very process, which has opened the address already";
        }
        return "process " + *process + " (" + tree.read_line("/proc/" + *process + "/comm") + ")";
    }
    if (is_kernels(tree, *holder)) {
        return "the kernel's rdma_rxe, which has it on every address of its network namespace (`rdma link` "
               "lists its devices)";
    }
    return "a process of user " + holder->user + " that /proc doesn't let us see";
}

std::string describe_port_owner(const FileTree& tree, const engine::Address& address) {
    return find_port_owner(tree, address)
        .value_or("a process that has ended meanwhile, or that /proc/net/udp doesn't show");
}

} // namespace sluice::roce::socket
