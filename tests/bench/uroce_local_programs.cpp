// SPDX-License-Identifier: BSD-3-Clause
//
// Unmodified programs, two processes each. All contenders run once in each round, one after the other, in an
// order that rotates; a figure is the median over the rounds of what the program itself prints, and ratios
// compare medians of the same rounds. Both paths are there: through memory, and with
// SLUICE_UROCE_NEIGHBOURS=packets over UDP.
//
// The yardsticks are UCX's own transports, measured by UCX's own test: posix for memory that both processes
// map, and cma, which is process_vm_writev(), for memory of one process. UCX takes cma by its lower layer
// (UCT) only, so that uroce is compared with it there.
#include <functional>
#include <map>

#include "tests/bench/failure.hpp"
#include "tests/bench/in_lab.hpp"
#include "tests/bench/program_output.hpp"
#include "tests/bench/program_pair.hpp"
#include "tests/bench/uroce_local.hpp"
#include "tests/loopback.hpp"

namespace sluice::bench {

namespace {

using Words = std::vector<std::string>;
using Parser = std::optional<double> (*)(std::string_view);

// Where perftest's buffers lie.
enum class Buffers { kHeap, kSharedHeap, kSharedFiles };

// The environment that lets UCX's UCP layer put its buffers into files of /dev/shm, and yet use uroce: the
// posix transport is there, since it allocates, and is called slow, so that it isn't chosen.
const Words kUcpShared = {"UCX_TLS=rc_v,posix,self", "UCX_POSIX_BW=1MBps", "UCX_ALLOC_PRIO=md:posix"};

Words operator+(Words left, const Words& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

class Programs {
  public:
    Programs(Report& report, const std::string& sluice)
        : report_(report), runner_(sluice, test::own_address(), test::Loopback::instance().next_tcp_port()) {}

    // PROGRAM with messages of BYTES, COUNT of them.
    void perftest(const std::string& name, const std::string& program, Parser parser, std::size_t bytes,
                  int count, Way way, Buffers buffers = Buffers::kHeap) {
        count = times(count);
        const Words command = {
            program, "-F", "-p", runner_.port(), "-s", std::to_string(bytes), "-n", std::to_string(count)};
        Pair pair{.server = command + file(buffers, "server"),
                  .client = command + file(buffers, "client") + Words{"127.0.0.1"},
                  .way = way,
                  .least = static_cast<std::uint64_t>(count),
                  .shares_heap = buffers == Buffers::kSharedHeap};
        add(name, std::move(pair), parser);
    }
    // ucx_perftest with OPTIONS, COUNT iterations. The environment says which transports there are.
    void ucx(const std::string& name, const Words& options, Parser parser, int count,
             const Words& environment, Way way = Way::kOther) {
        count = times(count);
        const Words command = {"ucx_perftest", "-p", runner_.port()};
        Pair pair{.server = command,
                  .client = command + options + Words{"-n", std::to_string(count), "-w", "1000", "127.0.0.1"},
                  .environment = environment + Words{"UCX_WARN_UNUSED_ENV_VARS=n"},
                  .way = way,
                  .least = way == Way::kOther ? 0 : static_cast<std::uint64_t>(count)};
        if (way != Way::kOther) {
            pair.environment.push_back("UCX_NET_DEVICES=uroce0:1");
        }
        add(name, std::move(pair), parser);
    }

    void run() {
        const int rounds = report_.rounds(11);
        for (int round = 0; round < rounds; ++round) {
            for (std::size_t turn = 0; turn < contenders_.size(); ++turn) {
                measure(contenders_[(turn + static_cast<std::size_t>(round)) % contenders_.size()]);
            }
        }
    }

    // Once it has run.
    double operator[](const std::string& name) const { return median(samples_.at(name)); }

  private:
    struct Contender {
        std::string name;
        Pair pair;
        Parser parser;
    };

    int times(int count) const { return report_.quick() ? std::max(count / 10, 100) : count; }
    // Mapped by each side from a file of its own, as perftest does with --mmap.
    Words file(Buffers buffers, const char* side) const {
        if (buffers != Buffers::kSharedFiles) {
            return {};
        }
        const std::filesystem::path file = runner_.directory() / (std::string(side) + ".file");
        std::ofstream(file).flush();
        std::filesystem::resize_file(file, std::size_t{64} << 20);
        return {"--mmap=" + file.string()};
    }
    void add(const std::string& name, Pair pair, Parser parser) {
        contenders_.push_back({name, std::move(pair), parser});
    }
    void measure(const Contender& contender) {
        const std::string output = runner_.run(contender.pair);
        const std::optional<double> figure = contender.parser(output);
        if (!figure) {
            std::fprintf(stderr, "%s: the output has no figure:\n%s", contender.name.c_str(), output.c_str());
            std::exit(1);
        }
        samples_[contender.name].push_back(*figure);
    }

    Report& report_;
    PairRunner runner_;
    std::vector<Contender> contenders_;
    std::map<std::string, std::vector<double>> samples_;
};

std::string on_shared_heap(const std::string& name) {
    return name + ", shared heap";
}

// Each comes a second time, so that the two show what this machine can't tell apart.
std::string again(const std::string& name) {
    return name + ", again";
}

struct Size {
    const char* name;
    std::uint32_t bytes;
    int count;
    double least_of_cma = 0; // a goal of bandwidth
};
constexpr Size kSizes[] = {
    {"4 KiB", 4096, 20'000}, {"64 KiB", 65536, 20'000, 0.8}, {"1 MiB", 1U << 20U, 2'000, 0.8}};

void list_latencies(Programs& programs) {
    constexpr int kCount = 100'000;
    constexpr int kCountOverUdp = 500; // on two processors each takes nearly a millisecond
    const auto us = perftest_median_us;
    programs.perftest("write", "ib_write_lat", us, 8, kCount, Way::kDirect);
    programs.perftest("write, shared", "ib_write_lat", us, 8, kCount, Way::kDirect, Buffers::kSharedFiles);
    programs.perftest(on_shared_heap("write"), "ib_write_lat", us, 8, kCount, Way::kDirect,
                      Buffers::kSharedHeap);
    programs.perftest("send", "ib_send_lat", us, 8, kCount, Way::kRing);
    programs.perftest("write, udp", "ib_write_lat", us, 8, kCountOverUdp, Way::kUdp);
    programs.perftest("send, udp", "ib_send_lat", us, 8, kCountOverUdp, Way::kUdp);
}

void list_bandwidths(Programs& programs) {
    for (const Size& size : kSizes) {
        const std::string name = size.name;
        const std::uint32_t bytes = size.bytes;
        const int count = size.count;
        const Words cma = {"-d",    "memory", "-x",     "cma", "-D",
                           "zcopy", "-t",     "put_bw", "-s",  std::to_string(bytes)};
        programs.perftest(name, "ib_write_bw", perftest_mib_per_s, bytes, count, Way::kDirect);
        programs.perftest(on_shared_heap(name), "ib_write_bw", perftest_mib_per_s, bytes, count, Way::kDirect,
                          Buffers::kSharedHeap);
        programs.perftest(name + ", udp", "ib_write_bw", perftest_mib_per_s, bytes, count / 10, Way::kUdp);
        programs.ucx(name + ", cma", cma, ucx_mib_per_s, count, {});
        programs.ucx(again(name + ", cma"), cma, ucx_mib_per_s, count, {});
    }
    const auto rate = perftest_million_messages_per_s;
    programs.perftest("rate", "ib_write_bw", rate, 8, 1'000'000, Way::kDirect);
    programs.perftest(on_shared_heap("rate"), "ib_write_bw", rate, 8, 1'000'000, Way::kDirect,
                      Buffers::kSharedHeap);
    programs.perftest("rate, shared", "ib_write_bw", rate, 8, 1'000'000, Way::kDirect, Buffers::kSharedFiles);
}

void list_ucx(Programs& programs) {
    constexpr int kCount = 100'000;
    const auto us = ucx_median_us;
    const Words ucp_put = {"-t", "ucp_put_lat"};
    const Words tag = {"-t", "tag_lat"};
    const Words uct_cma = {"-d", "memory", "-x", "cma", "-D", "zcopy", "-t", "put_lat"};
    const Words over_posix = {"UCX_TLS=posix,self"};
    const Words over_uroce = {"UCX_TLS=rc_v,self"};
    programs.ucx("put", {"-d", "uroce0:1", "-x", "rc_verbs", "-t", "put_lat"}, us, kCount, {}, Way::kDirect);
    programs.ucx("ucp put", ucp_put, us, kCount, over_uroce, Way::kDirect);
    programs.ucx("ucp put, shared", ucp_put, us, kCount, kUcpShared, Way::kDirect);
    programs.ucx("tag", tag, us, kCount, over_uroce, Way::kRing);
    programs.ucx("put, posix", {"-d", "memory", "-x", "posix", "-t", "put_lat"}, us, kCount, {});
    for (const auto& [name, options, environment] : {std::tuple{std::string("put, cma"), uct_cma, Words()},
                                                     {"ucp put, posix", ucp_put, over_posix},
                                                     {"tag, posix", tag, over_posix}}) {
        programs.ucx(name, options, us, kCount, environment);
        programs.ucx(again(name), options, us, kCount, environment);
    }
}

struct Wanted {
    Goal kind = Goal::kNone;
    double goal = 0;
};

void add_value(Report& report, const std::string& name, double value, const std::string& unit,
               Wanted wanted = {}, Points points = {}) {
    report.add({.name = name,
                .value = value,
                .unit = unit,
                .kind = wanted.kind,
                .goal = wanted.goal,
                .points = std::move(points)});
}

struct Compared {
    std::string ours;
    std::string theirs;
    std::string unit;
    double scale = 1; // of the unit, in that of the programs
};

Compared in_ns(const std::string& ours, const std::string& theirs) {
    return {ours, theirs, "ns", 1e3};
}

Compared in_mib_per_s(const std::string& ours, const std::string& theirs) {
    return {ours, theirs, "MiB/s"};
}

void add_ratio(Report& report, const Programs& programs, const std::string& name, const Compared& two,
               Wanted wanted = {}, Points points = {}) {
    const double ours = programs[two.ours];
    const double theirs = programs[two.theirs];
    const bool is_judged = wanted.kind != Goal::kNone;
    report.add({.name = name,
                .value = ours / theirs,
                .unit = "x",
                .kind = wanted.kind,
                .goal = wanted.goal,
                .ours = ours * two.scale,
                .theirs = theirs * two.scale,
                .compared_unit = two.unit,
                .noise = is_judged ? std::fabs(programs[again(two.theirs)] / theirs - 1) : 0,
                .points = std::move(points)});
}

void tell_latencies(Report& report, const Programs& programs) {
    constexpr const char* kChart = "ib_write_lat between two processes";
    add_value(report, "ib_write_lat 8 B, heap", programs["write"], "us", {Goal::kAtMost, 1.0},
              {{kChart, "us", "uroce, heap", 8, programs["write"], 1.0},
               {kChart, "us", "uroce over UDP", 8, programs["write, udp"]},
               {kChart, "us", "UCX, cma", 8, programs["put, cma"]},
               {kChart, "us", "UCX, posix", 8, programs["put, posix"]}});
    add_ratio(report, programs, "  against UCX put_lat, cma", in_ns("write", "put, cma"));
    add_ratio(report, programs, "  over UDP / through memory", in_ns("write, udp", "write"));
    add_value(report, "ib_write_lat 8 B, shared files", programs["write, shared"], "us",
              {Goal::kAtMost, 0.35},
              {{kChart, "us", "uroce, shared files", 8, programs["write, shared"], 0.35}});
    add_ratio(report, programs, "  against UCX put_lat, posix", in_ns("write, shared", "put, posix"));
    add_value(report, "ib_write_lat 8 B, shared heap", programs[on_shared_heap("write")], "us",
              {Goal::kAtMost, 0.35},
              {{kChart, "us", "uroce, shared heap", 8, programs[on_shared_heap("write")], 0.35}});
    add_ratio(report, programs, "  over UDP / through memory", in_ns("write, udp", "write, shared"));
    add_value(report, "ib_send_lat 8 B", programs["send"], "us", {Goal::kAtMost, 0.8});
    add_ratio(report, programs, "  over UDP / through memory", in_ns("send, udp", "send"));
}

void tell_bandwidths(Report& report, const Programs& programs) {
    for (const auto& [name, bytes, count, least_of_cma] : kSizes) {
        const std::string size = name;
        const double cma = programs[size + ", cma"];
        const Wanted wanted = least_of_cma != 0 ? Wanted{Goal::kAtLeast, least_of_cma} : Wanted{};
        Points points = compared({"ib_write_bw between two processes", "MiB/s", "uroce", "UCX, cma"}, bytes,
                                 programs[size], cma, least_of_cma * cma);
        points.push_back({points[0].chart, "MiB/s", "uroce over UDP", bytes, programs[size + ", udp"]});
        add_ratio(report, programs, "ib_write_bw " + size + " / UCX put_bw, cma",
                  in_mib_per_s(size, size + ", cma"), wanted, std::move(points));
        add_ratio(report, programs, "  the same on a shared heap",
                  in_mib_per_s(on_shared_heap(size), size + ", cma"), wanted);
        add_ratio(report, programs, "  through memory / over UDP", in_mib_per_s(size, size + ", udp"));
    }
    add_value(report, "ib_write_bw 8 B, one queue pair, shared files", programs["rate, shared"], "M/s",
              {Goal::kAtLeast, 5});
    add_value(report, "ib_write_bw 8 B, one queue pair, shared heap", programs[on_shared_heap("rate")], "M/s",
              {Goal::kAtLeast, 5});
    add_value(report, "ib_write_bw 8 B, one queue pair, heap", programs["rate"], "M/s", {Goal::kAtLeast, 2});
}

void tell_ucx(Report& report, const Programs& programs) {
    add_ratio(report, programs, "ucx_perftest ucp_put_lat, rc_v in shared files / posix",
              in_ns("ucp put, shared", "ucp put, posix"), {Goal::kAtMost, 4});
    add_ratio(report, programs, "ucx_perftest tag_lat, rc_v / posix", in_ns("tag", "tag, posix"),
              {Goal::kAtMost, 4});
    add_ratio(report, programs, "ucx_perftest put_lat, rc_v on the heap / cma", in_ns("put", "put, cma"),
              {Goal::kAtMost, 1.5});
    add_ratio(report, programs, "ucx_perftest ucp_put_lat, rc_v on the heap / posix",
              in_ns("ucp put", "ucp put, posix"));
}

} // namespace

void program_figures(Report& report) {
    Programs programs(report, sluice_command());
    list_latencies(programs);
    list_bandwidths(programs);
    list_ucx(programs);
    programs.run();
    tell_latencies(report, programs);
    tell_bandwidths(report, programs);
    tell_ucx(report, programs);
}

} // namespace sluice::bench
