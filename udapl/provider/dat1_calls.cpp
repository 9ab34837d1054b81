// SPDX-License-Identifier: BSD-3-Clause
//
// The functions whose parameters are DAT 1.2's own.
#include "udapl/provider/dat1_names.hpp"
#include "udapl/provider/dat_calls.hpp"

namespace sluice::dapl {

namespace {

DAT_RETURN ia_open(DAT_NAME_PTR name, DAT_COUNT async_length, DAT_EVD_HANDLE* async_evd,
                   DAT_IA_HANDLE* ia_handle, DAT_BOOLEAN ro_aware) {
    return Dat::answer([&] {
        return open_ia({name, device_of(name), {.is_ordering_aware = ro_aware == DAT_TRUE}, functions()},
                       async_length, async_evd, ia_handle);
    });
}

DAT_RETURN cr_reject(DAT_CR_HANDLE handle) {
    return Dat::answer([&] { return reject_cr(handle, 0, nullptr); });
}

DAT_RETURN lmr_create(DAT_IA_HANDLE ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region, DAT_VLEN length,
                      DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS privileges, DAT_LMR_HANDLE* lmr_handle,
                      DAT_LMR_CONTEXT* lmr_context, DAT_RMR_CONTEXT* rmr_context, DAT_VLEN* registered_size,
                      DAT_VADDR* registered_address) {
    return Dat::answer([&] {
        return create_lmr({ia, type, region, length, pz, privileges},
                          {lmr_handle, lmr_context, rmr_context, registered_size, registered_address});
    });
}

DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr, const DAT_LMR_TRIPLET* triplet, DAT_MEM_PRIV_FLAGS privileges,
                    DAT_EP_HANDLE ep, DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
                    DAT_RMR_CONTEXT* context) {
    return Dat::answer([&] {
        return bind_rmr({rmr, triplet, privileges, ep, cookie, flags, context},
                        {.triplet = 2, .privileges = 3, .flags = 6, .context = 7});
    });
}

} // namespace

void add_own_functions(DAT_PROVIDER& table) noexcept {
    table.ia_open_func = ia_open;
    table.cr_reject_func = cr_reject;
    table.lmr_create_func = lmr_create;
    table.rmr_bind_func = rmr_bind;
}

} // namespace sluice::dapl
