// SPDX-License-Identifier: BSD-3-Clause
//
// Read from /proc/net/if_inet6, a line for each address: 32 digits, then the interface's index, the length of
// the prefix, scope and flags, all in hexadecimal, and the interface's name.
#include "roce/socket/address_state.hpp"

#include <linux/if_addr.h>

#include <charconv>
#include <cstdio>

#include "roce/socket/words.hpp"

namespace sluice::roce::socket {
namespace {

std::string digits_of(const engine::Address& address) {
    std::string text;
    for (const std::uint8_t byte : address.gid) {
        char hex[3];
        (void)std::snprintf(hex, sizeof hex, "%02x", byte);
        text += hex;
    }
    return text;
}

unsigned flags_of(const std::string& table, const std::string& address) noexcept {
    std::string_view rest = table;
    while (!rest.empty()) {
        // address index prefix scope flags name
        const auto words = words_of<6>(take_word(rest, '\n'));
        unsigned flags = 0;
        if (words[0] == address) {
            (void)std::from_chars(words[4].data(), words[4].data() + words[4].size(), flags, 16);
            return flags;
        }
    }
    return 0;
}

} // namespace

std::optional<std::string> why_unusable(const FileTree& tree, const engine::Address& address) {
    const auto table = tree.read("/proc/net/if_inet6", kMaxTableBytes);
    const unsigned flags = table && !engine::is_ipv4(address) ? flags_of(*table, digits_of(address)) : 0;
    if ((flags & IFA_F_DADFAILED) != 0) {
        return "another host of this network has it, too ('dadfailed' in `ip address`); give one of them "
               "another address";
    }
    if ((flags & IFA_F_TENTATIVE) != 0) {
        return "the kernel still asks whether another host has it ('tentative' in `ip address`), which takes "
               "a second or two once the interface has a link; try again then";
    }
    return std::nullopt;
}

} // namespace sluice::roce::socket
