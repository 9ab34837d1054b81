// SPDX-License-Identifier: BSD-3-Clause
//
// What every call pays before it does its work: bench_core [--json FILE] [--quick].
//
// A handle that is checked and pinned, an object that gets a handle and loses it again, and a log
// message that nobody wants. The yardstick is a program's usual way: a map under a lock. A second
// thread exists, as in every program that uses these libraries: without one glibc's locks
// take a short cut that nobody gets in practice.
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "core/handle_table.hpp"
#include "core/log.hpp"
#include "tests/bench/harness.hpp"

namespace sluice::bench {

namespace {

struct Object {
    static constexpr HandleKind kHandleKind = 1;
    std::uint64_t uses = 0;
};

constexpr int kCalls = 4096;
constexpr int kFront = 0;
HandleTable table;

struct LockedMap {
    std::mutex mutex;
    std::unordered_map<const void*, Object*> objects;

    Object* find(const void* handle) {
        const std::lock_guard guard(mutex);
        const auto found = objects.find(handle);
        return found == objects.end() ? nullptr : found->second;
    }
};

// OURS against THEIRS, both of kCalls calls; the yardstick runs twice to show the noise.
Figure compare(const char* name, const Report& report, std::function<void()> ours,
               const std::function<void()>& theirs) {
    const auto nothing = [] {};
    const std::vector<double> ns =
        interleave({{nothing, std::move(ours)}, {nothing, theirs}, {nothing, theirs}}, report.rounds(201), 1);
    return {.name = name,
            .value = ns[0] / ns[1],
            .unit = "x",
            .ours = ns[0] / kCalls,
            .theirs = ns[1] / kCalls,
            .noise = std::fabs(ns[2] / ns[1] - 1)};
}

void handle_figures(Report& report) {
    std::vector<Object> objects(64);
    std::vector<void*> handles;
    LockedMap map;
    for (Object& object : objects) {
        handles.push_back(*table.insert(&object, &kFront));
        map.objects[handles.back()] = &object;
    }
    const auto checked = [&] {
        for (int i = 0; i < kCalls; ++i) {
            const Result<Pin<Object>> pin =
                table.get<Object>(handles[static_cast<std::size_t>(i) % handles.size()]);
            ++(*pin)->uses;
        }
    };
    const auto mapped = [&] {
        for (int i = 0; i < kCalls; ++i) {
            ++map.find(handles[static_cast<std::size_t>(i) % handles.size()])->uses;
        }
    };
    Figure pin = compare("handle checked and pinned, against a map under a lock", report, checked, mapped);
    pin.kind = Goal::kAtMost;
    pin.goal = 1.0;
    report.add(pin);

    const std::vector<double> ns = interleave({{[] {},
                                                [&] {
                                                    for (int i = 0; i < kCalls; ++i) {
                                                        void* handle = *table.insert(&objects[0], &kFront);
                                                        keep(*table.retire(*table.get<Object>(handle)));
                                                    }
                                                }}},
                                              report.rounds(201), 1);
    report.add({.name = "handle made and retired", .value = ns[0] / kCalls, .unit = "ns"});
}

void log_figures(Report& report) {
    const std::vector<double> ns = interleave({{[] {},
                                                [] {
                                                    for (int i = 0; i < kCalls; ++i) {
                                                        SLUICE_LOG(kTrace, "bench", "call %d", i);
                                                        keep(i);
                                                    }
                                                }}},
                                              report.rounds(201), 1);
    report.add({.name = "log message that nobody wants",
                .value = ns[0] / kCalls,
                .unit = "ns",
                .kind = Goal::kAtMost,
                .goal = 2.0});
}

} // namespace

} // namespace sluice::bench

int main(int argc, char** argv) {
    sluice::bench::Report report("core: what each call pays before it does its work", argc, argv);
    sluice::bench::pin_to_cpu(sluice::bench::cpus() - 1);
    std::mutex mutex;
    std::condition_variable ended;
    bool end = false;
    std::thread sleeper([&] {
        std::unique_lock guard(mutex);
        ended.wait(guard, [&] { return end; });
    });
    sluice::bench::handle_figures(report);
    sluice::bench::log_figures(report);
    {
        const std::lock_guard guard(mutex);
        end = true;
    }
    ended.notify_one();
    sleeper.join();
    return report.finish();
}
