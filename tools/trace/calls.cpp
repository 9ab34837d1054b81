// SPDX-License-Identifier: BSD-3-Clause
#include "tools/trace/calls.hpp"

#include "tools/trace/names.hpp"

namespace sluice::tools::trace {

namespace {

bool begins_call(file::Kind kind) {
    return kind == file::Kind::kRegister || kind == file::Kind::kDeregister || kind == file::Kind::kSync;
}

// An end's kind follows that of its begin.
std::optional<file::Kind> begin_of(file::Kind kind) {
    const auto before = static_cast<file::Kind>(static_cast<std::uint8_t>(kind) - 1);
    return begins_call(before) ? std::optional(before) : std::nullopt;
}

} // namespace

std::vector<TracedCall> calls_of(const Recording& recording) {
    std::vector<TracedCall> calls;
    std::vector<std::vector<std::size_t>> open(
        recording.threads.size()); // indices of calls, the innermost last
    for (std::size_t i = 0; i < recording.events.size(); ++i) {
        const TracedEvent& each = recording.events[i];
        std::vector<std::size_t>& inner = open[each.thread];
        if (begins_call(each.event.kind)) {
            inner.push_back(calls.size());
            calls.push_back({.begin = i, .end = std::nullopt});
        } else if (const std::optional<file::Kind> wanted = begin_of(each.event.kind);
                   wanted && !inner.empty() &&
                   recording.events[calls[inner.back()].begin].event.kind == *wanted) {
            calls[inner.back()].end = i;
            inner.pop_back();
        }
    }
    return calls;
}

std::string name_of_call(const file::Event& begin) {
    return begin.kind == file::Kind::kSync       ? name_of_sync(begin.code)
           : begin.kind == file::Kind::kRegister ? "register memory"
                                                 : "deregister memory";
}

const char* category_of_call(const file::Event& begin) {
    return begin.kind == file::Kind::kSync ? "sync" : "registration";
}

} // namespace sluice::tools::trace
