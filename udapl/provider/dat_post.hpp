// SPDX-License-Identifier: BSD-3-Clause
//
// What all requests to endpoints have in common. Inline, because a post is little more than this.
#pragma once

#include "udapl/provider/dat_ep_common.hpp"
#include "udapl/provider/ep_post.hpp"

namespace sluice::dapl {

constexpr unsigned kRdmaFlags =
    DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG;

// The flags of a call: BITS may have none but those of ALL, and they are argument NUMBER.
struct FlagsArgument {
    unsigned bits;
    unsigned all;
    int number;
};

// A post that came before the handshake had ended: once more, when it has.
template<EpRequest kKind>
[[gnu::noinline]] EpAnswer post_behind_handshake(Ep& ep, Segments segments, RemoteSegment remote,
                                                 std::uint64_t cookie, PostFlags flags,
                                                 RequestExtras extras) noexcept {
    EpAnswer answer = EpAnswer::kBadState;
    while (answer == EpAnswer::kBadState && ep.connection().await_handshake()) {
        answer = ep.queues().post_request<kKind>(segments, remote, cookie, flags, extras);
    }
    return answer;
}

template<EpRequest kKind>
[[gnu::always_inline]] inline DAT_RETURN
post(DAT_EP_HANDLE handle, DAT_COUNT count, const DAT_LMR_TRIPLET* iov, DAT_DTO_COOKIE cookie,
     const RemoteSegment& remote, const FlagsArgument& flags, const RequestExtras& extras = {}) noexcept {
    const Result<Pin<Ep>> ep = handles().get<Ep>(handle);
    if (!ep) {
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    }
    if (!is_iov(count, iov)) {
        return wrong_argument(count < 0 ? 2 : 3);
    }
    if (!is_mask(flags.bits, flags.all)) {
        return wrong_argument(flags.number);
    }
    EpAnswer answer = (*ep)->queues().post_request<kKind>(segments_of(count, iov), remote, cookie.as_64,
                                                          post_flags(flags.bits), extras);
    if (answer == EpAnswer::kBadState) [[unlikely]] {
        answer = post_behind_handshake<kKind>(**ep, segments_of(count, iov), remote, cookie.as_64,
                                              post_flags(flags.bits), extras);
    }
    return to_dat(answer, **ep, flags.number);
}

} // namespace sluice::dapl
