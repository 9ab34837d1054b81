// SPDX-License-Identifier: BSD-3-Clause
#include "roce/group/steering.hpp"

#include <linux/filter.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "roce/wire/cm.hpp"
#include "roce/wire/headers.hpp"
#include "roce/wire/mad.hpp"
#include "roce/wire/opcode.hpp"

namespace sluice::roce::group {

namespace {

using engine::Share;

// Where the number is in a datagram's payload: behind one reserved byte.
constexpr std::uint32_t kNumberAt = 4;
constexpr std::uint32_t kNumberMask = 0xffffff;

// Where a message for queue pair 1 has what.
constexpr std::uint32_t kMadAt = wire::Bth::kBytes + wire::Deth::kBytes;
constexpr std::uint32_t kAttributeAt = kMadAt + 16;
constexpr std::uint32_t kBodyAt = kMadAt + wire::MadHeader::kBytes;
constexpr std::uint32_t kRemoteIdAt = kBodyAt + 4;
// The connection manager's, without gaps.
constexpr std::uint32_t kFirstAttribute = wire::CmReq::kAttributeId;
constexpr std::uint32_t kLastAttribute = wire::CmApr::kAttributeId;

constexpr sock_filter statement(unsigned code, std::uint32_t k) noexcept {
    return {.code = static_cast<std::uint16_t>(code), .jt = 0, .jf = 0, .k = k};
}

// Statements of the program that others jump to.
constexpr std::uint32_t kToCommon = 14;
constexpr std::uint32_t kMix = 15;

// In statement AT: to WHERE if the accumulator compares so with K, otherwise on; and the opposite.
constexpr sock_filter jump_if(std::uint32_t at, unsigned comparison, std::uint32_t k,
                              std::uint32_t where) noexcept {
    sock_filter jump = statement(BPF_JMP | comparison | BPF_K, k);
    jump.jt = static_cast<std::uint8_t>(where - at - 1);
    return jump;
}
constexpr sock_filter jump_unless(std::uint32_t at, unsigned comparison, std::uint32_t k,
                                  std::uint32_t where) noexcept {
    sock_filter jump = statement(BPF_JMP | comparison | BPF_K, k);
    jump.jf = static_cast<std::uint8_t>(where - at - 1);
    return jump;
}
constexpr sock_filter jump(std::uint32_t at, std::uint32_t where) noexcept {
    return statement(BPF_JMP | BPF_JA, where - at - 1);
}

using Program = std::array<sock_filter, 28>;

// What is too short for a load goes to socket 0, as the kernel has it.
constexpr Program make_program(const Share::Words& words) noexcept {
    // NOLINTBEGIN(misc-redundant-expression): some of the codes that are joined are 0
    return {
        statement(BPF_LD | BPF_W | BPF_ABS, kNumberAt),
        statement(BPF_ALU | BPF_AND | BPF_K, kNumberMask),
        jump_if(2, BPF_JGT, wire::kGsiQpn, kMix),
        statement(BPF_LD | BPF_B | BPF_ABS, 0),
        jump_unless(4, BPF_JEQ, wire::kUdSendOnly, kToCommon),
        statement(BPF_LD | BPF_H | BPF_ABS, kAttributeAt),
        jump_unless(6, BPF_JGT, kFirstAttribute, kToCommon),
        jump_if(7, BPF_JGT, kLastAttribute, kToCommon),
        jump_if(8, BPF_JEQ, wire::CmSidrReq::kAttributeId, kToCommon),
        jump_unless(9, BPF_JEQ, wire::CmSidrRep::kAttributeId, 12),
        statement(BPF_LD | BPF_W | BPF_ABS, kBodyAt),
        jump(11, kMix),
        statement(BPF_LD | BPF_W | BPF_ABS, kRemoteIdAt),
        jump(13, kMix),
        statement(BPF_RET | BPF_K, 0), // kToCommon
        // kMix: from here on as Share::share_of().
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
}

} // namespace

Result<void> steer(int socket_fd, const Share::Words& words) {
    Program code = make_program(words);
    const sock_fprog program{.len = code.size(), .filter = code.data()};
    if (setsockopt(socket_fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) != 0) {
        return Error::format(ErrorKind::kNotSupported, errno,
                             "the kernel takes no program that picks one of a port's sockets: %s",
                             strerrordesc_np(errno));
    }
    return {};
}

} // namespace sluice::roce::group
