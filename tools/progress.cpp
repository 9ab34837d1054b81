// SPDX-License-Identifier: BSD-3-Clause
#include "tools/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace sluice::tools {

namespace {

constexpr std::size_t kWidthOfLine = 80;
constexpr std::chrono::seconds kEvery{1};

bool can_be_erased() {
    const char* const type = std::getenv("TERM");
    return isatty(STDERR_FILENO) == 1 && type != nullptr && *type != '\0' && type != std::string_view("dumb");
}

std::size_t width() {
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : kWidthOfLine;
}

// A terminal that is gone has nobody to tell.
void put(const std::string& text) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

// Of one column each, and no command to the terminal; a line that wraps couldn't be erased.
std::string in_one_line(std::string text) {
    std::ranges::replace_if(
        text, [](char each) { return each < ' ' || each > '~'; }, '?');
    const std::size_t room = width() - 1;
    return text.size() <= room ? text : text.substr(0, room);
}

// Signals are for the thread that waits for them.
std::thread without_signals(auto run) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread(std::move(run));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

} // namespace

Progress::Progress(std::string what, std::size_t total, std::string unit, Output output,
                   std::chrono::milliseconds after)
    : what_(std::move(what)), total_(total), unit_(std::move(unit)), began_(std::chrono::steady_clock::now()),
      after_(after) {
    if (can_be_erased() && (output == Output::kAtEnd || isatty(STDOUT_FILENO) != 1)) {
        printer_ = without_signals([this] { print_until_end(); });
    }
}

Progress::~Progress() {
    end();
}

void Progress::reach(std::size_t done, const std::string& step) {
    if (!printer_.joinable()) {
        return;
    }
    const std::lock_guard guard(mutex_);
    done_ = done;
    step_ = step;
}

void Progress::end() {
    if (!printer_.joinable()) {
        return;
    }
    {
        const std::lock_guard guard(mutex_);
        is_over_ = true;
    }
    changed_.notify_all();
    printer_.join();
}

void Progress::print_until_end() {
    std::unique_lock lock(mutex_);
    const auto is_over = [this] { return is_over_; };
    if (changed_.wait_until(lock, began_ + after_, is_over)) {
        return;
    }
    do {
        // Back at its beginning, so that a warning takes its place.
        put("\r\x1b[K" + in_one_line(line_locked()) + "\r");
    } while (!changed_.wait_for(lock, kEvery, is_over));
    put("\r\x1b[K");
}

std::string Progress::line_locked() const {
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - began_).count();
    return what_ + ": " + std::to_string(done_) + (total_ == 0 ? "" : " of " + std::to_string(total_)) +
           unit_ + (step_.empty() ? "" : ": " + step_) + " (" + std::to_string(seconds) + " s)";
}

} // namespace sluice::tools
