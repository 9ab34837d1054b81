// SPDX-License-Identifier: BSD-3-Clause
#include "end.hpp"

#include <arpa/inet.h>
#include <sluice/sluice.h>
#include <sys/mman.h>

#include <array>
#include <chrono>

namespace reach {

namespace {

constexpr auto kPatience = std::chrono::seconds(60); // retries over a bad link take their time

ibv_context* open_kernel_device(const std::string& name) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ibv_context* context = nullptr;
    for (int i = 0; i < count; ++i) {
        if (name == ibv_get_device_name(list[i])) {
            context = ibv_open_device(list[i]);
        }
    }
    ibv_free_device_list(list);
    return context;
}

union ibv_gid gid_of(const std::string& address) {
    union ibv_gid gid {};
    if (inet_pton(AF_INET6, address.c_str(), gid.raw) != 1) {
        gid.raw[10] = gid.raw[11] = 0xff;
        require(inet_pton(AF_INET, address.c_str(), gid.raw + 12) == 1, address + " is an address");
    }
    return gid;
}

int index_of_gid(ibv_context* context, const union ibv_gid& wanted) {
    ibv_port_attr port{};
    no_error(ibv_query_port(context, 1, &port), "query the port");
    for (int i = 0; i < port.gid_tbl_len; ++i) {
        ibv_gid_entry entry{};
        if (ibv_query_gid_ex(context, 1, static_cast<std::uint32_t>(i), &entry, 0) == 0 &&
            entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
            std::memcmp(entry.gid.raw, wanted.raw, sizeof wanted.raw) == 0) {
            return i;
        }
    }
    return -1;
}

ibv_mtu to_ibv_mtu(std::uint32_t bytes) {
    return static_cast<ibv_mtu>(__builtin_ctz(bytes) - 7);
}

// The bytes of TAG are those of mix(tag), mix(tag + 1), ..., so that any eight of them tell where they
// belong. Calls USE with the place of each eight (or fewer at the end), and what belongs there.
template<typename Use>
void walk(std::uint64_t tag, std::size_t len, Use&& use) {
    for (std::size_t i = 0; i < len; i += 8) {
        const std::uint64_t word = mix(tag + i / 8);
        use(i, &word, len - i < 8 ? len - i : 8);
    }
}

} // namespace

Spec Spec::parse(const std::string& text) {
    Spec spec;
    std::string rest = text;
    if (const auto at = rest.find('@'); at != std::string::npos) {
        spec.name_space = rest.substr(at + 1);
        rest.resize(at);
    }
    const auto colon = rest.find(':');
    require(colon != std::string::npos, "a side is kernel:DEVICE:ADDRESS or uroce:ADDRESS, not " + text);
    spec.kernel = rest.substr(0, colon) == "kernel";
    rest.erase(0, colon + 1);
    if (spec.kernel) {
        const auto second = rest.find(':');
        require(second != std::string::npos, "a kernel's device needs its address: " + text);
        spec.device = rest.substr(0, second);
        rest.erase(0, second + 1);
    }
    spec.address = rest;
    return spec;
}

Device::Device(const Spec& spec)
    : kernel(spec.kernel),
      context(kernel ? open_kernel_device(spec.device) : sluice_open_uroce(spec.address.c_str())),
      gid(gid_of(spec.address)) {
    succeed(context != nullptr, "open the device");
    gid_index = index_of_gid(context, gid);
    require(gid_index >= 0, "no GID for " + spec.address);
    ibv_port_attr port{};
    no_error(ibv_query_port(context, 1, &port), "query the port");
    equal<int>(port.state, IBV_PORT_ACTIVE, "the port's state");
    mtu_bytes = 128U << port.active_mtu;
}

void End::Unmap::operator()(std::uint8_t* block) const {
    munmap(block, bytes);
}

