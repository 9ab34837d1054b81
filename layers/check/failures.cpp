// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/failures.hpp"

#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/registry.hpp"

namespace sluice::layers::check {

namespace {

struct Cause {
    std::string_view rule;
    std::string what;
    std::string remedy;
    std::shared_ptr<const Region> region; // that has to do with it; null: none is known
};

bool has(const Region& region, std::uint64_t address) noexcept {
    return address >= region.first && address - region.first < region.length;
}

// The peer may be in this process. That a key and an address of the same region agree by accident doesn't
// happen.
std::shared_ptr<const Region> ended_target(const QueuePair& pair, const Request& request) {
    std::shared_ptr<Region> ended = Registry::instance().keys.ended(pair.context->verbs, request.remote_key);
    return ended != nullptr && has(*ended, request.remote_address) ? ended : nullptr;
}

std::shared_ptr<const Region> target(const QueuePair& pair, const Request& request) {
    std::shared_ptr<Region> found =
        Registry::instance().keys.by_remote(pair.context->verbs, request.remote_key);
    return found != nullptr && has(*found, request.remote_address) ? found : nullptr;
}

Cause refused_by_peer(const QueuePair& pair, const Request& request) {
    const std::string key = "the peer's device has refused key " + hex(request.remote_key) + " for address " +
                            hex(request.remote_address);
    // First, as its key may have been that of a region which has ended.
    if (std::shared_ptr<const Region> alive = target(pair, request)) {
        return {
            "key-refused-by-peer",
            key + ": " + name_of(*alive) +
                " doesn't give this right, or isn't so long, or its pages are gone",
            "register it with the rights that peers need (IBV_ACCESS_REMOTE_...), and for all that they use",
            std::move(alive)};
    }
    if (std::shared_ptr<const Region> ended = ended_target(pair, request)) {
        return {"key-refused-by-peer", key + ": it is that of a region which was deregistered",
                "tell the peer each new key, and deregister a region when nobody uses its key any more",
                std::move(ended)};
    }
    return {
        "key-refused-by-peer", key,
        "check that the peer's region is registered, long enough, and gives the right, and that a window's "
        "key is that of its last bind",
        nullptr};
}

Cause refused_here(const Request& request) {
    for (const Piece& piece : request.watched()) {
        if (piece.region->ended.load() != nullptr) {
            return {
                "region-ended-in-use", "its " + name_of(*piece.region) + " was deregistered before it ended",
                "await the completion of each request that names a region, then deregister it", piece.region};
        }
    }
    return {"memory-refused-here", "the device was refused the memory that it names",
            "check that its pieces are registered, mapped, and writable where the device writes", nullptr};
}

std::uint64_t bytes_of(const Request& request) noexcept {
    std::uint64_t bytes = 0;
    for (const Piece& piece : request.watched()) {
        bytes += piece.length;
    }
    return bytes;
}

std::optional<Cause> cause_of(const QueuePair& pair, const Request& request, ibv_wc_status status) {
    switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
        return refused_by_peer(pair, request);
    case IBV_WC_LOC_PROT_ERR:
        return refused_here(request);
    case IBV_WC_LOC_LEN_ERR:
        return Cause{
            "length-refused",
            request.kind == Kind::kReceive ? "a message is longer than the " +
                                                 std::to_string(bytes_of(request)) + " bytes of this receive"
                                           : "it is longer than one request may be here",
            "post receives as long as the longest message, on a UD queue pair 40 bytes more", nullptr};
    case IBV_WC_REM_INV_REQ_ERR:
        return Cause{
            "refused-by-peer",
            "the peer's device takes the request for invalid, as a message that is longer than its receive",
            "post receives as long as the longest message, and give the peer's queue pair the right "
            "in qp_access_flags",
            nullptr};
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return Cause{
            "no-receive-posted", "the peer had posted no receive for this message, as often as it was sent",
            "post receives before the connection is made, or ask for rnr_retry_count 7 (without end)",
            nullptr};
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_MW_BIND_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
        return Cause{"request-failed", "it failed: " + status_name(status),
                     "check what the queue pair was made for, and the rights of its memory", nullptr};
    default:
        return std::nullopt; // by the network or the peer, or after another failure
    }
}

void tell_cause(const QueuePair& pair, const Request& request, Cause cause, Place place) noexcept {
    const Region* const region = cause.region.get();
    const Place ended = region != nullptr ? region->ended.load() : nullptr;
    tell(cause.rule,
         {{"the request was posted", request.posted},
          {"its completion was polled", place},
          {"the region ended", ended},
          {"the region was registered", region != nullptr ? region->made : nullptr}},
         [&] {
             return Told{name_of(request) + " of " + name_of(pair), std::move(cause.what),
                         std::move(cause.remedy)};
         });
}

} // namespace

void tell_failure(const QueuePair& pair, const Request& request, ibv_wc_status status, Place place) noexcept {
    if (request.is_told_of) {
        return;
    }
    (void)at_boundary("check", [&]() -> Result<void> {
        if (std::optional<Cause> cause = cause_of(pair, request, status)) {
            tell_cause(pair, request, std::move(*cause), place);
        }
        return {};
    });
}

} // namespace sluice::layers::check
