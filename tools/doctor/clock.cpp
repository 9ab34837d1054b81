// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel's clock source: each deadline and time stamp asks it.
#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "tools/doctor/checks.hpp"

namespace sluice::tools::doctor {

namespace {

// Those that programs can't read without a system call, or only by a device's register.
constexpr std::array kSlow{"acpi_pm", "hpet", "jiffies", "refined-jiffies", "pit", "xen"};
constexpr std::array kQuick{"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"};

std::string first_line_of(const std::string& file) {
    std::ifstream text(file);
    std::string line;
    std::getline(text, line);
    return line;
}

// The first quick one that the kernel could use.
std::string quick_one_of(const std::string& available) {
    std::istringstream words(available);
    for (std::string word; words >> word;) {
        if (std::ranges::find(kQuick, word) != kQuick.end()) {
            return word;
        }
    }
    return {};
}

} // namespace

void check_clock(const Options& options, Report& report) {
    const std::string directory = options.root + "/sys/devices/system/clocksource/clocksource0/";
    const std::string current = first_line_of(directory + "current_clocksource");
    if (current.empty()) {
        return; // not every machine tells
    }
    if (std::ranges::find(kSlow, current) == kSlow.end()) {
        report.ok("the clock source is " + current);
        return;
    }
    const std::string better = quick_one_of(first_line_of(directory + "available_clocksource"));
    const std::string fact = "the clock source is " + current + ", which takes microseconds to read";
    if (better.empty()) {
        report.warn(fact, {"", "the host's administrator, by a clock that the guest may read itself"});
    } else {
        report.warn(fact, as_root("echo " + better + " >" + shell_word(directory + "current_clocksource")));
    }
}

} // namespace sluice::tools::doctor
