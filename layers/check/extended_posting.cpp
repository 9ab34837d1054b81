// SPDX-License-Identifier: BSD-3-Clause
//
// Requests that are posted by one call for what shall be done, and others for the memory (ibv_wr_*). What
// they say is put together until the next request begins, or all are complete.
#include <algorithm>
#include <atomic>
#include <cerrno>

#include "layers/check/datagram_rules.hpp"
#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/operations.hpp"
#include "layers/check/post_rules.hpp"
#include "layers/check/posting.hpp"
#include "layers/check/registry.hpp"
#include "layers/check/touches.hpp"
#include "layers/hooks/next.hpp"

namespace sluice::layers::check {

// The requests between wr_start() and wr_complete().
struct Building {
    Place place = nullptr;
    std::size_t count = 0; // that are kept
    bool has_current = false;
    SendParts current;
    std::array<ibv_sge, 32> pieces = {};
    ibv_mw_bind_info bind = {};
    unsigned taken_flags = 0;                  // by the request that began last
    std::atomic<const void*> thread = nullptr; // that has begun; null: nobody has
};

namespace {

constinit hooks::Next<ibv_qp_ex*(ibv_qp*)> to_extended("ibv_qp_to_qp_ex");

QueuePair& pair_of(ibv_qp_ex* qp) noexcept {
    // It lives as long as the object does, which has ours in its functions.
    return *Registry::instance().pairs.find(&qp->qp_base);
}

// The one that was being put together is whole.
void keep_current(QueuePair& pair) noexcept {
    Building& building = *pair.building;
    if (building.has_current) {
        building.has_current = false;
        check_datagram(pair, building.current, building.place);
        const LockGuard lock(pair.mutex);
        prepare_send(pair, building.current, building.place);
        ++building.count;
    }
}

void begin(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t key = 0, std::uint64_t address = 0) noexcept {
    QueuePair& pair = pair_of(qp);
    keep_current(pair);
    pair.building->has_current = true;
    pair.building->taken_flags = qp->wr_flags;
    pair.building->current = {.opcode = opcode,
                              .id = qp->wr_id,
                              .flags = qp->wr_flags & ~static_cast<unsigned>(IBV_SEND_INLINE),
                              .remote_address = address,
                              .remote_key = key};
}

void set_pieces(ibv_qp_ex* qp, const ibv_sge* pieces, std::size_t count) noexcept {
    Building& building = *pair_of(qp).building;
    const std::size_t kept = std::min(count, building.pieces.size());
    std::copy_n(pieces, kept, building.pieces.begin());
    building.current.pieces = building.pieces.data();
    building.current.count = count <= kept ? count : kept;
}

const ibv_qp_ex& functions_of(ibv_qp_ex* qp) noexcept {
    return *pair_of(qp).real;
}

void wr_atomic_cmp_swp(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, std::uint64_t compare,
                       std::uint64_t swap) noexcept {
    begin(qp, IBV_WR_ATOMIC_CMP_AND_SWP, key, address);
    functions_of(qp).wr_atomic_cmp_swp(qp, key, address, compare, swap);
}

void wr_atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address,
                         std::uint64_t add) noexcept {
    begin(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, key, address);
    functions_of(qp).wr_atomic_fetch_add(qp, key, address, add);
}

void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* window, std::uint32_t key, const ibv_mw_bind_info* how) noexcept {
    begin(qp, IBV_WR_BIND_MW);
    pair_of(qp).building->current.bind = &pair_of(qp).building->bind;
    pair_of(qp).building->bind = *how;
    functions_of(qp).wr_bind_mw(qp, window, key, how);
}

void wr_local_inv(ibv_qp_ex* qp, std::uint32_t key) noexcept {
    begin(qp, IBV_WR_LOCAL_INV);
    functions_of(qp).wr_local_inv(qp, key);
}

void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address) noexcept {
    begin(qp, IBV_WR_RDMA_READ, key, address);
    functions_of(qp).wr_rdma_read(qp, key, address);
}

void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address) noexcept {
    begin(qp, IBV_WR_RDMA_WRITE, key, address);
    functions_of(qp).wr_rdma_write(qp, key, address);
}

void wr_rdma_write_imm(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, __be32 data) noexcept {
    begin(qp, IBV_WR_RDMA_WRITE_WITH_IMM, key, address);
    functions_of(qp).wr_rdma_write_imm(qp, key, address, data);
}

void wr_send(ibv_qp_ex* qp) noexcept {
    begin(qp, IBV_WR_SEND);
    functions_of(qp).wr_send(qp);
}

void wr_send_imm(ibv_qp_ex* qp, __be32 data) noexcept {
    begin(qp, IBV_WR_SEND_WITH_IMM);
    functions_of(qp).wr_send_imm(qp, data);
}

void wr_send_inv(ibv_qp_ex* qp, std::uint32_t key) noexcept {
    begin(qp, IBV_WR_SEND_WITH_INV);
    functions_of(qp).wr_send_inv(qp, key);
}

void wr_send_tso(ibv_qp_ex* qp, void* header, std::uint16_t bytes, std::uint16_t segment) noexcept {
    begin(qp, IBV_WR_TSO);
    functions_of(qp).wr_send_tso(qp, header, bytes, segment);
}

void wr_atomic_write(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, const void* data) noexcept {
    begin(qp, IBV_WR_RDMA_WRITE, key, address);
    pair_of(qp).building->current.inline_bytes = 8; // it is taken at once
    functions_of(qp).wr_atomic_write(qp, key, address, data);
}

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* handle, std::uint32_t number, std::uint32_t key) noexcept {
    SendParts& current = pair_of(qp).building->current;
    current.address_handle = handle;
    current.remote_number = number;
    current.remote_q_key = key;
    functions_of(qp).wr_set_ud_addr(qp, handle, number, key);
}

