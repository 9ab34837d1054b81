// SPDX-License-Identifier: BSD-3-Clause
//
// Requests that are posted by one call for what shall be done, and others for the memory (ibv_wr_*), and
// completion queues that are polled in steps. A request's event is written by the first call; those for the
// memory put its bytes there.
#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include "layers/hooks/next.hpp"
#include "layers/trace/calls.hpp"
#include "layers/trace/operations.hpp"
#include "layers/trace/recorder.hpp"

namespace sluice::layers::trace {

namespace {

using file::Kind;

constinit hooks::Next<ibv_qp_ex*(ibv_qp*)> to_extended("ibv_qp_to_qp_ex");

struct Building {
    decltype(ibv_qp_ex::wr_atomic_cmp_swp) atomic_cmp_swp = nullptr;
    decltype(ibv_qp_ex::wr_atomic_fetch_add) atomic_fetch_add = nullptr;
    decltype(ibv_qp_ex::wr_bind_mw) bind_mw = nullptr;
    decltype(ibv_qp_ex::wr_local_inv) local_inv = nullptr;
    decltype(ibv_qp_ex::wr_rdma_read) rdma_read = nullptr;
    decltype(ibv_qp_ex::wr_rdma_write) rdma_write = nullptr;
    decltype(ibv_qp_ex::wr_rdma_write_imm) rdma_write_imm = nullptr;
    decltype(ibv_qp_ex::wr_send) send = nullptr;
    decltype(ibv_qp_ex::wr_send_imm) send_imm = nullptr;
    decltype(ibv_qp_ex::wr_send_inv) send_inv = nullptr;
    decltype(ibv_qp_ex::wr_send_tso) send_tso = nullptr;
    decltype(ibv_qp_ex::wr_atomic_write) atomic_write = nullptr;
    decltype(ibv_qp_ex::wr_set_inline_data) set_inline_data = nullptr;
    decltype(ibv_qp_ex::wr_set_inline_data_list) set_inline_data_list = nullptr;
    decltype(ibv_qp_ex::wr_set_sge) set_sge = nullptr;
    decltype(ibv_qp_ex::wr_set_sge_list) set_sge_list = nullptr;
    decltype(ibv_qp_ex::wr_start) start = nullptr;
    decltype(ibv_qp_ex::wr_complete) complete = nullptr;
    decltype(ibv_qp_ex::wr_abort) abort = nullptr;
    bool operator==(const Building&) const = default;
};

// Calls OF(ours, the object's) for each function.
template<typename Calls, typename Object, typename Of>
void for_each_call(Calls& calls, Object& qp, Of&& of) noexcept {
    of(calls.atomic_cmp_swp, qp.wr_atomic_cmp_swp);
    of(calls.atomic_fetch_add, qp.wr_atomic_fetch_add);
    of(calls.bind_mw, qp.wr_bind_mw);
    of(calls.local_inv, qp.wr_local_inv);
    of(calls.rdma_read, qp.wr_rdma_read);
    of(calls.rdma_write, qp.wr_rdma_write);
    of(calls.rdma_write_imm, qp.wr_rdma_write_imm);
    of(calls.send, qp.wr_send);
    of(calls.send_imm, qp.wr_send_imm);
    of(calls.send_inv, qp.wr_send_inv);
    of(calls.send_tso, qp.wr_send_tso);
    of(calls.atomic_write, qp.wr_atomic_write);
    of(calls.set_inline_data, qp.wr_set_inline_data);
    of(calls.set_inline_data_list, qp.wr_set_inline_data_list);
    of(calls.set_sge, qp.wr_set_sge);
    of(calls.set_sge_list, qp.wr_set_sge_list);
    of(calls.start, qp.wr_start);
    of(calls.complete, qp.wr_complete);
    of(calls.abort, qp.wr_abort);
}

constinit Sets<Building> builders;

void begin(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t bytes = 0) noexcept {
    Writing& to = writing;
    const std::uint8_t flags = static_cast<std::uint8_t>(
        ((qp->wr_flags & IBV_SEND_SIGNALED) != 0 ? file::kSignaled : 0) | (to.is_first ? file::kFirst : 0));
    to.is_first = false;
    to.built = record({.time_ns = to.built_ns,
                       .id = qp->wr_id,
                       .bytes = bytes,
                       .queue_pair = qp->qp_base.qp_num,
                       .device = tag_of(qp->qp_base.context),
                       .kind = Kind::kPost,
                       .code = static_cast<std::uint8_t>(opcode),
                       .status = 0,
                       .flags = flags});
}

void put_bytes(const ibv_qp_ex* qp, std::size_t bytes, bool is_inline) noexcept {
    file::Event* const built = writing.built;
    if (built != nullptr && built->queue_pair == qp->qp_base.qp_num) {
        built->bytes = static_cast<std::uint32_t>(bytes);
        built->flags = static_cast<std::uint8_t>(built->flags | (is_inline ? file::kInline : 0));
    }
}

void refuse_built(const ibv_qp_ex* qp) noexcept {
    record({.time_ns = now_ns(),
            .id = file::kAllSince,
            .bytes = 0,
            .queue_pair = qp->qp_base.qp_num,
            .device = tag_of(qp->qp_base.context),
            .kind = Kind::kRefused,
            .code = 0,
            .status = 0,
            .flags = 0});
}

template<std::size_t kSet>
struct Built {
    static void atomic_cmp_swp(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, std::uint64_t compare,
                               std::uint64_t swap) noexcept {
        begin(qp, IBV_WR_ATOMIC_CMP_AND_SWP, 8);
        builders[kSet].atomic_cmp_swp(qp, key, address, compare, swap);
    }
    static void atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address,
                                 std::uint64_t add) noexcept {
        begin(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
        builders[kSet].atomic_fetch_add(qp, key, address, add);
    }
    static void bind_mw(ibv_qp_ex* qp, ibv_mw* window, std::uint32_t key,
                        const ibv_mw_bind_info* how) noexcept {
        begin(qp, IBV_WR_BIND_MW);
        builders[kSet].bind_mw(qp, window, key, how);
    }
    static void local_inv(ibv_qp_ex* qp, std::uint32_t key) noexcept {
        begin(qp, IBV_WR_LOCAL_INV);
        builders[kSet].local_inv(qp, key);
    }
    static void rdma_read(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address) noexcept {
        begin(qp, IBV_WR_RDMA_READ);
        builders[kSet].rdma_read(qp, key, address);
    }
    static void rdma_write(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address) noexcept {
        begin(qp, IBV_WR_RDMA_WRITE);
        builders[kSet].rdma_write(qp, key, address);
    }
    static void rdma_write_imm(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address,
                               __be32 data) noexcept {
        begin(qp, IBV_WR_RDMA_WRITE_WITH_IMM);
        builders[kSet].rdma_write_imm(qp, key, address, data);
    }
    static void send(ibv_qp_ex* qp) noexcept {
        begin(qp, IBV_WR_SEND);
        builders[kSet].send(qp);
    }
    static void send_imm(ibv_qp_ex* qp, __be32 data) noexcept {
        begin(qp, IBV_WR_SEND_WITH_IMM);
        builders[kSet].send_imm(qp, data);
    }
    static void send_inv(ibv_qp_ex* qp, std::uint32_t key) noexcept {
        begin(qp, IBV_WR_SEND_WITH_INV);
        builders[kSet].send_inv(qp, key);
    }
    static void send_tso(ibv_qp_ex* qp, void* header, std::uint16_t bytes, std::uint16_t segment) noexcept {
        begin(qp, IBV_WR_TSO);
        builders[kSet].send_tso(qp, header, bytes, segment);
    }
    static void atomic_write(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address,
                             const void* data) noexcept {
        begin(qp, IBV_WR_ATOMIC_WRITE, 8);
        builders[kSet].atomic_write(qp, key, address, data);
    }
    static void set_inline_data(ibv_qp_ex* qp, void* data, std::size_t bytes) noexcept {
        put_bytes(qp, bytes, true);
        builders[kSet].set_inline_data(qp, data, bytes);
    }
    static void set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) noexcept {
        std::size_t bytes = 0;
        for (const ibv_data_buf& each : std::span(list, count)) {
            bytes += each.length;
        }
        put_bytes(qp, bytes, true);
        builders[kSet].set_inline_data_list(qp, count, list);
    }
    static void set_sge(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address,
                        std::uint32_t bytes) noexcept {
        put_bytes(qp, bytes, false);
        builders[kSet].set_sge(qp, key, address, bytes);
    }
    static void set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* pieces) noexcept {
        std::size_t bytes = 0;
        for (const ibv_sge& each : std::span(pieces, pieces != nullptr ? count : 0)) {
            bytes += each.length;
        }
        put_bytes(qp, bytes, false);
        builders[kSet].set_sge_list(qp, count, pieces);
    }
    static void start(ibv_qp_ex* qp) noexcept {
        writing.built_ns = now_ns();
        writing.is_first = true;
        builders[kSet].start(qp);
    }
    static int complete(ibv_qp_ex* qp) noexcept {
        const int error = builders[kSet].complete(qp);
        if (error != 0) {
            refuse_built(qp); // all or none
        }
        return error;
    }
    static void abort(ibv_qp_ex* qp) noexcept {
        refuse_built(qp);
        builders[kSet].abort(qp);
    }

