// SPDX-License-Identifier: BSD-3-Clause
//
// What the provider promises on a real device, beyond what other people's programs try. Each
// subcommand prints one line and ends with 0, or says what went wrong.
//
//   provider_verbs DEVICE GID_INDEX cycles COUNT   every object made and destroyed, COUNT times
//   provider_verbs DEVICE GID_INDEX limits         each limit plus one is refused, with the errno
//   provider_verbs DEVICE GID_INDEX no_queues      writes to a queue pair whose queues hold no requests
//   provider_verbs DEVICE GID_INDEX credentials    sends after the program has changed its user
//   provider_verbs DEVICE GID_INDEX removal        polls while the device goes away (by the caller)
//   provider_verbs DEVICE GID_INDEX native         atomic write and flush, where the kernel has them
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sluice/sluice.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "tests/lab/verbs_loop.hpp"

namespace {

using namespace sluice::lab;

// --- cycles ---

long resident_kib() {
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line)) {
        // What is mapped of files grows as code is run for the first time.
        if (line.rfind("RssAnon:", 0) == 0) {
            return std::strtol(line.c_str() + 8, nullptr, 10);
        }
    }
    return 0;
}

int descriptors() {
    int count = 0;
    for (int fd = 0; fd < 256; ++fd) {
        count += fcntl(fd, F_GETFD) != -1 ? 1 : 0;
    }
    return count;
}

void cycle(ibv_context* context, char* memory, bool datagrams) {
    ibv_pd* pd = ibv_alloc_pd(context);
    ibv_td_init_attr td_attr{};
    ibv_td* td = ibv_alloc_td(context, &td_attr);
    ibv_parent_domain_init_attr parent_attr{};
    parent_attr.pd = pd;
    parent_attr.td = td;
    ibv_pd* parent = ibv_alloc_parent_domain(context, &parent_attr);
    const int access = IBV_ACCESS_LOCAL_WRITE;
    ibv_mr* mr = ibv_reg_mr(pd, memory, 4096, access);
    ibv_comp_channel* channel = ibv_create_comp_channel(context);
    ibv_cq* cq = ibv_create_cq(context, 16, nullptr, channel, 0);
    ibv_cq_init_attr_ex cq_attr{};
    cq_attr.cqe = 16;
    cq_attr.channel = channel;
    ibv_cq_ex* cq_ex = ibv_create_cq_ex(context, &cq_attr);
    ibv_srq_init_attr srq_attr{};
    srq_attr.attr.max_wr = 16;
    srq_attr.attr.max_sge = 1;
    ibv_srq* srq = ibv_create_srq(pd, &srq_attr);
    ibv_qp_init_attr qp_attr = qp_request(cq, IBV_QPT_RC);
    ibv_qp* qp = ibv_create_qp(parent, &qp_attr);
    require(pd && td && parent && mr && channel && cq && cq_ex && srq && qp, "make every object");
    if (datagrams) {
        ibv_mw* mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
        ibv_ah_attr ah_attr{};
        ah_attr.is_global = 1;
        ah_attr.port_num = 1;
        ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
        require(ibv_query_gid(context, 1, gid_index, &ah_attr.grh.dgid) == 0, "query the GID");
        ibv_ah* ah = ibv_create_ah(pd, &ah_attr);
        require(mw && ah, "make a memory window and an address handle");
        require(ibv_resize_cq(cq, 31) == 0, "resize the CQ");
        require(ibv_destroy_ah(ah) == 0 && ibv_dealloc_mw(mw) == 0, "destroy them");
    }
    require(ibv_destroy_qp(qp) == 0, "destroy the QP");
    require(ibv_destroy_srq(srq) == 0, "destroy the SRQ");
    require(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)) == 0 && ibv_destroy_cq(cq) == 0, "destroy the CQs");
    require(ibv_destroy_comp_channel(channel) == 0, "destroy the channel");
    require(ibv_dereg_mr(mr) == 0, "deregister memory");
    require(ibv_dealloc_pd(parent) == 0 && ibv_dealloc_td(td) == 0 && ibv_dealloc_pd(pd) == 0,
            "deallocate the domains");
}

