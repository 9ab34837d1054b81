// SPDX-License-Identifier: BSD-3-Clause
//
// Logging, in every build type. Silent unless something is wrong or somebody asked.
//
// SLUICE_LOG=LEVEL[,AREA=LEVEL...] chooses what is written: "warning" is the default, and
// "info,cm=debug" means info in general and debug for the connection manager. A message that is
// not wanted costs one relaxed load and a branch. Messages go to a sink: standard error, one
// write() each, unless a program installs its own. Never log keys, addresses of user memory
// together with their contents, or private data.
//
// Thread safety: everything here may be called from any thread at any time. A sink runs without
// any lock of ours held; it may log (that message goes to standard error), and may not throw.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/result.hpp"

namespace sluice {

enum class LogLevel : std::uint8_t {
    kNone,    // nothing at all
    kError,   // the call fails and the reason is worth a line
    kWarning, // it goes on, but not as the user may think
    kInfo,    // decisions: which device, which provider, which instruction
    kDebug,   // every object's birth and death
    kTrace,   // every event
};

// LEVEL is a LogLevel as a number, so that a C program's function fits without conversion.
// MESSAGE ends without a newline and is valid during the call only.
using LogSink = void (*)(void* context, int level, const char* area, const char* message);

// Sends messages to SINK from now on; null restores standard error. When it returns, the sink
// that was there before is not running and will not be called again (unless the caller is that
// sink itself).
void set_log_sink(LogSink sink, void* context) noexcept;

// Parses a text in the form of SLUICE_LOG and uses it. An error leaves the levels as they were.
Result<void> set_log_levels(const char* text);

// Whether TEXT can be used. Changes nothing.
Result<void> check_log_levels(std::string_view text);

// The name of a level, "unknown" for a number that is none.
const char* log_level_name(int level) noexcept;

namespace log_detail {
// The most talkative level of any area; what lets an unwanted message go by quickly. Before
// the first message it is kUnread, which lets everything through to read SLUICE_LOG.
constexpr std::uint8_t kUnread = 0xff;
extern std::atomic<std::uint8_t> highest_level;
bool wanted(LogLevel level, const char* area) noexcept;
} // namespace log_detail

inline bool log_wanted(LogLevel level, const char* area) noexcept {
    return static_cast<std::uint8_t>(level) <= log_detail::highest_level.load(std::memory_order_relaxed) &&
           log_detail::wanted(level, area);
}

[[gnu::format(printf, 3, 4)]] void log_write(LogLevel level, const char* area, const char* format,
                                             ...) noexcept;

// The arguments are evaluated only when somebody wants the message.
#define SLUICE_LOG(level, area, ...)                                                                         \
    do {                                                                                                     \
        if (::sluice::log_wanted(::sluice::LogLevel::level, area)) {                                         \
            ::sluice::log_write(::sluice::LogLevel::level, area, __VA_ARGS__);                               \
        }                                                                                                    \
    } while (false)

// Logs a warning for each unknown SLUICE_ name in this process's environment, the first time it
// is called. Libraries call it when their first object is made, never from a constructor.
void warn_about_unknown_settings();

} // namespace sluice
