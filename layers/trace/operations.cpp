// SPDX-License-Identifier: BSD-3-Clause
#include "layers/trace/operations.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "layers/trace/calls.hpp"
#include "layers/trace/recorder.hpp"

namespace sluice::layers::trace {

namespace {

using file::Kind;

struct Operations {
    decltype(ibv_context_ops::poll_cq) poll_cq = nullptr;
    decltype(ibv_context_ops::post_send) post_send = nullptr;
    decltype(ibv_context_ops::post_recv) post_recv = nullptr;
    decltype(ibv_context_ops::post_srq_recv) post_srq_recv = nullptr;
    decltype(verbs_context::create_qp_ex) create_qp_ex = nullptr;
    decltype(verbs_context::create_cq_ex) create_cq_ex = nullptr;
    bool operator==(const Operations&) const = default;
};

constinit Sets<Operations> providers;

// What has no memory may have anything there, and what is refused, too.
std::uint32_t bytes_of(const ibv_sge* pieces, int count) noexcept {
    constexpr int kMostPieces = 256;
    std::uint32_t bytes = 0;
    for (int i = 0; pieces != nullptr && i < count && count <= kMostPieces; ++i) {
        bytes += pieces[i].length;
    }
    return bytes;
}

std::uint32_t bytes_of(const ibv_send_wr& work) noexcept {
    const bool has_memory = work.opcode != IBV_WR_LOCAL_INV && work.opcode != IBV_WR_BIND_MW;
    return has_memory ? bytes_of(work.sg_list, work.num_sge) : 0;
}

// How many of LIST the device hasn't taken.
template<typename Work>
std::uint64_t count_from(const Work* bad) noexcept {
    std::uint64_t count = 0;
    for (; bad != nullptr; bad = bad->next) {
        ++count;
    }
    return count;
}

template<typename Work>
void note_refused(int error, Work** bad, std::uint32_t queue, const ibv_context* context,
                  std::uint8_t flags) noexcept {
    if (error != 0 && bad != nullptr) [[unlikely]] {
        record({.time_ns = now_ns(),
                .id = count_from(*bad),
                .bytes = 0,
                .queue_pair = queue,
                .device = tag_of(context),
                .kind = Kind::kRefused,
                .code = 0,
                .status = 0,
                .flags = flags});
    }
}

// The requests are looked at before the device has them: behind that they may be gone.
void record_receives(const ibv_recv_wr* list, Kind kind, std::uint32_t queue, std::uint32_t device) noexcept {
    const std::uint64_t now = now_ns();
    for (; list != nullptr; list = list->next) {
        record({.time_ns = now,
                .id = list->wr_id,
                .bytes = bytes_of(list->sg_list, list->num_sge),
                .queue_pair = queue,
                .device = device,
                .kind = kind,
                .code = 0,
                .status = 0,
                .flags = file::kSignaled});
    }
}

template<std::size_t kSet>
int post_send(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) noexcept {
    const std::uint64_t now = now_ns();
    const std::uint32_t device = tag_of(qp->context);
    const std::uint32_t number = qp->qp_num;
    for (const ibv_send_wr* work = list; work != nullptr; work = work->next) {
        const unsigned flags = work->send_flags;
        record({.time_ns = now,
                .id = work->wr_id,
                .bytes = bytes_of(*work),
                .queue_pair = number,
                .device = device,
                .kind = Kind::kPost,
                .code = static_cast<std::uint8_t>(work->opcode),
                .status = 0,
                .flags = static_cast<std::uint8_t>(((flags & IBV_SEND_SIGNALED) != 0 ? file::kSignaled : 0) |
                                                   ((flags & IBV_SEND_INLINE) != 0 ? file::kInline : 0))});
    }
    const int error = providers[kSet].post_send(qp, list, bad);
    note_refused(error, bad, number, qp->context, 0);
    return error;
}

template<std::size_t kSet>
int post_recv(ibv_qp* qp, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept {
    record_receives(list, Kind::kReceive, qp->qp_num, tag_of(qp->context));
    const int error = providers[kSet].post_recv(qp, list, bad);
    note_refused(error, bad, qp->qp_num, qp->context, file::kOfReceives);
    return error;
}

template<std::size_t kSet>
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept {
    record_receives(list, Kind::kSharedReceive, tag_of(srq), tag_of(srq->context));
    const int error = providers[kSet].post_srq_recv(srq, list, bad);
    note_refused(error, bad, tag_of(srq), srq->context, file::kOfShared);
    return error;
}

template<std::size_t kSet>
int poll_cq(ibv_cq* cq, int most, ibv_wc* completions) noexcept {
    const int count = providers[kSet].poll_cq(cq, most, completions);
    if (count > 0) {
        const std::uint64_t now = now_ns();
        const std::uint32_t device = tag_of(cq->context);
        for (const ibv_wc* each = completions; each != completions + count; ++each) {
            const bool is_right = each->status == IBV_WC_SUCCESS;
            record({.time_ns = now,
                    .id = each->wr_id,
                    .bytes = is_right ? each->byte_len : 0,
                    .queue_pair = each->qp_num,
                    .device = device,
                    .kind = Kind::kCompletion,
                    .code = static_cast<std::uint8_t>(is_right ? each->opcode : 0),
                    .status = static_cast<std::uint8_t>(each->status),
                    .flags = 0});
        }
    }
    return count;
}

template<std::size_t kSet>
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* how) noexcept {
    ibv_qp* const made = providers[kSet].create_qp_ex(context, how);
    if (made != nullptr) {
        take_pair(made, how->qp_type, how->sq_sig_all != 0, how->srq);
        // Of others ibv_qp_to_qp_ex() must not be asked: siw's structure is no beginning of that.
        if ((how->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
            take_over(made);
        }
    }
    return made;
}

template<std::size_t kSet>
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* how) noexcept {
    ibv_cq_ex* const made = providers[kSet].create_cq_ex(context, how);
    if (made != nullptr) {
        take_over(made);
    }
    return made;
}

template<std::size_t... kSet>
constexpr std::array<Operations, kMostSets> make_ours(std::index_sequence<kSet...> /*of*/) {
    return {Operations{&poll_cq<kSet>, &post_send<kSet>, &post_recv<kSet>, &post_srq_recv<kSet>,
                       &create_qp_ex<kSet>, &create_cq_ex<kSet>}...};
}
constexpr std::array<Operations, kMostSets> kOurs = make_ours(std::make_index_sequence<kMostSets>());

bool is_ours(const ibv_context& context) noexcept {
    return std::ranges::any_of(kOurs,
                               [&](const Operations& each) { return each.poll_cq == context.ops.poll_cq; });
}

// A context that is made for an older interface has less of it. Null: it lacks MEMBER.
template<typename Function>
Function* find_extended(ibv_context& context, Function verbs_context::*member) noexcept {
    verbs_context* const extended = verbs_get_ctx(&context);
    if (extended == nullptr) {
        return nullptr;
    }
    const auto* const base = reinterpret_cast<const char*>(extended);
    const auto* const at = reinterpret_cast<const char*>(&(extended->*member));
    const std::size_t needed = sizeof *extended - static_cast<std::size_t>(at - base);
    return extended->sz >= needed ? &(extended->*member) : nullptr;
}

template<typename Function>
void put(Function* slot, std::type_identity_t<Function> ours) noexcept {
    if (slot != nullptr && *slot != nullptr) {
        *slot = ours;
    }
}

void exchange_all(ibv_context& context) noexcept {
    auto* const create_pair = find_extended(context, &verbs_context::create_qp_ex);
    auto* const create_queue = find_extended(context, &verbs_context::create_cq_ex);
    const std::optional<std::size_t> number =
        providers.number_of({.poll_cq = context.ops.poll_cq,
                             .post_send = context.ops.post_send,
                             .post_recv = context.ops.post_recv,
                             .post_srq_recv = context.ops.post_srq_recv,
                             .create_qp_ex = create_pair != nullptr ? *create_pair : nullptr,
                             .create_cq_ex = create_queue != nullptr ? *create_queue : nullptr});
    if (!number) {
        tell_unseen(&context);
        return;
    }
    const Operations& ours = kOurs[*number];
    put(&context.ops.poll_cq, ours.poll_cq);
    put(&context.ops.post_send, ours.post_send);
    put(&context.ops.post_recv, ours.post_recv);
    put(&context.ops.post_srq_recv, ours.post_srq_recv);
    put(create_pair, ours.create_qp_ex);
    put(create_queue, ours.create_cq_ex);
}

// Its name is in the place of numbers, as far as there is room.
void record_device(const ibv_context* context) noexcept {
    file::Event event{};
    std::array<char, 16> name{};
    static_assert(offsetof(file::Event, queue_pair) + 4 - offsetof(file::Event, id) == name.size());
    if (context->device != nullptr) {
        std::copy_n(context->device->name, strnlen(context->device->name, name.size()), name.begin());
    }
    std::memcpy(reinterpret_cast<char*>(&event) + offsetof(file::Event, id), name.data(), name.size());
    event.time_ns = now_ns();
    event.device = tag_of(context);
    event.kind = Kind::kDevice;
    record(event);
}

} // namespace

void tell_unseen(const ibv_context* context) noexcept {
    record({.time_ns = now_ns(),
            .id = 0,
            .bytes = 0,
            .queue_pair = 0,
            .device = tag_of(context),
            .kind = Kind::kUnseen,
            .code = 0,
            .status = 0,
            .flags = 0});
}

void take_over(ibv_context* context) noexcept {
    if (context == nullptr || is_ours(*context)) {
        return;
    }
    record_device(context);
    exchange_all(*context);
}

void take_pair(ibv_qp* made, ibv_qp_type type, bool signals_all, const ibv_srq* shared) noexcept {
    record({.time_ns = now_ns(),
            .id = 0,
            .bytes = shared != nullptr ? tag_of(shared) : 0,
            .queue_pair = made->qp_num,
            .device = tag_of(made->context),
            .kind = Kind::kQueuePair,
            .code = static_cast<std::uint8_t>(type),
            .status = 0,
            .flags = signals_all ? file::kSignaled : std::uint8_t{0}});
}

} // namespace sluice::layers::trace
