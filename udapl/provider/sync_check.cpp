// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/sync_check.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "core/boundary.hpp"
#include "udapl/provider/deadline.hpp"
#include "udapl/provider/program_stack.hpp"

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

// A program that ends has no further call in which to report.
[[gnu::destructor]] void report_at_end() {
    if (SyncCheck* const check = SyncCheck::wanted(); check != nullptr) {
        check->report_touched();
    }
}

} // namespace

SyncCheck* SyncCheck::wanted() noexcept {
    // Never destroyed: programs close IAs as late as in their last destructor.
    static SyncCheck* const check =
        report::depth() >= report::Depth::kFull ? new (std::nothrow) SyncCheck : nullptr;
    return check;
}

SyncCheck::SyncCheck() : has_timeline_(report::wants_timeline()) {}

void SyncCheck::write_finding_locked(const Known& of, LineRun bytes, const Found& found) {
    const std::string where = name_of(of.region, bytes);
    const report::Stack stack = of_program(found.stack);
    const report::Stack lmr = of_program(of.made);
    const std::array sides{report::Side{found.title, &stack, found.frames},
                           report::Side{"the LMR was made", &lmr}};
    const std::string what =
        std::string(found.call) + "() missing for " + where + ": " + std::string(found.what);
    const std::string remedy =
        "call " + std::string(found.call) + "() for these bytes, " + std::string(found.when);
    if (has_timeline_) {
        timeline_.mistake(*of.memory, bytes,
                          {.rule = found.rule, .call = found.call, .what = what, .remedy = remedy}, stack,
                          found.time_ns);
    }
    report::write({.rule = found.rule, .object = where, .what = what, .remedy = remedy, .sides = sides});
}

void SyncCheck::add(SimulatedMemory& memory, const Region& region) {
    const report::Stack made = report::capture();
    if (region.is_written && region.length > kMostLookedAt) {
        report::write_blind_spot("loads without dat_lmr_sync_rdma_write() behind the first 16 MiB of an LMR");
    }
    if (region.is_read && region.length > kMostLookedAt) {
        report::write_blind_spot("stores without dat_lmr_sync_rdma_read() behind the first 16 MiB of an LMR, "
                                 "where the peer is another process");
    }
    const LockGuard guard(mutex_);
    regions_.push_back({&memory, region, made});
    if (region.is_read && region.length != 0) {
        const std::uint64_t length = std::min(region.length, kMostLookedAt);
        stored_.add(memory, region.context, {region.address, region.address + (length - 1)});
    }
    if (has_timeline_) {
        timeline_.add(memory, region.context, {region.address, region.address + (region.length - 1)},
                      of_program(made));
    }
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
    stored_.remove(memory, context);
    timeline_.remove(memory, context);
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
        reads_elsewhere_.erase(&dto);
        SimulatedMemory* const memory = memory_of_locked(*peer);
        if (memory == nullptr) {
            if (reads_elsewhere_.size() >= kMostReads) {
                reads_elsewhere_.clear(); // as below
            }
            const report::PeerRead read{.number = peer->number,
                                        .address = peer->address.to_string(),
                                        .first = bytes.first,
                                        .last = bytes.last,
                                        .posted_ns = now_ns(),
                                        .frames = {}};
            reads_elsewhere_.insert_or_assign(&dto, PostedElsewhere{read, stack});
            return {};
        }
        const Known* const of = find_locked(bytes, memory);
        if (of != nullptr) {
            if (reads_.size() >= kMostReads) {
                reads_.clear(); // of queue pairs that have ended, as a rule
            }
            reads_.insert({&dto, {*of, stack}});
            memory->begin_read(&dto, bytes);
            if (has_timeline_) {
                timeline_.note_read(*memory, bytes, of_program(stack));
            }
        }
        return {};
    });
}

void SyncCheck::after_read(const Dto& dto, bool is_success) noexcept {
    (void)at_boundary("reporting a Read", [&]() -> Result<void> {
        const LockGuard guard(mutex_);
        if (const auto elsewhere = reads_elsewhere_.find(&dto); elsewhere != reads_elsewhere_.end()) {
            if (is_success) {
                report::write(elsewhere->second.read, elsewhere->second.stack);
            }
            reads_elsewhere_.erase(elsewhere);
            return {};
        }
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
            write_old_read_locked(posted.of, *stale, posted.stack);
        }
        return {};
    });
}

