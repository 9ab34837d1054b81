// SPDX-License-Identifier: BSD-3-Clause
//
// Event dispatchers.
#include "udapl/provider/dat_lifetime.hpp"
#include "udapl/provider/dat_version.hpp"
#include "udapl/provider/evd.hpp"
#include "udapl/provider/sync_check.hpp"

namespace sluice::dapl {

namespace {

static_assert(kSoftwareStream == DAT_EVD_SOFTWARE_FLAG && kRequestStream == DAT_EVD_CR_FLAG &&
              kDtoStream == DAT_EVD_DTO_FLAG && kConnectionStream == DAT_EVD_CONNECTION_FLAG &&
              kBindStream == DAT_EVD_RMR_BIND_FLAG && kAsyncStream == DAT_EVD_ASYNC_FLAG);
static_assert(kForever == DAT_TIMEOUT_INFINITE);

DAT_RETURN to_dat(EvdAnswer answer) noexcept {
    switch (answer) {
    case EvdAnswer::kDone:
        return kSuccess;
    case EvdAnswer::kEmpty:
        return failure(DAT_QUEUE_EMPTY);
    case EvdAnswer::kFull:
        return failure(DAT_QUEUE_FULL);
    case EvdAnswer::kTimedOut:
        return failure(DAT_TIMEOUT_EXPIRED);
    case EvdAnswer::kInterrupted:
        return failure(DAT_INTERRUPTED_CALL, DAT_SUB_INTERRUPTED);
    case EvdAnswer::kAborted:
        return failure(DAT_ABORT);
    case EvdAnswer::kHasWaiter:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER);
    case EvdAnswer::kUnwaitable:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_UNWAITABLE);
    case EvdAnswer::kTooManyHeld:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_IN_USE);
    case EvdAnswer::kBadThreshold:
        return wrong_argument(3);
    case EvdAnswer::kNoThreshold:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_CONFIG_THRESHOLD);
    case EvdAnswer::kNoMemory:
        return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    }
    return failure(DAT_INTERNAL_ERROR);
}

DAT_EVENT_NUMBER number_of(EventKind kind) noexcept {
    switch (kind) {
    case EventKind::kSoftware:
        return DAT_SOFTWARE_EVENT;
    case EventKind::kEvdOverflow:
        return DAT_ASYNC_ERROR_EVD_OVERFLOW;
    case EventKind::kEpBroken:
    case EventKind::kEpHeldTooMany: // its reason says more
    case EventKind::kEpLastReceive:
        return DAT_ASYNC_ERROR_EP_BROKEN;
    case EventKind::kSrqLow: // DAT has no numbers for these: handle and reason say more
    case EventKind::kSrqBroken:
        return DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR;
    case EventKind::kIaGone:
        return DAT_ASYNC_ERROR_IA_CATASTROPHIC;
    case EventKind::kBind:
        return DAT_RMR_BIND_COMPLETION_EVENT;
    case EventKind::kDto:
        return DAT_DTO_COMPLETION_EVENT;
    case EventKind::kEstablished:
        return DAT_CONNECTION_EVENT_ESTABLISHED;
    case EventKind::kPeerRejected:
        return DAT_CONNECTION_EVENT_PEER_REJECTED;
    case EventKind::kNonPeerRejected:
        return DAT_CONNECTION_EVENT_NON_PEER_REJECTED;
    case EventKind::kAcceptError:
        return DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR;
    case EventKind::kDisconnected:
        return DAT_CONNECTION_EVENT_DISCONNECTED;
    case EventKind::kBroken:
        return DAT_CONNECTION_EVENT_BROKEN;
    case EventKind::kTimedOut:
        return DAT_CONNECTION_EVENT_TIMED_OUT;
    case EventKind::kUnreachable:
        return DAT_CONNECTION_EVENT_UNREACHABLE;
    case EventKind::kRequest:
        return DAT_CONNECTION_REQUEST_EVENT;
    }
    return DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR;
}