End::End(const Device& its_device, const Options& its_options)
    : options(its_options), device(its_device), pd(ibv_alloc_pd(device.context)) {
    void* block = mmap(nullptr, options.block_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    succeed(block != MAP_FAILED, "memory");
    block_ = {static_cast<std::uint8_t*>(block), Unmap{options.block_bytes}};
    succeed(pd != nullptr, "allocate a PD");
    cq = ibv_create_cq(device.context, static_cast<int>(options.depth) * 4, nullptr, nullptr, 0);
    succeed(cq != nullptr, "create a CQ");
    mr = ibv_reg_mr(pd, block, options.block_bytes, options.region_access);
    succeed(mr != nullptr, "register memory");
    if (options.with_srq) {
        ibv_srq_init_attr attr{};
        attr.attr.max_wr = options.depth;
        attr.attr.max_sge = 2;
        srq = ibv_create_srq(pd, &attr);
        succeed(srq != nullptr, "create an SRQ");
    }
    for (unsigned i = 0; i < options.queue_pairs; ++i) {
        qps.push_back(make_queue_pair());
    }
}

End::~End() {
    for (ibv_qp* qp : qps) {
        no_error(ibv_destroy_qp(qp), "destroy a QP");
    }
    if (srq != nullptr) {
        no_error(ibv_destroy_srq(srq), "destroy the SRQ");
    }
    no_error(ibv_destroy_cq(cq), "destroy the CQ");
    no_error(ibv_dereg_mr(mr), "deregister memory");
    no_error(ibv_dealloc_pd(pd), "deallocate the PD");
}

ibv_qp* End::make_queue_pair() {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.srq = srq;
    attr.cap = {options.depth, options.depth, 2, 2, 16};
    attr.qp_type = options.type;
    attr.pd = pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (options.extended_ops != 0) {
        attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.send_ops_flags = options.extended_ops;
    }
    ibv_qp* qp = ibv_create_qp_ex(device.context, &attr);
    succeed(qp != nullptr, "create a QP");
    return qp;
}

Card End::card() const {
    Card card{};
    card.gid = device.gid;
    card.addr = addr(0);
    card.rkey = mr->rkey;
    card.kernel = device.kernel;
    for (std::size_t i = 0; i < qps.size(); ++i) {
        card.qpn[i] = qps[i]->qp_num;
    }
    card.psn = static_cast<std::uint32_t>(0xffff00 | mix(qps[0]->qp_num) >> 56); // goes round soon
    return card;
}

void End::connect(const Talk& talk) {
    peer_ = talk.swap(card());
    for (std::size_t i = 0; i < qps.size(); ++i) {
        if (options.type == IBV_QPT_RC) {
            lead(qps[i], peer_.qpn[i]);
        } else {
            lead_datagrams(qps[i]);
        }
    }
    talk.meet();
}

void End::lead(ibv_qp* qp, std::uint32_t peer_qpn) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = static_cast<unsigned>(options.queue_pair_access);
    no_error(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
             "lead a QP to INIT");
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = to_ibv_mtu(options.path_mtu);
    attr.dest_qp_num = peer_qpn;
    attr.rq_psn = peer_.psn;
    attr.max_dest_rd_atomic = 8;
    attr.min_rnr_timer = options.min_rnr_timer;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer_.gid;
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(device.gid_index);
    attr.ah_attr.grh.hop_limit = 64;
    no_error(ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
             "lead a QP to RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = options.timeout;
    attr.retry_cnt = options.retries;
    attr.rnr_retry = options.rnr_retries;
    attr.sq_psn = card().psn;
    attr.max_rd_atomic = 8;
    no_error(ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
             "lead a QP to RTS");
}

void End::lead_datagrams(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = kQkey;
    no_error(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
             "lead a QP to INIT");
    attr.qp_state = IBV_QPS_RTR;
    no_error(ibv_modify_qp(qp, &attr, IBV_QP_STATE), "lead a QP to RTR");
    attr.qp_state = IBV_QPS_RTS;
    no_error(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "lead a QP to RTS");
}

ibv_sge End::sge(std::size_t offset, std::size_t len) const {
    return {addr(offset), static_cast<std::uint32_t>(len), mr->lkey};
}

std::uint64_t End::word(std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, block_.get() + offset, sizeof value);
    return value;
}

