// SPDX-License-Identifier: BSD-3-Clause
//
// The data path of a connection: no allocation, no exception, and no lock of ours but where completions are
// counted (ADR 91). Whether a request fits is the device's to say.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "rpma/conn.hpp"
#include "rpma/include/sluice/rpma.h"
#include "rpma/log.hpp"
#include "rpma/refusals.hpp"

namespace sluice::rpma {

namespace {

unsigned signal_of(const Report& report) noexcept {
    constexpr int kAlways = RPMA_F_COMPLETION_ALWAYS & ~RPMA_F_COMPLETION_ON_ERROR;
    return (report.flags & kAlways) != 0 ? unsigned{IBV_SEND_SIGNALED} : 0U;
}

std::uint64_t id_of(const Report& report) noexcept {
    return reinterpret_cast<std::uintptr_t>(report.id);
}

bool is_nothing(const Local& local) noexcept {
    return local.region == nullptr && local.offset == 0 && local.length == 0;
}

// REFUSED: what the device answers, or Credits.
Answer answer_of(int refused) noexcept {
    if (refused == 0) [[likely]] {
        return Answer::kDone;
    }
    return refused == Credits::kNoRoom ? Answer::kNoRoom : log_refusal(refused, {});
}

// Posts by POST, which gives the device's answer, a request with FLAGS, if the completion queue has room.
template<typename Post>
Answer post(const Queues& queues, unsigned flags, Post&& post) noexcept {
    Credits* const credits = queues.cq().credits();
    return answer_of(credits == nullptr ? post() : credits->send((flags & IBV_SEND_SIGNALED) != 0, post));
}

Answer post(const Queues& queues, ibv_send_wr& request) noexcept {
    return post(queues, request.send_flags, [&] {
        ibv_send_wr* bad = nullptr;
        return queues.qp().post_send(&request, &bad);
    });
}

// FROM as a device takes it, in TO, which has room for that; the length of all, or nothing if a piece can't
// be.
std::optional<std::size_t> gather(std::span<const Local> from, ibv_sge* to) noexcept {
    std::size_t length = 0;
    for (const Local& piece : from) {
        if (piece.region == nullptr || piece.length == 0 ||
            !piece.region->contains(piece.offset, piece.length)) {
            return std::nullopt;
        }
        length += piece.length;
        *to++ = piece.region->piece(piece.offset, piece.length);
    }
    return length;
}

// Where REQUEST goes to at the peer. Both regions are there, or none.
bool aim(const Local& local, const Remote& remote, ibv_send_wr& request) noexcept {
    if (remote.region == nullptr) {
        return local.region == nullptr && remote.offset == 0;
    }
    if (local.region == nullptr || !remote.region->contains(remote.offset, local.length)) {
        return false;
    }
    request.wr.rdma.remote_addr = remote.region->address(remote.offset);
    request.wr.rdma.rkey = remote.region->key();
    return true;
}

// REMOTE is null for messages, which have no place at the peer's. PIECE is what REQUEST, which is all zeros,
// refers to. False: something can't be.
bool describe(ibv_wr_opcode opcode, const Local& local, const Remote* remote, const Report& report,
              ibv_send_wr& request, ibv_sge& piece) noexcept {
    const bool has_memory = local.region != nullptr;
    if (report.flags == 0 || (remote != nullptr && !aim(local, *remote, request)) ||
        !(has_memory ? local.region->contains(local.offset, local.length) : is_nothing(local))) {
        return false;
    }
    if (has_memory) {
        piece = local.region->piece(local.offset, local.length);
        request.sg_list = &piece;
        request.num_sge = 1;
    }
    request.opcode = opcode;
    request.wr_id = id_of(report);
    request.send_flags = signal_of(report);
    return true;
}

} // namespace

Answer Conn::post_transfer(ibv_wr_opcode opcode, const Local& local, const Remote* remote,
                           std::uint32_t immediate, const Report& report) noexcept {
    ibv_sge piece;
    ibv_send_wr request{};
    if (!describe(opcode, local, remote, report, request, piece)) {
        return Answer::kInvalid;
    }
    request.imm_data = htonl(immediate);
    return post(queues(), request);
}

Answer Conn::read(const Local& to, const Remote& from, const Report& report) noexcept {
    return post_transfer(IBV_WR_RDMA_READ, to, &from, 0, report);
}

Answer Conn::write(const Remote& to, const Local& from, const Report& report) noexcept {
    return post_transfer(IBV_WR_RDMA_WRITE, from, &to, 0, report);
}

Answer Conn::write_pieces(const Remote& to, std::span<const Local> from, const Report& report) noexcept {
    if (report.flags == 0) {
        return Answer::kInvalid;
    }
    if (const std::size_t most = is_->queues_->max_pieces(); from.size() > most) {
        refusals::tell_too_many_pieces(from.size(), most);
        return Answer::kInvalid;
    }
    std::array<ibv_sge, RPMA_MAX_PIECES> pieces;
    const std::optional<std::size_t> length = gather(from, pieces.data());
    if (!length || !to.region->contains(to.offset, *length)) {
        return Answer::kInvalid;
    }
    ibv_send_wr request{};
    request.wr_id = id_of(report);
    request.sg_list = pieces.data();
    request.num_sge = static_cast<int>(from.size());
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = signal_of(report);
    request.wr.rdma.remote_addr = to.region->address(to.offset);
    request.wr.rdma.rkey = to.region->key();
    return post(queues(), request);
}

Answer Conn::write_many(std::span<const Write> writes, std::size_t& posted) noexcept {
    std::array<ibv_sge, RPMA_MAX_WRITES> pieces;
    std::array<ibv_send_wr, RPMA_MAX_WRITES> requests;
    for (std::size_t i = 0; i < writes.size(); ++i) {
        const Write& write = writes[i];
        requests[i] = {};
        if (!describe(IBV_WR_RDMA_WRITE, write.from, &write.to, write.report, requests[i], pieces[i])) {
            return Answer::kInvalid;
        }
        requests[i].next = i + 1 < writes.size() ? &requests[i + 1] : nullptr;
    }
    const auto post_all = [&] {
        ibv_send_wr* bad = nullptr;
        const int refused = queues().qp().post_send(requests.data(), &bad);
        posted = refused == 0 ? writes.size() : static_cast<std::size_t>(bad - requests.data());
        return refused;
    };
    Credits* const credits = queues().cq().credits();
    return answer_of(credits == nullptr ? post_all()
                                        : credits->send({requests.data(), writes.size()}, posted, post_all));
}

Answer Conn::write_with_immediate(const Remote& to, const Local& from, std::uint32_t immediate,
                                  const Report& report) noexcept {
    return post_transfer(IBV_WR_RDMA_WRITE_WITH_IMM, from, &to, immediate, report);
}

Answer Conn::send(const Local& from, const Report& report) noexcept {
    return post_transfer(IBV_WR_SEND, from, nullptr, 0, report);
}

Answer Conn::send_with_immediate(const Local& from, std::uint32_t immediate, const Report& report) noexcept {
    return post_transfer(IBV_WR_SEND_WITH_IMM, from, nullptr, immediate, report);
}

// Without a native one a write that has only eight aligned bytes: what carries it keeps them together. The
// fence makes either wait for the reads that stand in for flushes; native flushes keep the order by
// themselves.
Answer Conn::atomic_write(const Remote& to, const char* value, const Report& report) noexcept {
    constexpr std::size_t kBytes = RPMA_ATOMIC_WRITE_ALIGNMENT;
    if (report.flags == 0 || !to.region->contains(to.offset, kBytes)) {
        return Answer::kInvalid;
    }
    if (const std::uint64_t address = to.region->address(to.offset); address % kBytes != 0) {
        refusals::tell_misaligned(address);
        return Answer::kInvalid;
    }
    constexpr Features kFlushes = kFlushVisibility | kFlushPersistent;
    const Features features = features_.load(std::memory_order_relaxed);
    const unsigned flags =
        signal_of(report) | ((features & kFlushes) == kFlushes ? 0U : unsigned{IBV_SEND_FENCE});
    const glue::QueuePair::Target target{to.region->key(), to.region->address(to.offset)};
    if ((features & kAtomicWrite) != 0) {
        return post(queues(), flags,
                    [&] { return queues().qp().post_atomic_write(id_of(report), flags, target, value); });
    }
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(value), kBytes, 0};
    ibv_send_wr request{};
    request.wr_id = id_of(report);
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = flags | IBV_SEND_INLINE | IBV_SEND_FENCE;
    request.wr.rdma.remote_addr = target.address;
    request.wr.rdma.rkey = target.key;
    return post(queues(), request);
}

