// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/simulated_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "core/coherence/batch.hpp"
#include "core/old_pages/old_pages.hpp"
#include "core/own_memory.hpp"
#include "core/report/finding.hpp"
#include "udapl/provider/simulated_line.hpp"

namespace sluice::dapl {

using coherence::LineRun;
using coherence::Ops;

namespace {

void* as_pointer(std::uintptr_t address) noexcept {
    return reinterpret_cast<void*>(address);
}

std::uint64_t hash_of(std::span<const std::byte> bytes) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325; // FNV-1a
    for (const std::byte byte : bytes) {
        hash = (hash ^ std::to_integer<std::uint8_t>(byte)) * 0x100000001b3;
    }
    return hash;
}

} // namespace

// Pages that got their shadow together.
struct SimulatedMemory::Chunk {
    std::uintptr_t first; // the program's
    Pages shadow;
    Pages former;
};

struct SimulatedMemory::Run {
    std::uintptr_t last;
    std::uint32_t users;
    std::shared_ptr<Chunk> chunk;

    std::uintptr_t shadow_of(std::uintptr_t address) const noexcept {
        return chunk->shadow.address() + (address - chunk->first);
    }
    std::uintptr_t former_of(std::uintptr_t address) const noexcept {
        return chunk->former.address() + (address - chunk->first);
    }
};

// The engine passes bytes, and not lines: a line here is a region's part of it.
SimulatedMemory::SimulatedMemory(Watcher* watcher) noexcept
    : page_bytes_(static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE))),
      ops_({.clean = {"simulated", issue<false>, issue_batch<false>},
            .invalidate = {"simulated", issue<true>, issue_batch<true>},
            .before_clean = {"none", nullptr},
            .after_clean = {"none", nullptr},
            .before_invalidate = {"none", nullptr},
            .after_invalidate = {"none", nullptr},
            .line_bytes = 1,
            .granule_bytes = kLineBytes,
            .context = this}),
      watcher_(watcher) {}

SimulatedMemory::~SimulatedMemory() = default;

SimulatedMemory::Shadow::Shadow(Shadow&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), first_(other.first_), last_(other.last_),
      address_(other.address_), own_mapping_(other.own_mapping_) {}

SimulatedMemory::Shadow::~Shadow() {
    if (memory_ == nullptr) {
        return;
    }
    if (own_mapping_ != nullptr) {
        munmap(own_mapping_, last_ - first_ + 1);
    }
    memory_->release(first_, last_);
}

Result<SimulatedMemory::Shadow> SimulatedMemory::add(std::uintptr_t address, std::size_t length) {
    const std::uintptr_t first = address & ~(page_bytes_ - 1);
    const std::uintptr_t last = (address + (length - 1)) | (page_bytes_ - 1);
    const LockGuard guard(mutex_);
    struct Pruned { // what isn't used in the end
        ~Pruned() SLUICE_TSA(no_thread_safety_analysis) { memory.prune_locked(first, last); }
        SimulatedMemory& memory;
        std::uintptr_t first;
        std::uintptr_t last;
    } const pruned{*this, first, last};
    if (Result<void> covered = cover_locked(first, last); !covered) {
        return std::move(covered).error();
    }
    Result<Shadow> shadow = map_locked(first, last);
    if (shadow) {
        shadow->address_ = static_cast<std::byte*>(shadow->address_) + (address - first);
        for (auto run = runs_.find(first); run != runs_.end() && run->first < last; ++run) {
            ++run->second.users;
        }
    }
    return shadow;
}

// No run begins before AT and ends behind it afterwards.
void SimulatedMemory::split_locked(std::uintptr_t at) {
    auto run = runs_.upper_bound(at);
    if (run == runs_.begin() || (--run)->first == at || run->second.last < at) {
        return;
    }
    runs_.emplace(at, run->second);
    run->second.last = at - 1;
}

