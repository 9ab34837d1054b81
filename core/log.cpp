// SPDX-License-Identifier: BSD-3-Clause
//
// The levels live in a fixed table that readers scan without a lock: an entry's name is written
// once, before the count that makes it visible, and only its level changes afterwards.
#include "core/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/not_cancelled.hpp"
#include "core/settings.hpp"
#include "core/sync.hpp"

namespace sluice {

namespace {

constexpr std::size_t kMaxAreas = 16;
constexpr std::size_t kMaxAreaName = 24;
constexpr std::size_t kMaxMessage = 1024;
constexpr auto kDefaultLevel = static_cast<std::uint8_t>(LogLevel::kWarning);
constexpr std::uint8_t kFollowsGeneral = 0xff;
constexpr std::array kLevelNames{"none", "error", "warning", "info", "debug", "trace"};

struct AreaLevel {
    std::array<char, kMaxAreaName> name{};
    std::atomic<std::uint8_t> level{kFollowsGeneral};
};

struct LevelTable {
    std::atomic<std::uint8_t> general{kDefaultLevel};
    std::array<AreaLevel, kMaxAreas> areas;
    std::atomic<std::size_t> area_count{0};
};

struct Sink {
    LogSink function;
    void* context;
};

void write_to_stderr(void* context, int level, const char* area, const char* message) {
    (void)context;
    char line[kMaxMessage + 96];
    const int length =
        std::snprintf(line, sizeof line, "sluice: %s: %s: %s\n", log_level_name(level), area, message);
    // One write, so that lines of several threads don't mix. A log that can't be written has
    // nobody to complain to.
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line, static_cast<std::size_t>(length));
}

constexpr Sink kStandardError{write_to_stderr, nullptr};

Mutex levels_mutex; // serialises writers of `levels`
LevelTable levels;

// Calls are counted apart for the sink of even and of odd turns, so that the thread that replaces one
// waits for the calls of the old sink and not for those of the new one, which may never pause.
Mutex sink_change_mutex; // taken before sink_mutex: one replacement at a time
Mutex sink_mutex;
constinit ConditionVariable sink_idle;
Sink current_sink SLUICE_TSA(guarded_by(sink_mutex)) = kStandardError;
std::size_t sink_turn SLUICE_TSA(guarded_by(sink_mutex)) = 0;
std::array<std::size_t, 2> sink_calls SLUICE_TSA(guarded_by(sink_mutex)){};
thread_local bool inside_sink = false;

struct ParsedLevels {
    std::uint8_t general = kDefaultLevel;
    std::size_t area_count = 0;
    std::array<std::pair<std::string_view, std::uint8_t>, kMaxAreas> areas;
};

Result<std::uint8_t> parse_level(std::string_view text) {
    const char* const values = all_settings()[static_cast<std::size_t>(Setting::kLog)].values;
    const std::optional<Choice> level = find_choice(values, text);
    if (!level) {
        return Error::format(ErrorKind::kInvalidArgument, 0, "'%.*s' is no log level; valid: %s",
                             static_cast<int>(text.size()), text.data(), values);
    }
    return static_cast<std::uint8_t>(level->index);
}

Result<void> parse_item(std::string_view item, ParsedLevels& parsed) {
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
        const Result<std::uint8_t> level = parse_level(item);
        if (!level) {
            return level.error().clone();
        }
        parsed.general = *level;
        return {};
    }
    const std::string_view area = item.substr(0, equals);
    const Result<std::uint8_t> level = parse_level(item.substr(equals + 1));
    if (!level) {
        return level.error().clone();
    }
    if (area.empty() || area.size() >= kMaxAreaName) {
        return Error::format(ErrorKind::kInvalidArgument, 0,
                             "'%.*s' is no log area; a name has 1 to %zu characters",
                             static_cast<int>(area.size()), area.data(), kMaxAreaName - 1);
    }
    if (parsed.area_count == kMaxAreas) {
        return Error::format(ErrorKind::kOutOfRange, 0, "more than %zu log areas in one text", kMaxAreas);
    }
    parsed.areas[parsed.area_count++] = {area, *level};
    return {};
}

Result<ParsedLevels> parse_levels(std::string_view text) {
    ParsedLevels parsed;
    while (!text.empty()) {
        const std::size_t comma = text.find(',');
        const std::string_view item = text.substr(0, comma);
        if (Result<void> result = parse_item(item, parsed); !result) {
            return std::move(result).error();
        }
        text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    }
    return parsed;
}

AreaLevel* find_area(std::string_view name) noexcept {
    // Partner: the release of the count in set_area_locked().
    const std::size_t count = levels.area_count.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i) {
        if (name == levels.areas[i].name.data()) {
            return &levels.areas[i];
        }
    }
    return nullptr;
}

// There is room: use_levels_locked() has counted.
void set_area_locked(std::string_view name, std::uint8_t level)
    SLUICE_TSA(requires_capability(levels_mutex)) {
    AreaLevel* area = find_area(name);
    if (area == nullptr) {
        const std::size_t count = levels.area_count.load(std::memory_order_relaxed);
        area = &levels.areas[count];
        name.copy(area->name.data(), kMaxAreaName - 1);
        levels.area_count.store(count + 1, std::memory_order_release); // partner: find_area()
    }
    area->level.store(level, std::memory_order_relaxed);
}

