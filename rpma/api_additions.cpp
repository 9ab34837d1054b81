// SPDX-License-Identifier: BSD-3-Clause
//
// The exported functions that the original doesn't have, in the order of sluice/rpma.h. Each checks its
// arguments, makes one call, and turns the answer into a code.
#include <array>

#include "rpma/handles.hpp"
#include "rpma/include/sluice/rpma.h"

using namespace sluice::rpma;

namespace {

[[gnu::noinline]] int look_for_step(std::optional<rpma_conn_req_step>& found,
                                    rpma_conn_req* const& request) noexcept {
    return Rpma::answer([&]() -> sluice::Result<void> {
        sluice::Result<std::optional<rpma_conn_req_step>> done = object_of(request)->next_step();
        if (!done) {
            return std::move(done).error();
        }
        found = *done;
        return {};
    });
}

} // namespace

int rpma_conn_cfg_set_max_pieces(struct rpma_conn_cfg* cfg, uint32_t max_pieces) {
    return max_pieces == 0 || max_pieces > RPMA_MAX_PIECES ? RPMA_E_INVAL
                                                           : set(cfg, &ConnConfig::max_pieces, max_pieces);
}

int rpma_conn_cfg_get_max_pieces(const struct rpma_conn_cfg* cfg, uint32_t* max_pieces) {
    return get(cfg, &ConnConfig::max_pieces, max_pieces);
}

int rpma_write_pieces(struct rpma_conn* conn, struct rpma_mr_remote* dst, size_t dst_offset,
                      const struct rpma_piece* pieces, int num_pieces, int flags, const void* op_context) {
    if (conn == nullptr || dst == nullptr || pieces == nullptr || num_pieces < 1 ||
        num_pieces > RPMA_MAX_PIECES) {
        return RPMA_E_INVAL;
    }
    std::array<Local, RPMA_MAX_PIECES> from;
    const auto count = static_cast<std::size_t>(num_pieces);
    for (std::size_t i = 0; i < count; ++i) {
        from[i] = {object_of(pieces[i].mr), pieces[i].offset, pieces[i].len};
    }
    return code_of(object_of(conn)->write_pieces({object_of(dst), dst_offset}, {from.data(), count},
                                                 {flags, op_context}));
}

int rpma_write_many(struct rpma_conn* conn, const struct rpma_write_args* writes, int num_writes,
                    int* num_posted) {
    if (conn == nullptr || writes == nullptr || num_writes < 1 || num_writes > RPMA_MAX_WRITES) {
        return RPMA_E_INVAL;
    }
    std::array<Write, RPMA_MAX_WRITES> asked;
    const auto count = static_cast<std::size_t>(num_writes);
    for (std::size_t i = 0; i < count; ++i) {
        const rpma_write_args& each = writes[i];
        asked[i] = {.to = {object_of(each.dst), each.dst_offset},
                    .from = {object_of(each.src), each.src_offset, each.len},
                    .report = {each.flags, each.op_context}};
    }
    std::size_t posted = 0;
    const Answer answer = object_of(conn)->write_many({asked.data(), count}, posted);
    if (num_posted != nullptr && answer != Answer::kInvalid) {
        *num_posted = static_cast<int>(posted);
    }
    return code_of(answer);
}

int rpma_cq_wait_wc(struct rpma_cq* cq, int num_entries, struct ibv_wc* wc, int* num_entries_got) {
    return can_take(cq, num_entries, wc, num_entries_got)
               ? code_of(object_of(cq)->wait_and_take(num_entries, wc, num_entries_got))
               : RPMA_E_INVAL;
}

int rpma_cq_next_event(struct rpma_cq* cq) {
    return cq == nullptr ? RPMA_E_INVAL : code_of(object_of(cq)->take_notification());
}

int rpma_cq_ack_events(struct rpma_cq* cq, unsigned num_events) {
    return cq == nullptr ? RPMA_E_INVAL : code_of(object_of(cq)->acknowledge(num_events));
}

int rpma_cq_arm(struct rpma_cq* cq) {
    return cq == nullptr ? RPMA_E_INVAL : code_of(object_of(cq)->arm_again());
}

