// SPDX-License-Identifier: BSD-3-Clause
//
// The cost of checking: what remains of a sync call when the device snoops.
#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <thread>

#include "core/coherence/engine.hpp"
#include "tests/bench/sync.hpp"

namespace sluice::bench {

namespace {

using coherence::Engine;
using coherence::Region;
using coherence::RegionTable;
using coherence::Segment;

constexpr std::uint64_t kRegions = 4096;
constexpr std::uint64_t kRegionBytes = std::uint64_t{1} << 20;

// The readers' regions, and between each two of them one that the writer frees and registers again:
// the worst layout for a reader.
struct Population {
    Population() {
        for (std::uint64_t i = 0; i < kRegions; ++i) {
            stable.push_back(*engine->add(region(i), true));
            churned.push_back(*engine->add(region(kRegions + i), true));
        }
    }

    static Region region(std::uint64_t i) { return {.address = i * kRegionBytes, .length = kRegionBytes}; }

    Segment segment(std::mt19937_64& random, std::uint64_t which) const {
        return {stable[which], 0, which * kRegionBytes + random() % (kRegionBytes - 64), 64};
    }

    std::unique_ptr<Engine> engine = *Engine::make_coherent(coherence::native_barriers());
    std::vector<std::uint32_t> stable;
    std::vector<std::uint32_t> churned;
};

// COUNT segments per call, in one region or over all of them. Many batches, so that all regions
// are met and nothing stays in the nearest cache that wouldn't in a program.
class Batches {
  public:
    Batches(const Population& population, std::uint64_t count, bool all_regions)
        : engine_(*population.engine), count_(count) {
        std::mt19937_64 random(1);
        const std::uint64_t total = all_regions ? 16 * kRegions : count;
        for (std::uint64_t i = 0; i < total; ++i) {
            segments_.push_back(population.segment(random, all_regions ? random() % kRegions : 0));
        }
    }

    std::uint64_t calls_per_run() const { return std::max<std::uint64_t>(1, 4096 / count_); }

    void run() {
        for (std::uint64_t i = calls_per_run(); i-- > 0;) {
            keep(engine_.before_device_reads(&segments_[at_], count_).index);
            at_ += count_;
            at_ = at_ == segments_.size() ? 0 : at_;
        }
    }

    // Of a run's time, per segment.
    double ns(double run_ns) const { return run_ns / static_cast<double>(calls_per_run() * count_); }

  private:
    Engine& engine_;
    std::uint64_t count_;
    std::vector<Segment> segments_;
    std::size_t at_ = 0;
};

struct Kind {
    const char* name;
    std::uint64_t count;
    bool all_regions;
    double goal_ns; // per segment
};

constexpr Kind kKinds[] = {
    {"coherent, checked: 1 segment, the whole call", 1, false, 3.0},
    {"coherent, checked: 16 segments, each", 16, false, 1.6},
    {"coherent, checked: 256 segments, each", 256, false, 1.6},
    {"coherent, checked: 256 segments over 4096 regions, each", 256, true, 2.5},
};

// Threads that do something while a flag is up and sleep while it is down.
class Others {
  public:
    template<typename Work>
    void start(int cpu, Work work) {
        threads_.emplace_back([this, cpu, work]() mutable {
            pin_to_cpu(cpu);
            while (state_.load() != kEnd) {
                state_.wait(kPaused);
                while (state_.load(std::memory_order_relaxed) == kBusy) {
                    work();
                }
            }
        });
    }
    void set_busy(bool busy) {
        state_.store(busy ? kBusy : kPaused);
        state_.notify_all();
    }
    ~Others() {
        state_.store(kEnd);
        state_.notify_all();
        for (std::thread& thread : threads_) {
            thread.join();
        }
    }

