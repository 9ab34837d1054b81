// SPDX-License-Identifier: BSD-3-Clause
//
// Connections: from both sides, with service points and connection requests.
#include "udapl/provider/dat_calls.hpp"
#include "udapl/provider/dat_ep_common.hpp"
#include "udapl/provider/dat_listen.hpp"

namespace sluice::dapl {

namespace {

bool is_private_data(DAT_COUNT size, const void* data) noexcept {
    return size == 0 || (size > 0 && data != nullptr);
}

std::span<const std::byte> private_data_of(DAT_COUNT size, const void* data) noexcept {
    return {static_cast<const std::byte*>(data), static_cast<std::size_t>(size)};
}

constexpr unsigned kQualities =
    DAT_QOS_HIGH_THROUGHPUT | DAT_QOS_LOW_LATENCY | DAT_QOS_ECONOMY | DAT_QOS_PREMIUM;

DAT_RETURN ep_connect(DAT_EP_HANDLE handle, DAT_IA_ADDRESS_PTR address, DAT_CONN_QUAL qualifier,
                      DAT_TIMEOUT timeout, DAT_COUNT size, DAT_PVOID data, DAT_QOS qos,
                      DAT_CONNECT_FLAGS flags) {
    return Dat::answer([&] {
        return with_ep(handle, [&](Ep& ep) -> DAT_RETURN {
            if (!is_mask(qos, kQualities) || !is_mask(flags, kConnectFlags)) {
                return wrong_argument(is_mask(qos, kQualities) ? 8 : 7);
            }
            if (qos != DAT_QOS_BEST_EFFORT || flags != DAT_CONNECT_DEFAULT_FLAG) {
                return failure(DAT_MODEL_NOT_SUPPORTED);
            }
            if (!is_private_data(size, data)) {
                return wrong_argument(size < 0 ? 5 : 6);
            }
            if (address == nullptr || timeout == 0) {
                return wrong_argument(address == nullptr ? 2 : 4);
            }
            const Result<glue::Address> peer = glue::Address::from(address);
            if (!peer || address->sa_family != ep.ia().device().address().get()->sa_family) {
                return failure(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED);
            }
            return to_dat(ep.connection().connect({peer->with_port(port_of(qualifier)), qualifier}, timeout,
                                                  private_data_of(size, data)),
                          ep, 5);
        });
    });
}

DAT_RETURN ep_dup_connect(DAT_EP_HANDLE handle, DAT_EP_HANDLE other_handle, DAT_TIMEOUT timeout,
                          DAT_COUNT size, DAT_PVOID data, DAT_QOS qos) {
    return Dat::answer([&] {
        return with_ep(handle, [&](Ep& ep) -> DAT_RETURN {
            const Result<Pin<Ep>> other = handles().get<Ep>(other_handle);
            if (!other) {
                return wrong_handle(DAT_INVALID_HANDLE2);
            }
            if (!is_mask(qos, kQualities)) {
                return wrong_argument(6);
            }
            if (qos != DAT_QOS_BEST_EFFORT) {
                return failure(DAT_MODEL_NOT_SUPPORTED);
            }
            if (timeout == 0) {
                return wrong_argument(3);
            }
            if (!is_private_data(size, data)) {
                return wrong_argument(size < 0 ? 4 : 5);
            }
            const std::optional<EpPeer> peer = (*other)->connection().peer();
            return peer ? to_dat(ep.connection().connect(*peer, timeout, private_data_of(size, data)), ep, 4)
                        : wrong_state((*other)->state());
        });
    });
}

DAT_RETURN ep_disconnect(DAT_EP_HANDLE handle, DAT_CLOSE_FLAGS flags) {
    return Dat::answer([&] {
        return with_ep(handle, [&](Ep& ep) {
            const bool is_flag = flags == DAT_CLOSE_ABRUPT_FLAG || flags == DAT_CLOSE_GRACEFUL_FLAG;
            return is_flag ? to_dat(ep.connection().disconnect(flags == DAT_CLOSE_GRACEFUL_FLAG), ep)
                           : wrong_argument(2);
        });
    });
}

DAT_RETURN ep_reset(DAT_EP_HANDLE handle) {
    return Dat::answer([&] { return with_ep(handle, [](Ep& ep) { return to_dat(ep.reset(), ep); }); });
}

DAT_RETURN make_psp(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL& qualifier, DAT_EVD_HANDLE evd_handle,
                    DAT_PSP_FLAGS flags, DAT_PSP_HANDLE* psp_handle) {
    Result<Pin<Ia>> ia = handles().get<Ia>(ia_handle);
    if (!ia) {
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    }
    Ref<Evd> evd;
    if (!find_evd(evd_handle, kRequestStream, **ia, evd) || !evd) {
        return wrong_handle(DAT_INVALID_HANDLE_EVD_CR);
    }
    if (flags != DAT_PSP_CONSUMER_FLAG) {
        return flags == DAT_PSP_PROVIDER_FLAG ? failure(DAT_MODEL_NOT_SUPPORTED) : wrong_argument(4);
    }
    if (psp_handle == nullptr) {
        return wrong_argument(5);
    }
    return start_listening(**ia, std::make_unique<Psp>(**ia, std::move(evd), &functions()),
                           DAT_INVALID_HANDLE_PSP, qualifier, psp_handle);
}

DAT_RETURN psp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL qualifier, DAT_EVD_HANDLE evd, DAT_PSP_FLAGS flags,
                      DAT_PSP_HANDLE* psp) {
    return qualifier == 0 ? wrong_argument(2)
                          : Dat::answer([&] { return make_psp(ia, qualifier, evd, flags, psp); });
}

DAT_RETURN psp_create_any(DAT_IA_HANDLE ia, DAT_CONN_QUAL* qualifier, DAT_EVD_HANDLE evd, DAT_PSP_FLAGS flags,
                          DAT_PSP_HANDLE* psp) {
    if (qualifier == nullptr) {
        return wrong_argument(2);
    }
    return Dat::answer([&] {
        DAT_CONN_QUAL any = 0;
        const DAT_RETURN status = make_psp(ia, any, evd, flags, psp);
        if (status == kSuccess) {
            *qualifier = any;
        }
        return status;
    });
}

DAT_RETURN psp_query(DAT_PSP_HANDLE handle, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM* param) {
    const Result<Pin<Psp>> psp = handles().get<Psp>(handle);
    if (!psp) {
        return wrong_handle(DAT_INVALID_HANDLE_PSP);
    }
    if (!is_mask(mask, DAT_PSP_FIELD_ALL)) {
        return wrong_argument(2);
    }
    if (param == nullptr) {
        return wrong_argument(3);
    }
    *param = {as_programs_know((*psp)->ia().handle()), (*psp)->qualifier(), (*psp)->evd().handle(),
              DAT_PSP_CONSUMER_FLAG};
    return kSuccess;
}

DAT_RETURN psp_free(DAT_PSP_HANDLE handle) {
    return free_object<Psp>(handle, DAT_INVALID_HANDLE_PSP, DAT_NO_SUBTYPE);
}

DAT_RETURN cr_query(DAT_CR_HANDLE handle, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM* param) {
    const Result<Pin<Cr>> cr = handles().get<Cr>(handle);
    if (!cr) {
        return wrong_handle(DAT_INVALID_HANDLE_CR);
    }
    if (!is_mask(mask, DAT_CR_FIELD_ALL)) {
        return wrong_argument(2);
    }
    if (param == nullptr) {
        return wrong_argument(3);
    }
    const std::span<const std::byte> data = (*cr)->private_data();
    // A program reads both through pointers that would let it write.
    param->remote_ia_address_ptr = const_cast<DAT_IA_ADDRESS_PTR>((*cr)->peer().get()); // NOLINT
    param->remote_port_qual = (*cr)->peer().port();
    param->private_data_size = static_cast<DAT_COUNT>(data.size());
    param->private_data = const_cast<std::byte*>(data.data()); // NOLINT
    param->local_ep_handle = (*cr)->reserved();
    return kSuccess;
}

DAT_RETURN cr_accept(DAT_CR_HANDLE cr_handle, DAT_EP_HANDLE ep_handle, DAT_COUNT size, DAT_PVOID data) {
    return Dat::answer([&]() -> DAT_RETURN {
        Result<Pin<Cr>> cr = handles().get<Cr>(cr_handle);
        if (!cr) {
            return wrong_handle(DAT_INVALID_HANDLE_CR);
        }
        if (!is_private_data(size, data)) {
            return wrong_argument(size < 0 ? 3 : 4);
        }
        const DAT_EP_HANDLE reserved = (*cr)->reserved();
        const DAT_EP_HANDLE chosen = ep_handle != DAT_HANDLE_NULL ? ep_handle : reserved;
        const Result<Pin<Ep>> ep = handles().get<Ep>(chosen);
        if (!ep || &(*ep)->ia() != &(*cr)->ia()) {
            return ep_handle == DAT_HANDLE_NULL ? wrong_argument(2) : wrong_handle(DAT_INVALID_HANDLE_EP);
        }
        // A request to a reserved service point is for the endpoint of that alone.
        if (reserved != DAT_HANDLE_NULL && chosen != reserved) {
            return wrong_argument(2);
        }
        const DAT_RETURN status = to_dat((*cr)->accept(**ep, private_data_of(size, data)), **ep, 3);
        if (status == kSuccess) {
            (void)IaContext::destroy(*std::move(cr));
        }
        return status;
    });
}

} // namespace

