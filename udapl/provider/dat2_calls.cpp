// SPDX-License-Identifier: BSD-3-Clause
//
// The functions whose parameters are DAT 2.0's own. What isn't there answers as libdat2 does for what it
// hasn't.
#include "udapl/provider/dat2_extensions.hpp"
#include "udapl/provider/dat_calls.hpp"
#include "udapl/provider/dat_version.hpp"
#include "udapl/provider/memory.hpp"

namespace sluice::dapl {

namespace {

DAT_RETURN cr_reject(DAT_CR_HANDLE handle, DAT_COUNT size, DAT_PVOID data) {
    return Dat::answer([&] { return reject_cr(handle, size, data); });
}

DAT_RETURN lmr_create(DAT_IA_HANDLE ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region, DAT_VLEN length,
                      DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS privileges, DAT_VA_TYPE va_type,
                      DAT_LMR_HANDLE* lmr_handle, DAT_LMR_CONTEXT* lmr_context, DAT_RMR_CONTEXT* rmr_context,
                      DAT_VLEN* registered_size, DAT_VADDR* registered_address) {
    if (va_type != DAT_VA_TYPE_VA) {
        return va_type == DAT_VA_TYPE_ZB ? failure(DAT_NOT_IMPLEMENTED) : wrong_argument(7);
    }
    return Dat::answer([&] {
        return create_lmr({ia, type, region, length, pz, privileges},
                          {lmr_handle, lmr_context, rmr_context, registered_size, registered_address});
    });
}

// A length of 0 unbinds: then no region is needed.
bool is_of(DAT_LMR_HANDLE lmr_handle, const DAT_LMR_TRIPLET& triplet) noexcept {
    if (triplet.segment_length == 0) {
        return true;
    }
    const Result<Pin<Lmr>> lmr = handles().get<Lmr>(lmr_handle);
    return lmr && (*lmr)->context() == triplet.lmr_context;
}

DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr, DAT_LMR_HANDLE lmr, const DAT_LMR_TRIPLET* triplet,
                    DAT_MEM_PRIV_FLAGS privileges, DAT_VA_TYPE va_type, DAT_EP_HANDLE ep,
                    DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT* context) {
    if (va_type != DAT_VA_TYPE_VA) {
        return va_type == DAT_VA_TYPE_ZB ? failure(DAT_NOT_IMPLEMENTED) : wrong_argument(5);
    }
    if (triplet != nullptr && !is_of(lmr, *triplet)) {
        return wrong_handle(DAT_INVALID_HANDLE_LMR);
    }
    return Dat::answer([&] {
        return bind_rmr({rmr, triplet, privileges, ep, cookie, flags, context},
                        {.triplet = 3, .privileges = 4, .flags = 8, .context = 9});
    });
}

template<typename... Parameters>
DAT_RETURN not_there(Parameters... /*parameters*/) {
    return failure(DAT_NOT_IMPLEMENTED);
}

} // namespace

// dat2_registration.cpp sets ia_open_func, for each name.
void add_own_functions(DAT_PROVIDER& table) noexcept {
    table.cr_reject_func = cr_reject;
    table.lmr_create_func = lmr_create;
    table.rmr_bind_func = rmr_bind;
    table.csp_create_func = not_there;
    table.csp_query_func = not_there;
    table.csp_free_func = not_there;
    table.ep_common_connect_func = not_there;
    table.rmr_create_for_ep_func = not_there;
    table.ep_post_send_with_invalidate_func = not_there;
    table.ep_post_rdma_read_to_rmr_func = not_there;
    table.cno_fd_create_func = not_there;
    table.cno_trigger_func = not_there;
    table.ia_ha_related_func = not_there;
    table.handle_extendedop_func = extended_operation;
}

} // namespace sluice::dapl