void SyncCheck::write_old_read_locked(const Known& of, LineRun bytes, const report::Stack& stack,
                                      std::string_view frames, std::uint64_t time_ns) {
    write_finding_locked(of, bytes,
                         {.rule = "sync-read-missing",
                          .call = "dat_lmr_sync_rdma_read",
                          .what = "they were stored to, and the peer has read what was there before",
                          .when = "after the last store and before the peer may read",
                          .title = "the peer's Read was posted",
                          .stack = stack,
                          .time_ns = time_ns,
                          .frames = frames});
}

// A process without regions for peers to read doesn't look at what is told.
void SyncCheck::report_reads_locked() {
    if (!stored_.has_regions()) {
        return;
    }
    for (const report::PeerRead& read : peer_reads_.take()) {
        report_read_locked(read);
    }
}

// The peer's process may be wrong about what it has read, and about anything else.
void SyncCheck::report_read_locked(const report::PeerRead& read) {
    const std::optional<glue::Address> address = glue::Address::from_text(read.address.c_str());
    SimulatedMemory* const memory = address ? memory_of_locked({*address, read.number}) : nullptr;
    const LineRun bytes{read.first, read.last};
    const Known* const of = memory != nullptr ? find_locked(bytes, memory) : nullptr;
    if (of == nullptr) {
        return;
    }
    if (const std::optional<LineRun> old = stored_.stored_before(*memory, bytes, read.posted_ns)) {
        write_old_read_locked(*of, *old, {}, read.frames, read.posted_ns);
    }
}

// Of large regions not with each event: a program that takes many would stand still.
void SyncCheck::look_for_stores_locked() {
    constexpr std::uint64_t kShort = 200'000;
    const std::uint64_t begin = now_ns();
    if (look_took_ns_ <= kShort || begin - looked_ns_ >= 10 * look_took_ns_) {
        stored_.look(&now_ns);
        looked_ns_ = now_ns();
        look_took_ns_ = looked_ns_ - begin;
    }
}

void SyncCheck::on_event(std::string_view call) noexcept {
    const std::uint32_t event = old_pages::begin_event();
    const report::Stack stack = has_timeline_ ? report::capture() : report::Stack();
    (void)at_boundary("looking at what peers wrote", [&]() -> Result<void> {
        const LockGuard guard(mutex_);
        report_touched_locked();
        report_reads_locked();
        look_for_stores_locked();
        if (has_timeline_) {
            timeline_.look_at_all(call, of_program(stack));
        }
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

void SyncCheck::before_move(const SimulatedMemory& memory, LineRun lines, bool drop) noexcept {
    const report::Stack stack = has_timeline_ ? report::capture() : report::Stack();
    (void)at_boundary("looking at lines", [&]() -> Result<void> {
        const LockGuard guard(mutex_);
        report_reads_locked();
        if (has_timeline_) {
            report_touched_locked();
            timeline_.before_move(memory, lines, drop, of_program(stack));
        }
        return {};
    });
    // Whatever became of that.
    const LockGuard guard(mutex_);
    stored_.forget(memory, lines);
}

void SyncCheck::after_move(const SimulatedMemory& memory, LineRun lines, bool drop) noexcept {
    if (!has_timeline_) {
        return;
    }
    const report::Stack stack = report::capture();
    (void)at_boundary("noting a move of lines", [&]() -> Result<void> {
        const LockGuard guard(mutex_);
        timeline_.after_move(memory, lines, drop, of_program(stack));
        return {};
    });
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
        const bool is_known = store != stores_.end();
        write_finding_locked(
            *of, lines,
            {.rule = "sync-write-missing",
             .call = "dat_lmr_sync_rdma_write",
             .what = "the program has stored there and the peer has written, with no call "
                     "between; the peer's bytes are lost",
             .when = "before the peer may write, and again before the first store behind it",
             .title = is_known ? "the program stored there" : "its stores went over the peer's",
             .stack = is_known ? store->stack : stack,
             .time_ns = is_known ? store->time_ns : 0});
        return {};
    });
}

void SyncCheck::report_touched() noexcept {
    (void)at_boundary("reporting what was touched", [&]() -> Result<void> {
        const LockGuard guard(mutex_);
        report_touched_locked();
        report_reads_locked();
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
        write_finding_locked(*of, touch.old,
                             {.rule = "sync-write-missing",
                              .call = "dat_lmr_sync_rdma_write",
                              .what = "the peer has written them, and the program has loaded what was there "
                                      "before",
                              .when = "after the message that says that they are written, and before the "
                                      "first look",
                              .title = "they were loaded",
                              .stack = touch.stack,
                              .time_ns = touch.time_ns});
    }
}

} // namespace sluice::dapl
