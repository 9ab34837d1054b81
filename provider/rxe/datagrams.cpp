// SPDX-License-Identifier: BSD-3-Clause
#include "provider/rxe/datagrams.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace sluice::provider::rxe {

namespace {

std::uint64_t place_of(Cq& cq, std::uint32_t qp_num, std::uint64_t wr_id) noexcept {
    const LockGuard guard(cq.members_mutex);
    for (const Membership* member = cq.members; member != nullptr; member = member->next) {
        Qp& qp = *member->qp;
        if (!member->sends && qp.qp.qp_num == qp_num) {
            return qp.recv.headers != nullptr ? qp.recv.headers->find(wr_id) : 0;
        }
    }
    return 0;
}

} // namespace

std::uint64_t header_place(Cq& cq, const ib_uverbs_wc& wc) noexcept {
    const bool received = wc.status == IBV_WC_SUCCESS && (wc.opcode & IBV_WC_RECV) != 0;
    return received ? place_of(cq, wc.qp_num, wc.wr_id) : 0;
}

// In front of an IPv4 header stand twenty bytes of zero; in an IPv6 header, the seventh byte says UDP. The
// kernel looks for us at the word that has it: to move nobody from one futex to another, if the word is zero.
// That costs a third of process_vm_readv(), and memory that the program has taken away is an error and no
// crash.
std::uint8_t header_type_at(std::uint64_t place) noexcept {
    constexpr std::uint8_t kUnknown = 0, kIpv6 = 1, kIpv4 = 2;
    if (place == 0) {
        return kUnknown;
    }
    const auto word = static_cast<std::uintptr_t>((place + kNextHeader) & ~std::uint64_t{3});
    const int saved = errno;
    const long moved = syscall(SYS_futex, word, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, 0, 0, word, 0);
    const int error = std::exchange(errno, saved);
    if (moved >= 0) {
        return kIpv4;
    }
    return error == EAGAIN ? kIpv6 : kUnknown;
}

void tell_header_type(Cq& cq, ibv_wc& wc) noexcept {
    if (wc.status == IBV_WC_SUCCESS && (wc.opcode & IBV_WC_RECV) != 0 && wc.sl == 0) {
        wc.sl = header_type_at(place_of(cq, wc.qp_num, wc.wr_id));
    }
}

} // namespace sluice::provider::rxe
