// SPDX-License-Identifier: BSD-3-Clause
#include "tools/persist/settle.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace sluice::tools::persist {

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kBetweenLooks{1};
constexpr int kMostLooks = 50;

std::vector<std::string> threads_of(pid_t pid) {
    std::vector<std::string> threads;
    std::error_code error;
    for (fs::directory_iterator entry("/proc/" + std::to_string(pid) + "/task", error), end;
         !error && entry != end; entry.increment(error)) {
        threads.push_back(entry->path().string()); // NOLINT(performance-inefficient-vector-operation)
    }
    return threads;
}

// "PID (NAME) STATE ...", with anything in NAME.
bool is_at_work(const std::string& thread) {
    std::ifstream file(thread + "/stat");
    std::ostringstream text;
    text << file.rdbuf();
    const std::string stat = text.str();
    const std::size_t name_end = stat.rfind(')');
    const char state = name_end != std::string::npos && name_end + 2 < stat.size() ? stat[name_end + 2] : 'X';
    return state == 'R' || state == 'D';
}

bool has_descendants_at_work(pid_t pid) {
    for (const std::string& thread : threads_of(pid)) {
        std::ifstream children(thread + "/children");
        for (pid_t child = 0; children >> child;) {
            if (std::ranges::any_of(threads_of(child), is_at_work) || has_descendants_at_work(child)) {
                return true;
            }
        }
    }
    return false;
}

} // namespace

// A thread may be between two sleeps at one look.
void let_others_go_on(RunningCommand& running) {
    int looks_at_rest = 0;
    for (int look = 0; look < kMostLooks && looks_at_rest < 2; ++look) {
        running.wait(kBetweenLooks);
        looks_at_rest = has_descendants_at_work(getpid()) ? 0 : looks_at_rest + 1;
    }
}

} // namespace sluice::tools::persist
