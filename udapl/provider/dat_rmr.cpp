// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory regions.
#include "udapl/provider/dat_ep_common.hpp"
#include "udapl/provider/dat_lifetime.hpp"
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
        return adopt(ia, Rmr::make(ia, std::move(held)), rmr_handle);
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
    param->ia_handle = (*rmr)->ia().handle();
    param->pz_handle = (*rmr)->pz().handle();
    param->lmr_triplet = {view.segment.context, 0, view.segment.address, view.segment.length};
    param->mem_priv = static_cast<DAT_MEM_PRIV_FLAGS>(view.privileges);
    param->rmr_context = view.key;
    return kSuccess;
}

DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr_handle, const DAT_LMR_TRIPLET* triplet, DAT_MEM_PRIV_FLAGS privileges,
                    DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
                    DAT_RMR_CONTEXT* context) {
    return Dat::answer([&] {
        const Result<Pin<Rmr>> rmr = handles().get<Rmr>(rmr_handle);
        if (!rmr) {
            return wrong_handle(DAT_INVALID_HANDLE_RMR);
        }
        if (triplet == nullptr) {
            return wrong_argument(2);
        }
        if (!is_mask(static_cast<unsigned>(privileges), kEveryPrivilege)) {
            return wrong_argument(3);
        }
        if (!is_mask(static_cast<unsigned>(flags), DAT_COMPLETION_SUPPRESS_FLAG |
                                                       DAT_COMPLETION_UNSIGNALLED_FLAG |
                                                       DAT_COMPLETION_BARRIER_FENCE_FLAG)) {
            return wrong_argument(6);
        }
        if (context == nullptr && triplet->segment_length != 0) {
            return wrong_argument(7);
        }
        return with_ep(ep_handle, [&](Ep& ep) {
            std::uint32_t key = 0;
            const auto post = [&](const BindRequest& bind) {
                return ep.queues().post_bind(bind, cookie.as_64, post_flags(static_cast<unsigned>(flags)));
            };
            const EpAnswer answer =
                (*rmr)->bind(*segments_of(1, triplet).data(), static_cast<unsigned>(privileges), post, key);
            if (answer == EpAnswer::kDone && context != nullptr) {
                *context = key;
            }
            const bool is_segment_wrong = answer == EpAnswer::kNoRegion || answer == EpAnswer::kOutsideRegion;
            return is_segment_wrong ? wrong_argument(2) : to_dat(answer, ep, 6);
        });
    });
}

DAT_RETURN rmr_free(DAT_RMR_HANDLE handle) {
    return free_object<Rmr>(handle, DAT_INVALID_HANDLE_RMR, DAT_NO_SUBTYPE);
}

} // namespace

void add_rmr_functions(DAT_PROVIDER& table) noexcept {
    table.rmr_create_func = rmr_create;
    table.rmr_query_func = rmr_query;
    table.rmr_bind_func = rmr_bind;
    table.rmr_free_func = rmr_free;
}

} // namespace sluice::dapl
