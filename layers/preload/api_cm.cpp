// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before librdmacm: each of its functions that takes an id, a channel or an event, in the order
// of its header. What is uroce's is answered here, everything else by librdmacm.
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <algorithm>
#include <cerrno>
#include <type_traits>

#include "core/facade.hpp"
#include "core/log.hpp"
#include "layers/hooks/real.hpp"
#include "layers/preload/connection.hpp"
#include "layers/preload/endpoint.hpp"
#include "layers/preload/events.hpp"
#include "layers/preload/queue_pair.hpp"

namespace hooks = sluice::layers::hooks;
namespace preload = sluice::layers::preload;

using hooks::RealCm;
using preload::Answer;
using preload::Channel;
using preload::Channels;
using preload::Id;
using preload::Ids;
using sluice::at_boundary;
using sluice::Error;
using sluice::ErrorKind;
using sluice::Facade;
using sluice::Result;
using sluice::Where;

namespace {

// -1 or null, with errno, in the style of librdmacm.
void report(const Error& error, const Where& where) noexcept {
    SLUICE_LOG(kInfo, "preload", "%s: %s", where.function, error.text());
    errno = error.to_errno();
}

struct MinusOne : Facade<MinusOne> {
    using Code = int;
    static constexpr Code kDone = 0;
    static Code fail(const Error& error, const Where& where = {}) noexcept {
        report(error, where);
        return -1;
    }
};

template<typename T>
struct OrNull : Facade<OrNull<T>> {
    using Code = T*;
    static Code fail(const Error& error, const Where& where) noexcept {
        report(error, where);
        return nullptr;
    }
};

// What librdmacm answers; ENOSYS where it is not there, or has no such function.
template<typename Function, typename... Arguments>
auto real(Function RealCm::*function, Arguments... arguments) noexcept {
    using Answered = std::invoke_result_t<Function, Arguments...>;
    const RealCm* const cm = hooks::real_cm();
    if (cm != nullptr && cm->*function != nullptr) {
        return (cm->*function)(arguments...);
    }
    errno = ENOSYS;
    if constexpr (std::is_pointer_v<Answered>) {
        return Answered{nullptr};
    } else if constexpr (!std::is_void_v<Answered>) {
        return Answered{-1};
    }
}

// Null if that is librdmacm's.
Id* find_ours(rdma_cm_id* id) noexcept {
    Id* const known = Ids::instance().find(id);
    return known != nullptr && known->is_ours() ? known : nullptr;
}

// A BODY that may find that the kernel is meant; then ELSEWHERE.
template<typename Body, typename Elsewhere>
int answer_or(Body&& body, Elsewhere&& elsewhere, const Where& where = {}) noexcept {
    const Result<Answer> answered = at_boundary(where.function, [&]() -> Result<Answer> { return body(); });
    if (!answered) {
        return MinusOne::fail(answered.error(), where);
    }
    return *answered == Answer::kByKernel ? elsewhere() : MinusOne::kDone;
}

Error not_supported(const char* text) noexcept {
    return Error(ErrorKind::kNotSupported, text, EOPNOTSUPP);
}

// What the kernel has to tell must not make us wait when another thread has taken it.
Result<rdma_event_channel*> make_kernels_channel() {
    rdma_event_channel* const made = hooks::kernel_connects() ? real(&RealCm::create_event_channel) : nullptr;
    if (made != nullptr) {
        (void)fcntl(made->fd, F_SETFL, fcntl(made->fd, F_GETFL) | O_NONBLOCK);
    }
    return made;
}

Result<rdma_event_channel*> make_channel() {
    Result<rdma_event_channel*> kernels = make_kernels_channel();
    Result<std::unique_ptr<Channel>> made = Channel::make(*kernels);
    if (!made) {
        if (*kernels != nullptr) {
            real(&RealCm::destroy_event_channel, *kernels);
        }
        return std::move(made).error();
    }
    rdma_event_channel* const visible = (*made)->visible();
    preload::add_channel(*std::move(made));
    return visible;
}

// Null: a sync id's, which it will make by itself.
Result<Channel*> find_channel(rdma_event_channel* visible) {
    Channel* const channel = visible != nullptr ? Channels::instance().find(visible) : nullptr;
    if (visible != nullptr && channel == nullptr) {
        return Error(ErrorKind::kInvalidArgument, "this event channel isn't known", EINVAL);
    }
    return channel;
}

// Null-terminated; open for good, so that nothing is freed with the list but the list. uroce's devices that
// somebody else has are left out.
Result<ibv_context**> list_contexts(int* count) {
    int kernels = 0;
    ibv_context** const theirs = hooks::kernel_connects() ? real(&RealCm::get_devices, &kernels) : nullptr;
    std::vector<ibv_context*> all;
    if (theirs != nullptr) {
        all.assign(theirs, theirs + kernels);
        real(&RealCm::free_devices, theirs);
    }
    const Result<std::vector<preload::Found>> ours = preload::all_contexts();
    if (!ours && all.empty()) {
        return ours.error().clone();
    }
    for (const preload::Found& each : ours ? *ours : std::vector<preload::Found>()) {
        all.push_back(each.context);
    }
    if (count != nullptr) {
        *count = static_cast<int>(all.size());
    }
    auto list = std::make_unique<ibv_context*[]>(all.size() + 1);
    std::ranges::copy(all, list.get());
    return list.release();
}

} // namespace

