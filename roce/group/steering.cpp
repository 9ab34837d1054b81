// SPDX-License-Identifier: BSD-3-Clause
#include "roce/group/steering.hpp"

#include <linux/filter.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "roce/wire/mad.hpp"

namespace sluice::roce::group {

namespace {

using engine::Share;

// Where the number is in a datagram's payload: behind one reserved byte.
constexpr std::uint32_t kNumberAt = 4;
constexpr std::uint32_t kNumberMask = 0xffffff;

constexpr sock_filter statement(unsigned code, std::uint32_t k) noexcept {
    return {.code = static_cast<std::uint16_t>(code), .jt = 0, .jf = 0, .k = k};
}

} // namespace

Result<void> steer(int socket_fd, const Share::Words& words) {
    // NOLINTBEGIN(misc-redundant-expression): some of the codes that are joined are 0
    sock_filter code[] = {
        statement(BPF_LD | BPF_W | BPF_ABS, kNumberAt),
        statement(BPF_ALU | BPF_AND | BPF_K, kNumberMask),
        {.code = BPF_JMP | BPF_JGT | BPF_K, .jt = 1, .jf = 0, .k = wire::kGsiQpn},
        statement(BPF_RET | BPF_K, 0),
        // From here on as Share::share_of().
        statement(BPF_ALU | BPF_XOR | BPF_K, words[0]),
        statement(BPF_ALU | BPF_MUL | BPF_K, words[1] | 1),
        statement(BPF_MISC | BPF_TAX, 0),
        statement(BPF_ALU | BPF_RSH | BPF_K, Share::kFirstShift),
        statement(BPF_ALU | BPF_XOR | BPF_X, 0),
        statement(BPF_ALU | BPF_MUL | BPF_K, words[2] | 1),
        statement(BPF_MISC | BPF_TAX, 0),
        statement(BPF_ALU | BPF_RSH | BPF_K, Share::kSecondShift),
        statement(BPF_ALU | BPF_XOR | BPF_X, 0),
        statement(BPF_ALU | BPF_MUL | BPF_K, words[3] | 1),
        statement(BPF_ALU | BPF_RSH | BPF_K, 32 - Share::kBits),
        statement(BPF_ALU | BPF_ADD | BPF_K, 1),
        statement(BPF_RET | BPF_A, 0),
    };
    // NOLINTEND(misc-redundant-expression)
    const sock_fprog program{.len = std::size(code), .filter = code};
    if (setsockopt(socket_fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) != 0) {
        return Error::format(ErrorKind::kNotSupported, errno,
                             "the kernel takes no program that picks one of a port's sockets: %s",
                             strerrordesc_np(errno));
    }
    return {};
}

} // namespace sluice::roce::group
