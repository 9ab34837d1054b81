// SPDX-License-Identifier: BSD-3-Clause
//
// What the functions do whose parameters each version of DAT has in its own order.
#pragma once

#include <string>

#include "udapl/provider/dat_functions.hpp"
#include "udapl/provider/ia_context.hpp"

namespace sluice::dapl {

// An adapter of that NAME, which means that DEVICE. FRONT: what its handle begins with.
struct IaWanted {
    const char* name;
    const std::string& device;
    IaOptions options;
    const DAT_PROVIDER& front;
};

DAT_RETURN open_ia(const IaWanted& wanted, DAT_COUNT async_length, DAT_EVD_HANDLE* async_evd,
                   DAT_IA_HANDLE* ia_handle);

// The first parameters of dat_lmr_create(), in their order.
struct LmrWanted {
    DAT_IA_HANDLE ia;
    DAT_MEM_TYPE type;
    DAT_REGION_DESCRIPTION region;
    DAT_VLEN length;
    DAT_PZ_HANDLE pz;
    DAT_MEM_PRIV_FLAGS privileges;
};

// And the last ones. Each may be NULL.
struct LmrResults {
    DAT_LMR_HANDLE* handle;
    DAT_LMR_CONTEXT* lmr_context;
    DAT_RMR_CONTEXT* rmr_context;
    DAT_VLEN* registered_size;
    DAT_VADDR* registered_address;
};

DAT_RETURN create_lmr(const LmrWanted& wanted, const LmrResults& results);

struct RmrBind {
    DAT_RMR_HANDLE rmr;
    const DAT_LMR_TRIPLET* triplet;
    DAT_MEM_PRIV_FLAGS privileges;
    DAT_EP_HANDLE ep;
    DAT_RMR_COOKIE cookie;
    DAT_COMPLETION_FLAGS flags;
    DAT_RMR_CONTEXT* context;
};

// The number of each of these parameters, from 1.
struct RmrBindNumbers {
    int triplet;
    int privileges;
    int flags;
    int context;
};

DAT_RETURN bind_rmr(const RmrBind& wanted, const RmrBindNumbers& numbers);

// SIZE and DATA are parameters 2 and 3.
DAT_RETURN reject_cr(DAT_CR_HANDLE handle, DAT_COUNT size, const void* data);

} // namespace sluice::dapl
