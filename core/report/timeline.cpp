// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/timeline.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <set>
#include <utility>

#include "core/report/file/words.hpp"
#include "core/report/finding.hpp"
#include "core/report/record.hpp"
#include "core/settings.hpp"
#include "core/sync.hpp"

namespace sluice::report {

namespace {

using file::add_line;

constexpr std::size_t kMostQuiet = 64;

// Never destroyed: what is left is told when libraries have ended already.
struct TimelineWish {
    std::uint64_t events = 0; // 0: nobody wants a timeline
    const char* file = "";
};

TimelineWish read_timeline_wish() noexcept {
    const char* const value = setting_value(Setting::kTimeline);
    const std::string_view text = value != nullptr ? value : "";
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::string_view file = text.substr(std::min(colon + 1, text.size()));
    std::uint64_t events = 0;
    const auto read = std::from_chars(text.data(), text.data() + colon, events);
    if (read.ptr != text.data() + colon || !file.starts_with('/')) {
        return {};
    }
    const char* const copy = strdup(file.data()); // it reaches to the end of VALUE
    return copy != nullptr ? TimelineWish{.events = events, .file = copy} : TimelineWish();
}

const TimelineWish& timeline_wish() noexcept {
    static const TimelineWish read = read_timeline_wish();
    return read;
}

std::string joined(std::initializer_list<std::uint64_t> numbers) {
    std::string text;
    for (const std::uint64_t number : numbers) {
        text += (text.empty() ? "" : " ") + std::to_string(number);
    }
    return text;
}

// Of this process: what it has written already.
class TimelineFile {
  public:
    static TimelineFile& instance() {
        static auto* const file = new TimelineFile; // never destroyed: destructors of programs call us
        return *file;
    }

    // What PREFIX announces comes before the stack and the EVENT, to which the stack's number belongs.
    void write_event(const std::string& prefix, std::string_view event, std::string_view call,
                     const Stack* stack, std::string_view rest) {
        const LockGuard lock(mutex_);
        notice_fork_locked();
        std::string text = prefix;
        if (events_++ >= timeline_wish().events) {
            lost_ += 1;
            if (std::exchange(is_full_, true)) {
                return;
            }
            add_lost_locked(text); // at once: the process may be killed
        } else {
            const std::uint64_t number = stack != nullptr ? number_of_locked(*stack, text) : 0;
            add_line(text, event, std::to_string(number) + " " + std::string(call));
            text += rest;
        }
        append(timeline_wish().file, text);
    }

    void write(const std::string& text) {
        const LockGuard lock(mutex_);
        append(timeline_wish().file, text);
    }

    void write_lost() {
        const LockGuard lock(mutex_);
        if (lost_ != 0) {
            std::string text;
            add_lost_locked(text);
            append(timeline_wish().file, text);
        }
    }

  private:
    void notice_fork_locked() SLUICE_TSA(requires_capability(mutex_)) {
        const pid_t now = getpid();
        if (std::exchange(process_, now) != now) {
            stacks_.clear();
            events_ = lost_ = 0;
            is_full_ = false;
        }
    }

    void add_lost_locked(std::string& text) SLUICE_TSA(requires_capability(mutex_)) {
        add_line(text, "lost", joined({static_cast<std::uint64_t>(getpid()), std::exchange(lost_, 0)}));
    }

    // Libraries that don't know of each other give the same number to the same frames.
    std::uint64_t number_of_locked(const Stack& stack, std::string& text)
        SLUICE_TSA(requires_capability(mutex_)) {
        std::string raw(reinterpret_cast<const char*>(stack.addresses.data()),
                        stack.count * sizeof stack.addresses[0]);
        const std::uint64_t number = std::hash<std::string>()(raw) | 1;
        if (stacks_.insert(number).second) {
            add_line(text, "stack", std::to_string(getpid()) + " " + std::to_string(number));
            text += frames_of(stack);
        }
        return number;
    }

