// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/sync_check.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "core/boundary.hpp"

namespace sluice::dapl {

namespace {

using coherence::LineRun;

// What isn't looked at more closely behind it: an event would take too long.
constexpr std::uint64_t kMostLookedAt = std::uint64_t{16} << 20;
constexpr std::size_t kMostReads = 1024;

// "LMR 12, bytes 4096 to 4160".
std::string name_of(const SyncCheck::Region& region, LineRun bytes) {
    const std::uintptr_t first = std::max<std::uintptr_t>(bytes.first, region.address);
    const std::uintptr_t end = std::min<std::uintptr_t>(bytes.last - region.address + 1, region.length);
    return "LMR " + std::to_string(region.context) + ", bytes " + std::to_string(first - region.address) +
           " to " + std::to_string(end);
}

// Whether the program's author isn't interested in what is at ADDRESS: this library, the registry before it,
// and libc, which accesses memory for the program. A finding is known by where the program is.
bool is_between(const void* address) noexcept {
    Dl_info own{};
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(&is_between), &own) == 0 || dladdr(address, &info) == 0) {
        return false;
    }
    std::string_view name = info.dli_fname;
    name = name.substr(name.rfind('/') + 1);
    return info.dli_fbase == own.dli_fbase || name.starts_with("libdat") || name.starts_with("libc.so");
}

report::Stack of_program(const report::Stack& stack) noexcept {
    report::Stack rest;
    for (const void* each : stack.frames()) {
        if (rest.count != 0 || !is_between(each)) {
            rest.addresses[rest.count++] = each;
        }
    }
    return rest.count != 0 ? rest : stack;
}

struct Place {
    std::string_view title;
    report::Stack stack;
};

void write_finding(std::string_view rule, std::string_view call, const std::string& where,
                   std::string_view what, std::string_view when, const Place& place,
                   const report::Stack& made) {
    const report::Stack stack = of_program(place.stack);
    const report::Stack lmr = of_program(made);
    const std::array sides{report::Side{place.title, &stack}, report::Side{"the LMR was made", &lmr}};
    report::write({.rule = rule,
                   .object = where,
                   .what = std::string(call) + "() missing for " + where + ": " + std::string(what),
                   .remedy = "call " + std::string(call) + "() for these bytes, " + std::string(when),
                   .sides = sides});
}

// A program that ends has no further call in which to report.
[[gnu::destructor]] void report_at_end() {
    if (SyncCheck* const check = SyncCheck::wanted(); check != nullptr) {
        check->report_touched();
    }
}

} // namespace

SyncCheck* SyncCheck::wanted() noexcept {
    // Never destroyed: programs close IAs as late as in their last destructor.
    static SyncCheck* const check = report::depth() == report::Depth::kFull ? new SyncCheck : nullptr;
    return check;
}

void SyncCheck::add(SimulatedMemory& memory, const Region& region) {
    const report::Stack made = report::capture();
    if (region.is_written && region.length > kMostLookedAt) {
        report::write_blind_spot("loads without dat_lmr_sync_rdma_write() behind the first 16 MiB of an LMR");
    }
    const LockGuard guard(mutex_);
    regions_.push_back({&memory, region, made});
}

void SyncCheck::remove(const SimulatedMemory& memory, std::uint32_t context) noexcept {
    report_touched();
    const LockGuard guard(mutex_);
    const auto gone = std::ranges::find_if(regions_, [&](const Known& each) {
        return each.memory == &memory && each.region.context == context;
    });
    if (gone == regions_.end()) {
        return;
    }
    const LineRun bytes{gone->region.address, gone->region.address + (gone->region.length - 1)};
    old_pages::open(bytes);
    old_pages::forget(bytes);
    regions_.erase(gone);
}

void SyncCheck::set_queue_pair(const void* owner, SimulatedMemory& memory,
                               const glue::QueuePair::Peer& itself) {
    const LockGuard guard(mutex_);
    queue_pairs_.insert_or_assign(owner, Numbered{&memory, itself});
}

void SyncCheck::forget_queue_pair(const void* owner) noexcept {
    const LockGuard guard(mutex_);
    queue_pairs_.erase(owner);
}

// MEMORY may be null: of any.
const SyncCheck::Known* SyncCheck::find_locked(LineRun bytes, const SimulatedMemory* memory) const noexcept {
    const auto found = std::ranges::find_if(regions_, [&](const Known& each) {
        return (memory == nullptr || each.memory == memory) &&
               bytes.first - each.region.address < each.region.length &&
               bytes.last - each.region.address < each.region.length;
    });
    return found != regions_.end() ? &*found : nullptr;
}

SimulatedMemory* SyncCheck::memory_of_locked(const glue::QueuePair::Peer& peer) const noexcept {
    const auto found = std::ranges::find_if(queue_pairs_, [&](const auto& each) {
        return each.second.itself.number == peer.number &&
               each.second.itself.address.is_same_host(peer.address);
    });
    return found != queue_pairs_.end() ? found->second.memory : nullptr;
}

