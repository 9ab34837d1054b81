// SPDX-License-Identifier: BSD-3-Clause
//
// The program's syslog identity is its own: openlog() would change it, so that a message names us by itself.
#include "rpma/log.hpp"

#include <sys/syscall.h>
#include <sys/time.h>
#include <syslog.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "core/not_cancelled.hpp"

namespace sluice::rpma {

namespace {

constexpr std::size_t kMessageBytes = 1024;

struct Level {
    int priority;
    const char* tag;
};
constexpr std::array<Level, 6> kLevels{{{LOG_CRIT, "*FATAL* "},
                                        {LOG_ERR, "*ERROR* "},
                                        {LOG_WARNING, "*WARN*  "},
                                        {LOG_NOTICE, "*NOTE*  "},
                                        {LOG_INFO, "*INFO*  "},
                                        {LOG_DEBUG, "*DEBUG* "}}};

const char* base_name(const char* path) noexcept {
    const char* const slash = std::strrchr(path, '/');
    return slash == nullptr ? path : slash + 1;
}

void write_to_stderr(const Level& level, const char* place, const char* text) noexcept {
    timeval now{};
    gettimeofday(&now, nullptr);
    tm local{};
    localtime_r(&now.tv_sec, &local);
    std::array<char, 32> time{};
    (void)std::strftime(time.data(), time.size(), "%b %d %H:%M:%S", &local);
    (void)std::fprintf(stderr, "%s.%06ld [%ld] %s%s%s", time.data(), static_cast<long>(now.tv_usec),
                       syscall(SYS_gettid), level.tag, place, text);
}

[[gnu::format(printf, 5, 6)]] void default_function(rpma_log_level level, const char* file, const int line,
                                                    const char* function, const char* format, ...);

// Each is read by threads that log and written by those that configure; nothing else is published with them.
std::array<std::atomic<rpma_log_level>, RPMA_LOG_THRESHOLD_MAX> thresholds{RPMA_LOG_LEVEL_WARNING,
                                                                           RPMA_LOG_DISABLED};
std::atomic<rpma_log_function*> log_function{default_function};

void default_function(rpma_log_level level, const char* file, const int line, const char* function,
                      const char* format, ...) {
    std::array<char, kMessageBytes> text{};
    va_list arguments;
    va_start(arguments, format);
    (void)std::vsnprintf(text.data(), text.size(), format, arguments);
    va_end(arguments);
    std::array<char, 256> place{};
    if (file != nullptr) {
        (void)std::snprintf(place.data(), place.size(), "%s: %3d: %s: ", base_name(file), line, function);
    }
    const Level& known = kLevels[static_cast<std::size_t>(level)];
    syslog(LOG_LOCAL7 | known.priority, "rpma: %s%s%s", known.tag, place.data(), text.data());
    if (level <= log_threshold(RPMA_LOG_THRESHOLD_AUX)) {
        write_to_stderr(known, place.data(), text.data());
    }
}

} // namespace

void log_message(rpma_log_level level, const Where& where, const char* message) noexcept {
    if (level > log_threshold(RPMA_LOG_THRESHOLD)) {
        return;
    }
    const NotCancelled guard;
    rpma_log_function* const function = log_function.load(std::memory_order_acquire); // partner: its setter
    function(level, where.file, where.line, where.function, "%s\n", message);
}

void log_error(const Error& error, const Where& where) noexcept {
    std::array<char, kMessageBytes> message{};
    if (error.os_errno() != 0) {
        (void)std::snprintf(message.data(), message.size(), "%s (errno %d)", error.text(), error.os_errno());
    } else {
        (void)std::snprintf(message.data(), message.size(), "%s", error.text());
    }
    log_message(RPMA_LOG_LEVEL_ERROR, where, message.data());
}

Answer log_refusal(int os_errno, const Where& where) noexcept {
    log_error(Error::from_errno(os_errno, "posting a request"), where);
    return Answer::kRefused;
}

bool set_log_threshold(rpma_log_threshold threshold, rpma_log_level level) noexcept {
    const int which = threshold;
    const int wanted = level;
    if (which < 0 || which >= RPMA_LOG_THRESHOLD_MAX || wanted < RPMA_LOG_DISABLED ||
        wanted > RPMA_LOG_LEVEL_DEBUG) {
        return false;
    }
    thresholds[static_cast<std::size_t>(which)].store(level, std::memory_order_relaxed);
    return true;
}

rpma_log_level log_threshold(rpma_log_threshold threshold) noexcept {
    return thresholds[static_cast<std::size_t>(threshold)].load(std::memory_order_relaxed);
}

void set_log_function(rpma_log_function* function) noexcept {
    // Partner: log_message()'s acquire, so that what the function needs is there.
    log_function.store(function == nullptr ? default_function : function, std::memory_order_release);
}

} // namespace sluice::rpma