Result<void> SimulatedMemory::cover_locked(std::uintptr_t first, std::uintptr_t last) {
    split_locked(first);
    if (last != UINTPTR_MAX) {
        split_locked(last + 1);
    }
    std::uintptr_t at = first;
    while (true) {
        auto run = runs_.lower_bound(at);
        const bool is_covered = run != runs_.end() && run->first == at;
        if (!is_covered) {
            const std::uintptr_t end = run != runs_.end() ? std::min(run->first - 1, last) : last;
            Result<Pages> shadow = Pages::make(end - at + 1, Pages::kShared);
            Result<Pages> former = Pages::make(end - at + 1, Pages::kPrivate);
            if (!shadow || !former) {
                return std::move(shadow ? former : shadow).error();
            }
            auto chunk = std::make_shared<Chunk>(Chunk{at, *std::move(shadow), *std::move(former)});
            run = runs_.emplace(at, Run{end, 0, std::move(chunk)}).first;
        }
        if (run->second.last >= last) {
            return {};
        }
        at = run->second.last + 1;
    }
}

Result<SimulatedMemory::Shadow> SimulatedMemory::map_locked(std::uintptr_t first, std::uintptr_t last) {
    const auto begin = runs_.find(first);
    bool is_one_piece = true;
    for (auto run = begin; run->second.last < last; ++run) {
        is_one_piece = is_one_piece && std::next(run)->second.chunk == begin->second.chunk;
    }
    if (is_one_piece) {
        return Shadow(*this, first, last, as_pointer(begin->second.shadow_of(first)), nullptr);
    }
    // The pieces' pages once more, side by side. An old size of zero leaves the former mapping as it is.
    Result<Pages> pages = Pages::make(last - first + 1, Pages::kPrivate);
    if (!pages) {
        return std::move(pages).error();
    }
    for (auto run = begin; run != runs_.end() && run->first < last; ++run) {
        const std::size_t length = run->second.last - run->first + 1;
        void* const at = as_pointer(pages->address() + (run->first - first));
        if (mremap(as_pointer(run->second.shadow_of(run->first)), 0, length, MREMAP_MAYMOVE | MREMAP_FIXED,
                   at) == MAP_FAILED) {
            return Error::from_errno(errno, "SLUICE_COHERENCE=simulated: putting shadows side by side");
        }
    }
    void* const own = pages->release();
    return Shadow(*this, first, last, own, own);
}

void SimulatedMemory::release(std::uintptr_t first, std::uintptr_t last) noexcept {
    const LockGuard guard(mutex_);
    for (auto run = runs_.find(first); run != runs_.end() && run->first < last; ++run) {
        --run->second.users;
    }
    prune_locked(first, last);
}

void SimulatedMemory::prune_locked(std::uintptr_t first, std::uintptr_t last) noexcept {
    for (auto run = runs_.lower_bound(first); run != runs_.end() && run->first < last;) {
        run = run->second.users == 0 ? runs_.erase(run) : std::next(run);
    }
}

// Calls VISIT(line) for each line of BYTES, or its part in BYTES, where these have a shadow; until one gives
// false.
template<typename Visit>
void SimulatedMemory::visit_locked(LineRun bytes, const Visit& visit) noexcept {
    auto run = runs_.upper_bound(bytes.first);
    if (run == runs_.begin()) {
        return; // the region has gone meanwhile
    }
    --run;
    for (std::uintptr_t at = bytes.first; run != runs_.end() && run->first <= at && at <= run->second.last;) {
        const std::uintptr_t end = std::min(at | (kLineBytes - 1), bytes.last);
        const LineView line{static_cast<volatile std::uint8_t*>(as_pointer(at)),
                            static_cast<volatile std::uint8_t*>(as_pointer(run->second.shadow_of(at))),
                            static_cast<volatile std::uint8_t*>(as_pointer(run->second.former_of(at))),
                            end - at + 1};
        if (!visit(LineRun{at, end}, line) || end == bytes.last) {
            return;
        }
        at = end + 1;
        run = at > run->second.last ? std::next(run) : run;
    }
}

