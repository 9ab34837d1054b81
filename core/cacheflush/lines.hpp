// SPDX-License-Identifier: BSD-3-Clause
//
// The loop over lines that every architecture shares, and the table entries made from it.
//
// An instruction is a struct with a kName and a static line(address); a fence is a struct with a
// kName and a static issue(). A table entry takes name and code from the same struct, so that
// they can't disagree: a test that reads the name knows what runs.
//
// The loop is rolled and steps by the line size of the table. Unrolling, prefetching and several
// streams at once were measured: none is faster, most are slower (docs/coherence.md).
#pragma once

#include "core/cacheflush/cacheflush.hpp"

namespace sluice::cacheflush {

template<typename Line>
inline void for_each_line(const LineRun* runs, std::size_t count, std::uintptr_t step, Line&& line) {
    for (std::size_t i = 0; i < count; ++i) {
        const std::uintptr_t last = runs[i].last;
        for (std::uintptr_t at = runs[i].first;; at += step) {
            line(at);
            if (at == last) {
                break; // compared before stepping: the step past the last line may wrap
            }
        }
    }
}

template<typename Instruction>
void issue_lines(const Ops& ops, const LineRun* runs, std::size_t count) noexcept {
    for_each_line(runs, count, ops.line_bytes, [](std::uintptr_t at) { Instruction::line(at); });
}

template<typename F>
void issue_fence(const Ops&) noexcept {
    F::issue();
}

template<typename B>
void issue_barrier() noexcept {
    B::issue();
}

template<typename Instruction>
constexpr LineOp line_op() {
    return {Instruction::kName, issue_lines<Instruction>};
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
