// SPDX-License-Identifier: BSD-3-Clause
//
// What librpma adds to verbs: bench_rpma [--json FILE] [--quick].
//
// Posting an 8-byte write and polling its completion, once by rpma_write() and rpma_cq_get_wc() and once by
// ibv_post_send() and ibv_poll_cq(), between the same two uroce devices of this process, in turn. The
// yardstick runs twice: what the two differ by is what this machine can't tell apart. A second connection
// counts completions (ADR 91).
#include <sluice/rpma.h>

#include "tests/bench/uroce_end.hpp"

namespace {

using namespace sluice::bench;

constexpr std::uint32_t kDepth = 64;
constexpr std::size_t kBytes = 4096;
constexpr std::uint32_t kWrite = 8;
constexpr char kPort[] = "7471";

void must(int code, const char* what) {
    if (code != 0) {
        std::fprintf(stderr, "bench_rpma: %s: %s\n", what, rpma_err_2str(code));
        _exit(1);
    }
}

struct Host {
    explicit Host(unsigned number) : address(own_address(number)), block(kBytes) {
        ibv_context* context = nullptr;
        must(rpma_utils_get_ibv_context(address.c_str(), RPMA_UTIL_IBV_CONTEXT_LOCAL, &context),
             "the device");
        must(rpma_peer_new(context, &peer), "rpma_peer_new");
        must(rpma_mr_reg(peer, block.data(), kBytes, 0xff, &region), "rpma_mr_reg");
    }
    ~Host() {
        rpma_mr_dereg(&region);
        rpma_peer_delete(&peer);
    }
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    std::string address;
    Buffer block;
    rpma_peer* peer = nullptr;
    rpma_mr_local* region = nullptr;
};

class Connection {
  public:
    explicit Connection(bool counted) {
        rpma_conn_cfg* config = nullptr;
        must(rpma_conn_cfg_new(&config), "rpma_conn_cfg_new");
        must(rpma_conn_cfg_set_sq_size(config, kDepth), "sizes");
        must(rpma_conn_cfg_set_cq_size(config, kDepth + 1), "sizes");
        must(rpma_conn_cfg_set_cq_credits(config, counted), "counting");
        rpma_ep* ep = nullptr;
        must(rpma_ep_listen(server_.peer, server_.address.c_str(), kPort, &ep), "rpma_ep_listen");
        rpma_conn_req* request = nullptr;
        must(rpma_conn_req_new(client_.peer, server_.address.c_str(), kPort, config, &request), "connecting");
        must(rpma_conn_req_connect(&request, nullptr, &client_end_), "connecting");
        must(rpma_ep_next_conn_req(ep, config, &request), "accepting");
        must(rpma_conn_req_connect(&request, nullptr, &server_end_), "accepting");
        for (rpma_conn* end : {client_end_, server_end_}) {
            rpma_conn_event event = RPMA_CONN_UNDEFINED;
            must(rpma_conn_next_event(end, &event), "connecting");
        }
        must(rpma_ep_shutdown(&ep), "rpma_ep_shutdown");
        must(rpma_conn_cfg_delete(&config), "rpma_conn_cfg_delete");
        char descriptor[21];
        must(rpma_mr_get_descriptor(server_.region, descriptor), "the descriptor");
        must(rpma_mr_remote_from_descriptor(descriptor, sizeof descriptor, &remote_), "the descriptor");
        must(rpma_conn_get_cq(client_end_, &cq_), "rpma_conn_get_cq");
    }
    ~Connection() {
        rpma_mr_remote_delete(&remote_);
        rpma_conn_delete(&client_end_);
        rpma_conn_delete(&server_end_);
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    void write_and_poll() const {
        must(
            rpma_write(client_end_, remote_, 0, client_.region, 0, kWrite, RPMA_F_COMPLETION_ALWAYS, nullptr),
            "rpma_write");
        ibv_wc wc;
        int code = rpma_cq_get_wc(cq_, 1, &wc, nullptr);
        while (code == RPMA_E_NO_COMPLETION) {
            code = rpma_cq_get_wc(cq_, 1, &wc, nullptr);
        }
        must(code == 0 && wc.status != IBV_WC_SUCCESS ? RPMA_E_UNKNOWN : code, "rpma_cq_get_wc");
    }

  private:
    Host client_{0};
    Host server_{1};
    rpma_conn* client_end_ = nullptr;
    rpma_conn* server_end_ = nullptr;
    rpma_mr_remote* remote_ = nullptr;
    rpma_cq* cq_ = nullptr;
};

// The same without librpma, on contexts of its own of the same devices.
struct Raw {
    Raw() { connect(left, right); }
    void write_and_poll() {
        left.post_write(kWrite);
        while (left.poll() == 0) {
        }
    }

    Context left_context{own_address(0)};
    Context right_context{own_address(1)};
    Buffer left_block{kBytes};
    Buffer right_block{kBytes};
    End left{left_context, left_block, kDepth};
    End right{right_context, right_block, kDepth};
};

} // namespace

int main(int argc, char** argv) {
    // A device for each: without this, librpma takes both for addresses of uroce0.
    const std::string devices = "uroce0=" + own_address(0) + ",uroce1=" + own_address(1);
    setenv("SLUICE_UROCE", devices.c_str(), 1); // NOLINT(concurrency-mt-unsafe): the only thread
    constexpr int kRounds = 2001;
    constexpr int kEach = 32;
    constexpr double kGoalNs = 30;
    Report report("rpma: what it adds to verbs", argc, argv);
    {
        const Connection connection(false);
        const Connection counted(true);
        Raw first;
        Raw second;
        const auto nothing = [] {};
        const auto many = [](auto&& one) {
            return [&one] {
                for (int i = 0; i < kEach; ++i) {
                    one.write_and_poll();
                }
            };
        };
        const std::vector<double> ns = interleave({{nothing, many(first)},
                                                   {nothing, many(connection)},
                                                   {nothing, many(second)},
                                                   {nothing, many(counted)}},
                                                  report.rounds(kRounds), 1);
        report.add({.name = "8-byte write, post to completion, verbs", .value = ns[0] / kEach, .unit = "ns"});
        report.add({.name = "the same, librpma", .value = ns[1] / kEach, .unit = "ns"});
        report.add({.name = "librpma over verbs",
                    .value = (ns[1] - ns[0]) / kEach,
                    .unit = "ns",
                    .kind = Goal::kAtMost,
                    .goal = kGoalNs});
        report.add({.name = "verbs over verbs", .value = (ns[2] - ns[0]) / kEach, .unit = "ns"});
        report.add(
            {.name = "counting completions over librpma", .value = (ns[3] - ns[1]) / kEach, .unit = "ns"});
    }
    return report.finish();
}