void SimulatedMemory::move(LineRun bytes, LineRun region, bool drop) noexcept {
    const LineRun lines{std::max(bytes.first & ~(kLineBytes - 1), region.first),
                        std::min(bytes.last | (kLineBytes - 1), region.last)};
    std::optional<LineRun> overwritten;
    if (watcher_ != nullptr) {
        watcher_->before_move(*this, lines, drop);
    }
    {
        const LockGuard guard(mutex_);
        overwritten = move_locked(lines, drop);
    }
    if (watcher_ != nullptr) {
        watcher_->after_move(*this, lines, drop);
    }
    if (overwritten && watcher_ != nullptr) {
        watcher_->on_overwritten(*this, *overwritten);
    }
}

std::optional<LineRun> SimulatedMemory::move_locked(LineRun lines, bool drop) noexcept {
    std::optional<LineRun> overwritten;
    if (watcher_ != nullptr) {
        old_pages::open(lines);
    }
    visit_locked(lines, [&](LineRun at, const LineView& line) SLUICE_TSA(requires_capability(mutex_)) {
        const bool is_dirty = line.is_dirty();
        if (is_dirty) {
            if (watcher_ != nullptr && line.is_written() &&
                (!overwritten || overwritten->last + 1 == at.first)) {
                overwritten = {overwritten ? overwritten->first : at.first, at.last};
            }
            line.write_back();
            note_clean_locked(at);
        }
        if (drop) {
            line.fetch();
        }
        if (watcher_ != nullptr && (is_dirty || drop)) {
            old_pages::forget(at);
        }
        return true;
    });
    if (watcher_ != nullptr) {
        old_pages::close_again(lines);
    }
    return overwritten;
}

// A closed page's lines of the program's are as they were.
std::uint64_t SimulatedMemory::old_lines_locked(std::uintptr_t page, const Run& run) const noexcept {
    const bool is_closed = old_pages::is_closed(page);
    std::uint64_t old = 0;
    for (unsigned i = 0; i < old_pages::kPageBytes / kLineBytes; ++i) {
        const std::uintptr_t at = page + i * kLineBytes;
        const LineView line{static_cast<volatile std::uint8_t*>(as_pointer(at)),
                            static_cast<volatile std::uint8_t*>(as_pointer(run.shadow_of(at))),
                            static_cast<volatile std::uint8_t*>(as_pointer(run.former_of(at))), kLineBytes};
        if (line.is_written() && (is_closed || line.differs())) {
            old |= std::uint64_t{1} << i;
        }
    }
    return old;
}

std::vector<SimulatedMemory::LineLook> SimulatedMemory::look(LineRun bytes) {
    std::vector<LineLook> looks;
    looks.reserve((bytes.last - bytes.first) / kLineBytes + 2);
    const LockGuard guard(mutex_);
    visit_locked(bytes, [&](LineRun at, const LineView& line) {
        const std::uintptr_t page = at.first & ~(old_pages::kPageBytes - 1);
        const bool is_closed = !old_pages::is_open(page);
        looks.push_back(
            {!is_closed && line.is_dirty(), line.is_written() && (is_closed || line.differs()), is_closed});
        return true;
    });
    return looks;
}

// A copy, as a page may be closed, or unmapped by a program that hasn't freed its LMR.
std::vector<SimulatedMemory::DirtyLine> SimulatedMemory::dirty_lines(LineRun bytes) {
    std::vector<DirtyLine> dirty;
    dirty.reserve((bytes.last - bytes.first) / kLineBytes + 2);
    const LockGuard guard(mutex_);
    for (std::uintptr_t at = bytes.first;;) {
        const std::size_t wanted = std::min<std::size_t>(copy_.size() - at % kLineBytes, bytes.last - at + 1);
        const std::optional<std::size_t> copied = copy_own_memory(at, std::span(copy_).first(wanted));
        if (!copied) {
            report::write_blind_spot("stores that peers in other processes should have seen, where "
                                     "the calls that copy memory are refused");
            return dirty;
        }
        if (*copied != 0) {
            const std::span<const std::byte> copy(copy_);
            visit_locked({at, at + (*copied - 1)}, [&](LineRun line, const LineView& view) {
                // What they held is written with the lock alone.
                const std::span<const std::byte> now = copy.subspan(line.first - at, view.length);
                if (std::memcmp(now.data(), const_cast<const std::uint8_t*>(view.former), now.size()) != 0) {
                    dirty.push_back({line, hash_of(now)});
                }
                return true;
            });
        }
        // On, or behind a page that can't be read.
        const std::size_t step =
            *copied == wanted ? wanted : *copied + page_bytes_ - (at + *copied) % page_bytes_;
        if (bytes.last - at < step) {
            return dirty;
        }
        at += step;
    }
}

