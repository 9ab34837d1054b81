// SPDX-License-Identifier: BSD-3-Clause
//
// Posting to endpoints.
#include "udapl/provider/dat_post.hpp"

namespace sluice::dapl {

namespace {

DAT_RETURN ep_post_recv(DAT_EP_HANDLE handle, DAT_COUNT count, DAT_LMR_TRIPLET* iov, DAT_DTO_COOKIE cookie,
                        DAT_COMPLETION_FLAGS flags) {
    const Result<Pin<Ep>> ep = handles().get<Ep>(handle);
    if (!ep) {
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    }
    if (!is_iov(count, iov)) {
        return wrong_argument(count < 0 ? 2 : 3);
    }
    if (!is_mask(flags, DAT_COMPLETION_UNSIGNALLED_FLAG)) {
        return wrong_argument(5);
    }
    return to_dat((*ep)->queues().post_receive(segments_of(count, iov), cookie.as_64, post_flags(flags)),
                  **ep, 5);
}

DAT_RETURN ep_post_send(DAT_EP_HANDLE handle, DAT_COUNT count, DAT_LMR_TRIPLET* iov, DAT_DTO_COOKIE cookie,
                        DAT_COMPLETION_FLAGS flags) {
    static constexpr RemoteSegment kNone{};
    return post<EpRequest::kSend>(
        handle, count, iov, cookie, kNone,
        {static_cast<unsigned>(flags), kRdmaFlags | DAT_COMPLETION_SOLICITED_WAIT_FLAG, 5});
}

template<EpRequest kKind>
DAT_RETURN post_rdma(DAT_EP_HANDLE handle, DAT_COUNT count, DAT_LMR_TRIPLET* iov, DAT_DTO_COOKIE cookie,
                     const DAT_RMR_TRIPLET* remote, DAT_COMPLETION_FLAGS flags) {
    if (remote == nullptr) {
        return wrong_argument(5);
    }
    return post<kKind>(handle, count, iov, cookie, remote_of(*remote),
                       {static_cast<unsigned>(flags), kRdmaFlags, 6});
}

} // namespace

void add_post_functions(DAT_PROVIDER& table) noexcept {
    table.ep_post_recv_func = ep_post_recv;
    table.ep_post_send_func = ep_post_send;
    table.ep_post_rdma_read_func = post_rdma<EpRequest::kRead>;
    table.ep_post_rdma_write_func = post_rdma<EpRequest::kWrite>;
}

} // namespace sluice::dapl
