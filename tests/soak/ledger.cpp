// SPDX-License-Identifier: BSD-3-Clause
#include "tests/soak/ledger.hpp"

#include <arpa/inet.h>

namespace sluice::test::soak {

namespace {

constexpr std::size_t kGuardBytes = 16;

void put_guard(std::uint8_t* behind, std::size_t room) {
    std::memset(behind, kUntouched, std::min(room, kGuardBytes));
}

bool guard_is_whole(const std::uint8_t* behind, std::size_t room) {
    return std::all_of(behind, behind + std::min(room, kGuardBytes),
                       [](std::uint8_t byte) { return byte == kUntouched; });
}

} // namespace

// Mostly small, as programs are; sometimes of several packets, and sometimes nothing.
std::size_t draw_length(Random& random) {
    switch (random.below(8)) {
    case 0:
        return random.below(kMaxBytes + 1);
    case 1:
        return random.below(16) == 0 ? 0 : random.below(1500);
    default:
        return random.below(200);
    }
}

Message message_of(std::uint64_t key, unsigned connection, std::uint64_t number) {
    Random random(mix(key, connection, number));
    Message made;
    made.is_write = random.below(4) == 0;
    made.with_immediate = made.is_write || random.below(3) == 0;
    made.immediate = static_cast<std::uint32_t>(random.next());
    made.len = draw_length(random);
    made.at = random.below(static_cast<std::uint32_t>(kTargetBytes - made.len + 1));
    made.content = random.next();
    return made;
}

ibv_send_wr RequestLedger::enter(ibv_wr_opcode opcode, std::size_t len, std::size_t at, ibv_sge& piece,
                                 Pending pending) {
    const std::uint64_t number = first_pending_ + pending_.size();
    const std::size_t place = place_at(connection_, number);
    piece = {block_.address(place), static_cast<std::uint32_t>(len), 0};
    ibv_send_wr request{};
    request.wr_id = wr_id(Of::kRequest, connection_, number);
    request.opcode = opcode;
    request.send_flags = pending.is_signaled ? unsigned{IBV_SEND_SIGNALED} : 0U;
    request.num_sge = 1;
    request.wr.rdma.remote_addr = target_at(connection_) + at;
    if (!pending.brings.empty()) {
        put_guard(block_.at(place + len), kMaxBytes - len);
    }
    pending_.push_back(std::move(pending));
    return request;
}

ibv_send_wr RequestLedger::next(Random& random, ibv_sge& piece) {
    switch (random.below(12)) {
    case 0:
    case 1:
    case 2:
    case 3:
        return write(random, piece);
    case 4:
    case 5:
    case 6: {
        const std::size_t len = draw_length(random);
        const std::size_t at = random.below(static_cast<std::uint32_t>(kTargetBytes - len + 1));
        return read_back(at, len, piece);
    }
    case 7:
    case 8:
        return atomic(random, piece);
    default:
        return message(piece);
    }
}

// A Write may overtake the answer to a Read before it, unless it is told not to (10.8.3.3): all that change
// the target are fenced. One in four of the Writes isn't signaled.
ibv_send_wr RequestLedger::write(Random& random, ibv_sge& piece) {
    const std::size_t len = draw_length(random);
    const std::size_t at = random.below(static_cast<std::uint32_t>(kTargetBytes - len + 1));
    const bool wants_signal =
        random.below(4) != 0; // drawn in any case: what follows must not depend on times
    const bool is_signaled = wants_signal || pending_.size() >= kUnderWay / 2;
    std::uint8_t* const place = block_.at(place_at(connection_, first_pending_ + pending_.size()));
    fill(place, len, random.next());
    std::memcpy(target_.data() + at, place, len);
    ibv_send_wr request = enter(IBV_WR_RDMA_WRITE, len, at, piece, {IBV_WC_RDMA_WRITE, is_signaled, len, {}});
    request.send_flags |= IBV_SEND_FENCE;
    return request;
}

ibv_send_wr RequestLedger::read_back(std::size_t at, std::size_t len, ibv_sge& piece) {
    const std::uint8_t* const from = target_.data() + at;
    return enter(IBV_WR_RDMA_READ, len, at, piece, {IBV_WC_RDMA_READ, true, len, {from, from + len}});
}

ibv_send_wr RequestLedger::atomic(Random& random, ibv_sge& piece) {
    const std::size_t at = random.below(kTargetBytes / 8) * std::size_t{8};
    const bool is_add = random.below(2) == 0;
    const std::uint64_t value = random.next();
    std::uint64_t before = 0;
    std::memcpy(&before, target_.data() + at, sizeof before);
    const std::uint64_t compare = random.below(2) == 0 ? before : before + 1;
    const std::uint64_t swapped = compare == before ? value : before;
    const std::uint64_t after = is_add ? before + value : swapped;
    std::memcpy(target_.data() + at, &after, sizeof after);
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&before);
    ibv_send_wr request = enter(
        is_add ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP, sizeof before, at, piece,
        {is_add ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP, true, sizeof before, {bytes, bytes + sizeof before}});
    request.send_flags |= IBV_SEND_FENCE;
    request.wr.atomic.remote_addr = target_at(connection_) + at;
    request.wr.atomic.compare_add = is_add ? value : compare;
    request.wr.atomic.swap = value;
    return request;
}

