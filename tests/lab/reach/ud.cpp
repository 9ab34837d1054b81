// SPDX-License-Identifier: BSD-3-Clause
#include <endian.h>

#include "cases.hpp"

namespace reach {

namespace {

constexpr std::size_t kGrhBytes = 40;
constexpr std::size_t kBuffer = 1024;
constexpr std::uint32_t kImmediate = 0xcafe0000;

ibv_ah* address_handle(End& end) {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.dgid = end.peer().gid;
    attr.grh.sgid_index = static_cast<std::uint8_t>(end.device.gid_index);
    attr.grh.hop_limit = 64;
    ibv_ah* handle = ibv_create_ah(end.pd, &attr);
    succeed(handle != nullptr, "create an address handle");
    return handle;
}

struct Datagram {
    std::size_t len;
    bool immediate;
    std::uint32_t qkey;
};

void post(End& end, ibv_ah* handle, const Datagram& datagram) {
    end.paint(kBuffer, datagram.len, datagram.len);
    const ibv_sge list = end.sge(kBuffer, datagram.len);
    ibv_send_wr wr{};
    wr.opcode = datagram.immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = const_cast<ibv_sge*>(&list);
    wr.num_sge = datagram.len == 0 ? 0 : 1;
    wr.imm_data = htobe32(kImmediate + static_cast<std::uint32_t>(datagram.len));
    wr.wr.ud.ah = handle;
    wr.wr.ud.remote_qpn = end.peer().qpn[0];
    wr.wr.ud.remote_qkey = datagram.qkey;
    end.post(wr);
}

void send(End& end, ibv_ah* handle, const Datagram& datagram) {
    post(end, handle, datagram);
    const ibv_wc wc = end.wait_for_success("send a datagram");
    equal<int>(wc.opcode, IBV_WC_SEND, "the opcode");
}

// Leaves neither device. rxe keeps silent about it (C10-93.1.1); ours tells, as hardware does, and its
// queue has to be restarted.
void send_too_long(End& end, ibv_ah* handle, std::size_t len) {
    post(end, handle, {len, false, kQkey});
    if (end.device.kernel) {
        (void)end.wait_for_success("send what is too long");
        return;
    }
    status_is(end.wait(), IBV_WC_LOC_LEN_ERR, "send what is too long");
    equal<int>(end.state(), IBV_QPS_SQE, "the sender's state");
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    no_error(ibv_modify_qp(end.qps[0], &attr, IBV_QP_STATE), "restart the sender");
}

// The routing header, as the receiver's memory has it: a real one for IPv6, and for IPv4 the packet's
// own header in its last twenty bytes.
void check_routing_header(End& end) {
    const std::uint8_t* header = end.bytes(kBuffer);
    const bool v4 = end.device.gid.raw[10] == 0xff;
    if (v4) {
        equal<int>(header[20] >> 4, 4, "the version in the routing header");
        require(std::memcmp(header + 32, end.peer().gid.raw + 12, 4) == 0, "the header names the sender");
        require(std::memcmp(header + 36, end.device.gid.raw + 12, 4) == 0, "the header names the receiver");
    } else {
        equal<int>(header[0] >> 4, 6, "the version in the routing header");
        require(std::memcmp(header + 8, end.peer().gid.raw, 16) == 0, "the header names the sender");
        require(std::memcmp(header + 24, end.device.gid.raw, 16) == 0, "the header names the receiver");
    }
}

void receive(End& end, const Datagram& datagram) {
    const ibv_wc wc = end.wait_for_success("receive a datagram");
    equal<int>(wc.opcode, IBV_WC_RECV, "the received opcode");
    equal<std::size_t>(wc.byte_len, kGrhBytes + datagram.len, "the received length");
    equal(wc.src_qp, end.peer().qpn[0], "the sender's queue pair");
    require((wc.wc_flags & IBV_WC_GRH) != 0, "there is a routing header");
    equal<bool>(wc.wc_flags & IBV_WC_WITH_IMM, datagram.immediate, "whether there is immediate data");
    if (datagram.immediate) {
        equal(be32toh(wc.imm_data), kImmediate + static_cast<std::uint32_t>(datagram.len),
              "the immediate data");
    }
    check_routing_header(end);
    end.expect_bytes(kBuffer + kGrhBytes, datagram.len, datagram.len, "the datagram");
}

unsigned one_way(const Pair& pair, End& end, bool sends) {
    const std::size_t mtu = pair.device.mtu_bytes;
    const auto peer_mtu = pair.talk.swap(pair.device.mtu_bytes);
    equal<std::size_t>(peer_mtu, mtu, "the other side's MTU");
    ibv_ah* handle = address_handle(end);
    unsigned count = 0;
    for (const std::size_t len : {std::size_t{0}, std::size_t{1}, std::size_t{255}, mtu - 1, mtu}) {
        for (const bool immediate : {false, true}) {
            place().step = "datagram of " + std::to_string(len) + " bytes" +
                           (immediate ? " with immediate" : "") + " at MTU " + std::to_string(mtu) +
                           (sends ? ", sender" : ", receiver");
            const Datagram datagram{len, immediate, kQkey};
            if (sends) {
                (void)pair.talk.hear<char>();
                // Not for the receiver, since they have another key or no place on the link.
                send(end, handle, {len, immediate, kQkey + 1});
                send_too_long(end, handle, mtu + 1);
                send(end, handle, datagram);
                (void)pair.talk.hear<char>();
            } else {
                end.receive(end.sge(kBuffer, kGrhBytes + mtu));
                pair.talk.tell('r');
                receive(end, datagram);
                require(end.idle(), "a datagram too many");
                pair.talk.tell('d');
            }
            ++count;
        }
    }
    no_error(ibv_destroy_ah(handle), "destroy an address handle");
    return count;
}

} // namespace

unsigned run_ud(const Pair& pair) {
    Options options;
    options.type = IBV_QPT_UD;
    options.block_bytes = 65536;
    End end(pair.device, options);
    end.connect(pair.talk);
    unsigned count = 0;
    for (const bool first_sends : {true, false}) {
        count += one_way(pair, end, first_sends == pair.first);
    }
    pair.talk.meet();
    return count;
}

} // namespace reach
