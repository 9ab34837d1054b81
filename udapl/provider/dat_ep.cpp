// SPDX-License-Identifier: BSD-3-Clause
//
// Endpoints: made, asked about, changed and freed.
#include "udapl/provider/dat_ep_common.hpp"
#include "udapl/provider/dat_lifetime.hpp"

namespace sluice::dapl {

namespace {

// The setup of an endpoint, as handles.
struct Wanted {
    DAT_PZ_HANDLE pz;
    DAT_EVD_HANDLE receive;
    DAT_EVD_HANDLE request;
    DAT_EVD_HANDLE connect;
    const DAT_EP_ATTR* attr;
};

// An endpoint with a shared queue has the hard watermark among its attributes, too.
Result<std::unique_ptr<Ep>> make_ep(Ia& ia, EpSetup setup) {
    const Watermarks watermarks{setup.options.soft_watermark,
                                setup.srq ? setup.options.max_receives : Watermarks::kInfinite};
    Result<std::unique_ptr<Ep>> ep = Ep::make(ia, std::move(setup));
    if (ep && watermarks.are_set()) {
        (*ep)->set_watermarks(watermarks);
    }
    return ep;
}

// SRQ: empty for a receive queue of its own. The attributes are that ARGUMENT, EP_HANDLE is the next.
DAT_RETURN make_ep(Ia& ia, const Wanted& wanted, Ref<Srq> srq, int argument, DAT_EP_HANDLE* ep_handle) {
    Result<Pin<Pz>> pz = handles().get<Pz>(wanted.pz);
    if (!pz || &(*pz)->ia() != &ia) {
        return wrong_handle(DAT_INVALID_HANDLE_PZ);
    }
    if (srq && &srq->pz() != pz->get()) {
        return wrong_argument(2);
    }
    EpEvds evds;
    if (!find_evd(wanted.receive, kDtoStream, ia, evds.receive)) {
        return wrong_handle(DAT_INVALID_HANDLE_EVD_RECV);
    }
    if (!find_evd(wanted.request, kDtoStream, ia, evds.request)) {
        return wrong_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    }
    if (!find_connect_evd(wanted.connect, ia, evds)) {
        return wrong_handle(DAT_INVALID_HANDLE_EVD_CONN);
    }
    EpOptions options = usual_options(ia);
    if (wanted.attr != nullptr) {
        const EpParts parts{static_cast<bool>(srq), static_cast<bool>(evds.receive),
                            static_cast<bool>(evds.request)};
        if (const DAT_RETURN wrong = describe(*wanted.attr, ia, parts, argument, options);
            wrong != kSuccess) {
            return wrong;
        }
    } else if (srq) {
        return wrong_argument(argument);
    }
    if (ep_handle == nullptr) {
        return wrong_argument(argument + 1);
    }
    Ref<Pz> held(pz->get());
    if (!held) {
        return wrong_handle(DAT_INVALID_HANDLE_PZ);
    }
    return adopt(ia, make_ep(ia, {std::move(held), std::move(evds), options, std::move(srq), nullptr}),
                 ep_handle);
}

DAT_RETURN ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE receive,
                     DAT_EVD_HANDLE request, DAT_EVD_HANDLE connect, const DAT_EP_ATTR* attr,
                     DAT_EP_HANDLE* ep_handle) {
    return Dat::answer([&] {
        Result<Pin<Ia>> ia = handles().get<Ia>(ia_handle);
        return ia ? make_ep(**ia, {pz, receive, request, connect, attr}, {}, 6, ep_handle)
                  : wrong_handle(DAT_INVALID_HANDLE_IA);
    });
}

DAT_RETURN ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE receive,
                              DAT_EVD_HANDLE request, DAT_EVD_HANDLE connect, DAT_SRQ_HANDLE srq_handle,
                              const DAT_EP_ATTR* attr, DAT_EP_HANDLE* ep_handle) {
    return Dat::answer([&] {
        Result<Pin<Ia>> ia = handles().get<Ia>(ia_handle);
        if (!ia) {
            return wrong_handle(DAT_INVALID_HANDLE_IA);
        }
        const Result<Pin<Srq>> srq = handles().get<Srq>(srq_handle);
        Ref<Srq> held(srq && &(*srq)->ia() == ia->get() ? srq->get() : nullptr);
        return held ? make_ep(**ia, {pz, receive, request, connect, attr}, std::move(held), 7, ep_handle)
                    : wrong_handle(DAT_INVALID_HANDLE_SRQ);
    });
}

