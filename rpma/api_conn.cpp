// SPDX-License-Identifier: BSD-3-Clause
//
// The exported functions on connections and all that they have, in the order of librpma.h. Each checks its
// arguments, makes one call, and turns the answer into a code. Those of the data path make no Result on their
// way.
#include "rpma/handles.hpp"

using namespace sluice::rpma;
using sluice::Result;

namespace {

// For callers that give no configuration.
const SrqConfig kDefaultSrqConfig;

void show(PrivateData data, rpma_conn_private_data& to) noexcept {
    to.ptr = data.empty() ? nullptr : const_cast<std::byte*>(data.data());
    to.len = static_cast<std::uint8_t>(data.size());
}

// The program's, which is checked.
PrivateData data_of(const rpma_conn_private_data* data) noexcept {
    return data == nullptr ? PrivateData() : PrivateData(static_cast<const std::byte*>(data->ptr), data->len);
}

Result<std::unique_ptr<Conn>> connect(rpma_conn_req** request, const rpma_conn_private_data* data) {
    return Request::connect(std::unique_ptr<Request>(object_of(std::exchange(*request, nullptr))),
                            data_of(data));
}

[[gnu::noinline]] int look_for_event(std::optional<rpma_conn_event>& found, rpma_conn* const& conn) noexcept {
    return Rpma::answer([&]() -> Result<void> {
        Result<std::optional<rpma_conn_event>> told = object_of(conn)->next_event();
        if (!told) {
            return std::move(told).error();
        }
        found = *told;
        return {};
    });
}

struct Asked {
    rpma_ep* ep;
    const rpma_conn_cfg* config;
};

[[gnu::noinline]] int look_for_request(rpma_conn_req*& found, const Asked& asked) noexcept {
    return give(&found, [&] { return object_of(asked.ep)->next(config_of(asked.config)); });
}

} // namespace

int rpma_conn_get_event_fd(const struct rpma_conn* conn, int* fd) {
    if (conn == nullptr || fd == nullptr) {
        return RPMA_E_INVAL;
    }
    *fd = object_of(conn)->event_fd();
    return 0;
}

int rpma_conn_next_event(struct rpma_conn* conn, enum rpma_conn_event* event) {
    if (conn == nullptr || event == nullptr) {
        return RPMA_E_INVAL;
    }
    std::optional<rpma_conn_event> next;
    const int code = find_or_sleep(object_of(conn)->event_fd(), next, look_for_event, conn);
    if (code == 0) {
        *event = *next;
    }
    return code;
}

int rpma_conn_get_private_data(const struct rpma_conn* conn, struct rpma_conn_private_data* pdata) {
    if (conn == nullptr || pdata == nullptr) {
        return RPMA_E_INVAL;
    }
    // The promise of const is that of the C interface: what it guards is a lock.
    show(const_cast<Conn*>(object_of(conn))->private_data(), *pdata);
    return 0;
}

int rpma_conn_apply_remote_peer_cfg(struct rpma_conn* conn, const struct rpma_peer_cfg* pcfg) {
    if (conn == nullptr || pcfg == nullptr) {
        return RPMA_E_INVAL;
    }
    object_of(conn)->trust_direct_writes(object_of(pcfg)->direct_write_to_pmem);
    return 0;
}

int rpma_conn_get_qp_num(const struct rpma_conn* conn, uint32_t* qp_num) {
    if (conn == nullptr || qp_num == nullptr) {
        return RPMA_E_INVAL;
    }
    *qp_num = object_of(conn)->queues().qp().number();
    return 0;
}

int rpma_conn_get_cq(const struct rpma_conn* conn, struct rpma_cq** cq_ptr) {
    if (conn == nullptr || cq_ptr == nullptr) {
        return RPMA_E_INVAL;
    }
    *cq_ptr = handle_of<rpma_cq>(&object_of(conn)->queues().cq());
    return 0;
}

int rpma_conn_get_rcq(const struct rpma_conn* conn, struct rpma_cq** rcq_ptr) {
    if (conn == nullptr || rcq_ptr == nullptr) {
        return RPMA_E_INVAL;
    }
    *rcq_ptr = handle_of<rpma_cq>(object_of(conn)->queues().rcq());
    return 0;
}

int rpma_conn_disconnect(struct rpma_conn* conn) {
    if (conn == nullptr) {
        return RPMA_E_INVAL;
    }
    return Rpma::answer([&] { return object_of(conn)->disconnect(); });
}

int rpma_conn_delete(struct rpma_conn** conn_ptr) {
    return take_back(conn_ptr, [](Conn& conn) { return conn.close(); });
}