void SyncCheck::before_read(const Dto& dto, const glue::QueuePair& poster, std::uint64_t address,
                            std::uint64_t length) noexcept {
    const Result<glue::QueuePair::Peer> peer = poster.peer();
    if (!peer || length == 0 || length - 1 > UINTPTR_MAX - address) {
        return;
    }
    const report::Stack stack = report::capture();
    (void)at_boundary("checking a Read", [&]() -> Result<void> {
        const LineRun bytes{address, address + (length - 1)};
        const LockGuard guard(mutex_);
        reads_.erase(&dto); // of a post that failed
        SimulatedMemory* const memory = memory_of_locked(*peer);
        const Known* const of = memory != nullptr ? find_locked(bytes, memory) : nullptr;
        if (of != nullptr) {
            if (reads_.size() >= kMostReads) {
                reads_.clear(); // of queue pairs that have ended, as a rule
            }
            reads_.insert({&dto, {*of, stack}});
            memory->begin_read(&dto, bytes);
        }
        return {};
    });
}

void SyncCheck::after_read(const Dto& dto, bool is_success) noexcept {
    (void)at_boundary("reporting a Read", [&]() -> Result<void> {
        const LockGuard guard(mutex_);
        const auto found = reads_.find(&dto);
        if (found == reads_.end()) {
            return {};
        }
        const Posted posted = found->second;
        reads_.erase(found);
        const Region& region = posted.of.region;
        const bool is_live = std::ranges::any_of(regions_, [&](const Known& each) {
            return each.memory == posted.of.memory && each.region.context == region.context;
        });
        const std::optional<LineRun> stale = is_live ? posted.of.memory->end_read(&dto) : std::nullopt;
        if (stale && is_success) {
            write_finding("sync-read-missing", "dat_lmr_sync_rdma_read", name_of(region, *stale),
                          "they were stored to, and the peer has read what was there before",
                          "after the last store and before the peer may read",
                          {"the peer's Read was posted", posted.stack}, posted.of.made);
        }
        return {};
    });
}

void SyncCheck::on_event() noexcept {
    const std::uint32_t event = old_pages::begin_event();
    (void)at_boundary("looking at what peers wrote", [&]() -> Result<void> {
        const LockGuard guard(mutex_);
        report_touched_locked();
        for (const Known& each : regions_) {
            if (each.region.is_written) {
                const std::uint64_t length = std::min(each.region.length, kMostLookedAt);
                each.memory->find_old({each.region.address, each.region.address + (length - 1)}, event);
            }
        }
        return {};
    });
    old_pages::end_event(event);
}

void SyncCheck::on_overwritten(const SimulatedMemory& memory, LineRun lines) noexcept {
    const report::Stack stack = report::capture();
    (void)at_boundary("reporting an overwritten line", [&]() -> Result<void> {
        const LockGuard guard(mutex_);
        report_touched_locked();
        const Known* const of = find_locked(lines, &memory);
        if (of == nullptr || !of->region.is_written) {
            return {};
        }
        const auto store = std::ranges::find_if(stores_, [&](const old_pages::Touch& each) {
            return each.address >= lines.first && each.address <= lines.last;
        });
        const Place place = store != stores_.end() ? Place{"the program stored there", store->stack}
                                                   : Place{"its stores went over the peer's", stack};
        write_finding("sync-write-missing", "dat_lmr_sync_rdma_write", name_of(of->region, lines),
                      "the program has stored there and the peer has written, with no call between; the "
                      "peer's bytes are lost",
                      "before the peer may write, and again before the first store behind it", place,
                      of->made);
        return {};
    });
}

void SyncCheck::report_touched() noexcept {
    (void)at_boundary("reporting a load", [&]() -> Result<void> {
        const LockGuard guard(mutex_);
        report_touched_locked();
        return {};
    });
}

void SyncCheck::report_touched_locked() {
    old_pages::Touch touch;
    while (old_pages::take(touch)) {
        report_touch_locked(touch);
    }
}

// A store is a mistake where it goes over what the peer wrote: on_overwritten() sees that.
void SyncCheck::report_touch_locked(const old_pages::Touch& touch) {
    constexpr std::size_t kMostStores = 64;
    if (touch.is_store) {
        if (stores_.size() == kMostStores) {
            stores_.erase(stores_.begin());
        }
        stores_.push_back(touch);
        return;
    }
    const Known* const of = find_locked({touch.address, touch.address}, nullptr);
    if (of != nullptr) {
        write_finding("sync-write-missing", "dat_lmr_sync_rdma_write", name_of(of->region, touch.old),
                      "the peer has written them, and the program has loaded what was there before",
                      "after the message that says that they are written, and before the first look",
                      {"they were loaded", touch.stack}, of->made);
    }
}

} // namespace sluice::dapl
