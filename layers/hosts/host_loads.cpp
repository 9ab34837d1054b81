// SPDX-License-Identifier: BSD-3-Clause
//
// What a host knows for `sluice check` of loads of old lines: another host has cleaned newer bytes and
// published a flag behind that, this thread has observed the flag, and the line wasn't invalidated. Such
// lines' pages are closed, so that the first load is seen. ADR 93 has the rule.
#include <algorithm>
#include <functional>

#include "core/fault_access.hpp"
#include "core/file_tree.hpp"
#include "core/mappings.hpp"
#include "layers/hosts/host.hpp"
#include "sync/access.hpp"

namespace sluice::layers::hosts {

namespace {

constexpr std::size_t kMostOldLines = 65536;
constexpr std::uintptr_t kPageLines = old_pages::kPageBytes / kLineBytes;

std::size_t word_of(std::uintptr_t address) noexcept {
    return address % kLineBytes / sizeof(Line::Word);
}

// The mapping's rights are those to which a page is opened again.
bool may_be_closed(const Mapping& mapping, std::uintptr_t page) noexcept {
    return (mapping.is_readable && mapping.is_writable) || old_pages::is_closed(page);
}

// Host::move() closes them again.
void open_for_check(coherence::Range range) noexcept {
    old_pages::open({range.address, range.address + (range.length - 1)});
}

} // namespace

void Host::close_old_page_locked(const SharedFile& file, std::uintptr_t page, std::uint64_t offset,
                                 std::uint32_t event) {
    old_pages::OldWords words{};
    for (std::size_t i = 0; i < kPageLines && old_lines_.size() < kMostOldLines; ++i) {
        const std::uint64_t at = offset + i * kLineBytes;
        if (!file.has_line(at)) {
            continue;
        }
        const Line line = file.line(place_.host, at);
        for (std::size_t word = 0; word < kLineBytes / sizeof(Line::Word); ++word) {
            words[i] |= static_cast<std::uint8_t>(unsigned{line.is_old_at(word)} << word);
        }
        const Publications::Where where{std::hash<std::string>()(file.name()), at};
        if (words[i] != 0 && publications_->is_published_locked(where, hash_of(line.memory_words()))) {
            old_lines_[page + i * kLineBytes] = {file.path(), at, line.words()};
        } else {
            words[i] = 0;
        }
    }
    old_pages::set_old_words(page, words, event);
}

Result<void> Host::close_old(const report::Stack& observed) {
    if (!kKnowsAccesses) {
        return {};
    }
    report_loads();
    Result<std::string> maps = FileTree().read("/proc/self/maps", kLargestMappings);
    if (!maps) {
        return std::move(maps).error();
    }
    const LockGuard guard(mutex_);
    close_old_locked(*maps, observed);
    return {};
}

void Host::close_old_locked(std::string_view maps, const report::Stack& observed) {
    sync::set_opener(open_for_check);
    observed_ = observed;
    old_lines_.clear();
    const std::uint32_t event = old_pages::begin_event();
    for (Mapping mapping; take_mapping(maps, mapping);) {
        const SharedFile* const file = file_at_locked(mapping.path);
        const std::uint64_t end = std::min<std::uint64_t>(mapping.end, mapping.first + kMostLookedAt);
        for (std::uint64_t page = mapping.first; file != nullptr && page < end;
             page += old_pages::kPageBytes) {
            if (may_be_closed(mapping, page) && !file->is_our_mapping(page)) {
                shared_.lock();
                close_old_page_locked(*file, page, mapping.offset + (page - mapping.first), event);
                shared_.unlock();
            }
        }
    }
    old_pages::end_event(event);
}

// A line that was invalidated meanwhile, by another process of this host, too, holds something else.
void Host::report_loads() {
    const LockGuard guard(mutex_);
    old_pages::Touch load;
    while (old_pages::take(load)) {
        const auto line = old_lines_.find(load.address & ~(kLineBytes - 1));
        if (line != old_lines_.end() && !load.is_store &&
            line->second.words.at(word_of(load.address)) == load.word) {
            report_load_locked(load, line->second);
        }
    }
}

void Host::report_load_locked(const old_pages::Touch& load, const OldLine& line) {
    const std::uint64_t first = line.offset - (load.address / kLineBytes * kLineBytes - load.old.first);
    const std::string where = "bytes " + std::to_string(first) + " to " +
                              std::to_string(first + (load.old.last + 1 - load.old.first)) + " of " +
                              line.path;
    const std::string own = "host " + std::to_string(place_.host);
    const std::string loaded = own + " loads old bytes";
    const std::string observed = own + " observed a flag";
    const std::array sides{report::Side{.title = loaded, .stack = &load.stack},
                           report::Side{.title = observed, .stack = &observed_}};
    const std::string what = "sluice_sync_invalidate() missing for " + where +
                             ": another host has cleaned them before it published a flag, and " + own +
                             ", which has observed it, loads what it had before";
    report::write({.rule = "invalidate-missing",
                   .object = where,
                   .what = what,
                   .remedy = "call sluice_sync_invalidate() for these bytes behind sluice_sync_observe() and "
                             "before the first load",
                   .sides = sides});
}

} // namespace sluice::layers::hosts
