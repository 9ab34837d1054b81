// SPDX-License-Identifier: BSD-3-Clause
//
// What `sluice check` is told of by the libraries that look at a program: mistakes of the program's.
//
// A finding is appended to the file that SLUICE_CHECK names, in one piece. `sluice check` gives it names and
// lines, and shows it. So a process that crashes, or closes all its descriptors, has still told. The form is
// one of lines, each a word and a text:
//
//                                     an empty line, as the record before may have been cut off
//     finding 1                       the number is the form's own
//     pid 4711
//     rule region-ended-in-use
//     object receive of queue pair 17 of uroce0
//     what it names region 0x2a01, which ended
//     remedy await its completion, then call ibv_dereg_mr()
//     side the receive was posted     of two, as a rule; each has frames, innermost first
//     frame 0x1a2b main /path/of/program
//     end
//
// A frame is a return address in its file, the function if the loader knows one or "?", and the file.
//
// Thread safety: everything may be called from any thread, but not within a signal's handler that has
// interrupted malloc().
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/report/stack.hpp"

namespace sluice::report {

struct Side {
    std::string_view title;
    const Stack* stack = nullptr;
    std::string_view frames =
        {}; // in place of STACK, of another process: as frames_of() has given them there
};

struct Finding {
    std::string_view rule;
    std::string object;
    std::string what;
    std::string remedy;
    std::span<const Side> sides;
};

// How much `sluice check` wants to know.
enum class Depth : std::uint8_t {
    kNothing, // it isn't there
    kQuick,   // what costs next to nothing
    kFull,
    kEveryRequest, // its memory, also where a queue has very many
    kPedantic,     // also what right programs may do, if they know why
};

Depth depth() noexcept;
// The file that SLUICE_CHECK names; empty without one.
const char* findings_file() noexcept;

// STACK as lines of a finding, for a finding that another process writes.
std::string frames_of(const Stack& stack);
// The function of this library that the program has called, if it is exported; otherwise nothing.
std::string entry_of(const Stack& stack);

// Nothing if a finding of that rule was written for the same places before.
void write(const Finding& finding) noexcept;
// What couldn't be looked at. A text is written once.
void write_blind_spot(std::string_view text) noexcept;

} // namespace sluice::report
