// SPDX-License-Identifier: BSD-3-Clause
//
// Which fence stops a load from overtaking a flush: bench_litmus [--json FILE] [--quick].
#include "tests/bench/harness.hpp"
#include "tests/bench/yardsticks.hpp"

#if defined(__x86_64__)

#include <cpuid.h>

#include "tests/litmus_x86_64.hpp"

namespace sluice::bench {

namespace {

using testing::Litmus;

struct NoFence {
    static constexpr const char* kName = "nothing";
    static void issue() {}
};
struct SfenceAfter {
    static constexpr const char* kName = "sfence";
    static void issue() { sfence(); }
};
struct LfenceAfter {
    static constexpr const char* kName = "lfence";
    static void issue() { asm volatile("lfence" ::: "memory"); }
};
struct MfenceAfter {
    static constexpr const char* kName = "mfence";
    static void issue() { mfence(); }
};
struct LockAfter {
    static constexpr const char* kName = "lock add";
    static void issue() { asm volatile("lock addl $0, -64(%%rsp)" ::: "memory", "cc"); }
};

const char* name_of(Litmus::State state) {
    return state == Litmus::State::kClean ? "clean" : "dirty";
}

// An instruction, what CPUID has to say for it, and whether the line is gone when it is through.
struct Context {
    Report& report;
    Litmus& litmus;
    const char* instruction;
    bool drops;
    int tries;
};

template<typename Instruction, typename Fence>
void add_row(const Context& context, Litmus::State state) {
    const double overtaken = context.litmus.gone_after(state, context.tries, [](char* line) {
        Instruction::line(reinterpret_cast<std::uint64_t>(line));
        Fence::issue();
        Litmus::load(line);
    });
    const bool promised = std::string_view(Fence::kName) == "mfence";
    context.report.add(
        {.name = std::string(context.instruction) + ", " + name_of(state) + " line, then " + Fence::kName,
         .value = overtaken * 100,
         .unit = "%",
         .kind = promised ? Goal::kAtMost : Goal::kNone,
         .goal = 1,
         .reason = context.drops ? "" : "the line stays in the cache: nothing tells"});
}

template<typename Instruction>
void add_instruction(Report& report, Litmus& litmus, const char* name, bool present) {
    if (!present) {
        std::printf("%s: this CPU doesn't have it\n", name);
        return;
    }
    const int tries = report.quick() ? 5000 : 200000;
    const double gone = litmus.gone_after(Litmus::State::kClean, tries, [](char* line) {
        Instruction::line(reinterpret_cast<std::uint64_t>(line));
    });
    report.add({.name = std::string(name) + ", no load: the line is gone", .value = gone * 100, .unit = "%"});
    const Context context{report, litmus, name, gone > 0.5, tries};
    for (const Litmus::State state : {Litmus::State::kClean, Litmus::State::kDirty}) {
        add_row<Instruction, NoFence>(context, state);
        add_row<Instruction, SfenceAfter>(context, state);
        add_row<Instruction, LfenceAfter>(context, state);
        add_row<Instruction, LockAfter>(context, state);
        add_row<Instruction, MfenceAfter>(context, state);
    }
}

int run(Report& report) {
    Litmus litmus;
    std::printf("a load from the cache %.0f ticks, from memory %.0f\n", litmus.fast_ticks(),
                litmus.slow_ticks());
    if (!litmus.can_tell()) {
        std::printf("these can't be told apart: nothing to see here\n");
        return report.finish();
    }
    report.add(
        {.name = "noise: a line that nobody flushed is gone",
         .value =
             litmus.gone_after(Litmus::State::kClean, report.quick() ? 5000 : 200000, [](char*) {}) * 100,
         .unit = "%"});
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::uint32_t c = 0;
    std::uint32_t d = 0;
    (void)__get_cpuid_count(7, 0, &a, &b, &c, &d);
    add_instruction<Clflush>(report, litmus, "clflush", true);
    add_instruction<Clflushopt>(report, litmus, "clflushopt", (b >> 23 & 1) != 0);
    add_instruction<Clwb>(report, litmus, "clwb", (b >> 24 & 1) != 0);
    return report.finish();
}

} // namespace

} // namespace sluice::bench

int main(int argc, char** argv) {
    using namespace sluice;
    bench::Report report("litmus: loads that overtake the flush before them", argc, argv);
    bench::pin_to_cpu(bench::cpus() - 1);
    return bench::run(report);
}

#else

int main(int argc, char** argv) {
    const sluice::bench::Report report("litmus: loads that overtake the flush before them", argc, argv);
    std::printf("nothing to measure: the litmus knows x86-64 only\n");
    return report.finish();
}

#endif