void SimulatedMemory::find_old(LineRun region, std::uint32_t event) noexcept {
    constexpr std::uintptr_t kPage = old_pages::kPageBytes;
    const LockGuard guard(mutex_);
    for (std::uintptr_t page = (region.first + (kPage - 1)) & ~(kPage - 1);
         page >= region.first && page <= region.last && region.last - page >= kPage - 1; page += kPage) {
        auto run = runs_.upper_bound(page);
        if (run != runs_.begin() && (--run)->second.last >= page + (kPage - 1)) {
            old_pages::set_old(page, old_lines_locked(page, run->second), event);
        }
    }
}

std::optional<LineRun> SimulatedMemory::first_dirty_locked(LineRun bytes) noexcept {
    std::optional<LineRun> found;
    if (watcher_ != nullptr) {
        old_pages::open(bytes);
    }
    visit_locked(bytes, [&](LineRun at, const LineView& line) {
        if (line.is_dirty()) {
            found = found ? LineRun{found->first, at.last} : at;
            return true;
        }
        return !found.has_value();
    });
    return found;
}

// The device may have read LINE behind this.
void SimulatedMemory::note_clean_locked(LineRun line) noexcept {
    for (Read& read : reads_) {
        if (read.token == nullptr || line.last < read.dirty.first || line.first > read.dirty.last) {
            continue;
        }
        if (line.first > read.dirty.first) {
            read.dirty.last = line.first - 1;
        } else if (line.last < read.dirty.last) {
            read.dirty.first = line.last + 1;
        } else {
            read.token = nullptr;
        }
    }
}

void SimulatedMemory::begin_read(const void* token, LineRun bytes) noexcept {
    const LockGuard guard(mutex_);
    auto place = std::ranges::find(reads_, token, &Read::token); // one that failed, and never ended
    place = place != reads_.end() ? place : std::ranges::find(reads_, nullptr, &Read::token);
    const std::optional<LineRun> dirty = first_dirty_locked(bytes);
    if (place == reads_.end()) {
        place =
            reads_.begin() + next_read_++ % reads_.size(); // some end with their queue pair, without a word
    }
    *place = dirty ? Read{token, *dirty} : Read{};
}

std::optional<LineRun> SimulatedMemory::end_read(const void* token) noexcept {
    const LockGuard guard(mutex_);
    const auto read = std::ranges::find(reads_, token, &Read::token);
    return read != reads_.end() ? first_dirty_locked(std::exchange(*read, {}).dirty) : std::nullopt;
}

// For ranges that are regions, as those that are made.
template<bool kDrop>
void SimulatedMemory::issue(const Ops& ops, LineRun run) noexcept {
    static_cast<SimulatedMemory*>(ops.context)->move(run, run, kDrop);
}

template<bool kDrop>
coherence::BatchResult SimulatedMemory::issue_batch(const Ops& ops, coherence::Batch& batch) noexcept {
    auto& memory = *static_cast<SimulatedMemory*>(ops.context);
    const coherence::Segment* segment = batch.first;
    constexpr coherence::Edges kEdges = kDrop ? coherence::Edges::kWatched : coherence::Edges::kIgnored;
    return coherence::for_each_checked<kEdges>(batch, [&](std::uint64_t address, std::uint64_t length) {
        while (segment->length == 0) {
            ++segment; // which aren't visited
        }
        coherence::RegionTable::Bounds bounds{};
        if (batch.regions.bounds(segment->context, bounds)) {
            memory.move({address, address + (length - 1)},
                        {bounds.address, bounds.address + (bounds.length - 1)}, kDrop);
        }
        ++segment;
    });
}

} // namespace sluice::dapl
