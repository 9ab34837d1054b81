// SPDX-License-Identifier: BSD-3-Clause
//
// What the memory allows and others do: large ranges against stores that pass the caches by, one
// range against libpmem2, and what the next reader of cleaned data pays.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>

#include "core/coherence/engine.hpp"
#include "tests/bench/sync.hpp"
#include "tests/bench/yardsticks.hpp"

#if defined(SLUICE_HAVE_PMEM2)
#include <fcntl.h>
#include <libpmem2.h>
#endif

namespace sluice::bench {

#if defined(__x86_64__)

namespace {

using coherence::EdgePolicy;
using coherence::Engine;
using coherence::Segment;

constexpr std::uint64_t kMiB = 1 << 20;

std::string size_name(std::uint64_t bytes) {
    return bytes >= kMiB ? std::to_string(bytes / kMiB) + " MiB" : std::to_string(bytes / 1024) + " KiB";
}

// A dirty range that fits the last cache, cleaned, against the same bytes stored past the caches:
// both end when all of it is in memory. The stores go to lines that no cache holds, which is the
// goal's yardstick, and for comparison to lines that are as dirty as ours.
void add_bandwidth_figure(Report& report, const coherence::Ops& ops, std::uint64_t bytes, double goal) {
    Buffer ours(bytes);
    Buffer theirs(bytes);
    const std::unique_ptr<Engine> engine = *Engine::make_non_coherent(ops, EdgePolicy::kCount);
    const std::uint32_t context = *engine->add({.address = ours.address(), .length = ours.size()}, true);
    const Segment segment{context, 0, ours.address(), bytes};
    const auto dirty = [&] {
        std::memset(ours.data(), 2, bytes);
        drain();
    };
    const Contender store{[] {},
                          [&] {
                              store_past_caches(theirs.data(), bytes);
                              drain();
                          }};
    const Contender store_over_dirty{dirty, [&] {
                                         store_past_caches(ours.data(), bytes);
                                         drain();
                                     }};
    const auto medians = interleave({{dirty,
                                      [&] {
                                          keep(engine->before_device_reads(&segment, 1).index);
                                          drain();
                                      }},
                                     store,
                                     store,
                                     store_over_dirty},
                                    report.rounds(101), 1);
    report.add({.name = "bandwidth of clean / stores past the caches: " + size_name(bytes),
                .value = medians[1] / medians[0],
                .unit = "x",
                .kind = goal != 0 ? Goal::kAtLeast : Goal::kNone,
                .goal = goal,
                .ours = medians[0],
                .theirs = medians[1],
                .noise = std::fabs(medians[1] / medians[2] - 1)});
    report.add({.name = "  against such stores over the same dirty lines",
                .value = medians[3] / medians[0],
                .unit = "x",
                .ours = medians[0],
                .theirs = medians[3]});
}

// Reads one word of each line, each address coming from the word before: ns per line.
void add_reread_figure(Report& report, const coherence::Ops& ops) {
    constexpr std::uint64_t kBytes = 256 << 10;
    Buffer buffer(kBytes);
    std::vector<std::uint64_t> order(kBytes / kLine);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(3));
    const auto word = [&](std::uint64_t line) {
        return reinterpret_cast<std::uint64_t*>(buffer.data() + line * kLine);
    };
    const auto link = [&] {
        for (std::size_t i = 0; i < order.size(); ++i) {
            *word(order[i]) = order[(i + 1) % order.size()];
        }
        drain();
    };
    const auto read_all = [&] {
        std::uint64_t line = order[0];
        for (std::size_t i = 0; i < order.size(); ++i) {
            line = *word(line);
        }
        keep(line);
    };
    const auto after = [&](auto flush) {
        return Contender{[=] {
                             link();
                             flush();
                             drain();
                         },
                         read_all};
    };
    const auto medians =
        interleave({after([&] { coherence::clean(ops, buffer.address(), kBytes); }),
                    after([&] { coherence::invalidate(ops, buffer.address(), kBytes); }), after([] {})},
                   report.rounds(101), 1);
    const double lines = kBytes / kLine;
    Figure figure{.name = "next read of a cleaned line, each depending on the last",
                  .value = medians[0] / lines,
                  .unit = "ns",
                  .kind = Goal::kAtMost,
                  .goal = 20};
    if (std::string_view(ops.clean.name) != "clwb") {
        figure.reason = "no clwb here";
    }
    report.add(figure);
    report.add({.name = "  the same after an invalidate", .value = medians[1] / lines, .unit = "ns"});
    report.add({.name = "  the same untouched", .value = medians[2] / lines, .unit = "ns"});
}

#if defined(SLUICE_HAVE_PMEM2)

// Memory that libpmem2 believes to be persistent, so that it flushes cache lines.
class PmemMap {
  public:
    explicit PmemMap(std::uint64_t bytes) {
        (void)setenv("PMEM2_FORCE_GRANULARITY", "CACHE_LINE", 1);
        fd_ = memfd_create("sluice-bench", 0);
        pmem2_source* source = nullptr;
        pmem2_config* config = nullptr;
        if (fd_ >= 0 && ftruncate(fd_, static_cast<off_t>(bytes)) == 0 && pmem2_config_new(&config) == 0 &&
            pmem2_source_from_fd(&source, fd_) == 0 &&
            pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_CACHE_LINE) == 0) {
            (void)pmem2_map_new(&map_, config, source);
        }
        pmem2_source_delete(&source);
        pmem2_config_delete(&config);
    }
    ~PmemMap() {
        if (map_ != nullptr) {
            pmem2_map_delete(&map_);
        }
        close(fd_);
    }
    PmemMap(const PmemMap&) = delete;
    PmemMap& operator=(const PmemMap&) = delete;

