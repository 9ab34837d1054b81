// SPDX-License-Identifier: BSD-3-Clause
//
// What a host knows for `sluice check`: lines that weren't cleaned when a flag was published over them, and
// were then taken by a host that had observed the flag. ADR 93 has the rule.
#include <algorithm>
#include <functional>

#include "core/boundary.hpp"
#include "core/keyed_hash.hpp"
#include "core/log.hpp"
#include "layers/hosts/host.hpp"

namespace sluice::layers::hosts {

namespace {

// Of this thread, between before_publish() and after_publish(); and whether it observes a flag, whose own
// line says nothing.
thread_local Publications::Publication publication = {};
thread_local bool is_observing = false;

Publications::Where where_of(const SharedFile& file, std::uint64_t offset) {
    return {std::hash<std::string>()(file.name()), offset};
}

coherence::LineRun line_of(const std::uint64_t* flag) noexcept {
    const auto line = reinterpret_cast<std::uintptr_t>(flag) & ~(kLineBytes - 1);
    return {line, line};
}

bool is_in_memory(const SharedFile& file, std::uint64_t line, std::uint64_t in_line, std::uint64_t value) {
    return file.has_line(line) && file.line(0, line).memory_words().at(in_line / sizeof(Line::Word)) == value;
}

void log_failure(const Result<void>& result) noexcept {
    if (!result) {
        SLUICE_LOG(kWarning, "hosts", "a flag isn't looked at: %s", result.error().text());
    }
}

// In one piece, from the first on.
std::uint64_t end_of_first_run(const std::vector<std::uint64_t>& lines) noexcept {
    std::uint64_t end = lines.front() + kLineBytes;
    for (const std::uint64_t each : lines) {
        end = each == end ? end + kLineBytes : end;
    }
    return end;
}

} // namespace

std::uint64_t Host::hash_of(const Words& words) noexcept {
    return KeyedHash(3, 4)(words);
}

void Host::watch() {
    Result<Publications> made = Publications::open(place_.directory);
    if (!made) {
        SLUICE_LOG(kWarning, "hosts", "nothing is looked for: %s", made.error().text());
        return;
    }
    const LockGuard guard(mutex_);
    publications_.emplace(*std::move(made));
    shared_.lock();
    publications_->join_locked(place_.host);
    shared_.unlock();
}

void Host::note_dirty_locked(const Publications::Publication& now) {
    for (const auto& each : files_) {
        const SharedFile& file = each.second;
        for (std::size_t i = 0; i < file.parts(); ++i) {
            const Part& part = file.part(i);
            const std::uint64_t end = part.offset + std::min(part.length, kMostLookedAt);
            for (std::uint64_t offset = part.offset; offset < end; offset += kLineBytes) {
                if (!file.has_line(offset)) {
                    continue;
                }
                if (const Line line = file.line(place_.host, offset); line.is_dirty()) {
                    publications_->note_dirty_locked(now, where_of(file, offset), hash_of(line.words()));
                }
            }
        }
    }
}

// VISIT(file, offset) under the lock of all.
void Host::visit_flag(
    const std::uint64_t* flag,
    const std::function<void(const SharedFile& file, std::uint64_t offset)>& visit) noexcept {
    log_failure(at_boundary("Host::visit_flag", [&] {
        return visit_mapped(line_of(flag), [&](const SharedFile& file, std::uint64_t first,
                                               std::uint64_t) SLUICE_TSA(requires_capability(mutex_)) {
            shared_.lock();
            visit(file, first + reinterpret_cast<std::uintptr_t>(flag) % kLineBytes);
            shared_.unlock();
        });
    }));
}

void Host::before_publish(const std::uint64_t* flag) noexcept {
    const report::Stack stack = report::capture();
    log_failure(at_boundary("Host::before_publish", [&]() -> Result<void> {
        const std::string frames = report::frames_of(stack);
        const LockGuard guard(mutex_);
        shared_.lock();
        publication = publications_->begin_locked(place_.host, frames);
        note_dirty_locked(publication);
        shared_.unlock();
        if (report::wants_timeline()) {
            look_at_all_locked(occasion_of(stack, "sluice_sync_publish"));
        }
        return {};
    }));
    visit_flag(flag,
               [&](const SharedFile& file, std::uint64_t offset) SLUICE_TSA(requires_capability(mutex_)) {
                   publications_->note_pending_locked(publication, where_of(file, offset));
               });
}

// Its line went to memory with it.
void Host::after_publish(const std::uint64_t* flag, std::uint64_t value) noexcept {
    visit_flag(flag, [&](const SharedFile& file, std::uint64_t offset) SLUICE_TSA(requires_capability(
                         mutex_)) { publications_->end_locked(publication, where_of(file, offset), value); });
}

void Host::before_observe() noexcept {
    is_observing = true;
}

void Host::after_observe(const std::uint64_t* flag, std::uint64_t value) noexcept {
    is_observing = false;
    const report::Stack stack = report::capture();
    log_failure(at_boundary("Host::after_observe", [&]() -> Result<void> {
        std::optional<Unpublished> stored;
        bool is_news = false;
        Result<void> visited =
            visit_mapped(line_of(flag), [&](const SharedFile& file, std::uint64_t first,
                                            std::uint64_t) SLUICE_TSA(requires_capability(mutex_)) {
                const std::uint64_t in_line = reinterpret_cast<std::uintptr_t>(flag) % kLineBytes;
                shared_.lock();
                publications_->count_observation_locked(place_.host);
                is_news = publications_->observe_locked(where_of(file, first + in_line), value,
                                                        is_in_memory(file, first, in_line, value));
                stored = find_stored_flag_locked(file, first + in_line);
                shared_.unlock();
            });
        if (stored) {
            report_stored_flag(*stored, stack);
        }
        if (is_news && visited) {
            visited = close_old(stack);
        }
        return visited;
    }));
}

// As the program has cleaned it.
void Host::note_written_locked(const SharedFile& file, std::uint64_t offset) {
    if (publications_) {
        publications_->note_written_locked(place_.host, where_of(file, offset),
                                           hash_of(file.line(place_.host, offset).words()));
    }
}

void Host::forget_dirty_locked(unsigned host, const SharedFile& file, std::uint64_t offset) {
    if (publications_) {
        publications_->note_clean_locked(host, where_of(file, offset));
    }
}

void Host::look_at_line_locked(const SharedFile& file, std::uint64_t offset, Look& look) {
    if (!publications_ || is_observing) {
        return;
    }
    look.has_news = look.has_news || file.line(place_.host, offset).has_news();
    for (unsigned host = 0; host < place_.hosts; ++host) {
        const Line line = file.line(host, offset);
        if (host == place_.host || !line.is_dirty() ||
            !publications_->is_missed_locked(host, where_of(file, offset), hash_of(line.words()))) {
            continue;
        }
        if (look.missed.empty()) {
            look.publisher = host;
            look.path = file.path();
            look.file = file.name();
            look.published = publications_->frames_locked(host, where_of(file, offset));
        }
        look.missed.push_back(offset);
    }
}

void Host::report_missed(Look& look, const report::Stack& stack) {
    std::ranges::sort(look.missed);
    const std::string where = "bytes " + std::to_string(look.missed.front()) + " to " +
                              std::to_string(end_of_first_run(look.missed)) + " of " + look.path;
    const std::string publisher = "host " + std::to_string(look.publisher);
    const std::string own = "host " + std::to_string(place_.host);
    const std::string published = publisher + " published a flag";
    const std::string taken = own + " invalidated the lines";
    const std::array sides{report::Side{.title = published, .frames = look.published},
                           report::Side{.title = taken, .stack = &stack}};
    const std::string what = "sluice_sync_clean() missing for " + where + ": " + publisher +
                             " had stored to them when it published a flag, and " + own +
                             ", which has observed it, has taken what was there before";
    const std::string remedy = "call sluice_sync_clean() for these bytes behind the last store and before "
                               "sluice_sync_publish()";
    if (report::wants_timeline()) {
        const LockGuard guard(mutex_);
        if (const auto found = timelines_.find(look.file); found != timelines_.end()) {
            found->second.mistake(
                {.rule = "clean-missing", .call = "sluice_sync_clean", .what = what, .remedy = remedy},
                look.missed.front(), end_of_first_run(look.missed), occasion_of(stack, ""));
        }
    }
    report::write({.rule = "clean-missing", .object = where, .what = what, .remedy = remedy, .sides = sides});
}

} // namespace sluice::layers::hosts
