// SPDX-License-Identifier: BSD-3-Clause
//
// Which calls of dat_lmr_sync_rdma_*() a program forgets, where the device's memory is simulated and
// `sluice check` wants to know (ADR 93). One for all devices of the process, as a peer may be at another one.
//
// A peer in this process is known by its address and its queue pair's number, so that a Read that is posted
// here is known to be one of memory that is registered here. A process that has read another one's memory
// tells that one (report::PeerRead), which knows what was old then if it has looked at its lines before.
//
// Thread safety: everything may be called from any thread. Its lock is taken before that of a
// SimulatedMemory.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "core/old_pages/old_pages.hpp"
#include "core/report/finding.hpp"
#include "core/report/peer_read.hpp"
#include "core/sync.hpp"
#include "ibverbs-glue/queue_pair.hpp"
#include "udapl/provider/dto.hpp"
#include "udapl/provider/simulated_memory.hpp"
#include "udapl/provider/stored_lines.hpp"
#include "udapl/provider/sync_timeline.hpp"

namespace sluice::dapl {

class SyncCheck final : public SimulatedMemory::Watcher {
  public:
    // Null: nobody wants to know. The same each time.
    static SyncCheck* wanted() noexcept;

    // Of a region whose device's memory is simulated.
    struct Region {
        std::uint32_t context = 0;
        std::uint64_t address = 0;
        std::uint64_t length = 0;
        bool is_written = false; // by peers
        bool is_read = false;
    };
    void add(SimulatedMemory& memory, const Region& region);
    void remove(const SimulatedMemory& memory, std::uint32_t context) noexcept;
    // The queue pair that OWNER has now, at a device with that memory.
    void set_queue_pair(const void* owner, SimulatedMemory& memory, const glue::QueuePair::Peer& itself);
    void forget_queue_pair(const void* owner) noexcept;

    // A peer reads what REMOTE names; DTO's completion says that it is done. Around the post.
    void before_read(const Dto& dto, const glue::QueuePair& poster, std::uint64_t address,
                     std::uint64_t length) noexcept;
    void after_read(const Dto& dto, bool is_success) noexcept;
    // The calling thread is about to get an event by CALL, which may tell it that a peer has written.
    void on_event(std::string_view call) noexcept;
    void on_overwritten(const SimulatedMemory& memory, coherence::LineRun lines) noexcept override;
    void before_move(const SimulatedMemory& memory, coherence::LineRun lines, bool drop) noexcept override;
    void after_move(const SimulatedMemory& memory, coherence::LineRun lines, bool drop) noexcept override;
    // Reports what was touched and read since.
    void report_touched() noexcept;

  private:
    struct Known {
        SimulatedMemory* memory;
        Region region;
        report::Stack made;
    };
    struct Posted {
        Known of;
        report::Stack stack;
    };
    // A Read; no device of this process has the peer.
    struct PostedElsewhere {
        report::PeerRead read;
        report::Stack stack;
    };
    struct Numbered {
        SimulatedMemory* memory;
        glue::QueuePair::Peer itself;
    };

    // A mistake, where it is, and the LMR that it is about.
    struct Found {
        std::string_view rule;
        std::string_view call; // that is missing
        std::string_view what;
        std::string_view when;  // it should have been called
        std::string_view title; // of the program's place
        const report::Stack& stack;
        std::uint64_t time_ns = 0;    // 0: now
        std::string_view frames = {}; // in place of STACK, of another process
    };

    SyncCheck();

    SimulatedMemory* memory_of_locked(const glue::QueuePair::Peer& peer) const noexcept
        SLUICE_TSA(requires_capability(mutex_));
    const Known* find_locked(coherence::LineRun bytes, const SimulatedMemory* memory) const noexcept
        SLUICE_TSA(requires_capability(mutex_));
    void write_finding_locked(const Known& of, coherence::LineRun bytes, const Found& found)
        SLUICE_TSA(requires_capability(mutex_));
    void write_old_read_locked(const Known& of, coherence::LineRun bytes, const report::Stack& stack,
                               std::string_view frames = {}, std::uint64_t time_ns = 0)
        SLUICE_TSA(requires_capability(mutex_));
    void report_reads_locked() SLUICE_TSA(requires_capability(mutex_));
    void report_read_locked(const report::PeerRead& read) SLUICE_TSA(requires_capability(mutex_));
    void look_for_stores_locked() SLUICE_TSA(requires_capability(mutex_));
    void report_touched_locked() SLUICE_TSA(requires_capability(mutex_));
    void report_touch_locked(const old_pages::Touch& touch) SLUICE_TSA(requires_capability(mutex_));

    Mutex mutex_;
    std::vector<Known> regions_ SLUICE_TSA(guarded_by(mutex_));
    std::map<const void*, Numbered> queue_pairs_ SLUICE_TSA(guarded_by(mutex_));
    std::map<const Dto*, Posted> reads_ SLUICE_TSA(guarded_by(mutex_));
    std::map<const Dto*, PostedElsewhere> reads_elsewhere_ SLUICE_TSA(guarded_by(mutex_));
    StoredLines stored_ SLUICE_TSA(guarded_by(mutex_));
    std::uint64_t looked_ns_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::uint64_t look_took_ns_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    report::PeerReads peer_reads_ SLUICE_TSA(guarded_by(mutex_));
    std::vector<old_pages::Touch> stores_ SLUICE_TSA(guarded_by(mutex_)); // the last ones
    const bool has_timeline_;
    SyncTimeline timeline_ SLUICE_TSA(guarded_by(mutex_));
};

} // namespace sluice::dapl
