// SPDX-License-Identifier: BSD-3-Clause
//
// What the command's parts share: how it ends, and how it prints.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tools/terminal.hpp"

namespace sluice::tools {

// Exit statuses; documented in sluice(1).
enum ExitStatus {
    kExitOk = 0,
    kExitFailure = 1,
    kExitUsage = 2,
    kExitNoDevice = 3,        // or none can be made
    kExitNotExecutable = 126, // of `sluice run`, as shells say it
};

// Ends the command: TEXT goes to standard error.
class Failure : public std::runtime_error {
  public:
    Failure(ExitStatus status, const std::string& text) : std::runtime_error(text), status_(status) {}
    ExitStatus status() const noexcept { return status_; }

  private:
    ExitStatus status_;
};

// Throws a Failure with the reason where something couldn't be written to STREAM, which is called WHAT.
void flush_or_fail(std::ostream& stream, const std::string& what);

// What every subcommand gets.
struct Options {
    bool json = false;
    std::string root; // empty: this machine
    bool wide = false;
    std::string color = "auto"; // or "always" or "never"
    const char* root_or_null() const noexcept { return root.empty() ? nullptr : root.c_str(); }
};

struct Column {
    std::string name;
    unsigned drops = 0; // on a narrow terminal 1 goes first, then 2; 0 stays
    enum Alignment { kLeft, kRight } alignment = kLeft;
    bool wraps = false; // on a narrow terminal at spaces, rather than being cut
};

struct Cell {
    std::string text;
    Tone tone = Tone::kPlain;

    // NOLINTNEXTLINE(google-explicit-constructor): rows are lists of texts
    Cell(std::string said, Tone how = Tone::kPlain) : text(std::move(said)), tone(how) {}
    // NOLINTNEXTLINE(google-explicit-constructor): rows are lists of texts
    Cell(const char* said, Tone how = Tone::kPlain) : text(said), tone(how) {}
};

using Row = std::vector<Cell>;

// Prints rows below each other. On a terminal they are as wide as that, unless --wide says otherwise;
// elsewhere they are whole. What a terminal would take for a command of its own is shown as \xNN.
void print_table(const Options& options, const std::vector<Column>& columns, const std::vector<Row>& rows);

// WORDS with spaces between them, as a title has a command.
std::string joined(const std::vector<std::string>& words);

// "1 post", "2 posts".
std::string counted(std::uint64_t count, const std::string& what);

// To standard error, where a command prints beside us.
void say_in_one_piece(const std::string& text);

} // namespace sluice::tools