void wr_set_inline_data(ibv_qp_ex* qp, void* data, std::size_t bytes) noexcept {
    pair_of(qp).building->current.inline_bytes = bytes;
    functions_of(qp).wr_set_inline_data(qp, data, bytes);
}

void wr_set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) noexcept {
    std::size_t bytes = 0;
    for (const ibv_data_buf& each : std::span(list, count)) {
        bytes += each.length;
    }
    pair_of(qp).building->current.inline_bytes = bytes;
    functions_of(qp).wr_set_inline_data_list(qp, count, list);
}

void wr_set_sge(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, std::uint32_t bytes) noexcept {
    const ibv_sge piece{.addr = address, .length = bytes, .lkey = key};
    set_pieces(qp, &piece, 1);
    functions_of(qp).wr_set_sge(qp, key, address, bytes);
}

void wr_set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* pieces) noexcept {
    set_pieces(qp, pieces, count);
    functions_of(qp).wr_set_sge_list(qp, count, pieces);
}

// This thread has it, and hasn't completed the last batch: its call waits for itself, where there is a lock.
void check_left(const QueuePair& pair, Place place) noexcept {
    if (pair.building->thread.load() != this_thread()) {
        return;
    }
    tell("batch-left-open", {{"the next one begins", place}, {"the batch was begun", pair.building->place}},
         [&] {
             return Told{
                 name_of(pair),
                 "this thread has begun a batch of requests, and neither completed it nor given it up: "
                 "ibv_wr_start() waits for that without end",
                 "call ibv_wr_complete() or ibv_wr_abort() on each way out behind ibv_wr_start()"};
         });
}

// Flags that came when no request took them any more.
void check_late_flags(const QueuePair& pair, const ibv_qp_ex* qp) noexcept {
    const Building& building = *pair.building;
    const unsigned late = qp->wr_flags & ~building.taken_flags;
    if (!building.has_current || late == 0) {
        return;
    }
    tell("flags-set-too-late", {{"the batch was begun", building.place}}, [&] {
        return Told{name_of(pair),
                    "wr_flags was set to " + hex(qp->wr_flags) +
                        " behind the call that began the last request, which has taken " +
                        hex(building.taken_flags),
                    "set wr_id and wr_flags before the call that begins a request (ibv_wr_send() ...)"};
    });
}

// The lock for sending is held from the start to the end, as providers hold theirs; the other one isn't,
// since the program may poll and post receives between them.
void wr_start(ibv_qp_ex* qp) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    QueuePair& pair = pair_of(qp);
    touches::tell_all();
    const Place place = here();
    check_left(pair, place);
    pair.sending.lock();
    pair.building->thread = this_thread();
    pair.building->place = place;
    pair.building->count = 0;
    pair.building->has_current = false;
    pair.real->wr_start(qp);
}

int wr_complete(ibv_qp_ex* qp) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    QueuePair& pair = pair_of(qp);
    check_late_flags(pair, qp);
    keep_current(pair);
    const touches::ForDevice calling;
    const int error = pair.real->wr_complete(qp);
    if (error != 0) {
        const LockGuard lock(pair.mutex);
        take_back_sends(pair, pair.building->count, error); // all or none
    }
    check_room(*pair.send_queue, pair.building->place);
    pair.building->thread = nullptr;
    pair.sending.unlock();
    return error;
}

void wr_abort(ibv_qp_ex* qp) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    QueuePair& pair = pair_of(qp);
    pair.building->has_current = false;
    {
        const LockGuard lock(pair.mutex);
        take_back_sends(pair, pair.building->count);
    }
    pair.real->wr_abort(qp);
    pair.building->thread = nullptr;
    pair.sending.unlock();
}

template<typename Function>
void put(Function& slot, std::type_identity_t<Function> ours) noexcept {
    if (slot != nullptr) {
        slot = ours;
    }
}

void put_all(ibv_qp_ex& qp) noexcept {
    put(qp.wr_atomic_cmp_swp, &wr_atomic_cmp_swp);
    put(qp.wr_atomic_fetch_add, &wr_atomic_fetch_add);
    put(qp.wr_bind_mw, &wr_bind_mw);
    put(qp.wr_local_inv, &wr_local_inv);
    put(qp.wr_rdma_read, &wr_rdma_read);
    put(qp.wr_rdma_write, &wr_rdma_write);
    put(qp.wr_rdma_write_imm, &wr_rdma_write_imm);
    put(qp.wr_send, &wr_send);
    put(qp.wr_send_imm, &wr_send_imm);
    put(qp.wr_send_inv, &wr_send_inv);
    put(qp.wr_send_tso, &wr_send_tso);
    put(qp.wr_atomic_write, &wr_atomic_write);
    put(qp.wr_set_ud_addr, &wr_set_ud_addr);
    put(qp.wr_set_inline_data, &wr_set_inline_data);
    put(qp.wr_set_inline_data_list, &wr_set_inline_data_list);
    put(qp.wr_set_sge, &wr_set_sge);
    put(qp.wr_set_sge_list, &wr_set_sge_list);
    put(qp.wr_start, &wr_start);
    put(qp.wr_complete, &wr_complete);
    put(qp.wr_abort, &wr_abort);
}

} // namespace

void take_over(const std::shared_ptr<QueuePair>& pair) noexcept {
    ibv_qp_ex* const extended = to_extended.call(static_cast<ibv_qp_ex*>(nullptr), pair->object);
    if (extended == nullptr || extended->wr_start == nullptr) {
        return;
    }
    pair->real = std::make_unique<const ibv_qp_ex>(*extended);
    pair->building = std::make_shared<Building>();
    put_all(*extended);
}

} // namespace sluice::layers::check
