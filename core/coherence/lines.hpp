// SPDX-License-Identifier: BSD-3-Clause
//
// The loops over lines that every architecture shares, and the table entries made from them.
//
// An instruction is a struct with a kName and a static line(ops, address); a fence is a struct
// with a kName and a static issue(). A table entry takes name and code from the same struct, so
// that they can't disagree: a test that reads the name knows what runs.
//
// The loops are rolled and step by the line size of the table. Unrolling, prefetching and several
// streams at once were measured: none is faster, most are slower (docs/coherence.md). They are
// compiled into the architecture's file, once for each instruction, and store nothing between
// two lines.
#pragma once

#include "core/coherence/cacheflush.hpp"
#include "core/coherence/checked_segments.hpp"

namespace sluice::cacheflush {

// What an instruction's struct inherits.
struct LineInstruction {
    // Called once after the last line of a run or batch that had one.
    static void after_last(const Ops&, std::uintptr_t) {}
};

template<typename Instruction>
[[gnu::always_inline]] inline void issue_run(const Ops& ops, LineRun run, std::uintptr_t step) {
    for (std::uintptr_t at = run.first;; at += step) {
        Instruction::line(ops, at);
        if (at == run.last) {
            break; // compared before stepping: the step past the last line may wrap
        }
    }
}

template<typename Instruction>
void issue_one(const Ops& ops, LineRun run) noexcept {
    issue_run<Instruction>(ops, run, ops.line_bytes);
    Instruction::after_last(ops, run.last);
}

// No run: nothing overlaps it and nothing is next to it, because no line begins there.
constexpr LineRun kNothing{~std::uintptr_t{0}, ~std::uintptr_t{0}};

// Whether two runs overlap or have no line between them. A difference, not a sum: there is no
// line after the last one of the address space.
inline bool touches(LineRun a, LineRun b, std::uintptr_t step) {
    if (a.first > b.last) {
        return a.first - b.last == step;
    }
    return a.last >= b.first || b.first - a.last == step;
}

// DONE is the run of lines that were issued and haven't been left since: a segment that touches it
// issues only what it adds at either end. So packed segments share their lines, no line waits for
// the next segment to be looked at, and nothing is sorted.
template<typename Instruction, coherence::Edges kEdges>
coherence::BatchResult issue_batch(const Ops& ops, coherence::Batch& batch) noexcept {
    const std::uintptr_t step = ops.line_bytes;
    LineRun done = kNothing;
    std::uintptr_t latest = kNothing.last;
    const auto issue_lines = [&](LineRun run) __attribute__((always_inline)) {
        issue_run<Instruction>(ops, run, step);
        latest = run.last;
    };
    const auto result = coherence::for_each_checked<kEdges>(
        batch, [&](std::uintptr_t address, std::uintptr_t length) __attribute__((always_inline)) {
            const LineRun lines = lines_of(address, length, step);
            if (lines.first >= done.first && lines.last <= done.last) {
                return;
            }
            if (!touches(lines, done, step)) {
                issue_lines(lines);
                done = lines;
                return;
            }
            if (lines.last > done.last) {
                issue_lines({done.last + step, lines.last});
                done.last = lines.last;
            }
            if (lines.first < done.first) {
                issue_lines({lines.first, done.first - step});
                done.first = lines.first;
            }
        });
    if (latest != kNothing.last) {
        Instruction::after_last(ops, latest);
    }
    return result;
}

template<typename F>
void issue_fence(const Ops&) noexcept {
    F::issue();
}

template<typename B>
void issue_barrier() noexcept {
    B::issue();
}

// A clean loses nothing on the edges of a region; only what invalidates looks at them.
template<typename Instruction>
constexpr LineOp clean_op() {
    return {Instruction::kName, issue_one<Instruction>, issue_batch<Instruction, coherence::Edges::kIgnored>};
}

template<typename Instruction>
constexpr LineOp invalidate_op() {
    return {Instruction::kName, issue_one<Instruction>, issue_batch<Instruction, coherence::Edges::kWatched>};
}

template<typename F>
constexpr Fence fence() {
    return {F::kName, issue_fence<F>};
}

template<typename B>
constexpr Barrier barrier() {
    return {B::kName, issue_barrier<B>};
}

constexpr Fence kNoFence{"none", nullptr};
constexpr Barrier kCompilerBarrier{"compiler", nullptr};

} // namespace sluice::cacheflush