int rpma_conn_req_new(struct rpma_peer* peer, const char* addr, const char* port,
                      const struct rpma_conn_cfg* cfg, struct rpma_conn_req** req_ptr) {
    if (peer == nullptr || addr == nullptr || port == nullptr || req_ptr == nullptr) {
        return RPMA_E_INVAL;
    }
    return give(req_ptr, [&] { return Request::make(*object_of(peer), addr, port, config_of(cfg)); });
}

int rpma_conn_req_delete(struct rpma_conn_req** req_ptr) {
    return take_back(req_ptr, [](Request& request) { return request.close(); });
}

int rpma_conn_req_connect(struct rpma_conn_req** req_ptr, const struct rpma_conn_private_data* pdata,
                          struct rpma_conn** conn_ptr) {
    if (req_ptr == nullptr || *req_ptr == nullptr || conn_ptr == nullptr) {
        return RPMA_E_INVAL;
    }
    if (pdata != nullptr && (pdata->ptr == nullptr || pdata->len == 0)) {
        (void)rpma_conn_req_delete(req_ptr); // used up, as in every other case
        return RPMA_E_INVAL;
    }
    return give(conn_ptr, [&] { return connect(req_ptr, pdata); });
}

int rpma_conn_get_compl_fd(const struct rpma_conn* conn, int* fd) {
    if (conn == nullptr || fd == nullptr) {
        return RPMA_E_INVAL;
    }
    const sluice::glue::CompletionChannel* const channel = object_of(conn)->queues().shared_channel();
    if (channel == nullptr) {
        return RPMA_E_NOT_SHARED_CHNL;
    }
    *fd = channel->fd();
    return 0;
}

int rpma_conn_wait(struct rpma_conn* conn, int /*flags*/, struct rpma_cq** cq, bool* is_rcq) {
    if (conn == nullptr || cq == nullptr) {
        return RPMA_E_INVAL;
    }
    Queues& queues = object_of(conn)->queues();
    if (queues.shared_channel() == nullptr) {
        return RPMA_E_NOT_SHARED_CHNL;
    }
    Answer answer = Answer::kDone;
    Cq* const notified = next_notified(*queues.shared_channel(), &queues.cq(), queues.rcq(), answer);
    if (notified == nullptr) {
        return code_of(answer);
    }
    *cq = handle_of<rpma_cq>(notified);
    if (is_rcq != nullptr) {
        *is_rcq = notified == queues.rcq();
    }
    return 0;
}

int rpma_conn_req_recv(struct rpma_conn_req* req, struct rpma_mr_local* dst, size_t offset, size_t len,
                       const void* op_context) {
    if (req == nullptr || dst == nullptr) {
        return RPMA_E_INVAL;
    }
    return code_of(object_of(req)->queues().receive(object_of(dst), offset, len, op_context));
}

int rpma_ep_listen(struct rpma_peer* peer, const char* addr, const char* port, struct rpma_ep** ep_ptr) {
    if (peer == nullptr || addr == nullptr || port == nullptr || ep_ptr == nullptr) {
        return RPMA_E_INVAL;
    }
    return give(ep_ptr, [&] { return Ep::make(*object_of(peer), addr, port); });
}

int rpma_ep_shutdown(struct rpma_ep** ep_ptr) {
    return take_back(ep_ptr);
}

int rpma_ep_get_fd(const struct rpma_ep* ep, int* fd) {
    if (ep == nullptr || fd == nullptr) {
        return RPMA_E_INVAL;
    }
    *fd = object_of(ep)->fd();
    return 0;
}

int rpma_ep_next_conn_req(struct rpma_ep* ep, const struct rpma_conn_cfg* cfg,
                          struct rpma_conn_req** req_ptr) {
    if (ep == nullptr || req_ptr == nullptr) {
        return RPMA_E_INVAL;
    }
    rpma_conn_req* next = nullptr;
    const int code =
        find_or_sleep(object_of(ep)->fd(), next, look_for_request, Asked{.ep = ep, .config = cfg});
    if (code == 0) {
        *req_ptr = next;
    }
    return code;
}

int rpma_conn_req_get_private_data(const struct rpma_conn_req* req, struct rpma_conn_private_data* pdata) {
    if (req == nullptr || pdata == nullptr) {
        return RPMA_E_INVAL;
    }
    show(object_of(req)->private_data(), *pdata);
    return 0;
}

int rpma_srq_new(struct rpma_peer* peer, struct rpma_srq_cfg* cfg, struct rpma_srq** srq_ptr) {
    if (peer == nullptr || srq_ptr == nullptr) {
        return RPMA_E_INVAL;
    }
    return give(srq_ptr, [&] {
        return Srq::make(*object_of(peer), cfg == nullptr ? kDefaultSrqConfig : *object_of(cfg));
    });
}

