// SPDX-License-Identifier: BSD-3-Clause
//
// What the coherence timeline has of DAT's regions, where the device's memory is simulated and
// `sluice check --timeline` wants it (ADR 104). Belongs to SyncCheck.
//
// Lines are looked at when the program calls: all of a region when a thread takes an event, and when a peer
// in this process reads; those of a sync call before it moves them. Between two looks nobody knows which
// store or which peer's write was first.
//
// Thread safety: one thread at a time; SyncCall is the calling thread's.
#pragma once

#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "core/report/timeline.hpp"
#include "udapl/provider/simulated_memory.hpp"

namespace sluice::dapl {

// The calling thread is in that call of the program's. What moves lines outside of one is a transfer.
class SyncCall {
  public:
    explicit SyncCall(const char* name) noexcept;
    ~SyncCall();
    SyncCall(const SyncCall&) = delete;
    SyncCall& operator=(const SyncCall&) = delete;
};

class SyncTimeline {
  public:
    using LineRun = coherence::LineRun;

    void add(SimulatedMemory& memory, std::uint32_t context, LineRun bytes, const report::Stack& made);
    void remove(const SimulatedMemory& memory, std::uint32_t context);

    // CALL is about to tell the program something, or has.
    void look_at_all(std::string_view call, const report::Stack& stack);
    // Lines that a call is about to move, and has.
    void before_move(const SimulatedMemory& memory, LineRun lines, bool drop, const report::Stack& stack);
    void after_move(const SimulatedMemory& memory, LineRun lines, bool drop, const report::Stack& stack);
    // A peer's Read of BYTES was posted.
    void note_read(const SimulatedMemory& memory, LineRun bytes, const report::Stack& stack);
    // TIME_NS: 0 means now.
    void mistake(const SimulatedMemory& memory, LineRun bytes, const report::TimelineMistake& mistake,
                 const report::Stack& stack, std::uint64_t time_ns);

  private:
    struct Region {
        Region(SimulatedMemory& of, LineRun run, std::string name)
            : memory(&of), bytes(run), timeline(std::move(name), "", run.last - run.first + 1,
                                                run.first % report::RegionTimeline::kLineBytes) {}
        std::uint64_t line_of(std::uintptr_t address) const noexcept {
            constexpr std::uintptr_t kLine = report::RegionTimeline::kLineBytes;
            return address / kLine - bytes.first / kLine;
        }
        SimulatedMemory* memory;
        LineRun bytes;
        report::RegionTimeline timeline;
    };

    // Calls VISIT(region, its part of BYTES) for each region that has some.
    void for_each(const SimulatedMemory& memory, LineRun bytes,
                  const std::function<void(Region& region, LineRun part)>& visit);
    static bool look(Region& region, LineRun part, const report::Occasion& occasion);

    std::map<std::pair<const SimulatedMemory*, std::uint32_t>, Region> regions_;
};

} // namespace sluice::dapl