    static constexpr Building kCalls = {&atomic_cmp_swp,
                                        &atomic_fetch_add,
                                        &bind_mw,
                                        &local_inv,
                                        &rdma_read,
                                        &rdma_write,
                                        &rdma_write_imm,
                                        &send,
                                        &send_imm,
                                        &send_inv,
                                        &send_tso,
                                        &atomic_write,
                                        &set_inline_data,
                                        &set_inline_data_list,
                                        &set_sge,
                                        &set_sge_list,
                                        &start,
                                        &complete,
                                        &abort};
};

// ---- polling in steps

struct Stepping {
    decltype(ibv_cq_ex::start_poll) start_poll = nullptr;
    decltype(ibv_cq_ex::next_poll) next_poll = nullptr;
    decltype(ibv_cq_ex::read_opcode) read_opcode = nullptr;
    decltype(ibv_cq_ex::read_qp_num) read_qp_num = nullptr; // null: nobody asked for it, as of the next one
    decltype(ibv_cq_ex::read_byte_len) read_byte_len = nullptr;
    bool operator==(const Stepping&) const = default;
};

constinit Sets<Stepping> steppers;

void record_current(const Stepping& real, ibv_cq_ex* polled) noexcept {
    const bool is_right = polled->status == IBV_WC_SUCCESS;
    const bool has_pair = real.read_qp_num != nullptr;
    record({.time_ns = now_ns(),
            .id = polled->wr_id,
            .bytes = is_right && real.read_byte_len != nullptr ? real.read_byte_len(polled) : 0,
            .queue_pair = has_pair ? real.read_qp_num(polled) : 0,
            .device = tag_of(polled->context),
            .kind = Kind::kCompletion,
            .code = static_cast<std::uint8_t>(
                is_right && real.read_opcode != nullptr ? real.read_opcode(polled) : 0),
            .status = static_cast<std::uint8_t>(polled->status),
            .flags = has_pair ? std::uint8_t{0} : file::kNoQueuePair});
}

