// SPDX-License-Identifier: BSD-3-Clause
//
// Reserved service points, and requests that are handed on.
#include "udapl/provider/dat_ep_common.hpp"
#include "udapl/provider/dat_listen.hpp"

namespace sluice::dapl {

namespace {

DAT_RETURN make_rsp(Ia& ia, DAT_CONN_QUAL qualifier, DAT_EP_HANDLE ep_handle, DAT_EVD_HANDLE evd_handle,
                    DAT_RSP_HANDLE* rsp_handle) {
    const Result<Pin<Ep>> ep = handles().get<Ep>(ep_handle);
    Ref<Ep> held(ep && &(*ep)->ia() == &ia ? ep->get() : nullptr);
    if (!held) {
        return wrong_handle(DAT_INVALID_HANDLE_EP); // we don't make endpoints by ourselves
    }
    Ref<Evd> evd;
    if (!find_evd(evd_handle, kRequestStream, ia, evd) || !evd) {
        return wrong_handle(DAT_INVALID_HANDLE_EVD_CR);
    }
    if (rsp_handle == nullptr) {
        return wrong_argument(5);
    }
    auto rsp = std::make_unique<Rsp>(ia, std::move(held), std::move(evd), &functions());
    if (const EpAnswer reserved = rsp->reserve(); reserved != EpAnswer::kDone) {
        return to_dat(reserved, **ep);
    }
    return start_listening(ia, std::move(rsp), DAT_INVALID_HANDLE_RSP, qualifier, rsp_handle);
}

DAT_RETURN rsp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL qualifier, DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd,
                      DAT_RSP_HANDLE* rsp) {
    return Dat::answer([&] {
        Result<Pin<Ia>> ia = handles().get<Ia>(ia_handle);
        if (!ia) {
            return wrong_handle(DAT_INVALID_HANDLE_IA);
        }
        return qualifier != 0 ? make_rsp(**ia, qualifier, ep, evd, rsp) : wrong_argument(2);
    });
}

DAT_RETURN rsp_query(DAT_RSP_HANDLE handle, DAT_RSP_PARAM_MASK mask, DAT_RSP_PARAM* param) {
    const Result<Pin<Rsp>> rsp = handles().get<Rsp>(handle);
    if (!rsp) {
        return wrong_handle(DAT_INVALID_HANDLE_RSP);
    }
    if (!is_mask(mask, DAT_RSP_FIELD_ALL)) {
        return wrong_argument(2);
    }
    if (param == nullptr) {
        return wrong_argument(3);
    }
    *param = {as_programs_know((*rsp)->ia().handle()), (*rsp)->qualifier(), (*rsp)->evd().handle(),
              (*rsp)->ep().handle()};
    return kSuccess;
}

DAT_RETURN rsp_free(DAT_RSP_HANDLE handle) {
    return free_object<Rsp>(handle, DAT_INVALID_HANDLE_RSP, DAT_NO_SUBTYPE);
}

DAT_RETURN cr_handoff(DAT_CR_HANDLE handle, DAT_CONN_QUAL qualifier) {
    return Dat::answer([&] {
        Result<Pin<Cr>> cr = handles().get<Cr>(handle);
        if (!cr) {
            return wrong_handle(DAT_INVALID_HANDLE_CR);
        }
        if (qualifier == 0) {
            return wrong_argument(2);
        }
        const Result<Pin<Ia>> ia = handles().get<Ia>((*cr)->ia().handle());
        if (!ia) {
            return wrong_handle(DAT_INVALID_HANDLE_CR); // the IA is being closed, and frees it
        }
        std::optional<glue::ConnectionEvent> request = (*cr)->hand_off();
        if (!request) {
            return wrong_handle(DAT_INVALID_HANDLE_CR); // another thread has answered it
        }
        (void)IaContext::destroy(*std::move(cr));
        (*ia)->hand_on(*request, qualifier);
        return kSuccess;
    });
}

} // namespace

void add_rsp_functions(DAT_PROVIDER& table) noexcept {
    table.rsp_create_func = rsp_create;
    table.rsp_query_func = rsp_query;
    table.rsp_free_func = rsp_free;
    table.cr_handoff_func = cr_handoff;
}

} // namespace sluice::dapl
