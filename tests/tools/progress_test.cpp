// SPDX-License-Identifier: BSD-3-Clause
#include "tools/progress.hpp"

#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

#include "tests/cmocka.hpp"

using sluice::tools::Progress;

namespace {

// What a child that shows a Progress writes to a terminal of type TERM, up to its end. It gets a line when it
// has written something.
std::string shown_by(int (*run)(), const char* type) {
    int terminal = -1;
    const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child == 0) {
        setenv("TERM", type, 1);
        termios mode{};
        tcgetattr(STDIN_FILENO, &mode);
        mode.c_lflag &= ~static_cast<tcflag_t>(ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &mode);
        _exit(run());
    }
    std::string text;
    char piece[4096];
    for (ssize_t bytes = 0; (bytes = read(terminal, piece, sizeof piece)) > 0;) {
        if (text.empty()) {
            assert_int_equal(write(terminal, "\n", 1), 1);
        }
        text.append(piece, static_cast<std::size_t>(bytes));
    }
    close(terminal);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return text;
}

std::ptrdiff_t threads() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// Until somebody has seen the line.
int count_at_once() {
    Progress progress("counting", 1000, " MiB", Progress::Output::kAtEnd, std::chrono::milliseconds(0));
    for (std::size_t i = 1; i <= 1000; ++i) {
        progress.reach(i, "a\x1b[2J\xff");
    }
    char seen = 0;
    const bool is_seen = read(STDIN_FILENO, &seen, 1) == 1;
    progress.end();
    progress.end(); // twice is once
    return is_seen ? 0 : 1;
}

int end_soon() {
    Progress progress("counting", 2);
    progress.reach(1);
    return 0;
}

// Without the thread that prints, nothing can be printed.
int start_no_thread() {
    const std::ptrdiff_t before = threads();
    const Progress progress("counting", 2, "", Progress::Output::kAtEnd, std::chrono::milliseconds(0));
    return threads() == before ? 0 : 1;
}

int start_no_thread_beside_output() {
    const std::ptrdiff_t before = threads();
    const Progress progress("counting", 2, "", Progress::Output::kMeanwhile, std::chrono::milliseconds(0));
    return threads() == before ? 0 : 1;
}

TEST(line__long_work__shows_names_as_text_and_ends_erased) {
    const std::string text = shown_by(count_at_once, "xterm");
    assert_true(text.starts_with("\r\x1b[Kcounting: "));
    assert_true(text.ends_with("\r\r\x1b[K"));
    assert_true(text.find("\x1b[2J") == std::string::npos);
}

TEST(line__short_work__is_never_there) {
    assert_string_equal(shown_by(end_soon, "xterm").c_str(), "");
}

TEST(line__terminal_that_cant_erase__is_never_there) {
    assert_string_equal(shown_by(start_no_thread, "dumb").c_str(), "");
    assert_string_equal(shown_by(start_no_thread, "").c_str(), "");
}

TEST(line__output_goes_to_the_terminal_meanwhile__is_never_there) {
    assert_string_equal(shown_by(start_no_thread_beside_output, "xterm").c_str(), "");
}

} // namespace

int main() {
    return sluice::test::run_all_tests("tools.progress");
}
