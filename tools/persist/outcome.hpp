// SPDX-License-Identifier: BSD-3-Clause
//
// What may be left of files when the power is cut. What was flushed is; each other line may have left the
// caches by itself before, as a whole or, between two stores to it, in part. So of what is only in the
// caches, each word survives or doesn't, and there are more outcomes than anybody can try:
//
//     0, 1      nothing of it survives; all does
//     2, 3, 4   one line alone; all lines but one; each line by lot
//     5, 6, 7   one word alone; all words but one; each word by lot
//     8, ...    the same six again, with other lines and words
//
// Which they are is drawn by a seed. Where there is no such line or word any more, there is no such outcome.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::tools::persist {

// A file when the power is cut.
struct AtCut {
    std::optional<std::string> caches; // as programs see it; its length is the file's. None: it isn't there
    std::string durable;               // what was flushed; as if zeros followed
};

// Bytes of a file.
struct Extent {
    std::size_t file;
    std::uint64_t first;
    std::uint64_t last;
};

struct Outcome {
    std::vector<std::optional<std::string>> files; // none: it isn't there
    std::string way;                               // such as "all lines but one survive"
    std::vector<Extent> lost;                      // what was in the caches only, and has not survived
};

class Outcomes {
  public:
    Outcomes(std::vector<AtCut> files, std::uint64_t seed);

    // None: nothing is left to be drawn by that number.
    std::optional<Outcome> at(unsigned number) const;
    // Whether something was in the caches only.
    bool has_unflushed() const noexcept { return !words_.empty(); }

  private:
    // Of eight bytes, or of a line's.
    struct Unit {
        std::size_t file;
        std::uint64_t offset;
    };
    using Units = std::vector<Unit>;
    enum class Choice { kOne, kAllButOne, kByLot };

    std::optional<Outcome> choose(const Units& units, std::uint64_t unit_bytes, Choice choice, unsigned round,
                                  std::uint64_t seed) const;
    template<typename Survives>
    Outcome make(std::string way, Survives&& survives) const;

    const std::vector<AtCut> files_;
    const std::uint64_t seed_;
    Units words_; // that differ
    Units lines_; // that have such a word
};

} // namespace sluice::tools::persist
