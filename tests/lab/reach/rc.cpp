// SPDX-License-Identifier: BSD-3-Clause
#include <endian.h>

#include <array>

#include "cases.hpp"

namespace reach {

namespace {

constexpr std::size_t kSizes[] = {0, 1, 255, 4096, 4097, std::size_t{1} << 20};
constexpr std::size_t kLocal = 256;
constexpr std::size_t kTarget = (std::size_t{2} << 20) + 256;

enum class Verb { kSend, kSendImm, kSendInv, kWrite, kWriteImm, kRead, kSwap, kAdd, kAtomicWrite };
struct Operation {
    Verb verb;
    const char* name;
    ibv_wr_opcode opcode;
    ibv_wc_opcode done;
    bool sized;
};

constexpr Operation kOperations[] = {
    {Verb::kSend, "send", IBV_WR_SEND, IBV_WC_SEND, true},
    {Verb::kSendImm, "send with immediate", IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, true},
    {Verb::kSendInv, "send with invalidate", IBV_WR_SEND_WITH_INV, IBV_WC_SEND, true},
    {Verb::kWrite, "write", IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, true},
    {Verb::kWriteImm, "write with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, true},
    {Verb::kRead, "read", IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, true},
    {Verb::kSwap, "compare and swap", IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, false},
    {Verb::kAdd, "fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, false},
};
constexpr Operation kAtomicWriteOperation[] = {
    {Verb::kAtomicWrite, "atomic write", IBV_WR_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE, false},
};

// One operation of one size, and the tags of what is where before it.
struct Step {
    const Operation& operation;
    std::size_t len;
    std::uint64_t tag;

    std::uint64_t at_initiator() const { return tag; }
    std::uint64_t at_target() const { return tag + (1ULL << 40); }
    std::uint32_t immediate() const { return static_cast<std::uint32_t>(mix(tag)); }
    // An odd place where any is allowed.
    std::size_t local() const { return operation.sized ? kLocal + 3 : kLocal; }
    bool receives() const { return operation.verb <= Verb::kSendInv || operation.verb == Verb::kWriteImm; }
};

// A window on the target's bytes, bound anew for each that is invalidated.
std::uint32_t bind_window(End& end, ibv_mw* window, std::size_t len) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw.mw = window;
    wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
    wr.bind_mw.bind_info = {end.mr, end.addr(kTarget), len, IBV_ACCESS_REMOTE_WRITE};
    end.post(wr);
    const ibv_wc wc = end.wait_for_success("bind a window");
    equal<int>(wc.opcode, IBV_WC_BIND_MW, "the opcode of a bound window");
    window->rkey = wr.bind_mw.rkey;
    return window->rkey;
}

void check_received(End& end, const Step& step, std::uint32_t window_key) {
    const ibv_wc wc = end.wait_for_success("receive");
    const bool write = step.operation.verb == Verb::kWriteImm;
    equal<int>(wc.opcode, write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, "the received opcode");
    equal<std::size_t>(wc.byte_len, step.len, "the received length");
    equal(wc.wr_id, step.tag, "the receive's id");
    equal(wc.qp_num, end.qps[0]->qp_num, "the receive's queue pair");
    const bool immediate = write || step.operation.verb == Verb::kSendImm;
    equal<bool>(wc.wc_flags & IBV_WC_WITH_IMM, immediate, "whether there is immediate data");
    if (immediate) {
        equal(be32toh(wc.imm_data), step.immediate(), "the immediate data");
    }
    const bool invalidated = step.operation.verb == Verb::kSendInv;
    // rxe's stock provider passes the kernel's flag on, whose number means another thing in libibverbs.
    const unsigned flag = end.device.kernel ? IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK : IBV_WC_WITH_INV;
    equal<bool>(wc.wc_flags & flag, invalidated, "whether a key was invalidated");
    if (invalidated) {
        equal(wc.invalidated_rkey, window_key, "the invalidated key");
    }
}

// What the target's bytes are afterwards.
void check_target(End& end, const Step& step) {
    switch (step.operation.verb) {
    case Verb::kRead:
        end.expect(kTarget, step.len, step.at_target(), step.at_target(), "what was read");
        return;
    case Verb::kSwap:
    case Verb::kAtomicWrite:
        equal(end.word(kTarget), mix(step.tag), "the target's word");
        return;
    case Verb::kAdd:
        equal(end.word(kTarget), 2 * mix(step.tag), "the target's word");
        return;
    default:
        end.expect(kTarget, step.len, step.at_initiator(), step.at_target(), "what arrived");
    }
}

void target(End& end, ibv_mw* window, const Talk& talk, const Step& step) {
    std::uint32_t key = end.mr->rkey;
    end.paint(kTarget, step.len, step.at_target());
    if (step.operation.verb == Verb::kSwap || step.operation.verb == Verb::kAdd) {
        end.set_word(kTarget, mix(step.tag));
    }
    if (step.operation.verb == Verb::kSendInv) {
        key = bind_window(end, window, step.len + kGuard);
    }
    if (step.receives()) {
        end.receive(end.sge(kTarget, step.operation.verb == Verb::kWriteImm ? 0 : step.len), step.tag);
    }
    talk.tell(key);
    if (step.receives()) {
        check_received(end, step, key);
    }
    (void)talk.hear<char>();
    check_target(end, step);
    require(end.idle(), "a completion too many at the target");
}

void post_atomic_write(End& end, const Step& step) {
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(end.qps[0]);
    require(qp != nullptr, "an extended QP");
    ibv_wr_start(qp);
    qp->wr_id = step.tag;
    qp->wr_flags = IBV_SEND_SIGNALED;
    const std::uint64_t value = mix(step.tag);
    ibv_wr_atomic_write(qp, end.peer().rkey, end.peer().addr + kTarget, &value);
    no_error(ibv_wr_complete(qp), "complete the posting");
}

void post_operation(End& end, const Step& step, std::uint32_t key) {
    const ibv_sge list = end.sge(step.local(), step.len);
    ibv_send_wr wr = end.request(step.operation.opcode, list, kTarget);
    wr.wr_id = step.tag;
    wr.num_sge = step.len == 0 ? 0 : 1;
    switch (step.operation.verb) {
    case Verb::kSendImm:
    case Verb::kWriteImm:
        wr.imm_data = htobe32(step.immediate());
        break;
    case Verb::kSendInv:
        wr.invalidate_rkey = key;
        break;
    case Verb::kSwap:
    case Verb::kAdd:
        wr.wr.atomic = {.remote_addr = end.peer().addr + kTarget,
                        .compare_add = mix(step.tag), // which is there: the addition doubles it
                        .swap = mix(step.tag),
                        .rkey = end.peer().rkey};
        break;
    default:
        break;
    }
    end.post(wr);
}

// The window works before it is invalidated.
void write_through_window(End& end, const Step& step, std::uint32_t key) {
    const ibv_sge list = end.sge(step.local(), step.len);
    ibv_send_wr wr = end.request(IBV_WR_RDMA_WRITE, list, kTarget);
    wr.num_sge = step.len == 0 ? 0 : 1;
    wr.wr.rdma.rkey = key;
    end.post(wr);
    (void)end.wait_for_success("write through a window");
}

void initiator(End& end, const Talk& talk, const Step& step) {
    end.paint(step.local(), step.len, step.at_initiator());
    const auto key = talk.hear<std::uint32_t>();
    if (step.operation.verb == Verb::kAtomicWrite) {
        post_atomic_write(end, step);
    } else {
        if (step.operation.verb == Verb::kSendInv) {
            write_through_window(end, step, key);
        }
        post_operation(end, step, key);
    }
    const ibv_wc wc = end.wait_for_success("the request");
    equal<int>(wc.opcode, step.operation.done, "the opcode");
    equal(wc.wr_id, step.tag, "the request's id");
    switch (step.operation.verb) {
    case Verb::kRead:
        equal<std::size_t>(wc.byte_len, step.len, "the length read");
        end.expect(step.local(), step.len, step.at_target(), step.at_initiator(), "what was read");
        break;
    case Verb::kSwap:
    case Verb::kAdd:
        equal(end.word(step.local()), mix(step.tag), "the word that was there before");
        break;
    default:
        end.expect(step.local(), step.len, step.at_initiator(), step.at_initiator(), "what was sent");
    }
    talk.tell('d');
    require(end.idle(), "a completion too many at the initiator");
}

unsigned run(const Pair& pair, const Options& options, std::span<const Operation> operations) {
    End end(pair.device, options);
    end.connect(pair.talk);
    ibv_mw* window = nullptr;
    if (options.extended_ops == 0) {
        window = ibv_alloc_mw(end.pd, IBV_MW_TYPE_2);
        succeed(window != nullptr, "allocate a window");
    }
    unsigned count = 0;
    for (const bool first_begins : {true, false}) {
        for (const Operation& operation : operations) {
            for (const std::size_t size : kSizes) {
                const Step step{operation, operation.sized ? size : 8, ++count * (1ULL << 20)};
                const bool initiates = first_begins == pair.first;
                place().step = std::string(operation.name) + " of " + std::to_string(step.len) +
                               " bytes at path MTU " + std::to_string(options.path_mtu) +
                               (initiates ? ", initiator" : ", target");
                if (initiates) {
                    initiator(end, pair.talk, step);
                } else {
                    target(end, window, pair.talk, step);
                }
                if (!operation.sized) {
                    break;
                }
            }
        }
    }
    equal<int>(end.state(), IBV_QPS_RTS, "the queue pair's state");
    pair.talk.meet();
    if (window != nullptr) {
        no_error(ibv_dealloc_mw(window), "deallocate the window");
    }
    return count;
}

} // namespace

unsigned run_rc(const Pair& pair) {
    unsigned count = 0;
    for (const std::uint32_t mtu : {1024U, 4096U}) {
        require(pair.device.mtu_bytes >= mtu, "the port's MTU is too small for this case");
        Options options;
        options.path_mtu = mtu;
        count += run(pair, options, kOperations);
    }
    return count;
}

unsigned run_atomic_write(const Pair& pair) {
    Options options;
    options.extended_ops = IBV_QP_EX_WITH_ATOMIC_WRITE;
    return run(pair, options, kAtomicWriteOperation);
}

} // namespace reach
