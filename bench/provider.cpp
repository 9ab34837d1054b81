// SPDX-License-Identifier: BSD-3-Clause
//
// The rxe provider against the stock one: bench_provider [--json FILE] [--quick].
//
// Needs an rxe device and valgrind. Without a device it runs itself in the lab, where the kernel
// is emulated: times there mean little, and instructions in user space are what is compared. They
// are counted by callgrind around the calls alone, while nothing else happens: requests are posted,
// their completions waited for without looking, and then polled.
#include <infiniband/verbs.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/harness.hpp"

namespace {

constexpr int kBatch = 16;
constexpr int kRounds = 32;
constexpr std::uint32_t kBytes = 64;
constexpr int kDepth = 64;

[[noreturn]] void die(const char* what) {
    std::fprintf(stderr, "bench_provider: %s failed: %s\n", what, std::strerror(errno));
    std::exit(1);
}

template<typename T>
T* made(T* object, const char* what) {
    if (object == nullptr) {
        die(what);
    }
    return object;
}

void done(int error, const char* what) {
    if (error != 0) {
        errno = error;
        die(what);
    }
}

std::string device_name() {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    std::string name;
    for (int i = 0; list != nullptr && i < count && name.empty(); ++i) {
        if (std::strncmp(ibv_get_device_name(list[i]), "rxe", 3) == 0) {
            name = ibv_get_device_name(list[i]);
        }
    }
    if (list != nullptr) {
        ibv_free_device_list(list);
    }
    return name;
}

// Two connected queue pairs; what one sends, the other receives.
class Loop {
  public:
    Loop(const std::string& device, bool promise_one_thread) {
        open(device);
        if (promise_one_thread) {
            ibv_td_init_attr td_attr{};
            ibv_parent_domain_init_attr attr{};
            attr.pd = pd_;
            attr.td = made(ibv_alloc_td(context_, &td_attr), "thread domain");
            domain_ = made(ibv_alloc_parent_domain(context_, &attr), "parent domain");
            ibv_cq_init_attr_ex cq_attr{};
            cq_attr.cqe = kDepth;
            cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
            cq_attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
            send_cq_ = ibv_cq_ex_to_cq(made(ibv_create_cq_ex(context_, &cq_attr), "single-threaded CQ"));
        } else {
            domain_ = pd_;
            send_cq_ = made(ibv_create_cq(context_, kDepth, nullptr, nullptr, 0), "CQ");
        }
        recv_cq_ = made(ibv_create_cq(context_, kDepth, nullptr, nullptr, 0), "CQ");
        for (ibv_qp*& qp : qp_) {
            ibv_qp_init_attr attr{};
            attr.send_cq = send_cq_;
            attr.recv_cq = recv_cq_;
            attr.cap = {kDepth, kDepth, 1, 1, 0};
            attr.qp_type = IBV_QPT_RC;
            qp = made(ibv_create_qp(domain_, &attr), "QP");
        }
        connect(qp_[0], qp_[1]->qp_num);
        connect(qp_[1], qp_[0]->qp_num);
        for (int i = 0; i < kBatch; ++i) {
            sge_ = {reinterpret_cast<std::uintptr_t>(buffer_.data()), kBytes, mr_->lkey};
            wr_[i] = {};
            wr_[i].sg_list = &sge_;
            wr_[i].num_sge = 1;
            wr_[i].opcode = IBV_WR_SEND;
            wr_[i].send_flags = IBV_SEND_SIGNALED;
        }
    }

    void give_receives() {
        ibv_recv_wr wr{};
        wr.sg_list = &sge_;
        wr.num_sge = 1;
        ibv_recv_wr* bad = nullptr;
        for (int i = 0; i < kBatch; ++i) {
            done(ibv_post_recv(qp_[1], &wr, &bad), "post a receive");
        }
    }
    void drain_receives() {
        std::array<ibv_wc, kBatch> wc{};
        for (int taken = 0; taken < kBatch;) {
            taken += std::max(0, ibv_poll_cq(recv_cq_, kBatch, wc.data()));
        }
    }
    // Without looking at the queue: a receive is completed before its send is.
    void await_sends() {
        drain_receives();
        usleep(20000);
    }