    pmem2_map* get() const { return map_; }

  private:
    int fd_ = -1;
    pmem2_map* map_ = nullptr;
};

void add_pmem2_figure(Report& report, const coherence::Ops& ops, const PmemMap& map, std::uint64_t bytes) {
    const pmem2_flush_fn flush = pmem2_get_flush_fn(map.get());
    const pmem2_drain_fn drain_fn = pmem2_get_drain_fn(map.get());
    char* data = static_cast<char*>(pmem2_map_get_address(map.get()));
    const auto dirty = [=] {
        for (std::uint64_t at = 0; at < bytes; at += 16) {
            volatile char* byte = data + at;
            *byte = static_cast<char>(*byte + 1);
        }
        drain();
    };
    const Contender theirs{dirty, [=] {
                               flush(data, bytes);
                               drain_fn();
                               drain();
                           }};
    const Contender ours{dirty, [&ops, data, bytes] {
                             coherence::clean(ops, reinterpret_cast<std::uintptr_t>(data), bytes);
                             drain();
                         }};
    const auto medians = interleave({ours, theirs, theirs}, report.rounds(151), bytes > 65536 ? 4 : 40);
    const double yardstick = (medians[1] + medians[2]) / 2;
    report.add({.name = "clean / libpmem2's flush and drain: " + size_name(bytes),
                .value = medians[0] / yardstick,
                .unit = "x",
                .kind = Goal::kAtLeast,
                .goal = 0.98,
                .upper_goal = 1.02,
                .ours = medians[0],
                .theirs = yardstick,
                .noise = std::fabs(medians[1] / medians[2] - 1)});
}

void pmem2_figures(Report& report, const coherence::Ops& ops) {
    const PmemMap map(4 * kMiB);
    if (map.get() == nullptr) {
        report.add({.name = "clean / libpmem2's flush and drain",
                    .unit = "x",
                    .kind = Goal::kAtLeast,
                    .goal = 0.98,
                    .upper_goal = 1.02,
                    .reason = std::string("libpmem2 made no map: ") + pmem2_errormsg()});
        return;
    }
    std::memset(pmem2_map_get_address(map.get()), 1, 4 * kMiB);
    for (const std::uint64_t bytes : {std::uint64_t{4096}, std::uint64_t{65536}, kMiB, 4 * kMiB}) {
        add_pmem2_figure(report, ops, map, bytes);
    }
}

#else

void pmem2_figures(Report& report, const coherence::Ops&) {
    report.add({.name = "clean / libpmem2's flush and drain",
                .unit = "x",
                .kind = Goal::kAtLeast,
                .goal = 0.98,
                .upper_goal = 1.02,
                .reason = "built without libpmem2"});
}

#endif

} // namespace

void memory_figures(Report& report) {
    const coherence::Ops& ops = **coherence::native_ops();
    add_bandwidth_figure(report, ops, kMiB, 0);
    for (const std::uint64_t mib : {4, 8, 16}) {
        add_bandwidth_figure(report, ops, mib * kMiB, 0.97);
    }
    pmem2_figures(report, ops);
    add_reread_figure(report, ops);
}

#else

void memory_figures(Report&) {
    std::printf("no comparison with stores past the caches: it exists for x86-64 only\n");
}

#endif

} // namespace sluice::bench