void run_cycles(const char* device, int count) {
    ibv_context* context = open_device(device);
    const bool datagrams = std::strncmp(device, "rxe", 3) == 0;
    Loop& it = loop();
    for (int i = 0; i < 200; ++i) {
        cycle(context, it.buffer.data(), datagrams);
    }
    const long before_kib = resident_kib();
    const int before_fds = descriptors();
    for (int i = 0; i < count; ++i) {
        cycle(context, it.buffer.data(), datagrams);
    }
    const long grown_kib = resident_kib() - before_kib;
    require(grown_kib < 64, "grow by less than 64 KiB");
    require(descriptors() == before_fds, "leave no descriptor open");
    require(ibv_close_device(context) == 0, "close the device");
    for (int i = 0; i < 100; ++i) {
        require(ibv_close_device(open_device(device)) == 0, "open and close");
    }
    require(descriptors() == before_fds - 2 || descriptors() < before_fds, "leave no descriptor open");
    std::printf("%d cycles, grown by %ld KiB\n", count, grown_kib);
}

// --- limits ---

template<typename T>
void refused(T* made, int expected, const char* what) {
    if (made != nullptr || errno != expected) {
        std::printf("FAILED: %s: %s, errno %d (%s), wanted %d\n", what, made != nullptr ? "made" : "refused",
                    errno, std::strerror(errno), expected);
        std::exit(1);
    }
}

void run_limits(const char* device) {
    Loop& it = set_up(device);
    ibv_device_attr limits{};
    require(ibv_query_device(it.context, &limits) == 0, "query the device");
    refused(ibv_create_cq(it.context, limits.max_cqe + 1, nullptr, nullptr, 0), EINVAL, "CQ of max_cqe + 1");
    refused(ibv_create_cq(it.context, 0, nullptr, nullptr, 0), EINVAL, "CQ of nothing");
    refused(ibv_create_cq(it.context, 1, nullptr, nullptr, it.context->num_comp_vectors), EINVAL,
            "CQ with a vector too many");
    ibv_qp_init_attr attr = qp_request(it.cq, IBV_QPT_RC);
    attr.cap.max_send_wr = static_cast<std::uint32_t>(limits.max_qp_wr) + 1;
    refused(ibv_create_qp(it.pd, &attr), EINVAL, "QP of max_qp_wr + 1");
    attr = qp_request(it.cq, IBV_QPT_RC);
    attr.cap.max_send_sge = static_cast<std::uint32_t>(limits.max_sge) + 1;
    refused(ibv_create_qp(it.pd, &attr), EINVAL, "QP of max_sge + 1");
    attr = qp_request(it.cq, IBV_QPT_RC);
    attr.cap.max_inline_data = 1U << 20;
    refused(ibv_create_qp(it.pd, &attr), EINVAL, "QP of 1 MiB inline");
    ibv_srq_init_attr srq{};
    srq.attr.max_wr = static_cast<std::uint32_t>(limits.max_srq_wr) + 1;
    srq.attr.max_sge = 1;
    refused(ibv_create_srq(it.pd, &srq), EINVAL, "SRQ of max_srq_wr + 1");
    require(ibv_resize_cq(it.cq, limits.max_cqe + 1) == EINVAL, "refuse to resize to max_cqe + 1");
    require(ibv_dealloc_pd(it.pd) == EBUSY, "refuse to deallocate a PD in use");
    int posted = 0;
    int error = 0;
    while (posted < 10000 && (error = post_write(it, 0)) == 0) {
        ++posted;
    }
    // The kernel takes them while we post, so that the queue may never be full.
    require(error == 0 || error == ENOMEM, "a full queue gives ENOMEM");
    tear_down(it);
    std::printf("limits hold\n");
}

