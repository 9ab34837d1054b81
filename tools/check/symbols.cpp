// SPDX-License-Identifier: BSD-3-Clause
#include "tools/check/symbols.hpp"

#include <sys/stat.h>

#include <cerrno>

#include "tools/check/addr2line.hpp"
#include "tools/check/answer.hpp"

namespace sluice::tools::check {

namespace {

// Limits to what a program can cost us that names files of its own choice.
constexpr std::size_t kMostChildren = 16;  // at a time
constexpr std::size_t kMostStarts = 512;   // in a run
constexpr std::size_t kMostSilent = 3;     // after which nobody is asked any more
constexpr std::size_t kMostKnown = 10'000; // addresses whose places are kept

bool is_regular_file(const std::string& path) {
    struct stat status {};
    return path.starts_with('/') && stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

} // namespace

Symbols::Symbols(RunningCommand& command) : command_(command) {}
Symbols::~Symbols() = default;

Report Symbols::named(const Finding& finding) {
    Report report{.pid = finding.pid,
                  .rule = finding.rule,
                  .object = finding.object,
                  .what = finding.what,
                  .remedy = finding.remedy,
                  .sides = {}};
    for (const Side& side : finding.sides) {
        NamedSide named{.title = side.title, .places = {}};
        for (const Frame& frame : side.frames) {
            const std::vector<Place>& places = places_of(frame);
            named.places.insert(named.places.end(), places.begin(), places.end());
        }
        report.sides.push_back(std::move(named));
    }
    return report;
}

const std::vector<Place>& Symbols::places_of(const Frame& frame) {
    if (known_.size() >= kMostKnown) {
        known_.clear();
    }
    const auto [at, is_new] = known_.try_emplace({frame.module, frame.offset});
    if (is_new) {
        at->second = find_places(frame);
    }
    return at->second;
}

std::vector<Place> Symbols::find_places(const Frame& frame) {
    std::vector<Place> places = places_in(answer_for(frame));
    if (places.empty()) {
        places.resize(1);
    }
    for (Place& place : places) {
        place.module = frame.module;
        place.offset = frame.offset;
    }
    if (places.back().function.empty() || places.back().function == "?") {
        places.back().function = frame.function;
    }
    return places;
}

std::string Symbols::answer_for(const Frame& frame) {
    Addr2Line* const child = frame.offset != 0 ? child_for(frame.module) : nullptr;
    std::string answer;
    // A call returns behind itself, which may be another line or function.
    if (child != nullptr && !child->ask(frame.offset - 1, command_, answer)) {
        silent_ += child->was_silent() ? 1 : 0;
        children_[frame.module] = nullptr;
    }
    return answer;
}

Addr2Line* Symbols::child_for(const std::string& module) {
    if (const auto found = children_.find(module); found != children_.end()) {
        return found->second.get();
    }
    if (lacks_addr2line_ || started_ >= kMostStarts || silent_ >= kMostSilent || !is_regular_file(module)) {
        return nullptr;
    }
    if (children_.size() >= kMostChildren) {
        children_.clear();
    }
    auto child = std::make_unique<Addr2Line>();
    ++started_;
    const int error = child->start(module);
    if (error != 0) {
        lacks_addr2line_ = error == ENOENT;
        child = nullptr;
    }
    return (children_[module] = std::move(child)).get();
}

} // namespace sluice::tools::check