int rpma_conn_cfg_set_cq_credits(struct rpma_conn_cfg* cfg, bool counted) {
    return set(cfg, &ConnConfig::has_credits, counted);
}

int rpma_conn_cfg_get_cq_credits(const struct rpma_conn_cfg* cfg, bool* counted) {
    return get(cfg, &ConnConfig::has_credits, counted);
}

int rpma_srq_cfg_set_rcq_credits(struct rpma_srq_cfg* cfg, bool counted) {
    return set(cfg, &SrqConfig::has_credits, counted);
}

int rpma_srq_cfg_get_rcq_credits(const struct rpma_srq_cfg* cfg, bool* counted) {
    return get(cfg, &SrqConfig::has_credits, counted);
}

int rpma_conn_reconnect(const struct rpma_conn* conn, struct rpma_conn** new_conn_ptr) {
    if (conn == nullptr || new_conn_ptr == nullptr) {
        return RPMA_E_INVAL;
    }
    return give(new_conn_ptr, [&] { return object_of(conn)->reconnect(); });
}

int rpma_conn_req_new_async(struct rpma_peer* peer, const char* addr, const char* port,
                            const struct rpma_conn_cfg* cfg, struct rpma_conn_req** req_ptr) {
    if (peer == nullptr || addr == nullptr || port == nullptr || req_ptr == nullptr) {
        return RPMA_E_INVAL;
    }
    return give(req_ptr, [&] { return Request::start(*object_of(peer), addr, port, config_of(cfg)); });
}

int rpma_conn_req_get_event_fd(const struct rpma_conn_req* req, int* fd) {
    if (req == nullptr || fd == nullptr || object_of(req)->event_fd() < 0) {
        return RPMA_E_INVAL;
    }
    *fd = object_of(req)->event_fd();
    return 0;
}

int rpma_conn_req_next_step(struct rpma_conn_req* req, enum rpma_conn_req_step* step) {
    if (req == nullptr || step == nullptr) {
        return RPMA_E_INVAL;
    }
    std::optional<rpma_conn_req_step> next;
    const int code = find_or_sleep(object_of(req)->event_fd(), next, look_for_step, req);
    if (code == 0) {
        *step = *next;
    }
    return code;
}

int rpma_responder_new(struct rpma_peer* peer, struct rpma_mr_local* mr, uint32_t depth, int flags,
                       struct rpma_responder** responder_ptr) {
    if (peer == nullptr || mr == nullptr || responder_ptr == nullptr || depth == 0 ||
        depth > RPMA_RESPONDER_MAX_DEPTH || (flags & ~RPMA_RESPONDER_ANY_MEMORY) != 0) {
        return RPMA_E_INVAL;
    }
    const bool may_be_volatile = (flags & RPMA_RESPONDER_ANY_MEMORY) != 0;
    return give(responder_ptr,
                [&] { return Responder::make(*object_of(peer), *object_of(mr), depth, may_be_volatile); });
}

int rpma_responder_start(struct rpma_responder* responder, struct rpma_conn_req* req) {
    return responder == nullptr || req == nullptr
               ? RPMA_E_INVAL
               : code_of(object_of(responder)->start(object_of(req)->queues()));
}

int rpma_responder_handle_wc(struct rpma_responder* responder, struct rpma_conn* conn,
                             const struct ibv_wc* wc, struct rpma_responder_request* request) {
    if (responder == nullptr || conn == nullptr || wc == nullptr) {
        return RPMA_E_INVAL;
    }
    std::optional<FlushRequest> answered;
    const Answer answer = object_of(responder)->handle(*object_of(conn), *wc, answered);
    if (answer == Answer::kDone && request != nullptr) {
        const FlushRequest was = answered.value_or(FlushRequest());
        *request = {answered.has_value(), was.offset, was.length, was.op_context};
    }
    return code_of(answer);
}

int rpma_responder_delete(struct rpma_responder** responder_ptr) {
    return take_back(responder_ptr, [](Responder& responder) { return responder.close(); });
}
