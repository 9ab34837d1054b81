// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice top`: what uroce's devices count each second, process by process, again and again.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <iterator>
#include <optional>
#include <thread>

#include "tools/commands.hpp"
#include "tools/counters/screen.hpp"
#include "tools/counters/top_table.hpp"
#include "tools/counters/uses.hpp"

namespace sluice::tools::counters {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_now() {
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

std::optional<SortedBy> order_of(char key) {
    switch (key) {
    case 'b':
        return SortedBy::kBytes;
    case 'p':
        return SortedBy::kPackets;
    case 'r':
        return SortedBy::kRetransmissions;
    default:
        return std::nullopt;
    }
}

std::vector<std::string> frame(const Rates& rates, const TopLook& look) {
    const std::string keys = "b bytes, p packets, r sent again, q quit";
    std::vector<std::string> lines{top_title(rates, look), keys.substr(0, look.columns)};
    if (rates.all().empty()) {
        lines.push_back(std::string("no process uses uroce").substr(0, look.columns));
        return lines;
    }
    std::ranges::move(top_table(rates, look), std::back_inserter(lines));
    return lines;
}

// False: a key or a signal asks for the end.
bool go_on(Screen& screen, TopLook& look, double seconds) {
    const Screen::Event event = screen.wait(seconds);
    if (event == Screen::Event::kKey) {
        look.sorted_by = order_of(screen.key()).value_or(look.sorted_by);
        return screen.key() != 'q';
    }
    return event != Screen::Event::kEnd;
}

// Gives the signal that ended it, or 0. The first picture shows who is there, each other what an interval
// brought.
int show_on_screen(const TopOptions& how, TopLook look) {
    const KeptWarnings kept; // they would be written over the screen
    Rates rates;
    Screen screen;
    double next = seconds_now();
    for (unsigned taken = 0;;) {
        if (const double now = seconds_now(); now >= next) {
            rates.add(selected_uses(how.wanted), now);
            next = now + how.interval_seconds;
            ++taken;
        }
        look.columns = Screen::size().columns;
        const bool is_last = how.iterations != 0 && taken > how.iterations;
        if (!screen.draw(frame(rates, look)) || is_last || !go_on(screen, look, next - seconds_now())) {
            return screen.signal();
        }
    }
}

void print_lines(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
        std::cout << line << '\n';
    }
    std::cout.flush();
}

// For pipes, and terminals that can't do more.
void print_tables(const TopOptions& how, TopLook look) {
    constexpr std::size_t kUnlimited = 1000;
    look.columns = isatty(STDOUT_FILENO) == 1 ? Screen::size().columns : kUnlimited;
    const auto interval = std::chrono::duration<double>(how.interval_seconds);
    Rates rates;
    rates.add(selected_uses(how.wanted), seconds_now());
    for (unsigned done = 0; (how.iterations == 0 || done < how.iterations) && std::cout; ++done) {
        std::this_thread::sleep_for(interval);
        rates.add(selected_uses(how.wanted), seconds_now());
        std::cout << (done > 0 ? "\n" : "");
        print_lines(top_table(rates, look));
    }
    if (rates.all().empty()) {
        throw Failure(kExitNoDevice, nothing_found(how.wanted));
    }
}

ExitStatus watch(const TopOptions& how) {
    const TopLook look{.sorted_by = SortedBy::kBytes, .columns = 0, .unicode = shows_utf8()};
    if (!has_screen()) {
        print_tables(how, look);
        return kExitOk;
    }
    if (const int signal = show_on_screen(how, look); signal != 0) {
        die_of(signal);
    }
    return kExitOk;
}

} // namespace

} // namespace sluice::tools::counters

sluice::tools::ExitStatus sluice::tools::run_top(const Options& options, const TopOptions& how) {
    if (!options.root.empty()) {
        throw Failure(kExitUsage, "top: --root has no processes; run it without, on the machine itself");
    }
    if (options.json) {
        throw Failure(kExitUsage, "top: it prints no JSON; `sluice stat --json` does");
    }
    return counters::watch(how);
}
