// SPDX-License-Identifier: BSD-3-Clause
//
// Shared receive queues.
#include <algorithm>

#include "udapl/provider/dat_ep_common.hpp"
#include "udapl/provider/dat_lifetime.hpp"

namespace sluice::dapl {

namespace {

constexpr const char* kSharedQueue = "a shared receive queue";

// Whether a device can have a queue of ATTR's size; otherwise the code that says why not.
DAT_RETURN check(const DAT_SRQ_ATTR& attr, const ibv_device_attr& limits) noexcept {
    const struct {
        const char* name;
        DAT_COUNT value;
        DAT_COUNT most;
    } sizes[] = {
        {"max_recv_dtos", attr.max_recv_dtos, limits.max_srq_wr},
        {"max_recv_iov", attr.max_recv_iov, std::min(limits.max_srq_sge, static_cast<int>(kMaxSegments))}};
    for (const auto& size : sizes) {
        if (!is_attribute_within(kSharedQueue, size.name, size.value, 1, size.most)) {
            return size.value < 1 ? wrong_argument(3) : failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ);
        }
    }
    return is_attribute_within(kSharedQueue, "low_watermark", attr.low_watermark, DAT_SRQ_LW_DEFAULT,
                               DAT_SRQ_LW_DEFAULT)
               ? kSuccess
               : wrong_argument(3);
}

DAT_RETURN make_srq(Ia& ia, Pz& pz, DAT_SRQ_ATTR& attr, DAT_SRQ_HANDLE* srq_handle) {
    const ibv_device_attr& limits = ia.device().limits();
    if (limits.max_srq == 0) {
        return failure(DAT_MODEL_NOT_SUPPORTED);
    }
    if (const DAT_RETURN checked = check(attr, limits); checked != kSuccess) {
        return checked;
    }
    Ref<Pz> held(&pz);
    if (!held) {
        return wrong_handle(DAT_INVALID_HANDLE_PZ);
    }
    SrqOptions options{static_cast<std::uint32_t>(attr.max_recv_dtos),
                       static_cast<std::uint32_t>(attr.max_recv_iov)};
    const DAT_RETURN status = adopt(ia, Srq::make(ia, std::move(held), options), srq_handle);
    if (status == kSuccess) {
        attr.max_recv_dtos = static_cast<DAT_COUNT>(options.max_receives);
        attr.max_recv_iov = static_cast<DAT_COUNT>(options.max_segments);
    }
    return status;
}

DAT_RETURN srq_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_SRQ_ATTR* attr,
                      DAT_SRQ_HANDLE* srq_handle) {
    return Dat::answer([&] {
        Result<Pin<Ia>> ia = handles().get<Ia>(ia_handle);
        if (!ia) {
            return wrong_handle(DAT_INVALID_HANDLE_IA);
        }
        Result<Pin<Pz>> pz = handles().get<Pz>(pz_handle);
        if (!pz || &(*pz)->ia() != ia->get()) {
            return wrong_handle(DAT_INVALID_HANDLE_PZ);
        }
        if (attr == nullptr) {
            return wrong_argument(3);
        }
        return srq_handle != nullptr ? make_srq(**ia, **pz, *attr, srq_handle) : wrong_argument(4);
    });
}

// Calls FUNCTION with the queue that HANDLE names.
template<typename Function>
DAT_RETURN with_srq(DAT_SRQ_HANDLE handle, Function&& function) {
    const Result<Pin<Srq>> srq = handles().get<Srq>(handle);
    return srq ? function(**srq) : wrong_handle(DAT_INVALID_HANDLE_SRQ);
}

DAT_RETURN srq_free(DAT_SRQ_HANDLE handle) {
    return free_object<Srq>(handle, DAT_INVALID_HANDLE_SRQ, DAT_INVALID_STATE_SRQ_IN_USE);
}

DAT_RETURN srq_post_recv(DAT_SRQ_HANDLE handle, DAT_COUNT count, DAT_LMR_TRIPLET* iov,
                         DAT_DTO_COOKIE cookie) {
    return with_srq(handle, [&](Srq& srq) {
        if (!is_iov(count, iov)) {
            return wrong_argument(count < 0 ? 2 : 3);
        }
        const EpAnswer answer = srq.post(segments_of(count, iov), cookie.as_64);
        return answer == EpAnswer::kFull ? failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ)
                                         : to_dat(answer, 2);
    });
}

DAT_RETURN srq_query(DAT_SRQ_HANDLE handle, DAT_SRQ_PARAM_MASK mask, DAT_SRQ_PARAM* param) {
    return with_srq(handle, [&](Srq& srq) {
        if (!is_mask(mask, DAT_SRQ_FIELD_ALL)) {
            return wrong_argument(2);
        }
        if (param == nullptr) {
            return wrong_argument(3);
        }
        const SrqCounts counts = srq.counts();
        *param = {};
        param->ia_handle = as_programs_know(srq.ia().handle());
        param->srq_state = srq.is_broken() ? DAT_SRQ_STATE_ERROR : DAT_SRQ_STATE_OPERATIONAL;
        param->pz_handle = srq.pz().handle();
        param->max_recv_dtos = static_cast<DAT_COUNT>(counts.max_receives);
        param->max_recv_iov = static_cast<DAT_COUNT>(srq.max_segments());
        param->low_watermark = static_cast<DAT_COUNT>(counts.low_watermark);
        param->available_dto_count = static_cast<DAT_COUNT>(counts.available);
        param->outstanding_dto_count = static_cast<DAT_COUNT>(counts.outstanding);
        return kSuccess;
    });
}

DAT_RETURN to_dat(SrqAnswer answer) noexcept {
    switch (answer) {
    case SrqAnswer::kDone:
        return kSuccess;
    case SrqAnswer::kTooManyHeld:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_SRQ_IN_USE);
    case SrqAnswer::kBelowMark:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_SRQ_OPERATIONAL);
    case SrqAnswer::kNoResources:
        return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ);
    case SrqAnswer::kAboveMaximum:
        return wrong_argument(2);
    }
    return failure(DAT_INTERNAL_ERROR);
}

DAT_RETURN srq_resize(DAT_SRQ_HANDLE handle, DAT_COUNT max_receives) {
    return Dat::answer([&] {
        return with_srq(handle, [&](Srq& srq) {
            if (max_receives <= 0) {
                return wrong_argument(2);
            }
            if (max_receives > srq.ia().device().limits().max_srq_wr) {
                return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ);
            }
            return to_dat(srq.resize(static_cast<std::uint32_t>(max_receives)));
        });
    });
}

DAT_RETURN srq_set_lw(DAT_SRQ_HANDLE handle, DAT_COUNT mark) {
    return with_srq(handle, [&](Srq& srq) {
        return mark < 0 ? wrong_argument(2) : to_dat(srq.set_low_watermark(static_cast<std::uint32_t>(mark)));
    });
}

} // namespace

void add_srq_functions(DAT_PROVIDER& table) noexcept {
    table.srq_create_func = srq_create;
    table.srq_free_func = srq_free;
    table.srq_post_recv_func = srq_post_recv;
    table.srq_query_func = srq_query;
    table.srq_resize_func = srq_resize;
    table.srq_set_lw_func = srq_set_lw;
}

} // namespace sluice::dapl
