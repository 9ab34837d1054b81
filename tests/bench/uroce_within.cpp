// SPDX-License-Identifier: BSD-3-Clause
//
// Within one process. What is timed is from the call of ibv_post_send() until the last word of the
// target's memory is the new one, as a peer that looks at memory sees it; and until the completion has
// been polled. The yardstick is a memcpy() of the same bytes.
#include "tests/bench/uroce.hpp"
#include "tests/bench/uroce_end.hpp"

namespace sluice::bench {

namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr const char* kLatencyChart = "RDMA Write within a process: post to visible";
constexpr const char* kOneProcess = "uroce, two devices";

// An end with a context and memory of its own.
struct Side {
    explicit Side(unsigned device) : context(own_address(device)), block(kMaxBytes), end(context, block) {}

    Context context;
    Buffer block;
    End end;
};

class Write {
  public:
    Write(Side& from, Side& to, std::uint32_t bytes) : left_(from), right_(to), len_bytes_(bytes) {
        connect(left_.end, right_.end);
    }

    void prepare() {
        poll();
        last_word(left_) = ++number_;
    }
    void post_until_visible() {
        left_.end.post_write(len_bytes_);
        while (__atomic_load_n(&last_word(right_), __ATOMIC_ACQUIRE) != number_) {
        }
        outstanding_ = true;
    }
    void poll() {
        while (outstanding_) {
            outstanding_ = left_.end.poll() == 0;
        }
    }

  private:
    std::uint64_t& last_word(const Side& side) const {
        return *reinterpret_cast<std::uint64_t*>(side.block.data() + len_bytes_ - sizeof(std::uint64_t));
    }

    Side& left_;
    Side& right_;
    std::uint32_t len_bytes_;
    std::uint64_t number_ = 0;
    bool outstanding_ = false;
};

void latency_figures(Report& report, const char* what, unsigned peer) {
    static constexpr double kGoalNs = 1000;
    // Each single one is a sample: the goal is a median of writes.
    constexpr int kRounds = 20001;
    Side left(0), visible_right(peer);
    Side also_left(0), completed_right(peer);
    Write visible(left, visible_right, 8), completed(also_left, completed_right, 8);
    const std::vector<double> ns =
        interleave({{[&] { visible.prepare(); }, [&] { visible.post_until_visible(); }},
                    {[&] { completed.prepare(); },
                     [&] {
                         completed.post_until_visible();
                         completed.poll();
                     }}},
                   report.rounds(kRounds), 1);
    report.add({.name = std::string("8-byte write, post to visible, ") + what,
                .value = ns[0],
                .unit = "ns",
                .kind = Goal::kAtMost,
                .goal = kGoalNs,
                .points = {{kLatencyChart, "ns", std::string("uroce, ") + what, 8, ns[0], kGoalNs}}});
    report.add({.name = std::string("the same to its completion, ") + what, .value = ns[1], .unit = "ns"});
}

// The mean of many: the clock of a virtual machine may tick once in 10 ns.
void rate_figure(Report& report, const char* what, unsigned peer) {
    constexpr int kWrites = 1000;
    Side left(0), right(peer);
    Write write(left, right, 8);
    const std::vector<double> ns = interleave({{[] {},
                                                [&] {
                                                    for (int i = 0; i < kWrites; ++i) {
                                                        write.prepare();
                                                        write.post_until_visible();
                                                    }
                                                }}},
                                              report.rounds(1001), 1);
    report.add({.name = std::string("8-byte writes, one after the other's completion, ") + what,
                .value = ns[0] / kWrites,
                .unit = "ns"});
}

Points points_of(std::uint32_t bytes, double write_ns, double copy_ns) {
    static const Comparison kLatency{kLatencyChart, "ns", kOneProcess, "memcpy()"};
    static const Comparison kBandwidth{"RDMA Write within a process: bandwidth, one at a time", "GB/s",
                                       kOneProcess, "memcpy()"};
    Points points = compared(kLatency, bytes, write_ns, copy_ns);
    const Points more = compared(kBandwidth, bytes, bytes / write_ns, bytes / copy_ns);
    points.insert(points.end(), more.begin(), more.end());
    return points;
}

void bandwidth_figures(Report& report) {
    const Buffer source(kMaxBytes), target(kMaxBytes);
    for (const std::uint32_t bytes : {64U, 512U, 4096U, 32768U, 65536U, 262144U, 1U << 20U}) {
        Side from(0), to(1);
        Write write(from, to, bytes);
        const auto copy = [&] {
            std::memcpy(target.data(), source.data(), bytes);
            keep(target.data());
        };
        const auto nothing = [] {};
        const std::vector<double> ns =
            interleave({{[&] { write.prepare(); }, [&] { write.post_until_visible(); }},
                        {nothing, copy},
                        {nothing, copy}},
                       report.rounds(501), 4);
        const auto gb_per_s = [bytes](double each) { return static_cast<double>(bytes) / each; };
        report.add({.name = std::to_string(bytes) + "-byte write against memcpy()",
                    .value = ns[1] / ns[0],
                    .unit = "x",
                    .ours = gb_per_s(ns[0]),
                    .theirs = gb_per_s(ns[1]),
                    .compared_unit = "GB/s",
                    .noise = std::abs(ns[1] / ns[2] - 1),
                    .points = points_of(bytes, ns[0], ns[1])});
    }
}

void poll_figure(Report& report) {
    constexpr int kPolls = 1000;
    constexpr double kGoalNs = 60;
    Side side(0);
    const std::vector<double> ns = interleave({{[] {},
                                                [&] {
                                                    for (int i = 0; i < kPolls; ++i) {
                                                        keep(side.end.poll());
                                                    }
                                                }}},
                                              report.rounds(201), 1);
    report.add({.name = "poll of an empty queue",
                .value = ns[0] / kPolls,
                .unit = "ns",
                .kind = Goal::kAtMost,
                .goal = kGoalNs});
}

} // namespace

void within_figures(Report& report) {
    latency_figures(report, "one device", 0);
    latency_figures(report, "two devices", 1);
    rate_figure(report, "one device", 0);
    rate_figure(report, "two devices", 1);
    bandwidth_figures(report);
    poll_figure(report);
}

} // namespace sluice::bench
