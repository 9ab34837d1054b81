// SPDX-License-Identifier: BSD-3-Clause
//
// The file that libraries write their findings to, read piece by piece; core/report/finding.hpp describes it.
//
// The program under check can write into the file, too, so that anything may stand there. Each text has a
// limit, unknown words are passed over, and a record that isn't whole is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/report/file/words.hpp"

namespace sluice::tools::check {

inline constexpr std::size_t kMostFrames = 64; // of a side
inline constexpr std::size_t kMostSides = 4;

struct Frame {
    std::uint64_t offset = 0; // of the return address, in the file
    std::string function;     // as the loader knows it, or "?"
    std::string module;       // the file
};

struct Side {
    std::string title;
    std::vector<Frame> frames; // innermost first
};

struct Finding {
    std::int64_t pid = 0;
    std::string rule; // of lower-case letters, digits and hyphens; never empty
    std::string object;
    std::string what;
    std::string remedy;
    std::vector<Side> sides;
};

// TEXT in UTF-8 without anything that a terminal would execute: "?" in place of each such byte.
std::string printable(std::string_view text);

// Whether TEXT can be a rule's name.
bool is_rule(std::string_view text);
// What stands behind the word "frame".
std::optional<Frame> frame_in(std::string_view text);

class RecordReader {
  public:
    struct Batch {
        std::vector<Finding> findings;
        std::vector<std::string> blind_spots;
    };

    // What has become whole by BYTES, which follow those of the last call.
    Batch feed(std::string_view bytes);
    // Records that were begun, and couldn't be read.
    std::size_t unreadable() const noexcept { return unreadable_; }

  private:
    void take_line(std::string_view line, Batch& batch);
    void take_word(std::string_view word, std::string_view text);
    void begin(std::string_view form);
    void end(Batch& batch);

    report::file::LineReader lines_;
    bool is_in_record_ = false;
    Finding finding_;
    std::size_t unreadable_ = 0;
};

} // namespace sluice::tools::check