extern "C" {
#pragma GCC visibility push(default)

rdma_event_channel* rdma_create_event_channel(void) {
    if (hooks::is_in_librdmacm(__builtin_return_address(0))) {
        return real(&RealCm::create_event_channel);
    }
    return OrNull<rdma_event_channel>::answer(make_channel);
}

void rdma_destroy_event_channel(rdma_event_channel* channel) {
    Channel* const ours = Channels::instance().find(channel);
    rdma_event_channel* const kernels = ours != nullptr ? ours->kernels() : channel;
    if (ours != nullptr) {
        preload::destroy_channel(channel);
    }
    if (kernels != nullptr) {
        real(&RealCm::destroy_event_channel, kernels);
    }
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space ps) {
    if (hooks::is_in_librdmacm(__builtin_return_address(0))) {
        return real(&RealCm::create_id, channel, id, context, ps);
    }
    return MinusOne::give(id, [&]() -> Result<rdma_cm_id*> {
        Result<Channel*> ours = find_channel(channel);
        return ours ? preload::make_id(*ours, context, ps) : std::move(ours).error();
    });
}

int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* res, ibv_pd* pd, ibv_qp_init_attr* qp_init_attr) {
    return answer_or([&] { return preload::create_endpoint(id, *res, pd, qp_init_attr); },
                     [&] { return real(&RealCm::create_ep, id, res, pd, qp_init_attr); });
}

void rdma_destroy_ep(rdma_cm_id* id) {
    Id* const ours = find_ours(id);
    if (ours == nullptr) {
        real(&RealCm::destroy_ep, id);
        return;
    }
    preload::destroy_queue_pair(*ours);
    preload::destroy_shared_queue(*ours);
    (void)rdma_destroy_id(id);
}

int rdma_destroy_id(rdma_cm_id* id) {
    Id* const known = Ids::instance().find(id);
    return known == nullptr ? real(&RealCm::destroy_id, id)
                            : MinusOne::answer([&] { return preload::destroy_id(*known); });
}

int rdma_bind_addr(rdma_cm_id* id, sockaddr* addr) {
    Id* const known = Ids::instance().find(id);
    const auto by_kernel = [&] { return real(&RealCm::bind_addr, id, addr); };
    return known == nullptr ? by_kernel()
                            : answer_or([&] { return preload::bind_address(*known, addr); }, by_kernel);
}

int rdma_resolve_addr(rdma_cm_id* id, sockaddr* src_addr, sockaddr* dst_addr, int timeout_ms) {
    Id* const known = Ids::instance().find(id);
    const auto by_kernel = [&] { return real(&RealCm::resolve_addr, id, src_addr, dst_addr, timeout_ms); };
    return known == nullptr
               ? by_kernel()
               : answer_or([&] { return preload::resolve_address(*known, src_addr, dst_addr); }, by_kernel);
}

