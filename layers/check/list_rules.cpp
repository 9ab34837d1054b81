// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/list_rules.hpp"

#include <algorithm>

#include "layers/check/checksum.hpp"
#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"

namespace sluice::layers::check {

namespace {

// What is read or written twice is the same.
bool counts_twice(ibv_wr_opcode opcode) noexcept {
    switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return true;
    default:
        return false;
    }
}

// Whether LIST leads to what was refused, past as many requests as were accepted, one of which counts twice.
bool leads_to_refused(const ibv_send_wr* list, const RefusedList& refused) noexcept {
    bool is_of_effect = false;
    const ibv_send_wr* each = list;
    for (std::size_t i = 0; i < refused.accepted && each != nullptr; ++i, each = each->next) {
        is_of_effect = is_of_effect || counts_twice(each->opcode);
    }
    return is_of_effect && each != nullptr && each == refused.bad;
}

bool has_piece(const Request& request, const ibv_sge& piece) noexcept {
    const Piece& kept = request.pieces[0];
    return kept.length == piece.length && kept.region != nullptr && kept.region->local_key == piece.lkey &&
           kept.address == kept.region->memory + (piece.addr - kept.region->first);
}

// The first request is what it was, and so is its memory: a list that was filled anew is another one.
bool is_same(const ibv_send_wr& first, const RefusedList& refused) noexcept {
    return first.wr_id == refused.request.id && first.num_sge > 0 &&
           refused.request.pieces_count == std::min<std::size_t>(first.num_sge, Request::kMostPieces) &&
           has_piece(refused.request, first.sg_list[0]) && checksum_of(refused.request) == refused.checksum;
}

} // namespace

void check_list(QueuePair& pair, const ibv_send_wr* list, Place place) noexcept {
    RefusedList& refused = pair.refused_list;
    if (refused.first == nullptr) {
        return;
    }
    if (list == refused.first && leads_to_refused(list, refused) && is_same(*list, refused)) {
        tell("list-posted-again",
             {{"the list is posted again", place}, {"a part of it was accepted", refused.request.posted}},
             [&] {
                 return Told{name_of(pair),
                             "of a list of requests the first " + std::to_string(refused.accepted) +
                                 " were accepted, and all of it is posted again: these go twice",
                             "go on with the request that bad_wr names"};
             });
    }
    refused = {};
}

// Memory that is inline isn't known any more.
void take_refused_list(QueuePair& pair, const ibv_send_wr* list, const ibv_send_wr* bad,
                       std::size_t accepted) noexcept {
    if (accepted == 0 || bad == nullptr || accepted > pair.sends.size()) {
        return;
    }
    const Request& first = pair.sends[pair.sends.size() - accepted];
    if (first.pieces_count == 0) {
        return;
    }
    pair.refused_list = {.first = list, .bad = bad, .accepted = accepted, .request = first, .checksum = {}};
    std::ranges::for_each(pair.refused_list.request.pieces, [](Piece& piece) { piece.is_protected = false; });
    pair.refused_list.checksum = checksum_of(pair.refused_list.request);
}

} // namespace sluice::layers::check
