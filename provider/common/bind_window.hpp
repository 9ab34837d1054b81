// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "provider/common/objects.hpp"

namespace sluice::provider {

// Whether the kernel knows both as one; a handle says so only within its context.
inline bool is_same_domain(ibv_pd* one, ibv_pd* other) noexcept {
    return one->context == other->context && kernel_domain_of(one).handle == kernel_domain_of(other).handle;
}

// ibv_bind_mw() by POST_SEND: the window has its next key when the request is posted. 0 or an errno.
template<typename PostSend>
int bind_window(ibv_qp* qp, ibv_mw* mw, const ibv_mw_bind& bind, PostSend&& post_send) noexcept {
    ibv_send_wr wr{};
    wr.wr_id = bind.wr_id;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = bind.send_flags;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = bind.bind_info;
    ibv_send_wr* bad_wr = nullptr;
    const int error = post_send(qp, &wr, &bad_wr);
    if (error == 0) {
        mw->rkey = wr.bind_mw.rkey;
    }
    return error;
}

} // namespace sluice::provider
