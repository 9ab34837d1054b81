// SPDX-License-Identifier: BSD-3-Clause
//
// Moves cache lines between this CPU and the memory that a device sees.
//
// A device that doesn't snoop the CPU's caches reads and writes memory behind them. The first two
// operations bring both views together:
//
//   clean       writes dirty lines back, so that the device's next read sees them
//   invalidate  drops lines, so that the CPU's next load sees what the device wrote
//   persist     is a clean to where data survives a loss of power
//
// No architecture here gives user mode a pure invalidate: ours writes a dirty line back before
// dropping it. What that means for bytes that share a line is in docs/coherence.md.
//
// The instructions come from one table, chosen once from a probe of the CPU. A CPU (or a kernel)
// that gives user mode no means is an error with the reason, never a silent success. Everything
// that differs between architectures is in <architecture>.cpp; the header comment of each is its
// instruction table. There is no generic fallback on purpose: it couldn't be right.
//
// Thread safety: all functions may be called from any thread. Flushing costs 1 to 4 ns per line
// on current x86, plus one fence; flushing an address that can't be read faults like a load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/coherence/segment.hpp"
#include "core/result.hpp"

namespace sluice::coherence {}

namespace sluice::coherence {

struct Batch; // core/coherence/batch.hpp
struct Ops;

// What hears of flags (core/coherence/flag.hpp), in the thread that makes the call.
struct FlagWatch {
    void (*before_publish)(const Ops& self, const std::uint64_t* flag) noexcept;
    void (*after_publish)(const Ops& self, const std::uint64_t* flag, std::uint64_t value) noexcept;
    void (*before_observe)(const Ops& self) noexcept;
    void (*after_observe)(const Ops& self, const std::uint64_t* flag, std::uint64_t value) noexcept;
};

// Lines FIRST to LAST, both included, both on a line boundary. Inclusive, because a run may end
// with the last line of the address space.
struct LineRun {
    std::uintptr_t first;
    std::uintptr_t last;
};

// One operation on lines, without any fence.
//
// Both functions come from the same loop, compiled for the instruction: a call for each line or
// for each run would put a store (its return address) between the write-backs, and the CPU's
// store queue is what a flush waits for. So the choice of the instruction is made once per batch.
struct LineOp {
    const char* name; // the instruction, as SLUICE_CACHEFLUSH and disassemblers spell it
    void (*issue)(const Ops& self, LineRun run) noexcept;
    // Checks the segments of a batch and issues each line that they touch, one that neighbouring
    // segments share only once, until there are no more segments or one is wrong.
    BatchResult (*issue_batch)(const Ops& self, Batch& batch) noexcept;
    // The same for ranges that belong to no region and were checked before. Null where nobody needs it: in
    // what stands in for a CPU below an engine.
    void (*issue_ranges)(const Ops& self, const Range* ranges, std::uint64_t count) noexcept = nullptr;
};

// Copies whole lines with stores that go past the caches: what they write is where a clean would write it
// back to once the fence after a clean was issued. Null: the architecture has none that user mode can rely
// on.
struct LineCopy {
    const char* name;
    void (*issue)(void* to, const void* from, std::size_t lines) noexcept;
    std::size_t worth_bytes; // from here on faster than storing and cleaning, as measured
};

// A null ISSUE means that the architecture needs nothing at this place; NAME is then "none".
struct Fence {
    const char* name;
    void (*issue)(const Ops& self) noexcept;
};

// All that a CPU can do for a device that doesn't snoop. A batch is: the fence before, any
// number of line operations, the fence after.
struct Ops {
    LineOp clean;
    LineOp invalidate;
    Fence before_clean;
    Fence after_clean;
    Fence before_invalidate;
    Fence after_invalidate;
    std::size_t line_bytes;    // step between lines: a power of two
    std::size_t granule_bytes; // what two owners must not share; a multiple of line_bytes
    void* context;             // for implementations that aren't a CPU: a recorder, a simulation
    // A clean that goes on to where data survives a loss of power, if the memory behind the address is of
    // that kind; with the fences of a clean. ISSUE is null where the architecture has no such thing.
    LineOp persist{"none", nullptr, nullptr};
    LineCopy copy{"none", nullptr, 0};
    const char* line_source = "";     // what told line_bytes
    bool is_forced = false;           // SLUICE_CACHEFLUSH named the instruction
    const FlagWatch* flags = nullptr; // null: nobody
};

// What remains to be done for a device that does snoop: keep the order between the CPU's
// accesses to memory and the device's. A null ISSUE means that holding back the compiler is
// enough.
struct Barrier {
    const char* name;
    void (*issue)() noexcept;
};

struct Barriers {
    Barrier to_device;   // stores before it are visible to the device before stores after it
    Barrier from_device; // loads after it see what the device wrote before what was loaded earlier
};

// Whether this CPU can do what TEXT, as a value of SLUICE_CACHEFLUSH, asks for; errors as native_ops().
Result<void> check_forced(std::string_view text);

// The table for this CPU under SLUICE_CACHEFLUSH; the same pointer each time. The first call
// probes the CPU. Errors: kNotSupported when the CPU has no means or lacks the instruction that
// was asked for, kInvalidArgument when SLUICE_CACHEFLUSH names no instruction.
Result<const Ops*> native_ops();

// The architecture's barriers. They need no probe and never fail.
const Barriers& native_barriers() noexcept;

// The lines that LENGTH bytes at ADDRESS touch. LENGTH > 0, and the range doesn't wrap.
inline LineRun lines_of(std::uintptr_t address, std::uintptr_t length, std::size_t line_bytes) noexcept {
    const std::uintptr_t mask = ~static_cast<std::uintptr_t>(line_bytes - 1);
    return {address & mask, (address + (length - 1)) & mask};
}

inline void issue(const Fence& fence, const Ops& ops) noexcept {
    if (fence.issue != nullptr) {
        fence.issue(ops);
    }
}

inline void issue(const Barrier& barrier) noexcept {
    if (barrier.issue != nullptr) {
        barrier.issue();
    } else {
        asm volatile("" ::: "memory");
    }
}

inline void issue(const LineOp& op, const Ops& ops, std::uintptr_t address, std::size_t length) noexcept {
    if (length != 0) {
        op.issue(ops, lines_of(address, length, ops.line_bytes));
    }
}

// One range with its fences, for callers outside the batch engine. LENGTH may be 0. Inline, since a call
// within a call takes as long as all of its checks.
inline void clean(const Ops& ops, std::uintptr_t address, std::size_t length) noexcept {
    issue(ops.before_clean, ops);
    issue(ops.clean, ops, address, length);
    issue(ops.after_clean, ops);
}

inline void invalidate(const Ops& ops, std::uintptr_t address, std::size_t length) noexcept {
    issue(ops.before_invalidate, ops);
    issue(ops.invalidate, ops, address, length);
    issue(ops.after_invalidate, ops);
}

// Needs ops.persist.issue.
inline void persist(const Ops& ops, std::uintptr_t address, std::size_t length) noexcept {
    issue(ops.before_clean, ops);
    issue(ops.persist, ops, address, length);
    issue(ops.after_clean, ops);
}

// Many, with the fences of one; lines that neighbouring ranges share are issued once.
inline void clean(const Ops& ops, const Range* ranges, std::uint64_t count) noexcept {
    issue(ops.before_clean, ops);
    ops.clean.issue_ranges(ops, ranges, count);
    issue(ops.after_clean, ops);
}

inline void invalidate(const Ops& ops, const Range* ranges, std::uint64_t count) noexcept {
    issue(ops.before_invalidate, ops);
    ops.invalidate.issue_ranges(ops, ranges, count);
    issue(ops.after_invalidate, ops);
}

inline void persist(const Ops& ops, const Range* ranges, std::uint64_t count) noexcept {
    issue(ops.before_clean, ops);
    ops.persist.issue_ranges(ops, ranges, count);
    issue(ops.after_clean, ops);
}

} // namespace sluice::coherence
