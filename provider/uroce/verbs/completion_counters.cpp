// SPDX-License-Identifier: BSD-3-Clause
//
// Completion counters of rdma-core 65 and later. They count what this process asked for. What a peer reads
// and writes is counted by no target: a peer on this host does it without one.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>

#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

namespace {

using engine::CountedKind;

struct Operation {
    std::uint32_t bit;
    CountedKind kind;
};
constexpr std::array<Operation, engine::kCountedKinds> kOperations = {
    {{abi::kCountSend, CountedKind::kSend},
     {abi::kCountRecv, CountedKind::kReceive},
     {abi::kCountRead, CountedKind::kRead},
     {abi::kCountWrite, CountedKind::kWrite}}};
constexpr std::uint32_t kSupported = abi::kCountSend | abi::kCountRecv | abi::kCountRead | abi::kCountWrite;

CompletionCounter& counter_of(abi::CompCntr* counter) noexcept {
    return *static_cast<CompletionCounter*>(counter);
}

// XRC's receiver has several handles, and its receives are those of a shared queue's.
int check(const Qp& qp, const CompletionCounter& counter, const abi::AttachCompCntrAttr& attr) noexcept {
    if (qp.owner().gone()) {
        return EIO;
    }
    if (attr.comp_mask != 0 || attr.op_mask == 0 || counter.context != qp.qp.context) {
        return EINVAL;
    }
    return (attr.op_mask & ~kSupported) != 0 || qp.xrcd != nullptr ? EOPNOTSUPP : 0;
}

// Reading drives the device as polling does: a program with counters may never poll.
int read(CompletionCounter& counter, const std::atomic<std::uint64_t>& number,
         std::uint64_t* value) noexcept {
    if (counter.owner().gone()) {
        return EIO;
    }
    device::Device& device = counter.owner().device;
    if (device.may_progress()) {
        (void)device.poll_progress();
    }
    *value = number.load(std::memory_order_acquire);
    return 0;
}

} // namespace

// A program may know fewer capabilities than we do, or more; the rest of its structure is zero.
int query_comp_cntr_caps(ibv_context* /*context*/, abi::CompCntrCaps* caps, std::size_t caps_bytes) noexcept {
    const abi::CompCntrCaps all = {
        .max_value = UINT64_MAX, .max_counters = kMaxObjects, .supported_qp_attach_ops = kSupported};
    std::memcpy(caps, &all, std::min(caps_bytes, sizeof all));
    return 0;
}

abi::CompCntr* create_comp_cntr(ibv_context* context, abi::CompCntrInitAttr* attr) noexcept {
    if (attr->comp_mask != 0 || attr->flags != 0 ||
        (attr->type != abi::kCompCntrWrs && attr->type != abi::kCompCntrBytes)) {
        return fail_with<abi::CompCntr>(EOPNOTSUPP);
    }
    if (context_of(context).gone()) {
        return fail_with<abi::CompCntr>(EIO);
    }
    std::unique_ptr<CompletionCounter> counter(new (std::nothrow) CompletionCounter(*context));
    if (counter == nullptr) {
        return fail_with<abi::CompCntr>(ENOMEM);
    }
    counter->counts.of_bytes = attr->type == abi::kCompCntrBytes;
    counter->membership.join(counter->context);
    return counter.release();
}

int destroy_comp_cntr(abi::CompCntr* given) noexcept {
    CompletionCounter& counter = counter_of(given);
    if (counter.users.load(std::memory_order_acquire) != 0) {
        return EBUSY;
    }
    delete &counter;
    return 0;
}

int set_comp_cntr(abi::CompCntr* counter, std::uint64_t value) noexcept {
    counter_of(counter).counts.ended_well.store(value, std::memory_order_release);
    return 0;
}
int set_err_comp_cntr(abi::CompCntr* counter, std::uint64_t value) noexcept {
    counter_of(counter).counts.failed.store(value, std::memory_order_release);
    return 0;
}
int inc_comp_cntr(abi::CompCntr* counter, std::uint64_t amount) noexcept {
    counter_of(counter).counts.ended_well.fetch_add(amount, std::memory_order_acq_rel);
    return 0;
}
int inc_err_comp_cntr(abi::CompCntr* counter, std::uint64_t amount) noexcept {
    counter_of(counter).counts.failed.fetch_add(amount, std::memory_order_acq_rel);
    return 0;
}
int read_comp_cntr(abi::CompCntr* counter, std::uint64_t* value) noexcept {
    return read(counter_of(counter), counter_of(counter).counts.ended_well, value);
}
int read_err_comp_cntr(abi::CompCntr* counter, std::uint64_t* value) noexcept {
    return read(counter_of(counter), counter_of(counter).counts.failed, value);
}

int qp_attach_comp_cntr(ibv_qp* ibqp, abi::CompCntr* given, abi::AttachCompCntrAttr* attr) noexcept {
    Qp& qp = qp_of(ibqp);
    CompletionCounter& counter = counter_of(given);
    if (const int error = check(qp, counter, *attr)) {
        return error;
    }
    const device::Device::ProgressSession session(qp.owner().device);
    const engine::QpState state = qp.engine->state();
    if (state != engine::QpState::kReset && state != engine::QpState::kInit) {
        return EINVAL;
    }
    const auto is_wanted = [attr](const Operation& one) { return (attr->op_mask & one.bit) != 0; };
    engine::OperationCounters& counters = qp.engine->operation_counters();
    for (const Operation& one : kOperations) {
        if (is_wanted(one) && counters.of(one.kind) != nullptr) {
            return EBUSY;
        }
    }
    for (const Operation& one : kOperations) {
        if (is_wanted(one)) {
            counters.attach(one.kind, counter.counts);
            qp.counters[static_cast<std::size_t>(one.kind)] = &counter;
            counter.users.fetch_add(1, std::memory_order_acq_rel);
        }
    }
    return 0;
}

} // namespace sluice::uroce::verbs