void End::set_word(std::size_t offset, std::uint64_t value) {
    std::memcpy(bytes(offset), &value, sizeof value);
}

void End::paint_bytes(std::size_t offset, std::size_t len, std::uint64_t tag) {
    std::uint8_t* to = bytes(offset);
    walk(tag, len, [to](std::size_t i, const void* from, std::size_t n) { std::memcpy(to + i, from, n); });
}

void End::paint(std::size_t offset, std::size_t len, std::uint64_t tag) {
    paint_bytes(offset - kGuard, kGuard, ~tag);
    paint_bytes(offset, len, tag);
    paint_bytes(offset + len, kGuard, ~tag + kGuard);
}

void End::expect_bytes(std::size_t offset, std::size_t len, std::uint64_t tag,
                       const std::string& what) const {
    const std::uint8_t* at = block_.get() + offset;
    walk(tag, len, [&](std::size_t i, const void* wanted, std::size_t n) {
        if (std::memcmp(at + i, wanted, n) != 0) {
            die(what + ": wrong bytes from " + std::to_string(i) + " on");
        }
    });
}

void End::expect(std::size_t offset, std::size_t len, std::uint64_t tag, std::uint64_t guard_tag,
                 const std::string& what) const {
    expect_bytes(offset, len, tag, what);
    expect_bytes(offset - kGuard, kGuard, ~guard_tag, "what stands before " + what);
    expect_bytes(offset + len, kGuard, ~guard_tag + kGuard, "what stands behind " + what);
}

ibv_send_wr End::request(ibv_wr_opcode opcode, const ibv_sge& list, std::size_t peer_offset) const {
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = const_cast<ibv_sge*>(&list); // which libibverbs only reads
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = peer_.addr + peer_offset;
    wr.wr.rdma.rkey = peer_.rkey;
    return wr;
}

void End::post(ibv_send_wr& wr, unsigned queue_pair) {
    ibv_send_wr* bad = nullptr;
    no_error(ibv_post_send(qps[queue_pair], &wr, &bad), "post a request");
}

void End::receive(const ibv_sge& into, std::uint64_t id, unsigned queue_pair) {
    ibv_sge list = into;
    ibv_recv_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &list;
    wr.num_sge = into.length == 0 ? 0 : 1;
    ibv_recv_wr* bad = nullptr;
    no_error(srq != nullptr ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qps[queue_pair], &wr, &bad),
             "post a receive");
}

ibv_wc End::wait() const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    ibv_wc wc{};
    int count = 0;
    // An emulated machine's clock takes as long as a message does.
    for (unsigned polls = 1; (count = ibv_poll_cq(cq, 1, &wc)) == 0; ++polls) {
        require(polls % 256 != 0 || std::chrono::steady_clock::now() < end, "no completion within a minute");
    }
    equal(count, 1, "completions polled");
    return wc;
}

bool End::idle() const {
    ibv_wc wc{};
    return ibv_poll_cq(cq, 1, &wc) == 0;
}

ibv_wc End::wait_for_success(const std::string& what) const {
    const ibv_wc wc = wait();
    status_is(wc, IBV_WC_SUCCESS, what);
    return wc;
}

ibv_qp_state End::state(unsigned queue_pair) const {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    no_error(ibv_query_qp(qps[queue_pair], &attr, IBV_QP_STATE, &init), "query a QP");
    return attr.qp_state;
}

const char* state_name(ibv_qp_state state) {
    constexpr std::array<const char*, 7> kNames{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return state < kNames.size() ? kNames[state] : "unknown";
}

} // namespace reach