  private:
    enum State : int { kPaused, kBusy, kEnd };
    std::atomic<int> state_{kPaused};
    std::vector<std::thread> threads_;
};

void churn(Engine& engine, std::vector<std::uint32_t>& contexts, std::mt19937_64& random) {
    const std::uint64_t which = random() % contexts.size();
    (void)engine.remove(contexts[which]);
    contexts[which] = *engine.add(Population::region(kRegions + which), true);
}

// One KIND quiet and among others, in turn. WITH_READER: a second reader as well as the writer.
void add_crowded_figure(Report& report, Population& population, const Kind& kind, bool with_reader) {
    Batches mine(population, kind.count, kind.all_regions);
    Batches theirs(population, kind.count, kind.all_regions);
    std::mt19937_64 random(2);
    Others others;
    others.start(0, [&] { churn(*population.engine, population.churned, random); });
    if (with_reader) {
        others.start(cpus() > 2 ? 1 : 0, [&] { theirs.run(); });
    }
    const auto let_settle = [](double seconds) {
        for (const double start = seconds_now(); seconds_now() - start < seconds;) {
        }
    };
    std::vector<double> quiet;
    std::vector<double> crowded;
    for (int round = 0; round < report.rounds(60); ++round) {
        for (const bool busy : {false, true}) {
            others.set_busy(busy);
            let_settle(0.002);
            const auto samples = interleave({{[] {}, [&] { mine.run(); }}}, 101, 1);
            (busy ? crowded : quiet).push_back(samples[0]);
        }
    }
    others.set_busy(false);
    Figure figure{.name = std::string("with ") + (with_reader ? "a second reader and " : "") +
                          "a writer: " + std::to_string(kind.count) + " segments" +
                          (kind.all_regions ? " over 4096 regions" : ""),
                  .value = median(crowded) / median(quiet),
                  .unit = "x",
                  .kind = Goal::kAtMost,
                  .goal = 1.6,
                  .ours = mine.ns(median(crowded)),
                  .theirs = mine.ns(median(quiet))};
    if (cpus() < 2 || (with_reader && cpus() < 3)) {
        figure.reason = "needs a CPU for each thread; here the others share one";
    }
    report.add(figure);
}

} // namespace

void coherent_figures(Report& report) {
    Population population;
    for (const Kind& kind : kKinds) {
        Batches batches(population, kind.count, kind.all_regions);
        const auto medians = interleave({{[] {}, [&] { batches.run(); }}}, report.rounds(2000), 1);
        report.add({.name = kind.name,
                    .value = batches.ns(medians[0]),
                    .unit = "ns",
                    .kind = Goal::kAtMost,
                    .goal = kind.goal_ns});
    }
    for (const bool with_reader : {false, true}) {
        add_crowded_figure(report, population, kKinds[0], with_reader);
        add_crowded_figure(report, population, kKinds[1], with_reader);
        add_crowded_figure(report, population, kKinds[3], with_reader);
    }
}

void table_figures(Report& report) {
    constexpr int kPairs = 1000;
    RegionTable table = *RegionTable::make();
    const auto medians = interleave({{[] {},
                                      [&] {
                                          for (int i = 0; i < kPairs; ++i) {
                                              const Result<std::uint32_t> context = table.add({.length = 64});
                                              keep(*context);
                                              (void)table.remove(*context);
                                          }
                                      }}},
                                    report.rounds(500), 1);
    report.add({.name = "region table: create and free",
                .value = medians[0] / kPairs,
                .unit = "ns",
                .kind = Goal::kAtMost,
                .goal = 50});
    const std::uint32_t first = *table.add({.length = 1});
    double frees = 0;
    for (std::uint32_t context = first; frees == 0 || context != first; ++frees) {
        (void)table.remove(context);
        context = *table.add({.length = 1});
    }
    report.add({.name = "region table: frees of a slot until a context comes back",
                .value = frees,
                .unit = "frees",
                .kind = Goal::kAtLeast,
                .goal = 65536});
    report.add({.name = "region table: memory for a live region",
                .value = sizeof(RegionTable::Slot),
                .unit = "bytes",
                .kind = Goal::kAtMost,
                .goal = 64});
}

} // namespace sluice::bench
