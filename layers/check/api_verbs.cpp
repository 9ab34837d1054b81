// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libibverbs: calls that make or end an object, but for memory, and those about events.
#include <infiniband/verbs.h>

#include <algorithm>

#include "core/boundary.hpp"
#include "layers/check/keep.hpp"
#include "layers/check/lifetimes.hpp"
#include "layers/check/operations.hpp"
#include "layers/check/registry.hpp"
#include "layers/check/touches.hpp"
#include "layers/check/waits.hpp"
#include "layers/hooks/next.hpp"
#include "layers/hooks/opening.hpp"

namespace check = sluice::layers::check;

using check::here;
using check::keep_unless;
using check::Place;
using check::Registry;
using sluice::at_boundary;
using sluice::Result;
using sluice::layers::hooks::Next;

namespace {

Registry& all() noexcept {
    return Registry::instance();
}

template<typename Call>
ibv_context* take_context(Call&& call) noexcept {
    const auto [opened, is_outermost] = sluice::layers::hooks::open_by(call);
    if (is_outermost) {
        check::take_over(opened);
    }
    return opened;
}

// Whether the address is that of the port that it is reached by.
bool is_own_address(ibv_context* context, const ibv_ah_attr& attr) noexcept {
    static constinit Next<int(ibv_context*, std::uint8_t, int, ibv_gid*)> query("ibv_query_gid");
    ibv_gid own{};
    return attr.is_global != 0 && query.call(-1, context, attr.port_num, attr.grh.sgid_index, &own) == 0 &&
           std::ranges::equal(own.raw, attr.grh.dgid.raw);
}

ibv_ah* take_handle(ibv_ah* made, const ibv_pd* pd, bool is_own = false) noexcept {
    if (made != nullptr) {
        (void)at_boundary("check", [&]() -> Result<void> {
            const auto handle = std::make_shared<check::AddressHandle>();
            handle->object = made;
            handle->pd = pd;
            handle->context = all().contexts.find(made->context);
            handle->made = here();
            handle->is_own_address = is_own;
            if (handle->context != nullptr) {
                all().address_handles.put(made, handle);
            }
            return {};
        });
    }
    return made;
}

// When the process ends, the last of ours.
struct AtEnd {
    ~AtEnd() {
        check::touches::tell_all();
        check::check_exit();
    }
};
const AtEnd kAtEnd;

// Apart: where it is called, nothing is to be destroyed.
[[gnu::noinline]] void take_event_of(ibv_cq* cq) noexcept {
    if (const auto known = all().queues.find(cq)) {
        check::take_event(*known);
    }
}

} // namespace

extern "C" {
#pragma GCC visibility push(default)

// ---- devices

ibv_context* ibv_open_device(ibv_device* device) {
    static constinit Next<ibv_context*(ibv_device*)> real("ibv_open_device");
    return take_context([&] { return real.call(static_cast<ibv_context*>(nullptr), device); });
}

ibv_context* ibv_import_device(int cmd_fd) {
    static constinit Next<ibv_context*(int)> real("ibv_import_device");
    return take_context([&] { return real.call(static_cast<ibv_context*>(nullptr), cmd_fd); });
}

ibv_context* sluice_open_uroce(const char* name) {
    static constinit Next<ibv_context*(const char*)> real("sluice_open_uroce");
    return take_context([&] { return real.call(static_cast<ibv_context*>(nullptr), name); });
}

int ibv_close_device(ibv_context* context) {
    static constinit Next<int(ibv_context*)> real("ibv_close_device");
    check::check_close(context, here());
    const auto known = all().contexts.take(context);
    return keep_unless(real.call(-1, context), all().contexts, context, known);
}

// ---- domains

ibv_pd* ibv_alloc_pd(ibv_context* context) {
    static constinit Next<ibv_pd*(ibv_context*)> real("ibv_alloc_pd");
    ibv_pd* const made = real.call(static_cast<ibv_pd*>(nullptr), context);
    if (made != nullptr) {
        (void)at_boundary("check", [&]() -> Result<void> {
            all().domains.put(made, std::make_shared<check::Domain>(check::Domain{
                                        .pd = made, .root = made, .context = context, .made = here()}));
            return {};
        });
    }
    return made;
}

int ibv_dealloc_pd(ibv_pd* pd) {
    static constinit Next<int(ibv_pd*)> real("ibv_dealloc_pd");
    const auto known = all().domains.take(pd);
    const int error = keep_unless(real.call(ENOSYS, pd), all().domains, pd, known);
    if (error == EBUSY && known != nullptr) {
        check::tell_busy(*known, here());
    }
    return error;
}

// ---- completions

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
    static constinit Next<ibv_comp_channel*(ibv_context*)> real("ibv_create_comp_channel");
    ibv_comp_channel* const made = real.call(static_cast<ibv_comp_channel*>(nullptr), context);
    if (made != nullptr) {
        (void)at_boundary("check", [&]() -> Result<void> {
            all().channels.put(made,
                               std::make_shared<check::Channel>(check::Channel{
                                   .object = made, .context = context, .fd = made->fd, .made = here()}));
            return {};
        });
    }
    return made;
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
    static constinit Next<int(ibv_comp_channel*)> real("ibv_destroy_comp_channel");
    const auto known = all().channels.take(channel);
    const int error = keep_unless(real.call(ENOSYS, channel), all().channels, channel, known);
    if (error == EBUSY && known != nullptr) {
        check::tell_busy(*known, here());
    }
    return error;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cookie, ibv_comp_channel* channel,
                      int vector) {
    static constinit Next<ibv_cq*(ibv_context*, int, void*, ibv_comp_channel*, int)> real("ibv_create_cq");
    ibv_cq* const made = real.call(static_cast<ibv_cq*>(nullptr), context, entries, cookie, channel, vector);
    if (made != nullptr) {
        check::take_queue(made, nullptr, here());
    }
    return made;
}

