// SPDX-License-Identifier: BSD-3-Clause
#include "tools/counters/screen.hpp"

#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <clocale>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "tools/output.hpp"

namespace sluice::tools::counters {

namespace {

constexpr std::size_t kMostSize = 4096; // lines or columns

constexpr int kTaken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};

// The second screen, no cursor, no wrapping.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";

sigset_t set_of(std::initializer_list<int> signals) {
    sigset_t made;
    sigemptyset(&made);
    for (const int one : signals) {
        sigaddset(&made, one);
    }
    return made;
}

bool write_all(std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
        if (written < 0 && errno != EINTR) {
            return false;
        }
        text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
    return true;
}

std::size_t number_of(const char* variable, std::size_t otherwise) {
    const char* const said = std::getenv(variable);
    const std::string_view text = said == nullptr ? "" : said;
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    return is_number && value > 0 && value <= kMostSize ? value : otherwise;
}

} // namespace

bool has_screen() {
    const char* const term = std::getenv("TERM");
    return isatty(STDOUT_FILENO) == 1 && term != nullptr && term[0] != '\0' &&
           term != std::string_view("dumb");
}

bool shows_utf8() {
    return std::setlocale(LC_CTYPE, "") != nullptr && nl_langinfo(CODESET) == std::string_view("UTF-8");
}

Screen::Size Screen::size() {
    winsize said{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &said) == 0 && said.ws_row > 0 && said.ws_col > 0) {
        return {said.ws_row, said.ws_col};
    }
    return {number_of("LINES", 24), number_of("COLUMNS", 80)};
}

Screen::Screen() : has_keys_(tcgetattr(STDIN_FILENO, &before_) == 0) {
    sigset_t taken;
    sigemptyset(&taken);
    for (const int one : kTaken) {
        sigaddset(&taken, one);
    }
    signals_ = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0 || sigprocmask(SIG_BLOCK, &taken, nullptr) != 0) {
        throw Failure(kExitFailure, "top: the kernel gives no descriptor for signals; run it with --once");
    }
    enter();
}

Screen::~Screen() {
    leave();
    close(signals_);
}

void Screen::enter() {
    if (has_keys_) {
        termios raw = before_;
        raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    write_all(kEnter);
}

void Screen::leave() const {
    write_all(kLeave);
    if (has_keys_) {
        tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    }
}

bool Screen::draw(const std::vector<std::string>& lines) const {
    std::string text = "\x1b[H";
    const std::size_t shown = std::min(lines.size(), size().lines);
    for (std::size_t i = 0; i < shown; ++i) {
        text += (i > 0 ? "\r\n" : "") + lines[i] + "\x1b[K";
    }
    return write_all(text + "\x1b[J");
}

// The shell that started it has the terminal meanwhile.
void Screen::stop() {
    leave();
    const sigset_t one = set_of({SIGTSTP});
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &one, nullptr); // here it stops
    sigprocmask(SIG_BLOCK, &one, nullptr);
    enter();
}

Screen::Event Screen::take_signal() {
    signalfd_siginfo taken{};
    if (read(signals_, &taken, sizeof taken) != sizeof taken) {
        return Event::kResized;
    }
    const int number = static_cast<int>(taken.ssi_signo);
    if (number == SIGTSTP) {
        stop();
    } else if (number != SIGWINCH) {
        signal_ = number;
        return Event::kEnd;
    }
    return Event::kResized;
}

Screen::Event Screen::take_key() {
    if (read(STDIN_FILENO, &key_, 1) == 1) {
        return Event::kKey;
    }
    signal_ = 0;
    return Event::kEnd;
}

Screen::Event Screen::wait(double seconds) {
    pollfd from[] = {{signals_, POLLIN, 0}, {has_keys_ ? STDIN_FILENO : -1, POLLIN, 0}};
    const int ready = poll(from, 2, static_cast<int>(std::ceil(std::max(seconds, 0.0) * 1000)));
    if (ready <= 0) {
        return Event::kTime;
    }
    return from[0].revents != 0 ? take_signal() : take_key();
}

void die_of(int signal) {
    const sigset_t one = set_of({signal});
    std::signal(signal, SIG_DFL);
    raise(signal);
    sigprocmask(SIG_UNBLOCK, &one, nullptr);
}

} // namespace sluice::tools::counters