    Mutex mutex_;
    pid_t process_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::set<std::uint64_t> stacks_ SLUICE_TSA(guarded_by(mutex_));
    std::uint64_t events_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::uint64_t lost_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    bool is_full_ SLUICE_TSA(guarded_by(mutex_)) = false;
};

[[gnu::destructor]] void write_lost_at_end() {
    if (wants_timeline()) {
        TimelineFile::instance().write_lost();
    }
}

bool is_moved(std::string_view kind, LineState state) noexcept {
    return state.is_dirty || (state.is_stale && kind != "clean");
}

} // namespace

bool wants_timeline() noexcept {
    return timeline_wish().events != 0;
}

std::uint64_t timeline_now_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

RegionTimeline::RegionTimeline(std::string name, std::string host, std::uint64_t bytes, std::uint64_t first)
    : name_(std::move(name)), host_(std::move(host)), first_(first % kLineBytes), bytes_(bytes) {
    begin_look((first_ + std::max<std::uint64_t>(bytes_, 1) - 1) / kLineBytes, 0);
}

std::uint64_t RegionTimeline::byte_of(std::uint64_t line) const noexcept {
    const std::uint64_t byte = line * kLineBytes;
    return std::min(byte - std::min(byte, first_), bytes_);
}

// A file may be mapped further than before.
void RegionTimeline::begin_look(std::uint64_t last, std::uint64_t now_ns) {
    const std::uint64_t wanted = std::min(last + 1, kMostBytes / kLineBytes);
    if (wanted > states_.size()) {
        states_.resize(wanted);
        looked_ns_.resize(wanted, began_ns_);
        bytes_ = std::max(bytes_, host_.empty() ? bytes_ : wanted * kLineBytes);
    }
    changes_.clear();
    now_ns_ = now_ns;
    if (process_ != getpid()) {
        std::ranges::fill(states_, LineState()); // of the parent
    }
}

void RegionTimeline::add_change(const char* kind, std::uint64_t line, std::uint64_t since_ns) {
    const std::size_t open = std::min<std::size_t>(changes_.size(), 3); // there are three kinds
    for (auto each = changes_.end() - static_cast<std::ptrdiff_t>(open); each != changes_.end(); ++each) {
        if (std::string_view(each->kind) == kind && each->last + 1 == line) {
            each->last = line;
            each->since_ns = std::min(each->since_ns, since_ns);
            return;
        }
    }
    changes_.push_back({kind, line, line, since_ns});
}

void RegionTimeline::set(std::uint64_t line, LineState state) {
    const LineState former = std::exchange(states_[line], state);
    const std::uint64_t since_ns = std::exchange(looked_ns_[line], now_ns_);
    const bool is_lost = (former.is_dirty && !state.is_dirty) || (former.is_stale && !state.is_stale);
    if (is_lost) {
        add_change("same", line, since_ns);
    }
    if (state.is_dirty && (is_lost || !former.is_dirty)) {
        add_change("stored", line, since_ns);
    }
    if (state.is_stale && (is_lost || !former.is_stale)) {
        add_change("written", line, since_ns);
    }
}

// What a line has lost comes first: some have won something at the same time.
bool RegionTimeline::end_look(const Occasion& occasion) {
    // clang 14 doesn't take the libstdc++ algorithm of std::ranges.
    std::stable_partition(changes_.begin(), changes_.end(),
                          [](const Change& each) { return std::string_view(each.kind) == "same"; });
    for (const Change& change : changes_) {
        write_event(std::string("event ") + change.kind, byte_of(change.first), byte_of(change.last + 1),
                    change.since_ns, occasion);
    }
    if (!changes_.empty()) {
        quiet_.clear();
    }
    return !changes_.empty();
}

void RegionTimeline::moved(std::string_view kind, std::uint64_t first, std::uint64_t last,
                           const Occasion& occasion) {
    bool is_any = false;
    for (std::uint64_t line = first; line <= last && line < states_.size(); ++line) {
        if (is_moved(kind, states_[line])) {
            states_[line] = {};
            is_any = true;
        }
        looked_ns_[line] = occasion.time_ns;
    }
    const std::uint64_t first_byte = byte_of(first);
    const std::uint64_t end_byte = byte_of(last + 1);
    if (is_any) {
        quiet_.clear();
    } else {
        std::string call = std::string(kind) + joined({first_byte, end_byte}) + std::string(occasion.call);
        call.append(reinterpret_cast<const char*>(occasion.stack->addresses.data()),
                    occasion.stack->count * sizeof occasion.stack->addresses[0]);
        if (std::ranges::find(quiet_, call) != quiet_.end() || quiet_.size() >= kMostQuiet) {
            return;
        }
        quiet_.push_back(std::move(call));
    }
    write_event("event " + std::string(kind), first_byte, end_byte, occasion.time_ns, occasion);
}

void RegionTimeline::note(std::string_view kind, std::uint64_t first_byte, std::uint64_t end_byte,
                          const Occasion& occasion) {
    write_event("event " + std::string(kind), first_byte, end_byte, occasion.time_ns, occasion);
}

void RegionTimeline::mistake(const TimelineMistake& mistake, std::uint64_t first_byte, std::uint64_t end_byte,
                             const Occasion& occasion) {
    std::string rest;
    add_line(rest, "what", mistake.what);
    add_line(rest, "remedy", mistake.remedy);
    write_event("mistake " + std::string(mistake.rule), first_byte, end_byte, occasion.time_ns,
                {mistake.call, occasion.stack, occasion.time_ns}, rest);
}

void RegionTimeline::begin(std::uint64_t now_ns) {
    began_ns_ = now_ns;
    std::ranges::fill(looked_ns_, now_ns);
    std::string text;
    announce(text, now_ns);
    TimelineFile::instance().write(text);
}

void RegionTimeline::end() {
    if (process_ == getpid()) {
        std::string text;
        add_line(text, "gone", joined({static_cast<std::uint64_t>(getpid()), number(), timeline_now_ns()}));
        TimelineFile::instance().write(text);
    }
    process_ = 0;
}

std::uint64_t RegionTimeline::number() const noexcept {
    return reinterpret_cast<std::uintptr_t>(this);
}

void RegionTimeline::announce(std::string& text, std::uint64_t now_ns) {
    const long now = getpid();
    if (std::exchange(process_, now) != now) {
        add_line(
            text, "region",
            joined({static_cast<std::uint64_t>(getpid()), number(), kLineBytes, first_, bytes_, now_ns}) +
                " " + (host_.empty() ? "-" : host_) + " " + name_);
    }
}

void RegionTimeline::write_event(std::string_view kind, std::uint64_t first_byte, std::uint64_t end_byte,
                                 std::uint64_t since_ns, const Occasion& occasion, std::string_view rest) {
    std::string announcement;
    announce(announcement, occasion.time_ns);
    const std::size_t word_end = kind.find(' ');
    const std::string event =
        std::string(kind.substr(0, word_end)) + " " +
        joined({static_cast<std::uint64_t>(getpid()), number()}) + std::string(kind.substr(word_end)) + " " +
        joined({occasion.time_ns, std::min(since_ns, occasion.time_ns), first_byte, end_byte});
    TimelineFile::instance().write_event(announcement, event, occasion.call, occasion.stack, rest);
}

} // namespace sluice::report