// A queue pair that is only written to needs no requests, and one that only writes needs no receives.
void run_no_queues(const char* device) {
    int made = 0;
    Loop& it = set_up(device, 0, [&made](Loop& l) {
        ibv_qp_init_attr attr = qp_request(l.cq, IBV_QPT_RC);
        attr.cap.max_recv_wr = 0;
        attr.cap.max_send_wr = made++ == 0 ? kDepth : 0;
        return ibv_create_qp(l.pd, &attr);
    });
    it.buffer[0] = 'w';
    require((errno = post_write(it)) == 0, "post a write");
    require(await_completion(it.cq).status == IBV_WC_SUCCESS, "complete a write");
    require(it.buffer[4096] == 'w', "the byte is there");
    std::swap(it.qp[0], it.qp[1]);
    require(post_write(it) == ENOMEM, "a send queue of no requests takes none");
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    require(ibv_post_recv(it.qp[0], &wr, &bad) == ENOMEM && bad == &wr,
            "a receive queue of no requests takes none");
    tear_down(it);
    std::printf("writes reach a queue pair without queues\n");
}

// --- credentials ---

void run_credentials(const char* device) {
    Loop& it = set_up(device);
    require(post_write(it) == 0, "post as root");
    require(await_completion(it.cq).status == IBV_WC_SUCCESS, "complete as root");
    require(setegid(65534) == 0 && seteuid(65534) == 0, "become nobody");
    for (int i = 0; i < 3; ++i) {
        require((errno = post_write(it)) == 0, "post as nobody");
        require(await_completion(it.cq).status == IBV_WC_SUCCESS, "complete as nobody");
    }
    require(ibv_req_notify_cq(it.cq, 0) == 0, "arm the CQ as nobody");
    tear_down(it);
    std::printf("sends after a change of credentials\n");
}

// --- removal ---

// Receives are posted that nothing will fill, and sends keep coming. The caller removes the
// device once "ready" is printed. The kernel then waits for us to close it.
void run_removal(const char* device) {
    Loop& it = set_up(device);
    for (std::uint64_t i = 0; i < 10; ++i) {
        ibv_recv_wr wr{};
        wr.wr_id = 1000 + i;
        ibv_recv_wr* bad = nullptr;
        require(ibv_post_recv(it.qp[1], &wr, &bad) == 0, "post a receive");
    }
    std::printf("ready\n");
    std::fflush(stdout);
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::seconds(30);
    auto gone_at = Clock::time_point::max();
    int flushed_receives = 0;
    bool flushed_sends = false;
    for (unsigned round = 0; flushed_receives < 10 || !flushed_sends; ++round) {
        const auto now = Clock::now();
        require(now < end, "notice the removal within 30 s");
        if (gone_at == Clock::time_point::max() && round % 64 == 0 &&
            access(it.context->device->dev_path, F_OK) != 0) {
            gone_at = now;
        }
        require(gone_at == Clock::time_point::max() || now - gone_at < std::chrono::seconds(2),
                "flush all within 2 s");
        (void)post_write(it);
        ibv_wc wc{};
        for (int empty = 0; empty < 1000;) {
            if (ibv_poll_cq(it.cq, 1, &wc) == 0) {
                ++empty;
            } else if (wc.wr_id >= 1000) {
                require(wc.status == IBV_WC_WR_FLUSH_ERR, "receives are flushed");
                ++flushed_receives;
            } else {
                flushed_sends = flushed_sends || wc.status == IBV_WC_WR_FLUSH_ERR;
            }
        }
    }
    require(access(it.context->device->dev_path, F_OK) != 0, "nothing is flushed before the device goes");
    tear_down(it);
    std::printf("removed, flushed and destroyed\n");
}

// --- native atomic write and flush ---

