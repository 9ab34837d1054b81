// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory regions.
#include "udapl/provider/dat_calls.hpp"
#include "udapl/provider/dat_ep_common.hpp"
#include "udapl/provider/dat_lifetime.hpp"
#include "udapl/provider/ia.hpp"
#include "udapl/provider/rmr.hpp"

namespace sluice::dapl {

namespace {

DAT_RETURN rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE* rmr_handle) {
    return Dat::answer([&] {
        Result<Pin<Pz>> pz = handles().get<Pz>(pz_handle);
        Ref<Pz> held(pz ? pz->get() : nullptr);
        if (!held) {
            return wrong_handle(DAT_INVALID_HANDLE_PZ);
        }
        if (rmr_handle == nullptr) {
            return wrong_argument(2);
        }
        IaContext& ia = held->ia();
        // Alone here the program doesn't name it: another thread that closes it waits.
        const Result<Pin<Ia>> adapter = handles().get<Ia>(ia.handle());
        return adapter ? adopt(ia, Rmr::make(ia, std::move(held)), rmr_handle)
                       : wrong_handle(DAT_INVALID_HANDLE_PZ);
    });
}

DAT_RETURN rmr_query(DAT_RMR_HANDLE handle, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM* param) {
    const Result<Pin<Rmr>> rmr = handles().get<Rmr>(handle);
    if (!rmr) {
        return wrong_handle(DAT_INVALID_HANDLE_RMR);
    }
    if (!is_mask(mask, DAT_RMR_FIELD_ALL)) {
        return wrong_argument(2);
    }
    if (param == nullptr) {
        return wrong_argument(3);
    }
    const RmrView view = (*rmr)->view();
    *param = {};
    param->ia_handle = as_programs_know((*rmr)->ia().handle());
    param->pz_handle = (*rmr)->pz().handle();
    param->lmr_triplet = triplet_of(view.segment);
    param->mem_priv = static_cast<DAT_MEM_PRIV_FLAGS>(view.privileges);
    param->rmr_context = view.key;
    add_own(*param);
    return kSuccess;
}

DAT_RETURN rmr_free(DAT_RMR_HANDLE handle) {
    return free_object<Rmr>(handle, DAT_INVALID_HANDLE_RMR, DAT_NO_SUBTYPE);
}

} // namespace

DAT_RETURN bind_rmr(const RmrBind& wanted, const RmrBindNumbers& numbers) {
    const Result<Pin<Rmr>> rmr = handles().get<Rmr>(wanted.rmr);
    if (!rmr) {
        return wrong_handle(DAT_INVALID_HANDLE_RMR);
    }
    if (wanted.triplet == nullptr) {
        return wrong_argument(numbers.triplet);
    }
    if (!is_mask(static_cast<unsigned>(wanted.privileges), kEveryPrivilege)) {
        return wrong_argument(numbers.privileges);
    }
    if (!is_mask(static_cast<unsigned>(wanted.flags), DAT_COMPLETION_SUPPRESS_FLAG |
                                                          DAT_COMPLETION_UNSIGNALLED_FLAG |
                                                          DAT_COMPLETION_BARRIER_FENCE_FLAG)) {
        return wrong_argument(numbers.flags);
    }
    if (wanted.context == nullptr && wanted.triplet->segment_length != 0) {
        return wrong_argument(numbers.context);
    }
    return with_ep(wanted.ep, [&](Ep& ep) {
        std::uint32_t key = 0;
        const auto post = [&](const BindRequest& bind) {
            return ep.queues().post_bind(bind, wanted.cookie.as_64,
                                         post_flags(static_cast<unsigned>(wanted.flags)));
        };
        const EpAnswer answer =
            (*rmr)->bind(segment_of(*wanted.triplet), static_cast<unsigned>(wanted.privileges), post, key);
        if (answer == EpAnswer::kDone && wanted.context != nullptr) {
            *wanted.context = key;
        }
        const bool is_segment_wrong = answer == EpAnswer::kNoRegion || answer == EpAnswer::kOutsideRegion;
        return is_segment_wrong ? wrong_argument(numbers.triplet) : to_dat(answer, ep, numbers.flags);
    });
}

void add_rmr_functions(DAT_PROVIDER& table) noexcept {
    table.rmr_create_func = rmr_create;
    table.rmr_query_func = rmr_query;
    table.rmr_free_func = rmr_free;
}

} // namespace sluice::dapl
