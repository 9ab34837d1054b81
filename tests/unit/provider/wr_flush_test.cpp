// SPDX-License-Identifier: BSD-3-Clause
//
// The flush operation on a libibverbs that has a place for it, and on one that hasn't.
#include "provider/wr_flush.hpp"

#include "provider/rxe/context.hpp"
#include "provider/rxe/verbs.hpp"
#include "tests/unit/provider/opened_device.hpp"

using namespace sluice::provider;
using namespace sluice::provider::testing;
using sluice::abi::Slot;

namespace {

constexpr std::uint64_t kWithFlush = 1ULL << 11;
constexpr FlushRange kRange{.rkey = 6, .remote_addr = 0x2000, .len_bytes = 64, .type = 1, .level = 0};

struct Rig {
    Rig(const char* library, std::uint64_t ops) : device(rxe::open, false, library) {
        device.kernel.device_flags = sluice::kDeviceFlushGlobal;
        pd = device.call<ibv_pd*(ibv_context*)>(Slot::alloc_pd, device.context());
        cq = rxe::create_cq(device.context(), 7, nullptr, 0);
        ibv_qp_init_attr_ex attr{};
        attr.send_cq = cq;
        attr.recv_cq = cq;
        attr.cap = {
            .max_send_wr = 7, .max_recv_wr = 7, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
        attr.qp_type = IBV_QPT_RC;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.pd = pd;
        attr.send_ops_flags = ops;
        qp = rxe::create_qp_ex(device.context(), &attr);
        assert_non_null(qp);
        ex = reinterpret_cast<ibv_qp_ex*>(qp);
        ibv_qp_attr state{};
        state.qp_state = IBV_QPS_RTS;
        assert_int_equal(rxe::modify_qp(qp, &state, IBV_QP_STATE), 0);
    }
    ~Rig() {
        assert_int_equal(rxe::destroy_qp(qp), 0);
        assert_int_equal(rxe::destroy_cq(cq), 0);
        assert_int_equal(device.call<int(ibv_pd*)>(Slot::dealloc_pd, pd), 0);
    }
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;

    OpenedDevice device;
    ibv_pd* pd = nullptr;
    ibv_cq* cq = nullptr;
    ibv_qp* qp = nullptr;
    ibv_qp_ex* ex = nullptr;
};

void expect_flush_in_ring(const char* library) {
    Rig rig(library, IBV_QP_EX_WITH_SEND | kWithFlush);
    rig.ex->wr_start(rig.ex);
    rig.ex->wr_id = 12;
    assert_int_equal(wr_flush(rig.ex, kRange), 0);
    assert_int_equal(rig.ex->wr_complete(rig.ex), 0);
    const auto& wqe = *reinterpret_cast<rxe_send_wqe*>(rig.device.kernel.ring(2).element(0));
    assert_int_equal(wqe.wr.wr_id, 12);
    assert_int_equal(wqe.wr.opcode, sluice::kWrFlush);
    rxe::FlushRequest request{};
    memcpy(&request, &wqe.wr.wr, sizeof request);
    assert_int_equal(request.remote_addr, 0x2000);
    assert_int_equal(request.length, 64);
    assert_int_equal(request.rkey, 6);
    assert_int_equal(request.type, 1);
}

TEST(wr_flush__library_has_no_place_for_it__added) {
    expect_flush_in_ring("v44");
}

TEST(wr_flush__library_has_a_place_for_it__added) {
    expect_flush_in_ring("v45");
}

TEST(wr_flush__not_asked_for_when_made__eopnotsupp_and_nothing_added) {
    Rig rig("v44", IBV_QP_EX_WITH_SEND);
    rig.ex->wr_start(rig.ex);
    assert_int_equal(wr_flush(rig.ex, kRange), EOPNOTSUPP);
    rig.ex->wr_send(rig.ex);
    assert_int_equal(rig.ex->wr_complete(rig.ex), 0);
    assert_int_equal(rig.device.kernel.ring(2).header().producer_index, 1);
}

FlushRange seen{};

void foreign_flush(ibv_qp_ex* /*qp*/, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t len_bytes,
                   std::uint8_t type, std::uint8_t level) {
    seen = {.rkey = rkey, .remote_addr = remote_addr, .len_bytes = len_bytes, .type = type, .level = level};
}

// A queue pair of somebody else's device, in a program that has this libibverbs.
void expect_foreign(const char* library, int expected) {
    const Rig rig(library, IBV_QP_EX_WITH_SEND);
    ibv_context context{};
    alignas(8) std::byte memory[sizeof(sluice::abi::VerbsQp)]{};
    auto* ex = reinterpret_cast<ibv_qp_ex*>(memory);
    ex->qp_base.context = &context;
    auto* function = foreign_flush;
    memcpy(memory + sluice::abi::kQpFlushOffset, static_cast<const void*>(&function), sizeof function);
    seen = {};
    assert_int_equal(wr_flush(ex, kRange), expected);
    assert_int_equal(seen.remote_addr, expected == 0 ? 0x2000 : 0);
}

TEST(wr_flush__queue_pair_of_another_provider__its_function_is_called) {
    expect_foreign("v45", 0);
}

TEST(wr_flush__another_provider_in_a_library_without_the_place__eopnotsupp) {
    expect_foreign("v44", EOPNOTSUPP);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
