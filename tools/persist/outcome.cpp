// SPDX-License-Identifier: BSD-3-Clause
#include "tools/persist/outcome.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <utility>

#include "layers/power/file/layout.hpp"

namespace sluice::tools::persist {

namespace {

using layers::power::file::kLineBytes;
using layers::power::file::kWordBytes;

constexpr unsigned kWays = 6;
constexpr unsigned kFirstDrawn = 2;

// Zeros behind the end.
std::string bytes_at(const std::string& file, std::uint64_t offset, std::uint64_t length) {
    std::string bytes = offset < file.size() ? file.substr(offset, length) : std::string();
    bytes.resize(length);
    return bytes;
}

std::vector<std::size_t> shuffled(std::size_t count, std::mt19937_64& random) {
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) {
        order[i] = i;
        std::swap(order[i], order[random() % (i + 1)]); // the standard's shuffle differs between libraries
    }
    return order;
}

// Without gaps.
void add_lost(std::vector<Extent>& lost, std::size_t file, std::uint64_t first, std::uint64_t last) {
    if (!lost.empty() && lost.back().file == file && lost.back().last + 1 == first) {
        lost.back().last = last;
    } else {
        lost.push_back({file, first, last});
    }
}

} // namespace

Outcomes::Outcomes(std::vector<AtCut> files, std::uint64_t seed) : files_(std::move(files)), seed_(seed) {
    for (std::size_t file = 0; file < files_.size(); ++file) {
        if (!files_[file].caches) {
            continue;
        }
        const std::string& caches = *files_[file].caches;
        for (std::uint64_t at = 0; at < caches.size(); at += kWordBytes) {
            const std::uint64_t length = std::min(kWordBytes, caches.size() - at);
            if (caches.compare(at, length, bytes_at(files_[file].durable, at, length)) == 0) {
                continue;
            }
            const std::uint64_t line = at / kLineBytes * kLineBytes;
            words_.push_back({file, at}); // NOLINT(performance-inefficient-vector-operation): mostly few
            if (lines_.empty() || lines_.back().file != file || lines_.back().offset != line) {
                lines_.push_back({file, line});
            }
        }
    }
}

template<typename Survives>
Outcome Outcomes::make(std::string way, Survives&& survives) const {
    Outcome outcome{{}, std::move(way), {}};
    outcome.files.reserve(files_.size());
    for (const AtCut& file : files_) {
        outcome.files.push_back(file.caches ? std::optional(bytes_at(file.durable, 0, file.caches->size()))
                                            : std::nullopt);
    }
    for (const Unit& word : words_) {
        std::string& file = *outcome.files[word.file]; // it has words
        const std::uint64_t length = std::min(kWordBytes, file.size() - word.offset);
        if (survives(word)) {
            file.replace(word.offset, length, *files_[word.file].caches, word.offset, length);
        } else {
            add_lost(outcome.lost, word.file, word.offset, word.offset + length - 1);
        }
    }
    return outcome;
}

std::optional<Outcome> Outcomes::choose(const Units& units, std::uint64_t unit_bytes, Choice choice,
                                        unsigned round, std::uint64_t seed) const {
    const bool is_possible = units.size() > 1 && (choice == Choice::kByLot || round < units.size());
    if (!is_possible) {
        return std::nullopt;
    }
    const std::string name = unit_bytes == kWordBytes ? "word" : "line";
    std::mt19937_64 random(seed);
    std::set<std::pair<std::size_t, std::uint64_t>> chosen;
    const std::vector<std::size_t> order = shuffled(units.size(), random);
    for (std::size_t i = 0; i < units.size(); ++i) {
        if (choice == Choice::kByLot ? random() % 2 == 0 : i == order[round]) {
            chosen.emplace(units[i].file, units[i].offset);
        }
    }
    const std::array ways{"one " + name + " survives", "all " + name + "s but one survive",
                          "each " + name + " survives or not, by lot"};
    return make(ways[static_cast<std::size_t>(choice)], [&](const Unit& word) {
        return chosen.contains({word.file, word.offset / unit_bytes * unit_bytes}) !=
               (choice == Choice::kAllButOne);
    });
}

std::optional<Outcome> Outcomes::at(unsigned number) const {
    if (number == 0) {
        return make(words_.empty() ? "everything had been flushed" : "what wasn't flushed is lost",
                    [](const Unit&) { return false; });
    }
    if (words_.empty()) {
        return std::nullopt;
    }
    if (number == 1) {
        return make("what wasn't flushed survives, too", [](const Unit&) { return true; });
    }
    const unsigned way = (number - kFirstDrawn) % kWays;
    const unsigned round = (number - kFirstDrawn) / kWays;
    const bool is_of_lines = way < kWays / 2;
    const auto choice = static_cast<Choice>(way % (kWays / 2));
    // One order of units for all rounds, and another lot for each.
    const std::uint64_t seed = seed_ + (choice == Choice::kByLot ? std::uint64_t{number} << 32 : 0);
    return is_of_lines ? choose(lines_, kLineBytes, choice, round, seed)
                       : choose(words_, kWordBytes, choice, round, seed);
}

} // namespace sluice::tools::persist
