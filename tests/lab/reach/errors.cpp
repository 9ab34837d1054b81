// SPDX-License-Identifier: BSD-3-Clause
//
// Each error ends a connection of its own: the request with the status that the standard names, what is
// posted behind it flushed, the initiator's queue pair in the error state, the target's memory as it was.
#include <array>

#include "cases.hpp"

namespace reach {

namespace {

constexpr std::size_t kBlock = 65536;
constexpr std::size_t kLocal = 256;
constexpr std::size_t kTarget = 32768;
constexpr std::size_t kLen = 6000; // more than one packet
constexpr std::uint64_t kTargetTag = 7ULL << 32;

struct Fault {
    const char* name;
    ibv_wr_opcode opcode;
    ibv_wc_status status;      // at the initiator
    std::uint32_t key_change;  // added to the right key
    std::size_t offset;        // from the right address
    int region_access;         // of the target's memory
    int queue_pair_access;     // of the target's queue pair
    std::size_t receive_bytes; // what the target has posted for a send; 0: nothing
};

constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | kRemoteAccess;
constexpr int kNoWrite = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr int kNoRead = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr std::uint32_t kOtherVariant = 1;         // of the same region
constexpr std::uint32_t kOtherRegion = 0x3a5c0000; // of none
constexpr std::size_t kBeyond = kBlock - kTarget - kLen + 1;

constexpr auto kWrite = IBV_WR_RDMA_WRITE;
constexpr auto kRead = IBV_WR_RDMA_READ;
constexpr auto kAdd = IBV_WR_ATOMIC_FETCH_AND_ADD;
constexpr auto kAccess = IBV_WC_REM_ACCESS_ERR;
constexpr auto kRequest = IBV_WC_REM_INV_REQ_ERR;

constexpr Fault kFaults[] = {
    {"write with another variant of the key", kWrite, kAccess, kOtherVariant, 0, kAll, kRemoteAccess, 0},
    {"write with a key of nothing", kWrite, kAccess, kOtherRegion, 0, kAll, kRemoteAccess, 0},
    {"write beyond the region", kWrite, kAccess, 0, kBeyond, kAll, kRemoteAccess, 0},
    {"write that would wrap around", kWrite, kAccess, 0, ~std::size_t{0} - kTarget - kBlock, kAll,
     kRemoteAccess, 0},
    {"write where only reading is allowed", kWrite, kAccess, 0, 0, kNoWrite, kRemoteAccess, 0},
    {"read with another variant of the key", kRead, kAccess, kOtherVariant, 0, kAll, kRemoteAccess, 0},
    {"read with a key of nothing", kRead, kAccess, kOtherRegion, 0, kAll, kRemoteAccess, 0},
    {"read beyond the region", kRead, kAccess, 0, kBeyond, kAll, kRemoteAccess, 0},
    {"read where only writing is allowed", kRead, kAccess, 0, 0, kNoRead, kRemoteAccess, 0},
    {"atomic with another variant of the key", kAdd, kAccess, kOtherVariant, 0, kAll, kRemoteAccess, 0},
    {"atomic where it isn't allowed", kAdd, kAccess, 0, 0, kNoWrite, kRemoteAccess, 0},
    {"write through a queue pair that takes none", kWrite, kRequest, 0, 0, kAll, kNoWrite, 0},
    {"read through a queue pair that takes none", kRead, kRequest, 0, 0, kAll, kNoRead, 0},
    {"send longer than the receive", IBV_WR_SEND, kRequest, 0, 0, kAll, kRemoteAccess, kLen - 1},
    {"send that nobody receives", IBV_WR_SEND, IBV_WC_RNR_RETRY_EXC_ERR, 0, 0, kAll, kRemoteAccess, 0},
};

// For a receive that is too short, rxe answers with a remote operational error. The standard wants an
// invalid request (9.9.6.1), as from hardware.
ibv_wc_status wanted_status(const End& end, const Fault& fault) {
    return fault.receive_bytes != 0 && end.peer().kernel ? IBV_WC_REM_OP_ERR : fault.status;
}

void initiate(End& end, const Fault& fault) {
    end.paint(kLocal, kLen, 1);
    const bool atomic = fault.opcode == kAdd;
    const ibv_sge list = end.sge(kLocal, atomic ? 8 : kLen);
    ibv_send_wr wr = end.request(fault.opcode, list, kTarget);
    if (atomic) {
        wr.wr.atomic = {.remote_addr = end.peer().addr + kTarget + fault.offset,
                        .compare_add = 1,
                        .swap = 0,
                        .rkey = end.peer().rkey + fault.key_change};
    } else {
        wr.wr.rdma.remote_addr += fault.offset;
        wr.wr.rdma.rkey += fault.key_change;
    }
    wr.wr_id = 1;
    end.post(wr);
    // Behind it, and never to be done.
    const ibv_sge none = end.sge(kLocal, 8);
    ibv_send_wr next = end.request(IBV_WR_RDMA_WRITE, none, kTarget);
    next.wr_id = 2;
    ibv_send_wr* bad = nullptr;
    no_error(ibv_post_send(end.qps[0], &next, &bad), "post a request behind it");
    const ibv_wc failed = end.wait();
    equal<std::uint64_t>(failed.wr_id, 1, "the first completion");
    status_is(failed, wanted_status(end, fault), "the request");
    const ibv_wc flushed = end.wait();
    equal<std::uint64_t>(flushed.wr_id, 2, "the second completion");
    status_is(flushed, IBV_WC_WR_FLUSH_ERR, "the request behind it");
    equal<int>(end.state(), IBV_QPS_ERR, "the initiator's state");
}

void check_target(End& end, const Fault& fault) {
    if (fault.receive_bytes != 0) {
        const ibv_wc wc = end.wait();
        if (end.device.kernel) {
            require(wc.status != IBV_WC_SUCCESS, "the receive that is too short fails");
        } else {
            status_is(wc, IBV_WC_LOC_LEN_ERR, "the receive that is too short");
        }
    } else {
        end.expect(kTarget, kLen, kTargetTag, kTargetTag, "the target's memory");
    }
    // An RNR NAK tells the initiator to come again, and is no error of the responder (9.7.5.2.8).
    const ibv_qp_state wanted = fault.status == IBV_WC_RNR_RETRY_EXC_ERR ? IBV_QPS_RTS : IBV_QPS_ERR;
    // What the kernel's device does with its own queue pair isn't ours to prove.
    if (!end.device.kernel) {
        equal<int>(end.state(), wanted, "the target's state");
    } else if (end.state() != wanted) {
        std::printf("note: rxe as the target of '%s' is in %s, and not in %s\n", fault.name,
                    state_name(end.state()), state_name(wanted));
    }
}

void one(const Pair& pair, const Fault& fault, bool initiates) {
    place().step = std::string(fault.name) + (initiates ? ", initiator" : ", target");
    Options options;
    options.block_bytes = kBlock;
    options.rnr_retries = 2;
    if (!initiates) {
        options.region_access = fault.region_access;
        options.queue_pair_access = fault.queue_pair_access;
    }
    End end(pair.device, options);
    end.paint(kTarget, kLen, kTargetTag);
    end.connect(pair.talk);
    if (!initiates && fault.receive_bytes != 0) {
        end.receive(end.sge(kTarget, fault.receive_bytes));
    }
    pair.talk.meet();
    if (initiates) {
        initiate(end, fault);
        pair.talk.meet();
    } else {
        pair.talk.meet();
        check_target(end, fault);
    }
    pair.talk.meet();
}

// Nobody answers: the other side's queue pair is back in RESET.
void nobody_answers(const Pair& pair, bool initiates) {
    place().step =
        std::string("write to a queue pair that was reset, ") + (initiates ? "initiator" : "target");
    Options options;
    options.block_bytes = kBlock;
    options.timeout = 12; // 17 ms
    options.retries = 3;
    End end(pair.device, options);
    end.connect(pair.talk);
    if (!initiates) {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_RESET;
        no_error(ibv_modify_qp(end.qps[0], &attr, IBV_QP_STATE), "reset the QP");
    }
    pair.talk.meet();
    if (initiates) {
        initiate(end, {"", kWrite, IBV_WC_RETRY_EXC_ERR, 0, 0, kAll, kRemoteAccess, 0});
    }
    pair.talk.meet();
}

} // namespace

unsigned run_errors(const Pair& pair) {
    unsigned count = 0;
    for (const bool first_begins : {true, false}) {
        const bool initiates = first_begins == pair.first;
        for (const Fault& fault : kFaults) {
            one(pair, fault, initiates);
            ++count;
        }
        nobody_answers(pair, initiates);
        ++count;
    }
    return count;
}

} // namespace reach
