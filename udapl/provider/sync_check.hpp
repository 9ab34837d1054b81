// SPDX-License-Identifier: BSD-3-Clause
//
// Which calls of dat_lmr_sync_rdma_*() a program forgets, where the device's memory is simulated and
// `sluice check` wants to know (ADR 93). One for all devices of the process, as a peer may be at another one.
//
// A peer in this process is known by its address and its queue pair's number, so that a Read that is posted
// here is known to be one of memory that is registered here. What a peer in another process reads isn't seen.
//
// Thread safety: everything may be called from any thread. Its lock is taken before that of a
// SimulatedMemory.
#pragma once

#include <map>
#include <vector>

#include "core/report/finding.hpp"
#include "core/sync.hpp"
#include "ibverbs-glue/queue_pair.hpp"
#include "udapl/provider/dto.hpp"

namespace sluice::dapl {

class Device;
class SimulatedMemory;

class SyncCheck {
  public:
    // Null: nobody wants to know. The same each time.
    static SyncCheck* wanted() noexcept;

    // Of a region whose device's memory is simulated.
    struct Region {
        std::uint32_t context = 0;
        std::uint64_t address = 0;
        std::uint64_t length = 0;
    };
    void add(const Device& device, const Region& region);
    void remove(const Device& device, std::uint32_t context) noexcept;
    // The queue pair that OWNER has now.
    void set_queue_pair(const void* owner, const Device& device, std::uint32_t number);
    void forget_queue_pair(const void* owner) noexcept;

    // A peer reads what REMOTE names; DTO's completion says that it is done. Around the post.
    void before_read(const Dto& dto, const glue::QueuePair& poster, std::uint64_t address,
                     std::uint64_t length) noexcept;
    void after_read(const Dto& dto, bool is_success) noexcept;

  private:
    struct Known {
        const Device* device;
        Region region;
        report::Stack made;
    };
    struct Posted {
        Known of;
        report::Stack stack;
    };
    struct Numbered {
        const Device* device;
        std::uint32_t number;
    };

    SyncCheck() = default;

    const Known* find_locked(const Device& device, std::uint64_t address, std::uint64_t length) const noexcept
        SLUICE_TSA(requires_capability(mutex_));
    const Device* device_of_locked(const glue::QueuePair::Peer& peer) const noexcept
        SLUICE_TSA(requires_capability(mutex_));

    Mutex mutex_;
    std::vector<Known> regions_ SLUICE_TSA(guarded_by(mutex_));
    std::map<const void*, Numbered> queue_pairs_ SLUICE_TSA(guarded_by(mutex_));
    std::map<const Dto*, Posted> reads_ SLUICE_TSA(guarded_by(mutex_));
};

} // namespace sluice::dapl