int rdma_resolve_route(rdma_cm_id* id, int timeout_ms) {
    Id* const ours = find_ours(id);
    return ours == nullptr ? real(&RealCm::resolve_route, id, timeout_ms)
                           : MinusOne::answer([&] { return preload::resolve_route(*ours); });
}

int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attr) {
    Id* const ours = find_ours(id);
    return ours == nullptr ? real(&RealCm::create_qp, id, pd, attr)
                           : MinusOne::answer([&] { return preload::create_queue_pair(*ours, pd, *attr); });
}

int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attr) {
    Id* const ours = find_ours(id);
    return ours == nullptr ? real(&RealCm::create_qp_ex, id, attr)
                           : MinusOne::answer([&] { return preload::create_queue_pair(*ours, *attr); });
}

void rdma_destroy_qp(rdma_cm_id* id) {
    Id* const ours = find_ours(id);
    if (ours == nullptr) {
        real(&RealCm::destroy_qp, id);
    } else {
        preload::destroy_queue_pair(*ours);
    }
}

int rdma_connect(rdma_cm_id* id, rdma_conn_param* param) {
    Id* const ours = find_ours(id);
    return ours == nullptr ? real(&RealCm::connect, id, param)
                           : MinusOne::answer([&] { return preload::connect(*ours, param); });
}

int rdma_establish(rdma_cm_id* id) {
    Id* const ours = find_ours(id);
    return ours == nullptr ? real(&RealCm::establish, id)
                           : MinusOne::answer([&] { return preload::establish(*ours); });
}

int rdma_listen(rdma_cm_id* id, int backlog) {
    Id* const known = Ids::instance().find(id);
    const bool is_kernels = known == nullptr || (!known->is_ours() && id->verbs != nullptr);
    return is_kernels ? real(&RealCm::listen, id, backlog)
                      : MinusOne::answer([&] { return preload::listen(*known, backlog); });
}

int rdma_get_request(rdma_cm_id* listen, rdma_cm_id** id) {
    Id* const known = Ids::instance().find(listen);
    if (known == nullptr || (!known->is_ours() && known->listeners.empty())) {
        return real(&RealCm::get_request, listen, id);
    }
    return MinusOne::give(id, [&] { return preload::get_request(*known); });
}

int rdma_accept(rdma_cm_id* id, rdma_conn_param* param) {
    Id* const ours = find_ours(id);
    return ours == nullptr ? real(&RealCm::accept, id, param)
                           : MinusOne::answer([&] { return preload::accept(*ours, param); });
}

int rdma_reject(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) {
    Id* const ours = find_ours(id);
    return ours == nullptr
               ? real(&RealCm::reject, id, private_data, private_data_len)
               : MinusOne::answer([&] { return preload::reject(*ours, private_data, private_data_len); });
}

int rdma_reject_ece(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) {
    return find_ours(id) == nullptr ? real(&RealCm::reject_ece, id, private_data, private_data_len)
                                    : rdma_reject(id, private_data, private_data_len);
}

int rdma_notify(rdma_cm_id* id, ibv_event_type event) {
    Id* const ours = find_ours(id);
    return ours == nullptr ? real(&RealCm::notify, id, event)
                           : MinusOne::answer([&] { return preload::notify(*ours, event); });
}

int rdma_disconnect(rdma_cm_id* id) {
    Id* const ours = find_ours(id);
    return ours == nullptr ? real(&RealCm::disconnect, id)
                           : MinusOne::answer([&] { return preload::disconnect(*ours); });
}

int rdma_join_multicast(rdma_cm_id* id, sockaddr* addr, void* context) {
    return find_ours(id) == nullptr ? real(&RealCm::join_multicast, id, addr, context)
                                    : MinusOne::fail(not_supported("uroce has no multicast"));
}

int rdma_leave_multicast(rdma_cm_id* id, sockaddr* addr) {
    return find_ours(id) == nullptr ? real(&RealCm::leave_multicast, id, addr)
                                    : MinusOne::fail(not_supported("uroce has no multicast"));
}

