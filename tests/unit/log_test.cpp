// SPDX-License-Identifier: BSD-3-Clause
#include "core/log.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "core/settings.hpp"
#include "tests/cmocka.hpp"

using sluice::LogLevel;
using sluice::set_log_levels;
using sluice::set_log_sink;

namespace {

struct Captured {
    std::vector<std::string> lines;
};

void capture(void* context, int level, const char* area, const char* message) {
    static_cast<Captured*>(context)->lines.push_back(std::string(sluice::log_level_name(level)) + ":" + area +
                                                     ":" + message);
}

int restore(void**) {
    set_log_sink(nullptr, nullptr);
    return set_log_levels("warning").ok() ? 0 : -1;
}

TEST(sink__gets_level_area_and_text, nullptr, restore) {
    Captured captured;
    set_log_sink(capture, &captured);
    SLUICE_LOG(kError, "cm", "port %d", 4791);
    assert_int_equal(captured.lines.size(), 1);
    assert_string_equal(captured.lines[0].c_str(), "error:cm:port 4791");
}

TEST(default_level__is_warning, nullptr, restore) {
    Captured captured;
    set_log_sink(capture, &captured);
    SLUICE_LOG(kWarning, "cm", "seen");
    SLUICE_LOG(kInfo, "cm", "not seen");
    assert_int_equal(captured.lines.size(), 1);
}

TEST(unwanted_message__arguments_are_not_evaluated, nullptr, restore) {
    int evaluated = 0;
    SLUICE_LOG(kTrace, "cm", "%d", ++evaluated);
    assert_int_equal(evaluated, 0);
}

TEST(area_level__overrides_the_general_one_both_ways, nullptr, restore) {
    Captured captured;
    set_log_sink(capture, &captured);
    assert_true(set_log_levels("info,cm=trace,rxe=none").ok());
    SLUICE_LOG(kTrace, "cm", "a");
    SLUICE_LOG(kTrace, "siw", "b");
    SLUICE_LOG(kInfo, "siw", "c");
    SLUICE_LOG(kError, "rxe", "d");
    assert_int_equal(captured.lines.size(), 2);
    assert_string_equal(captured.lines[0].c_str(), "trace:cm:a");
    assert_string_equal(captured.lines[1].c_str(), "info:siw:c");
}

TEST(levels__later_text__forgets_areas_of_the_earlier_one, nullptr, restore) {
    Captured captured;
    set_log_sink(capture, &captured);
    assert_true(set_log_levels("cm=trace").ok());
    assert_true(set_log_levels("info").ok());
    SLUICE_LOG(kTrace, "cm", "a");
    assert_int_equal(captured.lines.size(), 0);
}

TEST(levels__bad_text__error_names_valid_ones_and_nothing_changes, nullptr, restore) {
    Captured captured;
    set_log_sink(capture, &captured);
    for (const char* text : {"loud", "info,cm=loud", "=info", "a_name_that_is_longer_than_any_area=info"}) {
        const sluice::Result<void> result = set_log_levels(text);
        assert_false(result.ok());
        assert_true(std::strlen(result.error().text()) > 10);
    }
    assert_non_null(std::strstr(set_log_levels("loud").error().text(), "trace"));
    SLUICE_LOG(kInfo, "cm", "a");
    assert_int_equal(captured.lines.size(), 0);
}

// Runs in a child: area names are never forgotten, so this fills the table for good.
TEST(levels__too_many_areas__error_and_nothing_changes, nullptr, restore) {
    const pid_t child = fork();
    if (child == 0) {
        int added = 0;
        while (added < 100 && set_log_levels(("area" + std::to_string(added) + "=info").c_str()).ok()) {
            ++added;
        }
        bool ok = added > 3 && added <= 16;
        ok = ok && !set_log_levels("trace,one_more=trace").ok();
        ok = ok && set_log_levels("area3=trace").ok(); // a known one still works
        ok = ok && !sluice::log_wanted(LogLevel::kTrace, "other");
        _exit(ok ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST(long_message__is_cut_and_says_so, nullptr, restore) {
    Captured captured;
    set_log_sink(capture, &captured);
    SLUICE_LOG(kError, "cm", "%s", std::string(5000, 'x').c_str());
    assert_int_equal(captured.lines.size(), 1);
    assert_true(captured.lines[0].size() < 1100);
    assert_true(captured.lines[0].ends_with("x..."));
}

TEST(sink__that_logs__does_not_recurse, nullptr, restore) {
    static int calls;
    calls = 0;
    const auto talkative = [](void*, int, const char*, const char*) {
        ++calls;
        SLUICE_LOG(kError, "test", "from inside a sink (expected on standard error)");
    };
    set_log_sink(talkative, nullptr);
    SLUICE_LOG(kError, "test", "outer");
    assert_int_equal(calls, 1);
}

// After set_log_sink() returns, the old sink's context may be freed: no call may still use it.
TEST(set_sink__while_others_log__old_sink_is_never_called_again, nullptr, restore) {
    struct Target {
        std::atomic<bool> alive{true};
        std::atomic<int> calls{0};
        std::atomic<bool> called_when_dead{false};
    };
    const auto sink = [](void* context, int, const char*, const char*) {
        auto* target = static_cast<Target*>(context);
        target->calls.fetch_add(1);
        std::this_thread::yield();
        if (!target->alive.load()) {
            target->called_when_dead.store(true);
        }
    };
    constexpr int kRounds = 200;
    std::vector<Target> targets(kRounds);
    set_log_sink(sink, &targets[0]);
    std::atomic<bool> stop{false};
    std::vector<std::thread> loggers;
    for (int i = 0; i < 3; ++i) {
        loggers.emplace_back([&stop] {
            while (!stop.load()) {
                SLUICE_LOG(kError, "test", "x");
            }
        });
    }
    for (int i = 0; i < kRounds; ++i) {
        while (targets[i].calls.load() == 0) {
            std::this_thread::yield();
        }
        if (i + 1 < kRounds) {
            set_log_sink(sink, &targets[i + 1]);
            targets[i].alive.store(false);
        }
    }
    stop.store(true);
    for (std::thread& logger : loggers) {
        logger.join();
    }
    for (const Target& target : targets) {
        assert_false(target.called_when_dead.load());
    }
}

#ifndef TEST_EMULATED
// What a fresh process with TEXT in SLUICE_LOG prints when it logs an info message.
std::string output_with_environment(const char* text) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        setenv("SLUICE_LOG", text, 1);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "log_test", "--log-one", nullptr);
        _exit(127);
    }
    close(ends[1]);
    std::string output;
    char buffer[256];
    ssize_t count = 0;
    while ((count = read(ends[0], buffer, sizeof buffer)) > 0) {
        output.append(buffer, static_cast<std::size_t>(count));
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    return output;
}

TEST(environment__sets_the_levels_of_a_fresh_process) {
    assert_string_equal(output_with_environment("info").c_str(), "sluice: info: test: hello\n");
    assert_string_equal(output_with_environment("error").c_str(), "");
    assert_string_equal(output_with_environment("error,test=info").c_str(), "sluice: info: test: hello\n");
}

TEST(environment__bad_text__one_line_says_so_and_default_holds) {
    const std::string output = output_with_environment("shout");
    assert_non_null(std::strstr(output.c_str(), "'shout' is no log level"));
    assert_null(std::strstr(output.c_str(), "hello"));
}
#endif

} // namespace

int main(int argc, char** argv) {
    if (argc == 2 && std::strcmp(argv[1], "--log-one") == 0) {
        SLUICE_LOG(kInfo, "test", "hello");
        return 0;
    }
    return sluice::test::run_all_tests("core.log");
}