Answer Conn::flush(const Remote& range, std::size_t length, rpma_flush_type type,
                   const Report& report) noexcept {
    const bool is_persistent = type == RPMA_FLUSH_TYPE_PERSISTENT;
    if (report.flags == 0 || (!is_persistent && type != RPMA_FLUSH_TYPE_VISIBILITY) ||
        !range.region->contains(range.offset, length)) {
        return Answer::kInvalid;
    }
    const unsigned needed =
        is_persistent ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
    if ((range.region->usage() & needed) == 0 || (is_persistent && !has_direct_write_.load())) {
        return Answer::kNotSupported;
    }
    const Features native = is_persistent ? kFlushPersistent : kFlushVisibility;
    if ((features_.load(std::memory_order_relaxed) & native) == 0) {
        return post_read_as_flush(*range.region, range.offset, report);
    }
    const glue::QueuePair::Target target{range.region->key(), range.region->address(range.offset)};
    return post(queues(), signal_of(report), [&] {
        return queues().qp().post_flush(id_of(report), signal_of(report), target, length, is_persistent);
    });
}

// A read waits for all writes before it, wherever it reads. So near the end of the region it moves down
// instead of reaching beyond it.
Answer Conn::post_read_as_flush(const RemoteRegion& region, std::size_t offset,
                                const Report& report) noexcept {
    const std::uint64_t length = std::min<std::uint64_t>(FlushPage::kBytes, region.size());
    const std::uint64_t at = std::min<std::uint64_t>(offset, region.size() - length);
    ibv_sge piece = flush_page_->piece(length);
    ibv_send_wr request{};
    request.wr_id = id_of(report);
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_READ;
    request.send_flags = signal_of(report);
    request.wr.rdma.remote_addr = region.address(at);
    request.wr.rdma.rkey = region.key();
    return post(queues(), request);
}

} // namespace sluice::rpma
