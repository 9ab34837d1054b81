// SPDX-License-Identifier: BSD-3-Clause
#include "tools/persist/settle.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tools/child.hpp"

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
char state_of(const fs::path& thread) {
    const std::string stat = content_of_thread(thread, "stat");
    const std::size_t name_end = stat.rfind(')');
    return name_end != std::string::npos && name_end + 2 < stat.size() ? stat[name_end + 2] : 'X';
}

bool is_at_work(char state) {
    return state == 'R' || state == 'D';
}

// Stopped, followed, or dead.
bool stands_still(char state) {
    return std::string_view("TtZX").find(state) != std::string_view::npos;
}

// WORK(thread), for all threads of process PID.
template<typename Work>
void for_each_thread(pid_t pid, Work&& work) {
    std::error_code error;
    for (fs::directory_iterator entry("/proc/" + std::to_string(pid) + "/task", error), end;
         !error && entry != end; entry.increment(error)) {
        work(entry->path());
    }
}

// Process PID's, and theirs, each behind its parent.
void add_descendants(pid_t pid, std::vector<pid_t>& all) {
    std::vector<pid_t> children;
    for_each_thread(pid, [&](const fs::path& thread) {
        std::ifstream list(thread / "children");
        for (pid_t child = 0; list >> child;) {
            children.push_back(child);
        }
    });
    for (const pid_t child : children) {
        all.push_back(child);
        add_descendants(child, all);
    }
}

std::vector<pid_t> our_descendants() {
    std::vector<pid_t> all;
    add_descendants(getpid(), all);
    return all;
}

Activity look() {
    Activity activity;
    for (const pid_t pid : our_descendants()) {
        for_each_thread(pid, [&](const fs::path& thread) {
            std::uint64_t computed_ns = 0;
            std::istringstream(content_of_thread(thread, "schedstat")) >> computed_ns;
            activity.computed_ns += computed_ns;
            activity.is_any_at_work = activity.is_any_at_work || is_at_work(state_of(thread));
        });
    }
    return activity;
}

// Whether PID does nothing any more, or can't be told so. What the kernel does for a thread in 'D' ends
// before the thread goes on, which it doesn't then.
bool stop(pid_t pid) {
    bool do_all_stand = true;
    bool is_any_running = false;
    for_each_thread(pid, [&](const fs::path& thread) {
        const char state = state_of(thread);
        do_all_stand = do_all_stand && stands_still(state);
        is_any_running = is_any_running || !(stands_still(state) || state == 'D');
    });
    const bool is_told = do_all_stand || kill(pid, SIGSTOP) == 0;
    return !is_told || !is_any_running;
}

// Nothing tells of a process that has stopped, or sleeps, to another one than its parent.
void pause_shortly() {
    std::this_thread::sleep_for(kBetweenLooks);
}

} // namespace

// A thread may be between two sleeps at one look. How long it waits for a processor doesn't count.
void let_others_go_on(RunningCommand& running) {
    const std::uint64_t computed_before_ns = look().computed_ns;
    int looks_at_rest = 0;
    for (int i = 0; i < kMostLooks && looks_at_rest < 2; ++i) {
        running.wait(kBetweenLooks);
        if (running.has_ended()) { // it doesn't wait then; others go on
            pause_shortly();
        }
        const Activity now = look();
        if (now.computed_ns > computed_before_ns + kMostComputedNs) {
            return;
        }
        looks_at_rest = now.is_any_at_work ? 0 : looks_at_rest + 1;
    }
}

// Parents first: what one starts meanwhile is found at the next look, and so is a process with a new parent.
bool stop_all() {
    int looks_at_rest = 0;
    for (int i = 0; i < kMostLooks && looks_at_rest < 2; ++i) {
        bool do_all_stand = true;
        for (const pid_t pid : our_descendants()) {
            do_all_stand = stop(pid) && do_all_stand;
        }
        looks_at_rest = do_all_stand ? looks_at_rest + 1 : 0;
        if (!do_all_stand) {
            pause_shortly();
        }
    }
    return looks_at_rest == 2;
}

// Children first: what is stopped goes on when its parent dies, if nobody is left to continue it.
void end_all() {
    const std::vector<pid_t> all = our_descendants();
    for (auto pid = all.rbegin(); pid != all.rend(); ++pid) {
        kill(*pid, SIGKILL);
    }
    end_what_was_left();
}

} // namespace sluice::tools::persist