Result<void> use_levels_locked(const ParsedLevels& parsed) SLUICE_TSA(requires_capability(levels_mutex)) {
    const std::span wanted(parsed.areas.data(), parsed.area_count);
    const auto added = static_cast<std::size_t>(
        std::ranges::count_if(wanted, [](const auto& area) { return find_area(area.first) == nullptr; }));
    if (levels.area_count.load(std::memory_order_relaxed) + added > kMaxAreas) {
        return Error::format(ErrorKind::kInsufficientResources, 0,
                             "a process can give levels to %zu log areas in all", kMaxAreas);
    }
    for (AreaLevel& area : levels.areas) {
        area.level.store(kFollowsGeneral, std::memory_order_relaxed);
    }
    levels.general.store(parsed.general, std::memory_order_relaxed);
    std::uint8_t highest = parsed.general;
    for (const auto& [name, level] : wanted) {
        set_area_locked(name, level);
        highest = std::max(highest, level);
    }
    log_detail::highest_level.store(highest, std::memory_order_relaxed);
    return {};
}

// Reads SLUICE_LOG once. A text that can't be understood is said so, and the default holds.
void read_environment_once() noexcept {
    Error problem(ErrorKind::kInternal);
    bool bad = false;
    {
        const LockGuard guard(levels_mutex);
        if (log_detail::highest_level.load(std::memory_order_relaxed) != log_detail::kUnread) {
            return;
        }
        const char* text = setting_value(Setting::kLog);
        Result<ParsedLevels> parsed = parse_levels(text == nullptr ? "" : text);
        bad = !parsed;
        if (bad) {
            problem = std::move(parsed).error();
            parsed = ParsedLevels{};
        }
        (void)use_levels_locked(*parsed).ok();
    }
    if (bad) {
        SLUICE_LOG(kWarning, "log", "SLUICE_LOG: %s; using 'warning'", problem.text());
    }
}

} // namespace

namespace log_detail {

std::atomic<std::uint8_t> highest_level{kUnread};

bool wanted(LogLevel level, const char* area) noexcept {
    if (highest_level.load(std::memory_order_relaxed) == kUnread) {
        read_environment_once();
    }
    const AreaLevel* entry = find_area(area);
    std::uint8_t limit = entry == nullptr ? kFollowsGeneral : entry->level.load(std::memory_order_relaxed);
    if (limit == kFollowsGeneral) {
        limit = levels.general.load(std::memory_order_relaxed);
    }
    return static_cast<std::uint8_t>(level) <= limit;
}

} // namespace log_detail

const char* log_level_name(int level) noexcept {
    const auto index = static_cast<std::size_t>(level);
    return index < kLevelNames.size() ? kLevelNames[index] : "unknown";
}

Result<void> check_log_levels(std::string_view text) {
    const Result<ParsedLevels> parsed = parse_levels(text);
    return parsed ? Result<void>() : parsed.error().clone();
}

Result<void> set_log_levels(const char* text) {
    Result<ParsedLevels> parsed = parse_levels(text);
    if (!parsed) {
        return std::move(parsed).error();
    }
    const LockGuard guard(levels_mutex);
    return use_levels_locked(*parsed);
}

void set_log_sink(LogSink sink, void* context) noexcept {
    const Sink next = sink == nullptr ? kStandardError : Sink{sink, context};
    if (inside_sink) {
        // A sink that replaces itself can't wait for its own end, nor for another's that does
        // the same at this moment.
        const LockGuard guard(sink_mutex);
        current_sink = next;
        return;
    }
    const LockGuard change(sink_change_mutex);
    const LockGuard guard(sink_mutex);
    const std::size_t old_parity = sink_turn++ % 2;
    current_sink = next;
    while (sink_calls[old_parity] > 0) {
        sink_idle.wait(sink_mutex);
    }
}

void log_write(LogLevel level, const char* area, const char* format, ...) noexcept {
    const NotCancelled uncancelled;
    char message[kMaxMessage];
    std::va_list args;
    va_start(args, format);
    const int length = std::vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (length >= static_cast<int>(sizeof message)) {
        std::memcpy(message + sizeof message - 4, "...", 4);
    }
    if (inside_sink) {
        write_to_stderr(nullptr, static_cast<int>(level), area, message);
        return;
    }
    Sink sink = kStandardError;
    std::size_t parity = 0;
    {
        const LockGuard guard(sink_mutex);
        sink = current_sink;
        parity = sink_turn % 2;
        ++sink_calls[parity];
    }
    inside_sink = true;
    sink.function(sink.context, static_cast<int>(level), area, message);
    inside_sink = false;
    const LockGuard guard(sink_mutex);
    if (--sink_calls[parity] == 0) {
        sink_idle.notify_all();
    }
}

void warn_about_unknown_settings() {
    static std::atomic_flag warned;
    if (warned.test_and_set(std::memory_order_relaxed)) {
        return;
    }
    find_unknown_settings(
        environ,
        [](void*, std::string_view name) {
            SLUICE_LOG(kWarning, "settings", "%.*s is set, but Sluice knows no such variable",
                       static_cast<int>(name.size()), name.data());
        },
        nullptr);
}

} // namespace sluice