int rpma_srq_delete(struct rpma_srq** srq_ptr) {
    return take_back(srq_ptr, [](Srq& srq) { return srq.close(); });
}

int rpma_srq_recv(struct rpma_srq* srq, struct rpma_mr_local* dst, size_t offset, size_t len,
                  const void* op_context) {
    return srq == nullptr ? RPMA_E_INVAL
                          : code_of(object_of(srq)->receive(object_of(dst), offset, len, op_context));
}

int rpma_srq_get_rcq(const struct rpma_srq* srq, struct rpma_cq** rcq_ptr) {
    if (srq == nullptr || rcq_ptr == nullptr) {
        return RPMA_E_INVAL;
    }
    *rcq_ptr = handle_of<rpma_cq>(object_of(srq)->rcq());
    return 0;
}

int rpma_read(struct rpma_conn* conn, struct rpma_mr_local* dst, size_t dst_offset,
              const struct rpma_mr_remote* src, size_t src_offset, size_t len, int flags,
              const void* op_context) {
    return conn == nullptr
               ? RPMA_E_INVAL
               : code_of(object_of(conn)->read({object_of(dst), dst_offset, len},
                                               {object_of(src), src_offset}, {flags, op_context}));
}

int rpma_write(struct rpma_conn* conn, struct rpma_mr_remote* dst, size_t dst_offset,
               const struct rpma_mr_local* src, size_t src_offset, size_t len, int flags,
               const void* op_context) {
    return conn == nullptr
               ? RPMA_E_INVAL
               : code_of(object_of(conn)->write({object_of(dst), dst_offset},
                                                {object_of(src), src_offset, len}, {flags, op_context}));
}

int rpma_write_with_imm(struct rpma_conn* conn, struct rpma_mr_remote* dst, size_t dst_offset,
                        const struct rpma_mr_local* src, size_t src_offset, size_t len, int flags,
                        uint32_t imm, const void* op_context) {
    return conn == nullptr ? RPMA_E_INVAL
                           : code_of(object_of(conn)->write_with_immediate({object_of(dst), dst_offset},
                                                                           {object_of(src), src_offset, len},
                                                                           imm, {flags, op_context}));
}

int rpma_atomic_write(struct rpma_conn* conn, struct rpma_mr_remote* dst, size_t dst_offset,
                      const char src[8], int flags, const void* op_context) {
    if (conn == nullptr || dst == nullptr || src == nullptr) {
        return RPMA_E_INVAL;
    }
    return code_of(object_of(conn)->atomic_write({object_of(dst), dst_offset}, src, {flags, op_context}));
}

int rpma_flush(struct rpma_conn* conn, struct rpma_mr_remote* dst, size_t dst_offset, size_t len,
               enum rpma_flush_type type, int flags, const void* op_context) {
    if (conn == nullptr || dst == nullptr) {
        return RPMA_E_INVAL;
    }
    return code_of(object_of(conn)->flush({object_of(dst), dst_offset}, len, type, {flags, op_context}));
}

int rpma_send(struct rpma_conn* conn, const struct rpma_mr_local* src, size_t offset, size_t len, int flags,
              const void* op_context) {
    return conn == nullptr
               ? RPMA_E_INVAL
               : code_of(object_of(conn)->send({object_of(src), offset, len}, {flags, op_context}));
}

int rpma_send_with_imm(struct rpma_conn* conn, const struct rpma_mr_local* src, size_t offset, size_t len,
                       int flags, uint32_t imm, const void* op_context) {
    return conn == nullptr ? RPMA_E_INVAL
                           : code_of(object_of(conn)->send_with_immediate({object_of(src), offset, len}, imm,
                                                                          {flags, op_context}));
}

int rpma_recv(struct rpma_conn* conn, struct rpma_mr_local* dst, size_t offset, size_t len,
              const void* op_context) {
    return conn == nullptr
               ? RPMA_E_INVAL
               : code_of(object_of(conn)->queues().receive(object_of(dst), offset, len, op_context));
}

int rpma_cq_get_fd(const struct rpma_cq* cq, int* fd) {
    if (cq == nullptr || fd == nullptr) {
        return RPMA_E_INVAL;
    }
    *fd = object_of(cq)->fd();
    return 0;
}

int rpma_cq_wait(struct rpma_cq* cq) {
    return cq == nullptr ? RPMA_E_INVAL : code_of(object_of(cq)->wait());
}

int rpma_cq_get_wc(struct rpma_cq* cq, int num_entries, struct ibv_wc* wc, int* num_entries_got) {
    if (!can_take(cq, num_entries, wc, num_entries_got)) {
        return RPMA_E_INVAL;
    }
    return code_of(object_of(cq)->take(num_entries, wc, num_entries_got));
}