void convert_other(const Event& event, DAT_EVD_HANDLE evd, DAT_EVENT& converted) noexcept {
    converted = {};
    converted.evd_handle = evd;
    converted.event_number = number_of(event.kind);
    switch (event.kind) {
    case EventKind::kSoftware:
        converted.event_data.software_event_data.pointer = event.object;
        return;
    case EventKind::kEvdOverflow:
        converted.event_data.asynch_error_event_data = {event.object, DAT_EVD_OVERFLOW_ERROR};
        return;
    case EventKind::kEpBroken:
        converted.event_data.asynch_error_event_data = {event.object, DAT_EP_TRANSFER_TO_ERROR};
        return;
    case EventKind::kEpLastReceive:
        converted.event_data.asynch_error_event_data = {event.object, DAT_EP_OTHER_ERROR};
        return;
    case EventKind::kSrqLow:
        converted.event_data.asynch_error_event_data = {event.object, DAT_SRQ_LOW_WATERMARK_EVENT};
        return;
    case EventKind::kSrqBroken:
        converted.event_data.asynch_error_event_data = {event.object, DAT_SRQ_TRANSFER_TO_ERROR};
        return;
    case EventKind::kEpHeldTooMany:
        converted.event_data.asynch_error_event_data = {event.object, DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT};
        return;
    case EventKind::kIaGone:
        converted.event_data.asynch_error_event_data = {as_programs_know(event.object),
                                                        DAT_IA_CATASTROPHIC_ERROR};
        return;
    case EventKind::kBind: {
        DAT_RMR_BIND_COMPLETION_EVENT_DATA& data = converted.event_data.rmr_completion_event_data;
        data.rmr_handle = event.object;
        data.user_cookie.as_64 = event.cookie;
        data.status = static_cast<DAT_RMR_BIND_COMPLETION_STATUS>(event.status);
        return;
    }
    case EventKind::kDto: // to_dat()'s
        return;
    case EventKind::kRequest: {
        DAT_CR_ARRIVAL_EVENT_DATA& data = converted.event_data.cr_arrival_event_data;
        data.sp_handle.psp_handle = event.source;
        data.conn_qual = event.cookie;
        data.cr_handle = event.object;
        if (const Result<Pin<Evd>> pinned = handles().get<Evd>(evd)) {
            data.local_ia_address_ptr =
                const_cast<DAT_IA_ADDRESS_PTR>((*pinned)->ia().device().address().get()); // NOLINT
        }
        return;
    }
    case EventKind::kEstablished:
    case EventKind::kPeerRejected:
    case EventKind::kNonPeerRejected:
    case EventKind::kAcceptError:
    case EventKind::kDisconnected:
    case EventKind::kBroken:
    case EventKind::kTimedOut:
    case EventKind::kUnreachable: {
        DAT_CONNECTION_EVENT_DATA& data = converted.event_data.connect_event_data;
        data.ep_handle = event.object;
        data.private_data_size = static_cast<DAT_COUNT>(event.length);
        data.private_data = const_cast<void*>(event.data); // NOLINT: as DAT has it
        return;
    }
    }
}

// What a program asks for most often is converted in place. Of the union no more is written than it has a
// meaning.
void to_dat(const Event& event, DAT_EVD_HANDLE evd, DAT_EVENT& converted) noexcept {
    if (event.kind != EventKind::kDto) [[unlikely]] {
        convert_other(event, evd, converted);
        return;
    }
    converted.evd_handle = evd;
    converted.event_number = DAT_DTO_COMPLETION_EVENT;
    DAT_DTO_COMPLETION_EVENT_DATA& data = converted.event_data.dto_completion_event_data;
    data.ep_handle = event.object;
    data.user_cookie.as_64 = event.cookie;
    data.status = static_cast<DAT_DTO_COMPLETION_STATUS>(event.status);
    data.transfered_length = static_cast<decltype(data.transfered_length)>(event.length);
    add_own(event, converted);
}

// Calls FUNCTION with the dispatcher that HANDLE names. Inline, because dequeuing is little more than this.
template<typename Function>
[[gnu::always_inline]] inline DAT_RETURN with_evd(DAT_EVD_HANDLE handle, Function&& function) {
    const Result<Pin<Evd>> evd = handles().get<Evd>(handle);
    return evd ? function(**evd) : wrong_handle(DAT_NO_SUBTYPE);
}

// No stream of asynchronous errors goes with another; and there must be one.
bool is_stream_set(unsigned streams) noexcept {
    return streams != 0 && is_mask(streams, kEveryStream) &&
           ((streams & kAsyncStream) == 0 || streams == kAsyncStream);
}

