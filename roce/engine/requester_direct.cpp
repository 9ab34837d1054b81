// SPDX-License-Identifier: BSD-3-Clause
//
// Requests that this process executes itself, on the memory of a peer of the same host. The rules are in
// requester.hpp.
#include "roce/engine/requester.hpp"

namespace sluice::roce::engine {

namespace {

// Anything else takes a receive of the peer's, or needs its processor.
bool can_be_direct(const SendEntry& entry) noexcept {
    return entry.len_bytes != 0 && (entry.is_one_sided() || is_atomic(entry.wr.opcode));
}

// Where a request's bytes are, or go.
struct Pieces {
    std::array<iovec, kMaxSge> of;
    std::size_t count = 0;

    void add(std::uint64_t host_addr, std::uint32_t len_bytes) noexcept {
        of[count++] = {.iov_base = reinterpret_cast<void*>(static_cast<std::uintptr_t>(host_addr)),
                       .iov_len = len_bytes};
    }
    // False: a key doesn't fit. The same check of packets then says so.
    bool add_all(const QpContext& context, const SendEntry& entry) noexcept {
        if (entry.inline_data != nullptr) {
            add(reinterpret_cast<std::uintptr_t>(entry.inline_data), entry.len_bytes);
            return true;
        }
        const std::uint32_t access = entry.wr.opcode == WrOpcode::kWrite ? 0 : std::uint32_t{kLocalWrite};
        return QpContext::walk(
            entry.wr.sges, 0, entry.len_bytes, [&](const Sge& sge, std::uint32_t skip, std::uint32_t part) {
                const auto host = context.regions.local(sge.lkey, context.pd, sge.addr + skip, part, access);
                if (host) {
                    add(*host, part);
                }
                return host.has_value();
            });
    }
};

} // namespace

// Nothing of the request at the cursor has left, and all before it have ended.
bool Requester::is_first_in_line() const noexcept {
    return cursor_ == fresh_ && cursor_ == queue_.head();
}

// Over XRC, what a request may touch depends on the peer's shared receive queue, which only the peer knows.
bool Requester::has_direct_way() const noexcept {
    return context_.neighbourhood != nullptr && !context_.is_xrc();
}

bool Requester::may_run_direct(const SendEntry& entry) const noexcept {
    return has_direct_way() && can_be_direct(entry) &&
           (!entry.needs_response() || context_.attr.max_rd_atomic != 0);
}

// True: it has ended.
bool Requester::run_direct(SendEntry& entry) noexcept {
    Pieces pieces;
    if (!pieces.add_all(context_, entry)) {
        return false;
    }
    const bool atomic = is_atomic(entry.wr.opcode);
    const DirectRequest request{.opcode = entry.wr.opcode,
                                .ends = context_.ends(),
                                .remote_addr = entry.wr.remote_addr,
                                .rkey = entry.wr.rkey,
                                .len_bytes = entry.len_bytes,
                                .pieces = {pieces.of.data(), atomic ? 0 : pieces.count},
                                .compare_add = entry.wr.compare_add,
                                .swap = entry.wr.swap};
    std::uint64_t original = 0;
    const bool executed = context_.neighbourhood->execute(request, original);
    direct_failed_ = !executed && !atomic && context_.neighbourhood->reaches(request.ends);
    if (!executed) {
        return false;
    }
    context_.hear_peer();
    if (atomic && !take_original(entry, original)) {
        return true;
    }
    ++cursor_;
    ++fresh_;
    queue_.retire(Status::kSuccess);
    return true;
}

// As soon as all before it are answered, which are none but Writes and Reads.
bool Requester::will_be_direct(const SendEntry& entry) noexcept {
    return has_direct_way() && !direct_failed_ && cursor_ != queue_.head() && entry.is_one_sided() &&
           can_be_direct(entry) && static_cast<std::int32_t>(queue_.head() - behind_messages_) >= 0 &&
           context_.neighbourhood->reaches(context_.ends());
}

} // namespace sluice::roce::engine
