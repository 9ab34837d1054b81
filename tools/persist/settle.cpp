// SPDX-License-Identifier: BSD-3-Clause
#include "tools/persist/settle.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace sluice::tools::persist {

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kBetweenLooks{1};
constexpr std::uint64_t kMostComputedNs = 50'000'000;
constexpr int kMostLooks = 2000;

// What threads do at a look.
struct Activity {
    bool is_any_at_work = false;
    std::uint64_t computed_ns = 0; // by all of them, since they began
};

std::string content_of_thread(const fs::path& thread, const char* name) {
    std::ostringstream text;
    text << std::ifstream(thread / name).rdbuf();
    return text.str();
}

// "PID (NAME) STATE ...", with anything in NAME.
bool is_at_work(const fs::path& thread) {
    const std::string stat = content_of_thread(thread, "stat");
    const std::size_t name_end = stat.rfind(')');
    const char state = name_end != std::string::npos && name_end + 2 < stat.size() ? stat[name_end + 2] : 'X';
    return state == 'R' || state == 'D';
}

void add_descendants(pid_t pid, Activity& activity);

void add_process(pid_t pid, Activity& activity) {
    std::error_code error;
    for (fs::directory_iterator entry("/proc/" + std::to_string(pid) + "/task", error), end;
         !error && entry != end; entry.increment(error)) {
        std::uint64_t computed_ns = 0;
        std::istringstream(content_of_thread(entry->path(), "schedstat")) >> computed_ns;
        activity.computed_ns += computed_ns;
        activity.is_any_at_work = activity.is_any_at_work || is_at_work(entry->path());
    }
    add_descendants(pid, activity);
}

void add_descendants(pid_t pid, Activity& activity) {
    std::error_code error;
    for (fs::directory_iterator entry("/proc/" + std::to_string(pid) + "/task", error), end;
         !error && entry != end; entry.increment(error)) {
        std::ifstream children(entry->path() / "children");
        for (pid_t child = 0; children >> child;) {
            add_process(child, activity);
        }
    }
}

Activity look() {
    Activity activity;
    add_descendants(getpid(), activity);
    return activity;
}

} // namespace

// A thread may be between two sleeps at one look. How long it waits for a processor doesn't count.
void let_others_go_on(RunningCommand& running) {
    const std::uint64_t computed_before_ns = look().computed_ns;
    int looks_at_rest = 0;
    for (int i = 0; i < kMostLooks && looks_at_rest < 2; ++i) {
        running.wait(kBetweenLooks);
        const Activity now = look();
        if (now.computed_ns > computed_before_ns + kMostComputedNs) {
            return;
        }
        looks_at_rest = now.is_any_at_work ? 0 : looks_at_rest + 1;
    }
}

} // namespace sluice::tools::persist