// The CNO that HANDLE names; empty for none. False: it names none of IA's.
bool find_cno(DAT_CNO_HANDLE handle, const IaContext& ia, Ref<Cno>& found) noexcept {
    if (handle == DAT_HANDLE_NULL) {
        return true;
    }
    const Result<Pin<Cno>> cno = handles().get<Cno>(handle);
    if (!cno || &(*cno)->ia() != &ia) {
        return false;
    }
    found = Ref<Cno>(cno->get());
    return static_cast<bool>(found);
}

DAT_RETURN evd_create(DAT_IA_HANDLE ia_handle, DAT_COUNT length, DAT_CNO_HANDLE cno_handle,
                      DAT_EVD_FLAGS flags, DAT_EVD_HANDLE* evd_handle) {
    return Dat::answer([&]() -> DAT_RETURN {
        Result<Pin<Ia>> ia = handles().get<Ia>(ia_handle);
        if (!ia) {
            return wrong_handle(DAT_INVALID_HANDLE_IA);
        }
        if (length <= 0) {
            return wrong_argument(2);
        }
        if (length > kMaxEvdLength) {
            return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD);
        }
        Ref<Cno> cno;
        if (!find_cno(cno_handle, **ia, cno)) {
            return wrong_handle(DAT_INVALID_HANDLE_CNO);
        }
        if (!is_stream_set(static_cast<unsigned>(flags))) {
            return wrong_argument(4);
        }
        if (evd_handle == nullptr) {
            return wrong_argument(5);
        }
        return adopt(**ia, Evd::make(**ia, length, static_cast<unsigned>(flags), std::move(cno)), evd_handle);
    });
}

DAT_RETURN evd_modify_cno(DAT_EVD_HANDLE evd_handle, DAT_CNO_HANDLE cno_handle) {
    return with_evd(evd_handle, [&](Evd& evd) {
        Ref<Cno> cno;
        if (!find_cno(cno_handle, evd.ia(), cno)) {
            return wrong_handle(DAT_INVALID_HANDLE_CNO);
        }
        evd.set_cno(std::move(cno));
        return kSuccess;
    });
}

unsigned config_of(NotifyModel model) noexcept {
    switch (model) {
    case NotifyModel::kEach:
        return DAT_EVD_STATE_CONFIG_THRESHOLD;
    case NotifyModel::kUnlessQuiet:
        return DAT_EVD_STATE_CONFIG_NOTIFY;
    case NotifyModel::kSolicited:
        return DAT_EVD_STATE_CONFIG_SOLICITED;
    }
    return DAT_EVD_STATE_CONFIG_THRESHOLD;
}

DAT_RETURN evd_query(DAT_EVD_HANDLE evd_handle, DAT_EVD_PARAM_MASK mask, DAT_EVD_PARAM* param) {
    return with_evd(evd_handle, [&](Evd& evd) {
        if (!is_mask(mask, DAT_EVD_FIELD_ALL)) {
            return wrong_argument(2);
        }
        if (param == nullptr) {
            return wrong_argument(3);
        }
        const EvdView view = evd.view();
        const unsigned state = (view.is_enabled ? DAT_EVD_STATE_ENABLED : DAT_EVD_STATE_DISABLED) |
                               (view.is_waitable ? DAT_EVD_STATE_WAITABLE : DAT_EVD_STATE_UNWAITABLE) |
                               config_of(view.model);
        *param = {};
        param->ia_handle = as_programs_know(evd.ia().handle());
        param->evd_qlen = view.length;
        param->evd_state = static_cast<DAT_EVD_STATE>(state);
        param->cno_handle = view.cno;
        param->evd_flags = static_cast<DAT_EVD_FLAGS>(evd.streams());
        return kSuccess;
    });
}

DAT_RETURN evd_enable(DAT_EVD_HANDLE handle) {
    return with_evd(handle, [](Evd& evd) {
        evd.enable(true);
        return kSuccess;
    });
}

DAT_RETURN evd_disable(DAT_EVD_HANDLE handle) {
    return with_evd(handle, [](Evd& evd) {
        evd.enable(false);
        return kSuccess;
    });
}

DAT_RETURN evd_set_unwaitable(DAT_EVD_HANDLE handle) {
    return with_evd(handle, [](Evd& evd) {
        evd.set_waitable(false);
        return kSuccess;
    });
}

