// SPDX-License-Identifier: BSD-3-Clause
//
// What `sluice doctor` says: for each thing that it looked at a verdict, the fact, and what cures it.
#pragma once

#include <string>
#include <vector>

namespace sluice::tools::doctor {

enum class Verdict { kOk, kWarning, kProblem };

struct Remedy {
    std::string command; // for the shell in which `sluice doctor` runs; empty: no command cures it
    std::string by;      // who can execute it, or cure it otherwise; empty: this user
};

struct Finding {
    Verdict verdict;
    std::string subject;
    std::string fact;
    Remedy remedy;
};

// Takes the findings of one check after the other. Of those that one command cures, which have one cause, it
// keeps the worst.
class Report {
  public:
    // What follows is about SUBJECT.
    void begin(const char* subject) { subject_ = subject; }

    void ok(std::string fact) { add(Verdict::kOk, std::move(fact), {}); }
    void warn(std::string fact, Remedy remedy) { add(Verdict::kWarning, std::move(fact), std::move(remedy)); }
    void problem(std::string fact, Remedy remedy) {
        add(Verdict::kProblem, std::move(fact), std::move(remedy));
    }

    const std::vector<Finding>& findings() const noexcept { return findings_; }
    std::size_t count(Verdict verdict) const;

  private:
    void add(Verdict verdict, std::string fact, Remedy remedy);

    std::string subject_;
    std::vector<Finding> findings_;
};

const char* name_of(Verdict verdict);

// TEXT as one word of a shell's command line.
std::string shell_word(const std::string& text);

// COMMAND, which root alone may execute.
Remedy as_root(std::string command);

// The line of FILE becomes a comment.
Remedy comment_out(const std::string& file, unsigned long line);

// The remedy for what the library says about a setting: its variable is unset, or its line in a file under
// ROOT becomes a comment. Empty if TEXT names neither.
Remedy remedy_for_setting(const std::string& text, const std::string& root);

} // namespace sluice::tools::doctor
