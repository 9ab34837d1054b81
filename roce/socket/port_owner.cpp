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

// What LINE says if its socket is bound to EXACT or to ANY.
std::optional<Holder> holder_on(std::string_view line, const std::string& exact, const std::string& any) {
    char port[6];
    std::snprintf(port, sizeof port, ":%04X", wire::kRocePort);
    // sl local remote state queues timer retransmits uid timeout inode
    const auto words = words_of<10>(line);
    const std::string_view local = words[1];
    if (words[9].empty() || (local != exact + port && local != any + port)) {
        return std::nullopt;
    }
    return Holder{
        .inode = std::string(words[9]), .user = std::string(words[7]), .every_address = local == any + port};
}

// None, or that table of the kernel's can't be read.
Result<std::optional<Holder>> find_in_table(const FileTree& tree, const char* table, const std::string& exact,
                                            const std::string& any) {
    std::optional<Holder> found;
    Result<void> read = tree.read_lines(table, kMaxTableBytes, [&](std::string_view line) {
        found = holder_on(line, exact, any);
        return !found;
    });
    if (!read) {
        return std::move(read).error();
    }
    return found;
}

Result<std::optional<Holder>> find_holder(const FileTree& tree, const engine::Address& address) {
    constexpr char kUdp6[] = "/proc/net/udp6"; // missing where the kernel has no IPv6
    Result<std::optional<Holder>> found = std::optional<Holder>();
    if (engine::is_ipv4(address)) {
        const auto bytes = ipv4_bytes(address);
        found = find_in_table(tree, "/proc/net/udp", as_in_table(bytes.data(), 4), std::string(8, '0'));
        if (found && *found) {
            return found;
        }
    }
    auto in_udp6 = find_in_table(tree, kUdp6, as_in_table(address.gid.data(), 16), std::string(32, '0'));
    const bool is_known = (in_udp6 && *in_udp6) || (!in_udp6 && tree.exists(kUdp6));
    return is_known ? std::move(in_udp6) : std::move(found);
}

// Also none where the tables can't be read.
std::optional<Holder> holder_of(const FileTree& tree, const engine::Address& address) {
    Result<std::optional<Holder>> found = find_holder(tree, address);
    return found ? *std::move(found) : std::nullopt;
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
    const Result<std::optional<Holder>> holder = find_holder(tree, address);
    return holder && !*holder;
}

bool is_kernels_port(const FileTree& tree, const engine::Address& address) {
    const auto holder = holder_of(tree, address);
    return holder && is_kernels(tree, *holder) && !find_process(tree, holder->inode);
}

std::optional<std::string> find_port_owner(const FileTree& tree, const engine::Address& address) {
    const auto holder = holder_of(tree, address);
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