int ibv_destroy_cq(ibv_cq* cq) {
    static constinit Next<int(ibv_cq*)> real("ibv_destroy_cq");
    const auto known = all().queues.take(cq);
    if (known != nullptr) {
        check::check_end(*known, here());
    }
    const int error = keep_unless(real.call(ENOSYS, cq), all().queues, cq, known);
    if (error == EBUSY && known != nullptr) {
        check::tell_busy(*known, here());
    }
    return error;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cookie) {
    static constinit Next<int(ibv_comp_channel*, ibv_cq**, void**)> real("ibv_get_cq_event");
    check::check_blocking(channel);
    const int error = real.call(-1, channel, cq, cookie); // a thread may be cancelled in there
    if (error == 0) {
        take_event_of(*cq);
    }
    return error;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
    static constinit Next<void(ibv_cq*, unsigned int)> real("ibv_ack_cq_events");
    if (const auto known = all().queues.find(cq)) {
        known->events_unacknowledged.fetch_sub(count);
    }
    if (const auto function = real.get()) {
        function(cq, count);
    }
}

// ---- queue pairs

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* how) {
    static constinit Next<ibv_qp*(ibv_pd*, ibv_qp_init_attr*)> real("ibv_create_qp");
    ibv_qp* const made = real.call(static_cast<ibv_qp*>(nullptr), pd, how);
    if (made != nullptr) {
        ibv_qp_init_attr_ex full{};
        full.send_cq = how->send_cq;
        full.recv_cq = how->recv_cq;
        full.srq = how->srq;
        full.cap = how->cap;
        full.qp_type = how->qp_type;
        full.sq_sig_all = how->sq_sig_all;
        check::take_pair(made, full, here());
    }
    return made;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
    static constinit Next<int(ibv_qp*, ibv_qp_attr*, int)> real("ibv_modify_qp");
    const int error = real.call(ENOSYS, qp, attr, mask);
    const auto known = error == 0 ? all().pairs.find(qp) : nullptr;
    if (known != nullptr && (mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
        known->reads_agreed = here();
        known->reads_at_a_time = attr->max_rd_atomic;
    }
    if (known != nullptr && (mask & IBV_QP_QKEY) != 0) {
        known->q_key_set = here();
        known->q_key = attr->qkey;
    }
    if (known != nullptr && (mask & IBV_QP_STATE) != 0) {
        check::take_state(*known, attr->qp_state);
    }
    return error;
}

int ibv_destroy_qp(ibv_qp* qp) {
    static constinit Next<int(ibv_qp*)> real("ibv_destroy_qp");
    const Place place = here();
    const auto known = all().pairs.take(qp);
    if (known != nullptr) {
        all().pairs_by_number.forget({known->context->verbs, known->number}, known.get());
    }
    const int error = keep_unless(real.call(ENOSYS, qp), all().pairs, qp, known);
    if (known != nullptr && error == 0) {
        check::take_end(*known, place);
    } else if (known != nullptr) {
        (void)keep_unless(error, all().pairs_by_number, check::NumberOf{known->context->verbs, known->number},
                          known);
    }
    return error;
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* how) {
    static constinit Next<ibv_srq*(ibv_pd*, ibv_srq_init_attr*)> real("ibv_create_srq");
    ibv_srq* const made = real.call(static_cast<ibv_srq*>(nullptr), pd, how);
    if (made != nullptr) {
        check::take_shared_queue(made, how->attr.max_wr, pd, here());
    }
    return made;
}

int ibv_destroy_srq(ibv_srq* srq) {
    static constinit Next<int(ibv_srq*)> real("ibv_destroy_srq");
    const auto known = all().shared_queues.take(srq);
    const int error = keep_unless(real.call(ENOSYS, srq), all().shared_queues, srq, known);
    if (error == EBUSY && known != nullptr) {
        check::tell_busy(*known, here());
    }
    return error;
}

// ---- address handles

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
    static constinit Next<ibv_ah*(ibv_pd*, ibv_ah_attr*)> real("ibv_create_ah");
    ibv_ah* const made = real.call(static_cast<ibv_ah*>(nullptr), pd, attr);
    return take_handle(made, pd, made != nullptr && is_own_address(made->context, *attr));
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port) {
    static constinit Next<ibv_ah*(ibv_pd*, ibv_wc*, ibv_grh*, std::uint8_t)> real("ibv_create_ah_from_wc");
    return take_handle(real.call(static_cast<ibv_ah*>(nullptr), pd, wc, grh, port), pd);
}

int ibv_destroy_ah(ibv_ah* ah) {
    static constinit Next<int(ibv_ah*)> real("ibv_destroy_ah");
    const auto known = all().address_handles.take(ah);
    if (known != nullptr) {
        check::check_end(*known, here());
    }
    return keep_unless(real.call(ENOSYS, ah), all().address_handles, ah, known);
}

#pragma GCC visibility pop
} // extern "C"
