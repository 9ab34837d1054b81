// SPDX-License-Identifier: BSD-3-Clause
//
// Queue pairs: made, led through their states, asked and destroyed.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "provider/uroce/verbs/qp_attributes.hpp"
#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

namespace {

// What a queue pair belongs to: a protection domain or, XRC's receiver alone, an XRC domain.
struct Home {
    ibv_context* context = nullptr;
    ibv_pd* pd = nullptr;
    Xrcd* xrcd = nullptr;
};

bool is_receiver(const ibv_qp_init_attr& init) noexcept {
    return number_of(init.qp_type) == IBV_QPT_XRC_RECV;
}

// XRC's sender receives nothing, and its receiver sends nothing and has its receives elsewhere.
ibv_qp_init_attr used_part(const ibv_qp_init_attr& wanted) noexcept {
    ibv_qp_init_attr used = wanted;
    if (is_receiver(wanted) || number_of(wanted.qp_type) == IBV_QPT_XRC_SEND) {
        used.recv_cq = nullptr;
        used.srq = nullptr;
        used.cap.max_recv_wr = used.cap.max_recv_sge = 0;
    }
    if (is_receiver(wanted)) {
        used.send_cq = nullptr;
        used.cap = {};
    }
    return used;
}

int check(const Home& home, const ibv_qp_init_attr& init) noexcept {
    if (!type_of(number_of(init.qp_type))) {
        return EOPNOTSUPP;
    }
    const auto is_ours = [&](const auto* object) {
        return object != nullptr && object->context == home.context;
    };
    const bool sends = !is_receiver(init);
    const bool receives = sends && number_of(init.qp_type) != IBV_QPT_XRC_SEND;
    if ((sends ? home.pd == nullptr : home.xrcd == nullptr) || (sends && !is_ours(init.send_cq)) ||
        (receives && !is_ours(init.recv_cq)) || (init.srq != nullptr && !is_ours(init.srq))) {
        return EINVAL;
    }
    const ibv_qp_cap& cap = init.cap;
    const bool fits = cap.max_send_wr <= kMaxWr && cap.max_recv_wr <= kMaxWr &&
                      cap.max_send_sge <= engine::kMaxSge && cap.max_recv_sge <= engine::kMaxSge &&
                      cap.max_inline_data <= kMaxInlineBytes;
    return fits ? 0 : EINVAL;
}

// Of XRC's ends, completion queues that they never use.
engine::CompletionQueue* queue_of(ibv_cq* cq, engine::CompletionQueue* unused) noexcept {
    return cq != nullptr ? &cq_of(cq).queue : unused;
}

engine::QpConfig config_of(Qp& qp, const Home& home, const ibv_qp_init_attr& init) noexcept {
    engine::CompletionQueue* const send_cq =
        queue_of(init.send_cq, home.xrcd != nullptr ? &home.xrcd->domain->unused_cq : nullptr);
    return {.type = *type_of(number_of(init.qp_type)), // check() has looked
            .pd = home.pd != nullptr ? home.pd->handle : 0,
            .send_cq = send_cq,
            .recv_cq = queue_of(init.recv_cq, send_cq),
            .srq = init.srq != nullptr ? &srq_of(init.srq).receives : nullptr,
            .xrc_domain = home.xrcd != nullptr ? &home.xrcd->domain->queues : nullptr,
            .max_send_wr = init.cap.max_send_wr,
            .max_recv_wr = init.cap.max_recv_wr,
            .max_send_sge = init.cap.max_send_sge,
            .max_recv_sge = init.cap.max_recv_sge,
            .max_inline = init.cap.max_inline_data,
            .signal_all = init.sq_sig_all != 0,
            .blocks_own_multicast = qp.blocks_own_multicast,
            .owner = &qp};
}

// What a request may carry inline, as rxe grants it: some that nobody asked for, since programs post a few
// bytes inline without asking.
std::uint32_t granted_inline(const ibv_qp_init_attr& init) noexcept {
    const ibv_qp_cap& cap = init.cap;
    if (is_receiver(init)) {
        return 0;
    }
    constexpr std::uint32_t kLeast = 8;
    constexpr std::uint32_t kPerSge = sizeof(ibv_sge);
    static_assert(engine::kMaxSge * kPerSge <= kMaxInlineBytes);
    return std::max({cap.max_inline_data, cap.max_send_sge * kPerSge, kLeast});
}

// Adds COUNT to the users of everything that a queue pair needs.
void use_all(const Qp& qp, int count) noexcept {
    const auto use = [count](Users& users) { users.fetch_add(count, std::memory_order_acq_rel); };
    if (qp.qp.pd != nullptr) {
        use(domain_of(qp.qp.pd).users);
    }
    for (ibv_cq* const cq : {qp.init.send_cq, qp.init.recv_cq}) {
        if (cq != nullptr) {
            use(cq_of(cq).users);
        }
    }
    if (qp.init.srq != nullptr) {
        use(srq_of(qp.init.srq).users);
    }
    if (qp.xrcd != nullptr) {
        use(qp.xrcd->users);
    }
    for (CompletionCounter* const counter : qp.counters) {
        if (counter != nullptr) {
            use(counter->users);
        }
    }
}

void fill_public_part(Qp& qp, const ibv_qp_init_attr& init) noexcept {
    qp.qp.qp_context = init.qp_context;
    qp.qp.send_cq = init.send_cq;
    qp.qp.recv_cq = init.recv_cq;
    qp.qp.srq = init.srq;
    qp.qp.qp_type = init.qp_type;
    qp.qp.state = IBV_QPS_RESET;
    qp.qp.qp_num = qp.engine->qpn();
    qp.qp.handle = qp.engine->qpn();
    pthread_mutex_init(&qp.qp.mutex, nullptr);
    pthread_cond_init(&qp.qp.cond, nullptr);
}

int make_engine_part(Qp& qp, const Home& home, const ibv_qp_init_attr& init) noexcept {
    const device::Device::ProgressSession session(qp.owner().device);
    const Result<engine::QueuePair*> made = at_boundary(
        "ibv_create_qp", [&] { return session.engine().create_queue_pair(config_of(qp, home, init)); });
    if (!made) {
        SLUICE_LOG(kError, "uroce", "ibv_create_qp: %s", made.error().text());
        return made.error().to_errno();
    }
    qp.engine = *made;
    return 0;
}

// Its engine's part ends with the last handle.
void leave_engine(Qp& qp, engine::Engine& engine) noexcept {
    if (!leave_handles(qp)) {
        engine.destroy_queue_pair(*qp.engine);
    }
}

void leave_device(void* object, device::Device& device) noexcept {
    {
        const device::Device::ProgressSession session(device);
        leave_engine(*static_cast<Qp*>(object), session.engine());
    }
    device.leave_unheard_groups();
}

void complete(Qp& qp, const ibv_qp_init_attr& init) noexcept {
    fill_public_part(qp, init);
    qp.init = init;
    use_all(qp, 1);
    qp.membership.join(qp.qp.context, &qp, leave_device);
}

Qp* create(const Home& home, const ibv_qp_init_attr& wanted, std::uint32_t create_flags = 0) noexcept {
    ibv_qp_init_attr init = used_part(wanted);
    const int error = context_of(home.context).gone() ? EIO : check(home, init);
    if (error != 0) {
        return fail_with<Qp>(error);
    }
    init.cap.max_inline_data = granted_inline(init);
    std::unique_ptr<Qp> qp(new (std::nothrow) Qp(*home.context));
    if (qp == nullptr) {
        return fail_with<Qp>(ENOMEM);
    }
    qp->blocks_own_multicast = (create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0;
    if (const int failed = make_engine_part(*qp, home, init)) {
        return fail_with<Qp>(failed);
    }
    qp->qp.pd = home.pd;
    qp->xrcd = home.xrcd;
    complete(*qp, init);
    return qp.release();
}

} // namespace

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) noexcept {
    Qp* qp = create({.context = pd->context, .pd = pd}, *attr);
    if (qp == nullptr) {
        return nullptr;
    }
    attr->cap = qp->init.cap;
    qp->lock.elide(); // nobody can build requests
    return &qp->qp;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept {
    const bool is_receiver = number_of(attr->qp_type) == IBV_QPT_XRC_RECV;
    const std::uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
                                IBV_QP_INIT_ATTR_CREATE_FLAGS |
                                (is_receiver ? std::uint32_t{IBV_QP_INIT_ATTR_XRCD} : 0);
    const std::uint32_t create_flags =
        (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 ? attr->create_flags : 0;
    const std::uint32_t known_flags =
        number_of(attr->qp_type) == IBV_QPT_UD ? std::uint32_t{IBV_QP_CREATE_BLOCK_SELF_MCAST_LB} : 0;
    if ((attr->comp_mask & ~known) != 0 || (create_flags & ~known_flags) != 0) {
        return fail_with<ibv_qp>(EOPNOTSUPP);
    }
    const std::uint32_t needed = is_receiver ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
    const auto is_ours = [context](const auto* object) {
        return object != nullptr && object->context == context;
    };
    if ((attr->comp_mask & needed) == 0 || !(is_receiver ? is_ours(attr->xrcd) : is_ours(attr->pd))) {
        return fail_with<ibv_qp>(EINVAL);
    }
    const Home home = {.context = context,
                       .pd = is_receiver ? nullptr : attr->pd,
                       .xrcd = is_receiver ? &xrcd_of(attr->xrcd) : nullptr};
    const bool extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    if (extended && (attr->send_ops_flags & ~supported_wr_ops(number_of(attr->qp_type))) != 0) {
        return fail_with<ibv_qp>(EOPNOTSUPP);
    }
    Qp* qp = create(home,
                    {.qp_context = attr->qp_context,
                     .send_cq = attr->send_cq,
                     .recv_cq = attr->recv_cq,
                     .srq = attr->srq,
                     .cap = attr->cap,
                     .qp_type = attr->qp_type,
                     .sq_sig_all = attr->sq_sig_all},
                    create_flags);
    if (qp == nullptr) {
        return nullptr;
    }
    attr->cap = qp->init.cap;
    if (!extended || provider::is_single_threaded(home.pd)) {
        qp->lock.elide();
    }
    if (extended) {
        set_wr_functions(*qp, attr->send_ops_flags);
    }
    return &qp->qp;
}

ibv_qp* join_qp(Qp& known, Xrcd& xrcd, void* qp_context) noexcept {
    auto* const qp = new (std::nothrow) Qp(*xrcd.context);
    if (qp == nullptr) {
        return fail_with<ibv_qp>(ENOMEM);
    }
    qp->engine = known.engine;
    qp->xrcd = &xrcd;
    qp->next_handle = std::exchange(known.next_handle, qp);
    qp->attributes = known.attributes;
    qp->lock.elide();
    ibv_qp_init_attr init = known.init;
    init.qp_context = qp_context;
    complete(*qp, init);
    qp->qp.state = to_ibv(qp->engine->state());
    return &qp->qp;
}

namespace {

// Where packets leave from: at START if a new path begins there, or as before. Datagrams go by their address
// handles.
engine::Address local_of(const Qp& qp, const engine::Address* start) noexcept {
    const engine::Address& former = qp.engine->attributes().local;
    if (qp.engine->type() != engine::QpType::kUd && start != nullptr) {
        return *start;
    }
    return former == engine::Address{} ? qp.owner().device.where().gid : former;
}

// While this lives, no other thread takes completions out of the queue pair's queues. Made before the
// device's lock is taken; waits for a thread that has a queue open by ibv_start_poll(), unless that is the
// caller.
class HeldQueues {
  public:
    // Each thread takes the locks of two queues in the same order.
    explicit HeldQueues(const Qp& qp) noexcept SLUICE_TSA(no_thread_safety_analysis) {
        const auto [first, second] = std::minmax(qp.init.send_cq, qp.init.recv_cq, std::less<>());
        hold(first);
        hold(first != second ? second : nullptr);
    }
    ~HeldQueues() SLUICE_TSA(no_thread_safety_analysis) {
        for (const Held& held : queues_) {
            if (held.cq != nullptr && !held.is_open_here) {
                held.cq->lock.unlock();
            }
        }
    }
    HeldQueues(const HeldQueues&) = delete;
    HeldQueues& operator=(const HeldQueues&) = delete;

    // As with adapters: a program that resets or destroys a queue pair may free what its requests were about,
    // and finds their completions no more. With the device's lock. The one that the caller looks at stays.
    void forget(std::uint32_t qpn) noexcept {
        for (const Held& held : queues_) {
            if (held.cq != nullptr) {
                held.cq->queue.forget(qpn, held.is_open_here && held.cq->current != nullptr ? 1 : 0);
            }
        }
    }

  private:
    struct Held {
        Cq* cq = nullptr;
        bool is_open_here = false;
    };

    void hold(ibv_cq* ibcq) noexcept SLUICE_TSA(no_thread_safety_analysis) {
        if (ibcq == nullptr) {
            return;
        }
        Held& held = queues_[count_++];
        held = {.cq = &cq_of(ibcq), .is_open_here = cq_of(ibcq).is_open_here()};
        if (!held.is_open_here) {
            held.cq->lock.lock();
        }
    }

    std::array<Held, 2> queues_{};
    std::size_t count_ = 0;
};

// Takes the device's lock. QUEUES are held where the queue pair goes to reset.
int modify_locked(Qp& qp, const ibv_qp_attr& attr, int mask, const engine::Address* start,
                  std::optional<HeldQueues>& queues) noexcept {
    device::Device& device = qp.owner().device;
    const device::Device::ProgressSession session(device);
    const ibv_qp_state from = to_ibv(qp.engine->state());
    const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr.qp_state : from;
    int error = check_mask(qp.engine->type(), from, to, attr, mask);
    if (error == 0) {
        error = check_values(attr, mask, device);
    }
    if (error != 0) {
        return error;
    }
    ibv_qp_attr merged = qp.attributes;
    merge(merged, attr, mask);
    const Result<void> modified = at_boundary("ibv_modify_qp", [&] {
        return qp.engine->modify(*to_engine(to),
                                 to_engine(merged, qp.engine->type(), device.where(), local_of(qp, start)));
    });
    if (!modified) {
        SLUICE_LOG(kError, "uroce", "ibv_modify_qp: %s", modified.error().text());
        return modified.error().kind() == ErrorKind::kInsufficientResources ? ENOMEM : EINVAL;
    }
    for_each_handle(qp, [&](Qp& one) { one.attributes = to == IBV_QPS_RESET ? ibv_qp_attr{} : merged; });
    if (to == IBV_QPS_RTR && from != to && qp.engine->type() != engine::QpType::kUd) {
        device.watch_peer(*qp.engine);
    }
    session.engine().wake(*qp.engine);
    if (queues) {
        queues->forget(qp.qp.qp_num);
    }
    return 0;
}

} // namespace

int modify_qp(ibv_qp* ibqp, ibv_qp_attr* attr, int given_mask) noexcept {
    Qp& qp = qp_of(ibqp);
    if (qp.owner().gone()) {
        return EIO;
    }
    device::Device& device = qp.owner().device;
    const int mask = used_mask(qp.engine->type(), given_mask);
    if (!are_values(*attr, mask)) {
        return EINVAL;
    }
    if ((mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RTR) {
        const Result<void> started = device.start_progress();
        if (!started) {
            SLUICE_LOG(kError, "uroce", "ibv_modify_qp: %s", started.error().text());
            return started.error().to_errno();
        }
    }
    const engine::Address* const start =
        (mask & IBV_QP_AV) != 0 ? device.gids().at(attr->ah_attr.grh.sgid_index) : nullptr;
    if (start != nullptr) {
        if (const int error = use_address(*start, device, "ibv_modify_qp")) {
            return error;
        }
    }
    std::optional<HeldQueues> queues;
    if ((mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RESET) {
        queues.emplace(qp);
    }
    return modify_locked(qp, *attr, mask, start, queues);
}

int query_qp(ibv_qp* ibqp, ibv_qp_attr* attr, int /*mask*/, ibv_qp_init_attr* init_attr) noexcept {
    Qp& qp = qp_of(ibqp);
    if (qp.owner().gone()) {
        return EIO;
    }
    const device::Device::ProgressSession session(qp.owner().device);
    *attr = qp.attributes;
    attr->qp_state = attr->cur_qp_state = to_ibv(qp.engine->state());
    attr->path_mig_state = IBV_MIG_MIGRATED;
    attr->cap = qp.init.cap;
    attr->sq_draining = qp.engine->draining() ? 1 : 0;
    ibqp->state = attr->qp_state;
    *init_attr = qp.init;
    return 0;
}

namespace {

// How many events of QP the program has read; no more will come.
std::uint32_t end(Qp& qp) noexcept {
    HeldQueues queues(qp);
    const device::Device::ProgressSession session(qp.owner().device);
    leave_engine(qp, session.engine());
    queues.forget(qp.qp.qp_num);
    return qp.events_reported - qp.owner().events.forget(&qp.qp);
}

} // namespace

int destroy_qp(ibv_qp* ibqp) noexcept {
    Qp& qp = qp_of(ibqp);
    if (!qp.owner().gone()) {
        const std::uint32_t events_read = end(qp);
        qp.owner().device.leave_unheard_groups();
        provider::await_events(ibqp->mutex, ibqp->cond, ibqp->events_completed, events_read);
    }
    use_all(qp, -1);
    delete &qp;
    return 0;
}

} // namespace sluice::uroce::verbs