ibv_send_wr RequestLedger::message(ibv_sge& piece) {
    const Message next = message_of(key_, connection_, messages_++);
    std::uint8_t* const place = block_.at(place_at(connection_, first_pending_ + pending_.size()));
    fill(place, next.len, next.content);
    ibv_wr_opcode opcode = IBV_WR_SEND;
    if (next.is_write) {
        opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        std::memcpy(target_.data() + next.at, place, next.len);
    } else if (next.with_immediate) {
        opcode = IBV_WR_SEND_WITH_IMM;
    }
    ibv_send_wr request = enter(opcode, next.len, next.at, piece,
                                {next.is_write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND, true, next.len, {}});
    request.send_flags |= IBV_SEND_FENCE;
    request.imm_data = htonl(next.immediate);
    return request;
}

ibv_send_wr RequestLedger::marker() {
    ibv_sge nothing{};
    ibv_send_wr request = enter(IBV_WR_RDMA_WRITE, 0, 0, nothing, {IBV_WC_RDMA_WRITE, true, 0, {}});
    request.num_sge = 0;
    return request;
}

void RequestLedger::check_bytes(const Pending& ended) const {
    const std::size_t place = place_at(connection_, first_pending_);
    if (!ended.brings.empty() && (std::memcmp(block_.at(place), ended.brings.data(), ended.len) != 0 ||
                                  !guard_is_whole(block_.at(place + ended.len), kMaxBytes - ended.len))) {
        fail(
            "connection %u, request %llu: %zu bytes of a Read or atomic operation aren't what the ledger has",
            connection_, static_cast<unsigned long long>(first_pending_), ended.len);
    }
}

// The first that the peer's death ends has used up its retries, or was flushed when the connection's end was
// taken before; those behind it are flushed.
void RequestLedger::check_failure(const ibv_wc& completion, Ends ends) {
    const bool is_expected = completion.status == IBV_WC_WR_FLUSH_ERR ||
                             (completion.status == IBV_WC_RETRY_EXC_ERR && !has_failed_);
    if (ends == Ends::kAllMustSucceed || !is_expected) {
        fail("connection %u: request %llu ends with %s, and the peer %s", connection_,
             static_cast<unsigned long long>(number_of(completion.wr_id)),
             ibv_wc_status_str(completion.status), ends == Ends::kAllMustSucceed ? "is there" : "was killed");
    }
    has_failed_ = true;
}

// COMPLETION is null for a request that one behind it has shown to be complete.
void RequestLedger::check_success(const Pending& ended, const ibv_wc* completion) const {
    const auto number = static_cast<unsigned long long>(first_pending_);
    if (completion == nullptr && ended.is_signaled) {
        fail("connection %u: the completion of request %llu is missing", connection_, number);
    }
    if (has_failed_) {
        fail("connection %u: request %llu succeeds behind one that failed", connection_, number);
    }
    if (completion != nullptr && completion->opcode != ended.opcode) {
        fail("connection %u: request %llu completes as opcode %d, not %d", connection_, number,
             completion->opcode, ended.opcode);
    }
    check_bytes(ended);
}

RequestLedger::Ended RequestLedger::complete(const ibv_wc& completion, Ends ends) {
    const std::uint64_t number = number_of(completion.wr_id);
    if (number < first_pending_ || number - first_pending_ >= pending_.size()) {
        fail("connection %u: request %llu completes, and %zu are under way from %llu on", connection_,
             static_cast<unsigned long long>(number), pending_.size(),
             static_cast<unsigned long long>(first_pending_));
    }
    Ended ended;
    for (; first_pending_ <= number; ++first_pending_) {
        const Pending pending = std::move(pending_.front());
        pending_.pop_front();
        if (first_pending_ == number && completion.status != IBV_WC_SUCCESS) {
            check_failure(completion, ends);
        } else {
            check_success(pending, first_pending_ == number ? &completion : nullptr);
            ++ended.requests;
            ended.bytes += pending.len;
        }
    }
    return ended;
}

void ReceiveLedger::arrived(const ibv_wc& completion, unsigned slot) {
    const Message expected = message_of(key_, connection_, messages_++);
    const auto number = static_cast<unsigned long long>(messages_ - 1);
    const ibv_wc_opcode opcode = expected.is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    const bool has_immediate = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
    if (completion.opcode != opcode || completion.byte_len != expected.len ||
        has_immediate != expected.with_immediate ||
        (has_immediate && ntohl(completion.imm_data) != expected.immediate)) {
        fail("connection %u, message %llu: opcode %d, %u bytes, immediate %d 0x%x, and not opcode %d, %zu "
             "bytes, "
             "immediate %d 0x%x",
             connection_, number, completion.opcode, completion.byte_len, static_cast<int>(has_immediate),
             has_immediate ? ntohl(completion.imm_data) : 0U, opcode, expected.len,
             static_cast<int>(expected.with_immediate), expected.immediate);
    }
    std::vector<std::uint8_t> bytes(expected.is_write ? 0 : expected.len);
    fill(bytes.data(), bytes.size(), expected.content);
    const std::uint8_t* const room = block_.at(room_at(slot));
    if (std::memcmp(room, bytes.data(), bytes.size()) != 0 ||
        !guard_is_whole(room + bytes.size(), kMaxBytes - bytes.size())) {
        fail("connection %u, message %llu: %zu bytes in the receive aren't those that were sent", connection_,
             number, expected.len);
    }
}

} // namespace sluice::test::soak
