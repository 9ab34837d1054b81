// SPDX-License-Identifier: BSD-3-Clause
//
// What `sluice check` costs an unmodified program: bench_check [--json FILE] [--quick].
//
// ib_send_bw as it is packaged, two processes over uroce, without a checker and behind `sluice check`: with
// --quick, without an option, with --every-request. All run in each round, and both sides have the checker.
#include "tests/bench/failure.hpp"
#include "tests/bench/harness.hpp"
#include "tests/bench/in_lab.hpp"
#include "tests/bench/program_output.hpp"
#include "tests/bench/program_pair.hpp"
#include "tests/loopback.hpp"

namespace sluice::bench {

namespace {

using Words = std::vector<std::string>;

constexpr std::size_t kPlain = 0;
constexpr std::size_t kPlainAgain = 1;
constexpr std::size_t kQuick = 2;
constexpr std::size_t kFull = 3;
constexpr std::size_t kEvery = 4;

Pair send_bandwidth(const std::string& port, std::size_t bytes, int count, const Words& checker) {
    const Words command = {"ib_send_bw",         "-F", "-p", port, "-s", std::to_string(bytes), "-n",
                           std::to_string(count)};
    Pair pair{
        .server = command, .client = command, .way = Way::kRing, .least = static_cast<std::uint64_t>(count)};
    pair.client.emplace_back("127.0.0.1");
    pair.checker = checker;
    return pair;
}

double bandwidth(const PairRunner& runner, const Pair& pair) {
    const std::string output = runner.run(pair);
    const std::optional<double> figure = perftest_mib_per_s(output);
    if (!figure) {
        std::fprintf(stderr, "ib_send_bw: the output has no figure:\n%s", output.c_str());
        std::exit(1);
    }
    return *figure;
}

void add_slowdown(Report& report, const std::string& name, const std::vector<double>& mib_per_s,
                  std::size_t checked, double goal) {
    const double plain = mib_per_s[kPlain];
    report.add({.name = name,
                .value = plain / mib_per_s[checked],
                .unit = "x",
                .kind = goal != 0 ? Goal::kAtMost : Goal::kNone,
                .goal = goal,
                .ours = mib_per_s[checked],
                .theirs = plain,
                .compared_unit = "MiB/s",
                .noise = std::fabs(mib_per_s[kPlainAgain] / plain - 1)});
}

struct Goals {
    double quick = 0;
    double full = 0;
};

void slowdown_figures(Report& report, const PairRunner& runner, const std::string& size, std::size_t bytes,
                      Goals goals) {
    const int count = report.quick() ? 1000 : 20'000;
    std::vector<Pair> pairs;
    for (const Words& checker :
         {Words(), Words(), Words{"check", "--quick"}, Words{"check"}, Words{"check", "--every-request"}}) {
        pairs.push_back(send_bandwidth(runner.port(), bytes, count, checker));
    }
    const std::vector<double> mib_per_s = medians_in_turns(
        report.rounds(11), pairs.size(), [&](std::size_t which) { return bandwidth(runner, pairs[which]); });
    add_slowdown(report, "ib_send_bw " + size + ", slower by `sluice check --quick`", mib_per_s, kQuick,
                 goals.quick);
    add_slowdown(report, "ib_send_bw " + size + ", slower by `sluice check`", mib_per_s, kFull, goals.full);
    add_slowdown(report, "ib_send_bw " + size + ", slower by `sluice check --every-request`", mib_per_s,
                 kEvery, 0);
}

} // namespace

} // namespace sluice::bench

int main(int argc, char** argv) {
    using namespace sluice::bench;
    Report report("check: what sluice check costs a program", argc, argv);
    const PairRunner runner(sluice_command(), sluice::test::own_address(),
                            sluice::test::Loopback::instance().next_tcp_port());
    slowdown_figures(report, runner, "64 KiB", std::size_t{64} << 10, {.quick = 1.3, .full = 2});
    slowdown_figures(report, runner, "64 B", 64, {});
    return report.finish();
}