int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attr, void* context) {
    return find_ours(id) == nullptr ? real(&RealCm::join_multicast_ex, id, attr, context)
                                    : MinusOne::fail(not_supported("uroce has no multicast"));
}

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
    const std::shared_ptr<Channel> ours = Channels::instance().hold(channel);
    if (ours == nullptr) {
        while (preload::was_destroyed(channel)) {
            (void)poll(nullptr, 0, -1);
        }
        return real(&RealCm::get_cm_event, channel, event);
    }
    const Result<rdma_cm_event*> next =
        at_boundary("rdma_get_cm_event", [&] { return ours->next(preload::translate); });
    if (!next) {
        errno = next.error().to_errno(); // most often EAGAIN, of which nobody wants to read
        return -1;
    }
    *event = *next;
    return 0;
}

int rdma_ack_cm_event(rdma_cm_event* event) {
    if (event == nullptr) {
        errno = EINVAL;
        return -1;
    }
    return preload::acknowledge(event) ? 0 : real(&RealCm::ack_cm_event, event);
}

ibv_context** rdma_get_devices(int* num_devices) {
    return OrNull<ibv_context*>::answer([&] { return list_contexts(num_devices); });
}

void rdma_free_devices(ibv_context** list) {
    delete[] list;
}

int rdma_set_option(rdma_cm_id* id, int level, int optname, void* optval, size_t optlen) {
    Id* const known = Ids::instance().find(id);
    if (known == nullptr) {
        return real(&RealCm::set_option, id, level, optname, optval, optlen);
    }
    // Before it has an address, it may become anybody's.
    const int ours =
        MinusOne::answer([&] { return preload::set_option(*known, level, optname, optval, optlen); });
    return known->is_ours() ? ours : real(&RealCm::set_option, id, level, optname, optval, optlen);
}

int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
    Id* const known = Ids::instance().find(id);
    if (known == nullptr) {
        Channel* const to = Channels::instance().find(channel);
        return real(&RealCm::migrate_id, id, to != nullptr ? to->kernels() : channel);
    }
    return MinusOne::answer([&]() -> Result<void> {
        Result<Channel*> ours = find_channel(channel);
        return ours ? preload::migrate_id(*known, *ours) : std::move(ours).error();
    });
}

int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo** res) {
    if (hooks::kernel_connects()) {
        return real(&RealCm::getaddrinfo, node, service, hints, res);
    }
    return MinusOne::give(res, [&] { return preload::find_addresses(node, service, hints); });
}

int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attr, int* mask) {
    Id* const ours = find_ours(id);
    return ours == nullptr
               ? real(&RealCm::init_qp_attr, id, attr, mask)
               : MinusOne::answer([&] { return preload::queue_pair_attributes(*ours, *attr, *mask); });
}

int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
    return find_ours(id) == nullptr ? real(&RealCm::set_local_ece, id, ece)
                                    : MinusOne::fail(not_supported("uroce has no vendor's options"));
}

int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
    return find_ours(id) == nullptr ? real(&RealCm::get_remote_ece, id, ece)
                                    : MinusOne::fail(not_supported("uroce has no vendor's options"));
}

int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attr) {
    Id* const ours = find_ours(id);
    return ours == nullptr ? real(&RealCm::create_srq, id, pd, attr)
                           : MinusOne::answer([&] { return preload::create_shared_queue(*ours, pd, *attr); });
}

// An extended one is for XRC, or plain.
int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attr) {
    Id* const ours = find_ours(id);
    return ours == nullptr ? real(&RealCm::create_srq_ex, id, attr)
                           : MinusOne::answer([&] { return preload::create_shared_queue(*ours, *attr); });
}

void rdma_destroy_srq(rdma_cm_id* id) {
    Id* const ours = find_ours(id);
    if (ours == nullptr) {
        real(&RealCm::destroy_srq, id);
    } else {
        preload::destroy_shared_queue(*ours);
    }
}

#pragma GCC visibility pop
} // extern "C"