constexpr std::uint64_t kWithAtomicWrite = 1ULL << 12;
constexpr std::uint64_t kDeviceAtomicWrite = 1ULL << 40;

ibv_qp* make_extended(Loop& it, std::uint64_t ops) {
    const ibv_qp_init_attr base = qp_request(it.cq, IBV_QPT_RC);
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = base.send_cq;
    attr.recv_cq = base.recv_cq;
    attr.cap = base.cap;
    attr.qp_type = base.qp_type;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = it.pd;
    attr.send_ops_flags = ops;
    return ibv_create_qp_ex(it.context, &attr);
}

void run_native(const char* device) {
    ibv_context* context = open_device(device);
    ibv_device_attr_ex attr{};
    require(ibv_query_device_ex(context, nullptr, &attr) == 0, "query the device");
    const bool capable = (attr.device_cap_flags_ex & kDeviceAtomicWrite) != 0;
    Loop& it = loop();
    it.context = context;
    it.pd = ibv_alloc_pd(context);
    it.cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    if (!capable) {
        refused(make_extended(it, kWithAtomicWrite), EOPNOTSUPP, "a QP with atomic write");
        refused(make_extended(it, SLUICE_QP_EX_WITH_FLUSH), EOPNOTSUPP, "a QP with flush");
        std::printf("no native atomic write and flush: EOPNOTSUPP\n");
        return;
    }
    require(ibv_destroy_cq(it.cq) == 0 && ibv_dealloc_pd(it.pd) == 0 && ibv_close_device(context) == 0,
            "close");
    set_up(device, SLUICE_ACCESS_FLUSH_GLOBAL, [](Loop& l) {
        return make_extended(l, IBV_QP_EX_WITH_RDMA_WRITE | kWithAtomicWrite | SLUICE_QP_EX_WITH_FLUSH);
    });
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(it.qp[0]);
    require(qp != nullptr, "an extended QP");
    const std::uint64_t value = 0x0123'4567'89ab'cdef;
    char* target = it.buffer.data() + 8192;
    ibv_wr_start(qp);
    qp->wr_id = 1;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_write(qp, it.mr->rkey, reinterpret_cast<std::uintptr_t>(target), &value);
    require((errno = ibv_wr_complete(qp)) == 0, "post an atomic write");
    const ibv_wc wc = await_completion(it.cq);
    require(wc.status == IBV_WC_SUCCESS, "complete an atomic write");
    require(std::memcmp(target, &value, sizeof value) == 0, "the value is there");
    ibv_wr_start(qp);
    qp->wr_id = 2;
    require((errno = sluice_wr_flush(qp, it.mr->rkey, reinterpret_cast<std::uintptr_t>(target), sizeof value,
                                     SLUICE_FLUSH_TYPE_GLOBAL, SLUICE_FLUSH_LEVEL_RANGE)) == 0,
            "add a flush");
    require((errno = ibv_wr_complete(qp)) == 0, "post a flush");
    require(await_completion(it.cq).status == IBV_WC_SUCCESS, "complete a flush");
    tear_down(it);
    std::printf("native atomic write and flush\n");
}

} // namespace

int main(int argc, char** argv) {
    require(argc >= 4, "usage: provider_verbs DEVICE GID_INDEX COMMAND");
    const std::string command = argv[3];
    gid_index = static_cast<int>(std::strtol(argv[2], nullptr, 10));
    if (command == "cycles" && argc == 5) {
        run_cycles(argv[1], static_cast<int>(std::strtol(argv[4], nullptr, 10)));
    } else if (command == "limits") {
        run_limits(argv[1]);
    } else if (command == "no_queues") {
        run_no_queues(argv[1]);
    } else if (command == "credentials") {
        run_credentials(argv[1]);
    } else if (command == "removal") {
        run_removal(argv[1]);
    } else if (command == "native") {
        run_native(argv[1]);
    } else {
        errno = EINVAL;
        die("no such command");
    }
    return 0;
}
