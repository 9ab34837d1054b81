// SPDX-License-Identifier: BSD-3-Clause
//
// What ours is compared with: loops as somebody would write them by hand for this CPU, without
// checking anything.
#pragma once

#include <cstdint>
#include <span>

#include "core/coherence/cacheflush.hpp"
#include "core/coherence/segment.hpp"

namespace sluice::bench {

#if defined(__x86_64__)

constexpr bool kHaveYardsticks = true;
constexpr std::uint64_t kLine = 64;

struct Clwb {
    static void line(std::uint64_t at) { asm volatile("clwb (%0)" ::"r"(at) : "memory"); }
};
struct Clflushopt {
    static void line(std::uint64_t at) { asm volatile("clflushopt (%0)" ::"r"(at) : "memory"); }
};
struct Clflush {
    static void line(std::uint64_t at) { asm volatile("clflush (%0)" ::"r"(at) : "memory"); }
};

inline void sfence() {
    asm volatile("sfence" ::: "memory");
}
inline void mfence() {
    asm volatile("mfence" ::: "memory");
}

template<typename Instruction>
inline void flush_range(std::uint64_t address, std::uint64_t length) {
    for (std::uint64_t at = address & ~(kLine - 1); at < address + length; at += kLine) {
        Instruction::line(at);
    }
}

// One pass over the segments, every one from its first to its last line; the caller fences.
template<typename Instruction>
[[gnu::noinline]] void bare_loop(std::span<const coherence::Segment> segments) {
    for (const coherence::Segment& segment : segments) {
        flush_range<Instruction>(segment.address, segment.length);
    }
}

// Stores BYTES of zeroes past the caches, in the widest way that this CPU has.
[[gnu::target("avx512f")]] inline void store_past_caches_512(char* to, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += 64) {
        asm volatile("vmovntdq %%zmm0, (%0)" ::"r"(to + i) : "memory");
    }
}
[[gnu::target("avx")]] inline void store_past_caches_256(char* to, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += 32) {
        asm volatile("vmovntdq %%ymm0, (%0)" ::"r"(to + i) : "memory");
    }
}
inline void store_past_caches(char* to, std::size_t bytes) {
    if (__builtin_cpu_supports("avx512f")) {
        store_past_caches_512(to, bytes);
    } else {
        store_past_caches_256(to, bytes);
    }
}

#else

constexpr bool kHaveYardsticks = false;

#endif

} // namespace sluice::bench