DAT_RETURN evd_clear_unwaitable(DAT_EVD_HANDLE handle) {
    return with_evd(handle, [](Evd& evd) {
        evd.set_waitable(true);
        return kSuccess;
    });
}

DAT_RETURN evd_wait(DAT_EVD_HANDLE handle, DAT_TIMEOUT timeout, DAT_COUNT threshold, DAT_EVENT* event,
                    DAT_COUNT* nmore) {
    return with_evd(handle, [&](Evd& evd) {
        if (event == nullptr || nmore == nullptr) {
            return wrong_argument(event == nullptr ? 4 : 5);
        }
        int left = 0;
        const EvdAnswer answer = evd.wait(
            timeout, threshold, [&](const Event& taken) { to_dat(taken, handle, *event); }, left);
        if (answer == EvdAnswer::kDone || answer == EvdAnswer::kTimedOut) {
            *nmore = left;
        }
        return to_dat(answer);
    });
}

DAT_RETURN evd_dequeue(DAT_EVD_HANDLE handle, DAT_EVENT* event) {
    return with_evd(handle, [&](Evd& evd) {
        if (event == nullptr) {
            return wrong_argument(2);
        }
        return to_dat(evd.dequeue([&](const Event& taken) { to_dat(taken, handle, *event); }));
    });
}

DAT_RETURN evd_post_se(DAT_EVD_HANDLE handle, const DAT_EVENT* event) {
    return with_evd(handle, [&](Evd& evd) {
        if (event == nullptr || event->event_number != DAT_SOFTWARE_EVENT) {
            return wrong_argument(2);
        }
        if ((evd.streams() & kSoftwareStream) == 0) {
            return wrong_argument(1);
        }
        return to_dat(evd.post(Event{EventKind::kSoftware, event->event_data.software_event_data.pointer}));
    });
}

DAT_RETURN evd_resize(DAT_EVD_HANDLE handle, DAT_COUNT length) {
    return with_evd(handle, [&](Evd& evd) {
        if (length <= 0) {
            return wrong_argument(2);
        }
        if (length > kMaxEvdLength) {
            return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD);
        }
        return Dat::answer([&] { return to_dat(evd.resize(length)); });
    });
}

DAT_RETURN evd_free(DAT_EVD_HANDLE handle) {
    const bool has_waiter = [&] {
        const Result<Pin<Evd>> evd = handles().get<Evd>(handle);
        return evd && (*evd)->has_waiter();
    }();
    return has_waiter ? failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER)
                      : free_object<Evd>(handle, DAT_NO_SUBTYPE, DAT_INVALID_STATE_EVD_IN_USE);
}

// With an event the program may learn that a peer has written.
DAT_RETURN checked_wait(DAT_EVD_HANDLE handle, DAT_TIMEOUT timeout, DAT_COUNT threshold, DAT_EVENT* event,
                        DAT_COUNT* nmore) {
    const DAT_RETURN status = evd_wait(handle, timeout, threshold, event, nmore);
    if (status == kSuccess) {
        SyncCheck::wanted()->on_event("dat_evd_wait");
    }
    return status;
}

DAT_RETURN checked_dequeue(DAT_EVD_HANDLE handle, DAT_EVENT* event) {
    const DAT_RETURN status = evd_dequeue(handle, event);
    if (status == kSuccess) {
        SyncCheck::wanted()->on_event("dat_evd_dequeue");
    }
    return status;
}

} // namespace

void add_evd_functions(DAT_PROVIDER& table) noexcept {
    table.evd_create_func = evd_create;
    table.evd_query_func = evd_query;
    table.evd_modify_cno_func = evd_modify_cno;
    table.evd_enable_func = evd_enable;
    table.evd_disable_func = evd_disable;
    table.evd_wait_func = evd_wait;
    table.evd_resize_func = evd_resize;
    table.evd_post_se_func = evd_post_se;
    table.evd_dequeue_func = evd_dequeue;
    table.evd_free_func = evd_free;
    table.evd_set_unwaitable_func = evd_set_unwaitable;
    table.evd_clear_unwaitable_func = evd_clear_unwaitable;
    if (SyncCheck::wanted() != nullptr) {
        table.evd_wait_func = checked_wait;
        table.evd_dequeue_func = checked_dequeue;
    }
}

} // namespace sluice::dapl
