// SPDX-License-Identifier: BSD-3-Clause
#include "provider/common/removal.hpp"

#include <time.h>

#include <cstdio>
#include <cstring>

#include "core/log.hpp"

namespace sluice::provider {

namespace {

constexpr std::int64_t kLookEveryMs = 100;

std::int64_t now_ms() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

} // namespace

Removal::~Removal() {
    if (file_ >= 0) {
        kernel_.close(file_);
    }
}

// A file that was opened shows that its device is gone by ENODEV. Its name alone wouldn't: a
// program may have changed its root directory meanwhile, and see no sysfs at all.
void Removal::watch(const ibv_device& device, const DriverVerbs& verbs, bool imported) noexcept {
    char path[sizeof device.dev_path + sizeof "/dev"];
    std::snprintf(path, sizeof path, "%s/dev", device.dev_path);
    file_ = kernel_.open(path);
    verbs_ = &verbs;
    reports_ = !imported;
}

bool Removal::is_time() noexcept {
    std::int64_t next = next_look_ms_.load(std::memory_order_relaxed);
    const std::int64_t now = now_ms();
    return now >= next &&
           next_look_ms_.compare_exchange_strong(next, now + kLookEveryMs, std::memory_order_relaxed);
}

bool Removal::begins() noexcept {
    if (file_ < 0 || begun()) {
        return false;
    }
    char byte = 0;
    return kernel_.pread(file_, &byte, sizeof byte) < 0 && errno == ENODEV && !begun_.exchange(true);
}

void Removal::report(ibv_context* context) noexcept {
    if (!reports_) {
        return;
    }
    if (const int error = make_event(context)) {
        SLUICE_LOG(kError, "provider", "no event reports that %s was removed: %s", context->device->name,
                   std::strerror(error));
    }
}

// The kernel's own file of events is what a program waits at, and only the kernel can put
// something there. It does when a completion queue is overrun: so we overrun one.
int Removal::make_event(ibv_context* context) noexcept {
    pd_ = verbs_->alloc_pd(context);
    if (pd_ == nullptr) {
        return errno;
    }
    ibv_cq* cq = verbs_->create_cq(context, 1, nullptr, 0);
    if (cq == nullptr) {
        return errno;
    }
    cq_.store(cq, std::memory_order_release); // partner: translate(), maybe in another thread
    ibv_qp_init_attr attr{};
    attr.send_cq = cq;
    attr.recv_cq = cq;
    attr.cap = {.max_send_wr = 1,
                .max_recv_wr = static_cast<std::uint32_t>(cq->cqe) + 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    attr.qp_type = IBV_QPT_RC;
    qp_ = verbs_->create_qp(pd_, &attr);
    return qp_ != nullptr ? overrun() : errno;
}

// One receive more than the queue holds, all flushed.
int Removal::overrun() noexcept {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    if (const int error = verbs_->modify_qp(
            qp_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) {
        return error;
    }
    ibv_recv_wr wr{};
    ibv_recv_wr* bad_wr = nullptr;
    for (int i = 0; i <= cq_.load(std::memory_order_relaxed)->cqe; ++i) {
        if (const int error = verbs_->post_recv(qp_, &wr, &bad_wr)) {
            return error;
        }
    }
    attr.qp_state = IBV_QPS_ERR;
    return verbs_->modify_qp(qp_, &attr, IBV_QP_STATE);
}

void Removal::translate(ibv_async_event& event) noexcept {
    ibv_cq* cq = cq_.load(std::memory_order_acquire); // partner: make_event()
    if (event.event_type != IBV_EVENT_CQ_ERR || cq == nullptr || event.element.cq != cq) {
        return;
    }
    // The program will acknowledge another event than the kernel has counted for the queue.
    pthread_mutex_lock(&cq->mutex);
    ++cq->async_events_completed;
    pthread_mutex_unlock(&cq->mutex);
    event = {};
    event.event_type = IBV_EVENT_DEVICE_FATAL;
}

void Removal::clean_up() noexcept {
    if (qp_ != nullptr) {
        verbs_->destroy_qp(qp_);
    }
    if (ibv_cq* cq = cq_.load(std::memory_order_relaxed)) {
        verbs_->destroy_cq(cq);
    }
    if (pd_ != nullptr) {
        verbs_->dealloc_pd(pd_);
    }
}

} // namespace sluice::provider