DAT_RETURN ep_query(DAT_EP_HANDLE handle, DAT_EP_PARAM_MASK mask, DAT_EP_PARAM* param) {
    return with_ep(handle, [&](Ep& ep) {
        if (!is_mask(mask, DAT_EP_FIELD_ALL)) {
            return wrong_argument(2);
        }
        if (param == nullptr) {
            return wrong_argument(3);
        }
        const EpView view = ep.view();
        *param = {};
        param->ia_handle = as_programs_know(ep.ia().handle());
        param->ep_state = static_cast<DAT_EP_STATE>(view.state);
        // A program reads both through pointers that would let it write.
        param->local_ia_address_ptr =
            const_cast<DAT_IA_ADDRESS_PTR>(ep.ia().device().address().get()); // NOLINT
        param->local_port_qual = view.local_port;
        if (view.peer != nullptr) {
            param->remote_ia_address_ptr = const_cast<DAT_IA_ADDRESS_PTR>(view.peer->get()); // NOLINT
            param->remote_port_qual = view.peer_qualifier;
        }
        param->pz_handle = view.pz;
        param->recv_evd_handle = view.receive;
        param->request_evd_handle = view.request;
        param->connect_evd_handle = view.connect;
        param->srq_handle = view.srq;
        param->ep_attr = attributes_of(view.options);
        return kSuccess;
    });
}

// Copies what MASK names.
template<typename T>
void choose(DAT_EP_PARAM_MASK mask, DAT_EP_PARAM_MASK field, const T& from, T& to) noexcept {
    if ((mask & field) != 0) {
        to = from;
    }
}

void overwrite(DAT_EP_PARAM_MASK mask, const DAT_EP_ATTR& from, DAT_EP_ATTR& to) noexcept {
    choose(mask, DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE, from.service_type, to.service_type);
    choose(mask, DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE, from.max_message_size, to.max_message_size);
    choose(mask, DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE, from.max_rdma_size, to.max_rdma_size);
    choose(mask, DAT_EP_FIELD_EP_ATTR_QOS, from.qos, to.qos);
    choose(mask, DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, from.recv_completion_flags,
           to.recv_completion_flags);
    choose(mask, DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS, from.request_completion_flags,
           to.request_completion_flags);
    choose(mask, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, from.max_recv_dtos, to.max_recv_dtos);
    choose(mask, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, from.max_request_dtos, to.max_request_dtos);
    choose(mask, DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV, from.max_recv_iov, to.max_recv_iov);
    choose(mask, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV, from.max_request_iov, to.max_request_iov);
    choose(mask, DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN, from.max_rdma_read_in, to.max_rdma_read_in);
    choose(mask, DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT, from.max_rdma_read_out, to.max_rdma_read_out);
    choose(mask, DAT_EP_FIELD_EP_ATTR_SRQ_SOFT_HW, from.srq_soft_hw, to.srq_soft_hw);
    choose(mask, DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV, from.max_rdma_read_iov, to.max_rdma_read_iov);
    choose(mask, DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV, from.max_rdma_write_iov, to.max_rdma_write_iov);
    choose(mask, DAT_EP_FIELD_EP_ATTR_NUM_TRANSPORT_ATTR, from.ep_transport_specific_count,
           to.ep_transport_specific_count);
    choose(mask, DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR, from.ep_provider_specific_count,
           to.ep_provider_specific_count);
}

// The dispatchers and the zone that MASK names, or the code of the first handle that is wrong.
DAT_RETURN find_setup(const IaContext& ia, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM& param,
                      EpChange& change) {
    if ((mask & DAT_EP_FIELD_PZ_HANDLE) != 0) {
        const Result<Pin<Pz>> pz = handles().get<Pz>(param.pz_handle);
        if (!pz || &(*pz)->ia() != &ia || !change.pz.emplace(pz->get())) {
            return wrong_handle(DAT_INVALID_HANDLE_PZ);
        }
    }
    const auto finds = [&](DAT_EP_PARAM_MASK field, DAT_EVD_HANDLE handle, unsigned stream,
                           std::optional<Ref<Evd>>& found) {
        return (mask & field) == 0 || find_evd(handle, stream, ia, found.emplace());
    };
    if (!finds(DAT_EP_FIELD_RECV_EVD_HANDLE, param.recv_evd_handle, kDtoStream, change.receive)) {
        return wrong_handle(DAT_INVALID_HANDLE_EVD_RECV);
    }
    if (!finds(DAT_EP_FIELD_REQUEST_EVD_HANDLE, param.request_evd_handle, kDtoStream, change.request)) {
        return wrong_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    }
    if (!finds(DAT_EP_FIELD_CONNECT_EVD_HANDLE, param.connect_evd_handle, kConnectionStream,
               change.connect)) {
        return wrong_handle(DAT_INVALID_HANDLE_EVD_CONN);
    }
    return kSuccess;
}

// A hard watermark of 0 is one that dat_ep_set_watermark takes, and no attribute that can be had.
DAT_EP_ATTR attributes_to_modify(const EpView& view) noexcept {
    DAT_EP_ATTR attr = attributes_of(view.options);
    attr.max_recv_dtos = view.srq != nullptr ? DAT_HW_DEFAULT : attr.max_recv_dtos;
    return attr;
}

// Those that MASK doesn't name stay as they are.
void keep_watermarks(DAT_EP_PARAM_MASK mask, const EpView& view, EpOptions& options) noexcept {
    if ((mask & DAT_EP_FIELD_EP_ATTR_SRQ_SOFT_HW) == 0) {
        options.soft_watermark = view.options.soft_watermark;
    }
    if (view.srq != nullptr && (mask & DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS) == 0) {
        options.max_receives = view.options.max_receives;
    }
}

