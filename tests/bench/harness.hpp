// SPDX-License-Identifier: BSD-3-Clause
//
// What the benchmarks share: a clock, interleaved rounds, and a report.
//
// How a figure is measured here, and why:
// * Contenders run in turn inside each round, in an order that rotates, and each figure is the
//   median over the rounds. A machine that gets slower for a second slows all of them.
// * A fence that returns early hides its cost in the next one. Whoever measures a flush ends the
//   timed part with a full fence (drain()), for every contender alike.
// * In comparisons the yardstick runs twice, as two contenders. What the two differ by is what
//   this machine can't tell apart right now.
// * A goal is compared as it stands. "holds" is true, false, or null with the reason when this
//   machine can't show it; it never moves the goal.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/points.hpp"

namespace sluice::bench {

#if defined(__x86_64__)
// Cheaper and finer than clock_gettime(). The fences keep what is timed between the two reads.
inline std::uint64_t ticks() {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    asm volatile("lfence\nrdtsc\nlfence" : "=a"(low), "=d"(high)::"memory");
    return std::uint64_t{high} << 32 | low;
}

// Waits until everything that was flushed or stored has gone out.
inline void drain() {
    asm volatile("mfence" ::: "memory");
}
#else
inline std::uint64_t ticks() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

inline void drain() {
    __sync_synchronize();
}
#endif

inline double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double ns_per_tick() {
    static const double kNs = [] {
        const double start = seconds_now();
        const std::uint64_t first = ticks();
        while (seconds_now() - start < 0.05) {
        }
        const std::uint64_t last = ticks();
        return (seconds_now() - start) * 1e9 / static_cast<double>(last - first);
    }();
    return kNs;
}

// What a pair of ticks() costs by itself; taken off each timing.
inline double clock_ns() {
    static const double kNs = [] {
        std::vector<std::uint64_t> samples(2001);
        for (std::uint64_t& sample : samples) {
            const std::uint64_t start = ticks();
            sample = ticks() - start;
        }
        std::nth_element(samples.begin(), samples.begin() + 1000, samples.end());
        double sum = 0;
        for (const std::uint64_t sample : samples) {
            sum += static_cast<double>(std::min(sample, samples[1000] * 2));
        }
        return sum / static_cast<double>(samples.size()) * ns_per_tick();
    }();
    return kNs;
}

inline double median(std::vector<double> samples) {
    std::ranges::sort(samples);
    const std::size_t middle = samples.size() / 2;
    return samples.size() % 2 != 0 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
}

template<typename T>
inline void keep(const T& value) {
    asm volatile("" ::"r,m"(value) : "memory");
}

inline void pin_to_cpu(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(cpu), &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

inline int cpus() {
    return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

// Memory in huge pages where the system gives them, touched, on a page boundary.
class Buffer {
  public:
    explicit Buffer(std::size_t bytes) : bytes_((bytes + kHuge - 1) / kHuge * kHuge) {
        map_ = mmap(nullptr, bytes_ + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map_ == MAP_FAILED) {
            std::perror("mmap");
            std::exit(1);
        }
        data_ = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(map_) + kHuge - 1) / kHuge * kHuge);
        (void)madvise(data_, bytes_, MADV_HUGEPAGE);
        std::memset(data_, 1, bytes_);
    }
    ~Buffer() { munmap(map_, bytes_ + kHuge); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    char* data() const { return data_; }
    std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(data_); }
    std::size_t size() const { return bytes_; }

  private:
    static constexpr std::size_t kHuge = std::size_t{2} << 20;
    std::size_t bytes_;
    void* map_;
    char* data_;
};

// Calls MEASURE with each number below COUNT in each of ROUNDS, every time in another order. Returns the
// medians of what it has returned, by number.
template<typename Measure>
std::vector<double> medians_in_turns(int rounds, std::size_t count, Measure&& measure) {
    std::vector<std::vector<double>> samples(count);
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t turn = 0; turn < count; ++turn) {
            const std::size_t which = (turn + static_cast<std::size_t>(round)) % count;
            samples[which].push_back(measure(which));
        }
    }
    std::vector<double> medians;
    for (std::vector<double>& sample : samples) {
        medians.push_back(median(std::move(sample)));
    }
    return medians;
}

// One of those who run in turn: PREPARE isn't timed, RUN is.
struct Contender {
    std::function<void()> prepare;
    std::function<void()> run;
};

// ROUNDS times each contender in turn; in each turn REPEATS times prepare and run. Returns the
// medians over the rounds of ns per run.
inline std::vector<double> interleave(const std::vector<Contender>& contenders, int rounds, int repeats) {
    return medians_in_turns(rounds, contenders.size(), [&](std::size_t which) {
        std::uint64_t total = 0;
        for (int repeat = 0; repeat < repeats; ++repeat) {
            contenders[which].prepare();
            const std::uint64_t start = ticks();
            contenders[which].run();
            total += ticks() - start;
        }
        return static_cast<double>(total) * ns_per_tick() / repeats - clock_ns();
    });
}

enum class Goal { kAtMost, kAtLeast, kNone };

