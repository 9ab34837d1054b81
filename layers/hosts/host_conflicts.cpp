// SPDX-License-Identifier: BSD-3-Clause
//
// What a host knows for `sluice check` of lines that two hosts have stored to, and of flags that were stored
// and never published. ADR 93 has the rules.
#include <algorithm>
#include <chrono>
#include <functional>

#include "core/boundary.hpp"
#include "layers/hosts/host.hpp"

namespace sluice::layers::hosts {

namespace {

std::uint64_t now_ns() noexcept {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(since).count());
}

std::string bytes_of(std::uint64_t first, std::uint64_t end, const SharedFile& file) {
    return "bytes " + std::to_string(first) + " to " + std::to_string(end) + " of " + file.path();
}

// Whether the call cleans nothing that the program knows of.
bool drops_alone(const report::Stack& stack) noexcept {
    return report::entry_of(stack).starts_with("sluice_sync_invalidate");
}

} // namespace

// Before a line moves. Where both copies hold the same, none loses anything; nor does one that is written
// over as a whole, which nobody can tell from a line that was forgotten: so a clean says something only where
// the other host's stores aren't in memory either.
void Host::look_for_conflict_locked(const SharedFile& file, std::uint64_t offset, Look& look) {
    const Line own = file.line(place_.host, offset);
    if (!publications_ || look.stack == nullptr || look.conflict_with || !own.is_dirty()) {
        return;
    }
    for (unsigned host = 0; host < place_.hosts; ++host) {
        const Line other = file.line(host, offset);
        if (host != place_.host && other.is_dirty() && other.words() != own.words()) {
            look.conflict_with = host;
        }
    }
    const bool is_lost = own.has_news() && own.memory_words() != own.words() && drops_alone(*look.stack);
    if (look.conflict_with || is_lost) {
        look.conflict_with = look.conflict_with.value_or(place_.host);
        look.conflict_at = bytes_of(offset, offset + kLineBytes, file);
    }
}

void Host::report_conflict(const Look& look, const report::Stack& stack) const {
    const std::string own = "host " + std::to_string(place_.host);
    const bool is_named = *look.conflict_with != place_.host;
    const std::string other = is_named ? "host " + std::to_string(*look.conflict_with) : "another host";
    const std::string moved = own + " moves the line";
    const std::array sides{report::Side{.title = moved, .stack = &stack}};
    const std::string what =
        own + " and " + other +
        " have stored to this line, and neither has taken what the other has stored: one "
        "of them overwrites the other";
    report::write({.rule = "line-stored-by-two-hosts",
                   .object = look.conflict_at,
                   .what = what,
                   .remedy =
                       "give what different hosts store granules of their own; a host that takes memory "
                       "over invalidates it before its first store",
                   .sides = sides});
}

// Of the flag at OFFSET, which this process observes. One that is published goes to memory at once.
std::optional<Host::Unpublished> Host::find_stored_flag_locked(const SharedFile& file, std::uint64_t offset) {
    constexpr std::uint64_t kLongNs = 50'000'000;
    constexpr std::uint32_t kMany = 100; // of the host that has stored: it isn't just about to clean
    constexpr std::uint32_t kSome = 10;  // of this one, when the other one has ended
    const std::uint64_t line = offset & ~(kLineBytes - 1);
    const std::size_t word = offset % kLineBytes / sizeof(Line::Word);
    for (unsigned host = 0; host < place_.hosts && file.has_line(line); ++host) {
        StoredFlag& seen = stored_flags_[{file.name(), offset, host}];
        const Line other = file.line(host, line);
        const std::uint64_t value = other.words().at(word);
        const std::uint32_t observations = publications_->observations_locked(host);
        if (host == place_.host || !other.is_dirty_at(word)) {
            seen = {};
            continue;
        }
        if (seen.times == 0 || seen.value != value) {
            seen = {.since_ns = now_ns(), .value = value, .observations = observations};
        }
        const bool goes_on = now_ns() - seen.since_ns >= kLongNs && observations - seen.observations >= kMany;
        const bool has_ended = ++seen.times >= kSome && publications_->have_left_locked(host);
        if (!seen.is_told && (goes_on || has_ended)) {
            seen.is_told = true;
            return Unpublished{bytes_of(offset, offset + sizeof(Line::Word), file), host};
        }
    }
    return std::nullopt;
}

void Host::report_stored_flag(const Unpublished& flag, const report::Stack& stack) const {
    const std::string storer = "host " + std::to_string(flag.host);
    const std::string observed = "host " + std::to_string(place_.host) + " observes the flag";
    const std::array sides{report::Side{.title = observed, .stack = &stack}};
    const std::string what = storer +
                             " has stored to this flag and gone on, and the line isn't cleaned: nobody "
                             "else sees the value";
    report::write({.rule = "flag-not-published",
                   .object = flag.where,
                   .what = what,
                   .remedy = "call sluice_sync_publish() in place of the store",
                   .sides = sides});
}

void Host::leave() noexcept {
    (void)at_boundary("Host::leave", [&]() -> Result<void> {
        report_loads();
        return {};
    });
    const LockGuard guard(mutex_);
    shared_.lock();
    publications_->leave_locked(place_.host);
    shared_.unlock();
}

} // namespace sluice::layers::hosts