DAT_RETURN reject_cr(DAT_CR_HANDLE handle, DAT_COUNT size, const void* data) {
    Result<Pin<Cr>> cr = handles().get<Cr>(handle);
    if (!cr) {
        return wrong_handle(DAT_INVALID_HANDLE_CR);
    }
    if (!is_private_data(size, data)) {
        return wrong_argument(size < 0 ? 2 : 3);
    }
    const EpAnswer rejected = (*cr)->reject(private_data_of(size, data));
    if (rejected == EpAnswer::kPrivateDataTooLong) {
        return wrong_argument(2);
    }
    return rejected == EpAnswer::kDone && IaContext::destroy(*std::move(cr))
               ? kSuccess
               : wrong_handle(DAT_INVALID_HANDLE_CR);
}

void add_connection_functions(DAT_PROVIDER& table) noexcept {
    table.ep_connect_func = ep_connect;
    table.ep_dup_connect_func = ep_dup_connect;
    table.ep_disconnect_func = ep_disconnect;
    table.ep_reset_func = ep_reset;
    table.psp_create_func = psp_create;
    table.psp_create_any_func = psp_create_any;
    table.psp_query_func = psp_query;
    table.psp_free_func = psp_free;
    table.cr_query_func = cr_query;
    table.cr_accept_func = cr_accept;
}

} // namespace sluice::dapl