struct Figure {
    std::string name;
    double value = 0;
    std::string unit;
    Goal kind = Goal::kNone;
    double goal = 0;
    double upper_goal = 0; // with kAtLeast: the other end of a band, if not 0
    std::optional<bool> holds{};
    std::string reason{}; // why holds is null
    std::optional<double> ours{};
    std::optional<double> theirs{};
    std::string compared_unit = "ns"; // of ours and theirs
    double noise = 0;                 // what the yardstick differs from itself by, relative
    Points points{};                  // for charts; not printed
};

class Report {
  public:
    Report(std::string title, int argc, char** argv) : title_(std::move(title)) {
        for (int i = 1; i < argc; ++i) {
            const std::string_view arg = argv[i];
            if (arg == "--quick") {
                quick_ = true;
            } else if (arg == "--json" && i + 1 < argc) {
                json_file_ = argv[++i];
            } else {
                std::fprintf(stderr, "%s: unknown argument '%s'; valid: --json FILE, --quick\n", argv[0],
                             argv[i]);
                std::exit(2);
            }
        }
        std::printf("%s%s\n\n%-62s %10s %-8s %-14s %-6s\n", title_.c_str(), quick_ ? " (quick)" : "",
                    "figure", "value", "unit", "goal", "holds");
    }

    bool quick() const { return quick_; }

    // Fewer rounds when somebody only wants to see it work.
    int rounds(int full) const { return quick_ ? std::max(5, full / 10) : full; }

    // Decides whether the goal is met, prints the line and keeps it for the file. A figure whose
    // REASON is set already can't be shown here: it is printed, and not judged.
    void add(Figure figure) {
        judge(figure);
        print(figure);
        figures_.push_back(to_json(figure));
    }

    // Writes the file if one was asked for. The exit status of the program.
    int finish() const {
        if (json_file_.empty()) {
            return 0;
        }
        std::ofstream out(json_file_);
        out << figures_.dump(2) << '\n';
        if (!out.flush()) {
            std::fprintf(stderr, "%s: could not be written\n", json_file_.c_str());
            return 1;
        }
        return 0;
    }

  private:
    static void judge(Figure& figure) {
        if (figure.kind == Goal::kNone || !figure.reason.empty()) {
            return;
        }
        const double low = figure.kind == Goal::kAtLeast ? figure.goal : 0;
        const double high = figure.kind == Goal::kAtMost ? figure.goal
                            : figure.upper_goal != 0     ? figure.upper_goal
                                                         : INFINITY;
        figure.holds = figure.value >= low && figure.value <= high;
        const double miss = std::max(low - figure.value, figure.value - high);
        if (!*figure.holds && miss <= figure.noise * figure.value) {
            figure.holds.reset();
            char text[120];
            std::snprintf(text, sizeof text,
                          "noise: the yardstick differs from itself by %.1f %% in this run",
                          figure.noise * 100);
            figure.reason = text;
        }
    }

    static std::string goal_text(const Figure& figure) {
        char text[40] = "";
        if (figure.kind == Goal::kAtMost) {
            std::snprintf(text, sizeof text, "<= %g", figure.goal);
        } else if (figure.kind == Goal::kAtLeast && figure.upper_goal != 0) {
            std::snprintf(text, sizeof text, "%g to %g", figure.goal, figure.upper_goal);
        } else if (figure.kind == Goal::kAtLeast) {
            std::snprintf(text, sizeof text, ">= %g", figure.goal);
        }
        return text;
    }

    static void print(const Figure& figure) {
        const char* holds = figure.kind == Goal::kNone ? ""
                            : !figure.holds            ? "null"
                            : *figure.holds            ? "true"
                                                       : "false";
        std::printf("%-62s %10.3f %-8s %-14s %-6s", figure.name.c_str(), figure.value, figure.unit.c_str(),
                    goal_text(figure).c_str(), holds);
        if (figure.ours && figure.theirs) {
            std::printf(" %.1f / %.1f %s", *figure.ours, *figure.theirs, figure.compared_unit.c_str());
        }
        std::printf("%s%s\n", figure.reason.empty() ? "" : "  ", figure.reason.c_str());
        std::fflush(stdout);
    }

    static nlohmann::json to_json(const Figure& figure) {
        nlohmann::json json{{"name", figure.name}, {"value", figure.value}, {"unit", figure.unit}};
        json["goal"] = figure.kind == Goal::kNone ? nlohmann::json() : nlohmann::json(goal_text(figure));
        json["holds"] = figure.holds ? nlohmann::json(*figure.holds) : nlohmann::json();
        if (!figure.reason.empty()) {
            json["reason"] = figure.reason;
        }
        if (figure.ours && figure.theirs) {
            json["ours"] = *figure.ours;
            json["theirs"] = *figure.theirs;
            json["compared_unit"] = figure.compared_unit;
            json["ratio"] = figure.value;
        }
        if (!figure.points.empty()) {
            json["points"] = sluice::bench::to_json(figure.points);
        }
        return json;
    }

    std::string title_;
    std::string json_file_;
    bool quick_ = false;
    nlohmann::json figures_ = nlohmann::json::array();
};

} // namespace sluice::bench