DAT_RETURN ep_modify(DAT_EP_HANDLE handle, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM* param) {
    constexpr DAT_EP_PARAM_MASK kChangeable = DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                                              DAT_EP_FIELD_REQUEST_EVD_HANDLE |
                                              DAT_EP_FIELD_CONNECT_EVD_HANDLE | DAT_EP_FIELD_EP_ATTR_ALL;
    constexpr DAT_EP_PARAM_MASK kUnconnectedOnly =
        DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_EP_ATTR_NUM_TRANSPORT_ATTR |
        DAT_EP_FIELD_EP_ATTR_TRANSPORT_SPECIFIC_ATTR | DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR |
        DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR;
    return Dat::answer([&] {
        return with_ep(handle, [&](Ep& ep) -> DAT_RETURN {
            if (!is_mask(mask, kChangeable)) {
                return wrong_argument(2);
            }
            if (param == nullptr) {
                return wrong_argument(3);
            }
            EpChange change;
            change.needs_unconnected = (mask & kUnconnectedOnly) != 0;
            if (const DAT_RETURN wrong = find_setup(ep.ia(), mask, *param, change); wrong != kSuccess) {
                return wrong;
            }
            const EpView view = ep.view();
            DAT_EP_ATTR attr = attributes_to_modify(view);
            overwrite(mask, param->ep_attr, attr);
            // Its page knows no model that isn't supported, and no wrong zone.
            const EpParts parts{view.srq != nullptr,
                                change.receive ? static_cast<bool>(*change.receive) : view.receive != nullptr,
                                change.request ? static_cast<bool>(*change.request)
                                               : view.request != nullptr};
            if (describe(attr, ep.ia(), parts, 3, change.options) != kSuccess) {
                return wrong_argument(3);
            }
            keep_watermarks(mask, view, change.options);
            const EpAnswer answer = ep.modify(change);
            return answer == EpAnswer::kOtherZone ? wrong_argument(3) : to_dat(answer, ep, 3);
        });
    });
}

DAT_RETURN ep_get_status(DAT_EP_HANDLE handle, DAT_EP_STATE* state, DAT_BOOLEAN* receive_idle,
                         DAT_BOOLEAN* request_idle) {
    return with_ep(handle, [&](Ep& ep) {
        if (receive_idle != nullptr || request_idle != nullptr) {
            ep.collect();
        }
        if (state != nullptr) {
            *state = static_cast<DAT_EP_STATE>(ep.state());
        }
        if (receive_idle != nullptr) {
            *receive_idle = ep.queues().is_receive_idle() ? DAT_TRUE : DAT_FALSE;
        }
        if (request_idle != nullptr) {
            *request_idle = ep.queues().is_request_idle() ? DAT_TRUE : DAT_FALSE;
        }
        return kSuccess;
    });
}

DAT_RETURN ep_recv_query(DAT_EP_HANDLE handle, DAT_COUNT* allocated, DAT_COUNT* span) {
    return with_ep(handle, [&](Ep& ep) {
        const ReceiveUse use = ep.receive_use();
        if (allocated != nullptr) {
            *allocated = static_cast<DAT_COUNT>(use.allocated);
        }
        if (span != nullptr) {
            *span = static_cast<DAT_COUNT>(use.span);
        }
        return kSuccess;
    });
}

DAT_RETURN ep_set_watermark(DAT_EP_HANDLE handle, DAT_COUNT soft, DAT_COUNT hard) {
    return with_ep(handle, [&](Ep& ep) {
        static_assert(static_cast<std::uint32_t>(DAT_WATERMARK_INFINITE) == Watermarks::kInfinite);
        if (soft < DAT_WATERMARK_INFINITE || hard < DAT_WATERMARK_INFINITE) {
            return wrong_argument(soft < DAT_WATERMARK_INFINITE ? 2 : 3);
        }
        ep.set_watermarks({static_cast<std::uint32_t>(soft), static_cast<std::uint32_t>(hard)});
        return kSuccess;
    });
}

DAT_RETURN ep_free(DAT_EP_HANDLE handle) {
    // Its service point refers to it.
    const DAT_RETURN reserved = with_ep(handle, [](const Ep& ep) {
        const EpState now = ep.state();
        return now == EpState::kReserved || now == EpState::kPassive ? wrong_state(now) : kSuccess;
    });
    if (reserved != kSuccess) {
        return reserved;
    }
    return free_object<Ep>(handle, DAT_INVALID_HANDLE_EP, DAT_NO_SUBTYPE);
}

} // namespace

void add_ep_functions(DAT_PROVIDER& table) noexcept {
    table.ep_create_func = ep_create;
    table.ep_create_with_srq_func = ep_create_with_srq;
    table.ep_query_func = ep_query;
    table.ep_modify_func = ep_modify;
    table.ep_get_status_func = ep_get_status;
    table.ep_recv_query_func = ep_recv_query;
    table.ep_set_watermark_func = ep_set_watermark;
    table.ep_free_func = ep_free;
}

} // namespace sluice::dapl
