// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/buffers.hpp"

#include <algorithm>

#include "layers/check/checksum.hpp"
#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/pages/pages.hpp"
#include "layers/check/touches.hpp"

namespace sluice::layers::check::buffers {

namespace {

bool is_wanted() noexcept {
    return report::depth() >= report::Depth::kFull;
}

// What a program does wrong with a queue's memory, it does in a loop: of a busy queue not each request is
// watched. Which ones is as good as random, so that those of one buffer of a ring aren't left out.
constexpr std::uint64_t kAlwaysWatched = 1000;
constexpr std::uint64_t kThenOneOf = 16;

// What lies in memory of several receives is no single one's, so that nothing can be said of it.
bool is_watched(const Request& request) noexcept {
    if (request.shares_memory) {
        return false;
    }
    if (request.number <= kAlwaysWatched || report::depth() > report::Depth::kFull) {
        return true;
    }
    const std::uint64_t mixed = request.number * 0x9e3779b97f4a7c15U;
    return (mixed >> 32U) % kThenOneOf == 0;
}

bool is_sent(const Request& request) noexcept {
    return request.kind == Kind::kSend || request.kind == Kind::kWrite;
}

// A program that takes the peer's answer for the completion of its question is right in practice.
bool may_be_answered(const QueuePair& pair, const Request& request) noexcept {
    return pair.arrivals.load(std::memory_order_relaxed) != request.arrivals;
}

bool is_among(const Requests& receives, const Request& request) noexcept {
    for (std::size_t i = 0; i < receives.size(); ++i) {
        if (overlap(receives[i], request)) {
            return true;
        }
    }
    return false;
}

// It may be the device that wrote there, for a message that the program hasn't polled yet.
bool may_be_received_into(const QueuePair& pair, const Request& request) noexcept {
    if (pair.shared == nullptr) {
        return is_among(pair.receives, request);
    }
    const LockGuard lock(pair.shared->mutex);
    return is_among(pair.shared->requests, request);
}

void tell_changed(const QueuePair& pair, const Request& request, Place place) noexcept {
    tell("buffer-changed-while-sent",
         {{"the request was posted", request.posted}, {"its completion was polled", place}}, [&] {
             return Told{
                 name_of(request) + " of " + name_of(pair),
                 "the memory that it sends was changed after it was posted and before its completion",
                 "await a request's completion before its buffer is used again, or take another buffer"};
         });
}

bool is_received(const Request& request) noexcept {
    return request.kind == Kind::kReceive || request.kind == Kind::kRead || request.kind == Kind::kAtomic;
}

bool is_on_demand(const Piece& piece) noexcept {
    return piece.region->is_on_demand;
}

void protect(Request& request) noexcept {
    if (std::ranges::any_of(request.watched(), is_on_demand)) {
        return; // the device asks for its pages as the program does
    }
    const pages::Forbidden forbidden =
        is_received(request) ? pages::Forbidden::kEverything : pages::Forbidden::kStores;
    for (Piece& piece : std::span(request.pieces).first(request.pieces_count)) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): requests have numbers
        const auto* const memory = reinterpret_cast<const void*>(piece.address);
        const pages::Protected is_done = pages::protect(request.tag, memory, piece.length, forbidden);
        piece.is_protected = is_done == pages::Protected::kAll;
        request.is_protected = request.is_protected || is_done != pages::Protected::kNone;
    }
}

void check_checksum(const QueuePair& pair, Request& request, Place place) noexcept {
    if (!request.checksum || request.is_told_of || may_be_answered(pair, request)) {
        return;
    }
    const std::optional<std::uint64_t> now = checksum_of(request);
    if (now && *now != *request.checksum && !may_be_received_into(pair, request)) {
        request.is_told_of = true;
        tell_changed(pair, request, place);
    }
}

} // namespace

void hold(Request& request) noexcept {
    if (!is_wanted() || request.is_inline || request.pieces_count == 0) {
        return;
    }
    request.tag = touches::next_tag();
    if (is_received(request)) {
        touches::forget_failed(request);
    }
    if (!is_watched(request)) {
        return;
    }
    if (is_sent(request)) {
        protect(request);
        if (!request.is_filled_first) {
            request.checksum = checksum_of(request);
        }
    } else if (is_received(request)) {
        protect(request);
    }
}

void end(const QueuePair& pair, Request& request, bool is_right, Place place) noexcept {
    if (!is_wanted()) {
        return;
    }
    touches::take(pair, request);
    if (is_right) {
        check_checksum(pair, request, place);
    }
    request.checksum.reset();
    if (!is_right && is_received(request) && !request.shares_memory && !is_watched(request)) {
        protect(request); // what failed is rare
    }
    if (!request.is_protected) {
        return;
    }
    if (is_right || !is_received(request)) {
        pages::lift(request.tag);
    } else {
        touches::keep_failed(pair, request, place); // nothing is in its memory that means anything
    }
    request.is_protected = false;
}

void release(Request& request) noexcept {
    request.checksum.reset();
    if (request.is_protected) {
        pages::lift(request.tag);
        request.is_protected = false;
    }
}

} // namespace sluice::layers::check::buffers
