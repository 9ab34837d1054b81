// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/piece_rules.hpp"

#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/registry.hpp"

namespace sluice::layers::check {

namespace {

constexpr std::string_view kPostOfPiece = "the request was posted";

const ibv_pd* root_of(const ibv_pd* pd) noexcept {
    const std::shared_ptr<Domain> domain = Registry::instance().domains.find(pd);
    return domain != nullptr ? domain->root : nullptr;
}

std::string object_of(const Owner& owner, const Request& request) {
    return name_of(request) + " of " + owner.text();
}

void tell_key_ended(const Owner& owner, Request& request, const ibv_sge& piece,
                    const Region& region) noexcept {
    request.is_told_of = true;
    tell("key-of-ended-region",
         {{kPostOfPiece, request.posted},
          {"the region ended", region.ended.load()},
          {"it was made", region.made}},
         [&] {
             return Told{object_of(owner, request),
                         "its local key " + hex(piece.lkey) + " is that of a region which was deregistered",
                         "use the key of a region that is registered, or deregister it after the completion"};
         });
}

void tell_outside(const Owner& owner, Request& request, const ibv_sge& piece, const Region& region) noexcept {
    request.is_told_of = true;
    tell("piece-outside-region", {{kPostOfPiece, request.posted}, {"the region was registered", region.made}},
         [&] {
             return Told{object_of(owner, request),
                         std::to_string(piece.length) + " bytes at " + hex(piece.addr) + " aren't all in " +
                             name_of(region),
                         "register all of the memory, or post a length that ends with the region"};
         });
}

void tell_domain(const Owner& owner, Request& request, const Region& region) noexcept {
    request.is_told_of = true;
    tell("region-of-another-domain",
         {{kPostOfPiece, request.posted}, {"the region was registered", region.made}}, [&] {
             return Told{object_of(owner, request),
                         name_of(region) + " belongs to another protection domain than the queue",
                         "register the memory in the queue pair's own domain, too"};
         });
}

void tell_right(const Owner& owner, Request& request, const Region& region) noexcept {
    request.is_told_of = true;
    tell("region-not-writable", {{kPostOfPiece, request.posted}, {"the region was registered", region.made}},
         [&] {
             return Told{object_of(owner, request),
                         "the device shall write to " + name_of(region) +
                             ", which was registered without IBV_ACCESS_LOCAL_WRITE",
                         "register it with IBV_ACCESS_LOCAL_WRITE"};
         });
}

// ADDRESS is the request's, which may be unlike the program's.
bool is_unmapped(const Region& region, std::uint64_t address, std::uint64_t bytes) noexcept {
    if (region.unmapped.load() == nullptr) {
        return false;
    }
    const std::uint64_t first = region.memory + (address - region.first);
    return first < region.unmapped_first + region.unmapped_bytes && region.unmapped_first < first + bytes;
}

void tell_unmapped(const Owner& owner, Request& request, const Region& region) noexcept {
    request.is_told_of = true;
    tell("registered-and-unmapped",
         {{kPostOfPiece, request.posted},
          {"its memory was given back", region.unmapped.load()},
          {"the region was registered", region.made}},
         [&] {
             return Told{
                 object_of(owner, request),
                 "it names memory of " + name_of(region) +
                     ", which was unmapped: the device uses the pages of before, or none",
                 "deregister memory before it is unmapped or freed, and register what comes in its place"};
         });
}

bool is_within(const Region& region, const ibv_sge& piece) noexcept {
    return piece.addr >= region.first && piece.length <= region.length &&
           piece.addr - region.first <= region.length - piece.length;
}

// One finding for a request: the first mistake explains the others.
void check_piece(const Owner& owner, Request& request, const ibv_sge& piece, const Region* region,
                 bool is_written_to) noexcept {
    if (request.is_told_of) {
        return;
    }
    if (region == nullptr) {
        const std::shared_ptr<Region> ended = Registry::instance().keys.ended(owner.context, piece.lkey);
        if (ended != nullptr && ended->local_key == piece.lkey) {
            tell_key_ended(owner, request, piece, *ended);
        }
        return;
    }
    const ibv_pd* const root = root_of(owner.pd);
    const ibv_pd* const regions_root = root_of(region->pd);
    if (root != nullptr && regions_root != nullptr && root != regions_root) {
        tell_domain(owner, request, *region);
    } else if (!is_within(*region, piece)) {
        tell_outside(owner, request, piece, *region);
    } else if (is_unmapped(*region, piece.addr, piece.length)) {
        tell_unmapped(owner, request, *region);
    } else if (is_written_to && (region->access & IBV_ACCESS_LOCAL_WRITE) == 0) {
        tell_right(owner, request, *region);
    }
}

} // namespace

Owner owner_of(const QueuePair& pair) noexcept {
    return {.context = pair.context->verbs,
            .pd = pair.pd,
            .name = [](const void* object) { return name_of(*static_cast<const QueuePair*>(object)); },
            .object = &pair};
}

Owner owner_of(const SharedQueue& queue) noexcept {
    return {.context = queue.context->verbs,
            .pd = queue.pd,
            .name = [](const void* object) { return name_of(*static_cast<const SharedQueue*>(object)); },
            .object = &queue};
}

void take_pieces(const Owner& owner, Request& request, std::span<const ibv_sge> pieces,
                 bool is_written_to) noexcept {
    for (const ibv_sge& piece : pieces) {
        if (piece.length == 0) {
            continue;
        }
        std::shared_ptr<Region> region = Registry::instance().keys.by_local(owner.context, piece.lkey);
        check_piece(owner, request, piece, region.get(), is_written_to);
        const bool is_memory = region != nullptr && region->has_memory && is_within(*region, piece);
        if (is_memory && request.pieces_count < Request::kMostPieces) {
            Piece& kept = request.pieces[request.pieces_count++];
            kept = {.address = region->memory + (piece.addr - region->first),
                    .length = piece.length,
                    .region = std::move(region)};
        }
    }
}

// The peer may be in this process. Key and address of one region don't agree by accident.
void check_target(const QueuePair& pair, Request& request) noexcept {
    if (request.is_told_of || request.remote_key == 0) {
        return;
    }
    const std::shared_ptr<Region> target =
        Registry::instance().keys.by_remote(pair.context->verbs, request.remote_key);
    if (target != nullptr && request.remote_address >= target->first &&
        request.remote_address - target->first < target->length &&
        is_unmapped(*target, request.remote_address, 1)) {
        tell_unmapped(owner_of(pair), request, *target);
    }
}

} // namespace sluice::layers::check