    // What is measured. Not inlined, because callgrind finds them by their names.
    [[gnu::noinline]] void measure_post_one() {
        wr_[0].next = nullptr;
        ibv_send_wr* bad = nullptr;
        for (int i = 0; i < kBatch; ++i) {
            done(ibv_post_send(qp_[0], wr_.data(), &bad), "post a send");
        }
    }
    [[gnu::noinline]] void measure_post_chain() {
        for (int i = 0; i < kBatch; ++i) {
            wr_[i].next = i + 1 < kBatch ? &wr_[i + 1] : nullptr;
        }
        ibv_send_wr* bad = nullptr;
        done(ibv_post_send(qp_[0], wr_.data(), &bad), "post a chain");
    }
    [[gnu::noinline]] void measure_poll_one() {
        ibv_wc wc{};
        for (int i = 0; i < kBatch; ++i) {
            if (ibv_poll_cq(send_cq_, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS) {
                die("poll one");
            }
        }
    }
    [[gnu::noinline]] void measure_poll_batch() {
        if (ibv_poll_cq(send_cq_, kBatch, wc_.data()) != kBatch) {
            die("poll sixteen");
        }
    }
    [[gnu::noinline]] void measure_poll_empty() {
        for (int i = 0; i < kBatch; ++i) {
            if (ibv_poll_cq(send_cq_, 1, wc_.data()) != 0) {
                die("poll nothing");
            }
        }
    }

  private:
    void open(const std::string& device) {
        int count = 0;
        ibv_device** list = made(ibv_get_device_list(&count), "list devices");
        for (int i = 0; i < count; ++i) {
            if (device == ibv_get_device_name(list[i])) {
                context_ = ibv_open_device(list[i]);
            }
        }
        made(context_, "open the device");
        pd_ = made(ibv_alloc_pd(context_), "PD");
        mr_ = made(ibv_reg_mr(pd_, buffer_.data(), buffer_.size(), IBV_ACCESS_LOCAL_WRITE), "MR");
    }

    static void connect(ibv_qp* qp, std::uint32_t to) {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        done(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
             "INIT");
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qp_num = to;
        attr.min_rnr_timer = 1;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        attr.ah_attr.grh.hop_limit = 1;
        attr.ah_attr.grh.sgid_index = 1;
        done(ibv_query_gid(qp->context, 1, 1, &attr.ah_attr.grh.dgid), "GID");
        done(ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
             "RTR");
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = 14;
        attr.retry_cnt = 6;
        attr.rnr_retry = 6;
        done(ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
             "RTS");
    }

    ibv_context* context_ = nullptr;
    ibv_pd* pd_ = nullptr;
    ibv_pd* domain_ = nullptr;
    ibv_mr* mr_ = nullptr;
    ibv_cq* send_cq_ = nullptr;
    ibv_cq* recv_cq_ = nullptr;
    std::array<ibv_qp*, 2> qp_{};
    ibv_sge sge_{};
    std::array<ibv_send_wr, kBatch> wr_{};
    std::array<ibv_wc, kBatch> wc_{};
    std::array<char, 4096> buffer_{};
};

// The child: does one kind of measured call kRounds times, for callgrind to count.
int act(const std::string& device, const std::string& what, bool promise_one_thread) {
    Loop loop(device, promise_one_thread);
    for (int round = 0; round < kRounds; ++round) {
        if (what == "measure_poll_empty") {
            loop.measure_poll_empty();
            continue;
        }
        loop.give_receives();
        if (what == "measure_post_chain") {
            loop.measure_post_chain();
        } else {
            loop.measure_post_one();
        }
        loop.await_sends();
        if (what == "measure_poll_batch") {
            loop.measure_poll_batch();
        } else {
            loop.measure_poll_one();
        }
    }
    return 0;
}

std::string own_path() {
    std::array<char, 4096> path{};
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
    return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "bench_provider";
}

std::string our_provider() {
    const std::string self = own_path();
    return self.substr(0, self.rfind("/bench/")) + "/provider/libibverbs/libsluice";
}

// User-space instructions per call of what WHAT measures, or 0 when they could not be counted.
double instructions(const std::string& device, const char* what, bool ours, bool promise_one_thread) {
    const std::string command =
        (ours ? "RDMAV_DRIVERS=" + our_provider() : std::string("env -u RDMAV_DRIVERS")) +
        " valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*" + what + "*' " +
        own_path() + " --act " + device + " " + what + (promise_one_thread ? " one-thread" : " locked") +
        " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) {
        return 0;
    }
    std::array<char, 512> line{};
    double collected = 0;
    std::string output;
    while (std::fgets(line.data(), line.size(), pipe) != nullptr) {
        output += line.data();
        if (const char* at = std::strstr(line.data(), "Collected : ")) {
            collected = std::strtod(at + 12, nullptr);
        }
    }
    if (pclose(pipe) != 0) {
        std::fprintf(stderr, "%s", output.c_str());
        return 0;
    }
    return collected / kRounds / kBatch;
}

struct Measured {
    double one = 0; // a post and a poll
    double chain = 0;
    double batch = 0;
    double empty = 0;
};

Measured measure(const std::string& device, bool ours, bool promise_one_thread) {
    const auto count = [&](const char* what) { return instructions(device, what, ours, promise_one_thread); };
    return {.one = count("measure_post_one") + count("measure_poll_one"),
            .chain = count("measure_post_chain"),
            .batch = count("measure_poll_batch"),
            .empty = count("measure_poll_empty")};
}

void compare(sluice::bench::Report& report, const std::string& name, double ours, double theirs,
             double goal) {
    sluice::bench::Figure figure;
    figure.name = name;
    figure.value = theirs > 0 ? ours / theirs : 0;
    figure.unit = "ratio";
    figure.kind = sluice::bench::Goal::kAtMost;
    figure.goal = goal;
    figure.ours = ours;
    figure.theirs = theirs;
    figure.compared_unit = "instructions";
    if (ours <= 0 || theirs <= 0) {
        figure.reason = "callgrind counted nothing";
    }
    report.add(std::move(figure));
}

int run_in_lab(int argc, char** argv) {
    const std::string self = own_path();
    const std::string root = self.substr(0, self.rfind("/build/"));
    std::string command =
        "'" + root + "/scripts/lab' --quiet --device rxe --export '" + root + "' -- '" + self + "'";
    for (int i = 1; i < argc; ++i) {
        command += " '" + std::string(argv[i]) + "'";
    }
    return std::system(command.c_str()) == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
    if (argc == 5 && std::strcmp(argv[1], "--act") == 0) {
        return act(argv[2], argv[3], std::strcmp(argv[4], "one-thread") == 0);
    }
    const std::string device = device_name();
    if (device.empty()) {
        return run_in_lab(argc, argv);
    }
    sluice::bench::Report report("provider: user-space instructions against the stock rxe provider", argc,
                                 argv);
    const Measured stock = measure(device, false, false);
    const Measured ours = measure(device, true, false);
    const Measured promised = measure(device, true, true);
    compare(report, "post and poll of a 64-byte send", ours.one, stock.one, 1.0);
    compare(report, "post and poll of a 64-byte send, one thread promised", promised.one, stock.one, 0.8);
    compare(report, "chain of 16, per request", ours.chain, stock.chain, 1.0);
    compare(report, "chain of 16, per request, one thread promised", promised.chain, stock.chain, 1.0);
    compare(report, "poll of 16, per completion", ours.batch, stock.batch, 1.0);
    compare(report, "poll of 16, per completion, one thread promised", promised.batch, stock.batch, 1.0);
    compare(report, "empty poll", ours.empty, stock.empty, 0.5);
    return report.finish();
}
