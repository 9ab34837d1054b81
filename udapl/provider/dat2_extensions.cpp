// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/dat2_extensions.hpp"

#include <dat/dat_ib_extensions.h>

#include "udapl/provider/dat_post.hpp"

namespace sluice::dapl {

namespace {

constexpr DAT_SEG_LENGTH kAtomicSize = 8;

// The last parameters of both atomics; number LOCAL_NUMBER is the first of these.
struct AtomicArguments {
    DAT_LMR_TRIPLET* local;
    DAT_DTO_COOKIE cookie;
    const DAT_RMR_TRIPLET* remote;
    unsigned flags;
    int local_number;
};

AtomicArguments take_atomic(va_list arguments, int local_number) noexcept {
    AtomicArguments taken{};
    taken.local = va_arg(arguments, DAT_LMR_TRIPLET*);
    taken.cookie = va_arg(arguments, DAT_DTO_COOKIE);
    taken.remote = va_arg(arguments, const DAT_RMR_TRIPLET*);
    taken.flags = va_arg(arguments, unsigned);
    taken.local_number = local_number;
    return taken;
}

// Whether the endpoint's device has immediate data, and atomics if HAS_ATOMIC. True for what is no endpoint:
// the post says so.
bool can_do(DAT_EP_HANDLE handle, bool has_atomic) noexcept {
    const Result<Pin<Ep>> ep = handles().get<Ep>(handle);
    if (!ep) {
        return true;
    }
    const Device& device = (*ep)->ia().device();
    return !device.context().is_iwarp() && (!has_atomic || device.limits().atomic_cap != IBV_ATOMIC_NONE);
}

// The STATUS that post() gives counts arguments as dat_ep_post_rdma_write() has them: 2 is the number of
// segments, and 3 their list. Here the list is argument LOCAL.
DAT_RETURN renumbered(DAT_RETURN status, int local) noexcept {
    return status == wrong_argument(2)   ? wrong_argument(local - 1)
           : status == wrong_argument(3) ? wrong_argument(local)
                                         : status;
}

template<EpRequest kKind>
DAT_RETURN post_atomic(DAT_EP_HANDLE ep, const AtomicArguments& arguments,
                       const RequestExtras& extras) noexcept {
    const int number = arguments.local_number;
    if (arguments.local == nullptr || arguments.remote == nullptr) {
        return wrong_argument(arguments.local == nullptr ? number : number + 2);
    }
    if (!can_do(ep, true)) {
        return failure(DAT_NOT_IMPLEMENTED);
    }
    if (arguments.remote->segment_length < kAtomicSize) {
        return failure(DAT_LENGTH_ERROR);
    }
    if (arguments.remote->virtual_address % kAtomicSize != 0) {
        return wrong_argument(number + 2);
    }
    const RemoteSegment remote{arguments.remote->rmr_context, arguments.remote->virtual_address, kAtomicSize};
    return renumbered(post<kKind>(ep, 1, arguments.local, arguments.cookie, remote,
                                  {arguments.flags, kRdmaFlags, number + 3}, extras),
                      number);
}

DAT_RETURN fetch_and_add(DAT_EP_HANDLE ep, va_list arguments) noexcept {
    RequestExtras extras;
    extras.compare_add = va_arg(arguments, DAT_UINT64);
    return post_atomic<EpRequest::kFetchAdd>(ep, take_atomic(arguments, 4), extras);
}

DAT_RETURN compare_and_swap(DAT_EP_HANDLE ep, va_list arguments) noexcept {
    RequestExtras extras;
    extras.compare_add = va_arg(arguments, DAT_UINT64);
    extras.swap = va_arg(arguments, DAT_UINT64);
    return post_atomic<EpRequest::kCompareSwap>(ep, take_atomic(arguments, 5), extras);
}

DAT_RETURN write_immediate(DAT_EP_HANDLE ep, va_list arguments) noexcept {
    const auto count = va_arg(arguments, DAT_COUNT);
    const auto* const local = va_arg(arguments, DAT_LMR_TRIPLET*);
    const auto cookie = va_arg(arguments, DAT_DTO_COOKIE);
    const auto* const remote = va_arg(arguments, const DAT_RMR_TRIPLET*);
    RequestExtras extras;
    extras.immediate = va_arg(arguments, DAT_UINT32); // OpenFabrics doesn't change its order of bytes either
    const auto flags = va_arg(arguments, unsigned);
    if (!is_iov(count, local) || remote == nullptr) {
        return wrong_argument(remote == nullptr ? 6 : count < 0 ? 3 : 4);
    }
    if (!can_do(ep, false)) {
        return failure(DAT_NOT_IMPLEMENTED);
    }
    return renumbered(
        post<EpRequest::kWriteImmediate>(ep, count, local, cookie, remote_of(*remote),
                                         {flags, kRdmaFlags | DAT_COMPLETION_SOLICITED_WAIT_FLAG, 8}, extras),
        4);
}

} // namespace

DAT_RETURN extended_operation(DAT_HANDLE handle, int operation, va_list arguments) {
    switch (operation) {
    case DAT_IB_FETCH_AND_ADD_OP:
        return fetch_and_add(handle, arguments);
    case DAT_IB_CMP_AND_SWAP_OP:
        return compare_and_swap(handle, arguments);
    case DAT_IB_RDMA_WRITE_IMMED_OP:
        return write_immediate(handle, arguments);
    default: // of other extensions
        return failure(DAT_NOT_IMPLEMENTED);
    }
}

} // namespace sluice::dapl
