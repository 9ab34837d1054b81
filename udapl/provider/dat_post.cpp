// SPDX-License-Identifier: BSD-3-Clause
//
// Posting to endpoints.
#include "udapl/provider/dat_ep_common.hpp"
#include "udapl/provider/ep_post.hpp"

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

// FLAGS may have no bits but those of ALL; their argument is number FLAGS_NUMBER.
template<EpRequest kKind>
[[gnu::always_inline]] inline DAT_RETURN
post(DAT_EP_HANDLE handle, DAT_COUNT count, const DAT_LMR_TRIPLET* iov, DAT_DTO_COOKIE cookie,
     const RemoteSegment& remote, unsigned flags, unsigned all, int flags_number) noexcept {
    const Result<Pin<Ep>> ep = handles().get<Ep>(handle);
    if (!ep) {
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    }
    if (!is_iov(count, iov)) {
        return wrong_argument(count < 0 ? 2 : 3);
    }
    if (!is_mask(flags, all)) {
        return wrong_argument(flags_number);
    }
    return to_dat(
        (*ep)->queues().post_request<kKind>(segments_of(count, iov), remote, cookie.as_64, post_flags(flags)),
        **ep, flags_number);
}

constexpr unsigned kRdmaFlags =
    DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG;

DAT_RETURN ep_post_send(DAT_EP_HANDLE handle, DAT_COUNT count, DAT_LMR_TRIPLET* iov, DAT_DTO_COOKIE cookie,
                        DAT_COMPLETION_FLAGS flags) {
    static constexpr RemoteSegment kNone{};
    return post<EpRequest::kSend>(handle, count, iov, cookie, kNone, flags,
                                  kRdmaFlags | DAT_COMPLETION_SOLICITED_WAIT_FLAG, 5);
}

template<EpRequest kKind>
DAT_RETURN post_rdma(DAT_EP_HANDLE handle, DAT_COUNT count, DAT_LMR_TRIPLET* iov, DAT_DTO_COOKIE cookie,
                     const DAT_RMR_TRIPLET* remote, DAT_COMPLETION_FLAGS flags) {
    if (remote == nullptr) {
        return wrong_argument(5);
    }
    return post<kKind>(handle, count, iov, cookie,
                       {remote->rmr_context, remote->target_address, remote->segment_length}, flags,
                       kRdmaFlags, 6);
}

} // namespace

void add_post_functions(DAT_PROVIDER& table) noexcept {
    table.ep_post_recv_func = ep_post_recv;
    table.ep_post_send_func = ep_post_send;
    table.ep_post_rdma_read_func = post_rdma<EpRequest::kRead>;
    table.ep_post_rdma_write_func = post_rdma<EpRequest::kWrite>;
}

} // namespace sluice::dapl