template<std::size_t kSet>
int start_poll(ibv_cq_ex* polled, ibv_poll_cq_attr* how) noexcept {
    const int error = steppers[kSet].start_poll(polled, how);
    if (error == 0) {
        record_current(steppers[kSet], polled);
    }
    return error;
}

template<std::size_t kSet>
int next_poll(ibv_cq_ex* polled) noexcept {
    const int error = steppers[kSet].next_poll(polled);
    if (error == 0) {
        record_current(steppers[kSet], polled);
    }
    return error;
}

struct OurSteps {
    decltype(ibv_cq_ex::start_poll) start_poll;
    decltype(ibv_cq_ex::next_poll) next_poll;
};

template<std::size_t... kSet>
constexpr std::array<Building, kMostSets> make_builders(std::index_sequence<kSet...> /*of*/) {
    return {Built<kSet>::kCalls...};
}
template<std::size_t... kSet>
constexpr std::array<OurSteps, kMostSets> make_steppers(std::index_sequence<kSet...> /*of*/) {
    return {OurSteps{&start_poll<kSet>, &next_poll<kSet>}...};
}
constexpr auto kOurBuilders = make_builders(std::make_index_sequence<kMostSets>());
constexpr auto kOurSteppers = make_steppers(std::make_index_sequence<kMostSets>());

} // namespace

void take_over(ibv_qp* made) noexcept {
    ibv_qp_ex* const extended = to_extended.call(static_cast<ibv_qp_ex*>(nullptr), made);
    if (extended == nullptr || extended->wr_start == nullptr) {
        return;
    }
    Building real;
    for_each_call(real, *extended, [](auto& kept, const auto& theirs) { kept = theirs; });
    const std::optional<std::size_t> number = builders.number_of(real);
    if (!number) {
        tell_unseen(made->context);
        return;
    }
    for_each_call(kOurBuilders[*number], *extended,
                  [](const auto& ours, auto& theirs) { theirs = theirs != nullptr ? ours : nullptr; });
}

void record_flush(ibv_qp_ex* qp, std::size_t bytes) noexcept {
    constexpr auto kFlush = static_cast<ibv_wr_opcode>(14); // IBV_WR_FLUSH of later headers
    begin(qp, kFlush, static_cast<std::uint32_t>(bytes));
}

void take_over(ibv_cq_ex* made) noexcept {
    if (made->start_poll == nullptr) {
        return;
    }
    const std::optional<std::size_t> number = steppers.number_of({.start_poll = made->start_poll,
                                                                  .next_poll = made->next_poll,
                                                                  .read_opcode = made->read_opcode,
                                                                  .read_qp_num = made->read_qp_num,
                                                                  .read_byte_len = made->read_byte_len});
    if (!number) {
        tell_unseen(made->context);
        return;
    }
    made->start_poll = kOurSteppers[*number].start_poll;
    made->next_poll = made->next_poll != nullptr ? kOurSteppers[*number].next_poll : nullptr;
}

} // namespace sluice::layers::trace
