// SPDX-License-Identifier: BSD-3-Clause
//
// A line on the terminal while something takes long: how much of it is done.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

namespace sluice::tools {

// From AFTER on, standard error has the line, if it is a terminal that can erase it. A pipe, a file and a
// terminal of type dumb get nothing. It is anew every second, so that it lives where a step takes long, and
// goes with its object: before anything else is printed, end() it.
//
// Thread safety: one thread calls; another one, which starts where there is such a terminal, prints.
class Progress {
  public:
    // Whether standard output gets lines meanwhile: where these go to a terminal, they show progress enough.
    enum class Output { kAtEnd, kMeanwhile };

    // WHAT is done in TOTAL of UNIT, such as " MiB"; 0: nobody knows how many.
    Progress(std::string what, std::size_t total, std::string unit = "", Output output = Output::kAtEnd,
             std::chrono::milliseconds after = std::chrono::seconds(2));
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    // The one that begins now is number DONE; STEP, which may be anybody's text, says what it is.
    void reach(std::size_t done, const std::string& step = "");
    void end();

  private:
    void print_until_end();
    std::string line_locked() const;

    const std::string what_;
    const std::size_t total_;
    const std::string unit_;
    const std::chrono::steady_clock::time_point began_;
    const std::chrono::milliseconds after_;
    std::mutex mutex_; // of the following
    std::condition_variable changed_;
    std::size_t done_ = 0;
    std::string step_;
    bool is_over_ = false;
    std::thread printer_; // none where nobody would see it
};

} // namespace sluice::tools
