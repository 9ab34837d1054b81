// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice persist run`: a command whose files lose, when the power is cut, what it hasn't made durable
// (ADR 105). A library is preloaded that knows what is durable, and stops the command where the power is to
// be cut. What may be left then is tried here, outcome by outcome, by a command that checks.
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <utility>

#include "tools/child.hpp"
#include "tools/commands.hpp"
#include "tools/parts.hpp"
#include "tools/persist/settle.hpp"
#include "tools/persist/simulated_files.hpp"
#include "tools/running_command.hpp"
#include "tools/seed.hpp"

namespace sluice::tools::persist {

namespace {

using std::chrono::seconds;

constexpr int kExitNotDurable = 66; // as `sluice check` says that it has found something
constexpr int kTimedOut = 124;
constexpr seconds kLongest{86400};
constexpr std::size_t kExtentsShown = 8;
constexpr unsigned kUsualOutcome = 7; // where nobody checks: each word by lot

void say(const std::string& line) {
    const std::string text = "sluice: persist run: " + line + "\n";
    std::cerr.write(text.data(), static_cast<std::streamsize>(text.size())); // in one piece
}

// For a shell.
std::string in_quotes(const std::string& word) {
    constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
        return word;
    }
    std::string text = "'";
    for (const char c : word) {
        text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return text + "'";
}

std::string counted(std::uint64_t count, const std::string& what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// What programs print while they are repeated; shown only where something is wrong.
class KeptOutput {
  public:
    KeptOutput(const std::string& directory, bool is_kept)
        : path_(directory + "/output"),
          fd_(is_kept ? open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR)
                      : -1) {
        if (is_kept && fd_ < 0) {
            throw Failure(kExitFailure, "persist run: " + path_ + " can't be made");
        }
    }
    ~KeptOutput() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    KeptOutput(const KeptOutput&) = delete;
    KeptOutput& operator=(const KeptOutput&) = delete;

    Streams streams() const { return fd_ >= 0 ? Streams{fd_, fd_} : Streams{}; }
    void forget() const {
        if (fd_ >= 0 && ftruncate(fd_, 0) != 0) {
            throw Failure(kExitFailure, "persist run: " + path_ + " can't be emptied");
        }
    }
    void show() const {
        if (std::ifstream kept(path_); fd_ >= 0 && kept.peek() != std::ifstream::traits_type::eof()) {
            std::cerr << kept.rdbuf() << std::flush;
        }
    }

  private:
    const std::string path_;
    const int fd_;
};

// Whatever happens, nobody of a run is left, and none of them sees the others die.
struct EndsTheRest {
    EndsTheRest() = default;
    ~EndsTheRest() {
        (void)stop_all();
        end_all();
    }
    EndsTheRest(const EndsTheRest&) = delete;
    EndsTheRest& operator=(const EndsTheRest&) = delete;
};

// How one run has ended.
struct Ended {
    bool was_cut = false;
    bool is_late = false;
    int status = 0; // the command's, where the power wasn't cut
    LastStep last;
};

class Experiment {
  public:
    Experiment(const PersistOptions& how, const std::vector<std::string>& command)
        : how_(how), command_(command), seed_(how.seed ? *how.seed : drawn_seed("persist run")),
          library_(part_for_loader(find_part(kPower), "LD_PRELOAD")), files_(how.files),
          output_(files_.directory(), how.every_step) {
        look_first(command.front(), kSimulatesPower);
        // What the command leaves behind is ended with it.
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    }

    int run() {
        std::uint64_t cut_at = how_.every_step ? 1 : how_.cut;
        for (;; ++cut_at) {
            const Ended ended = run_once(cut_at);
            if (ended.status != 0) {
                return tell_of_command(ended);
            }
            if (const int status = look_behind(ended, cut_at); status != 0) {
                return status;
            }
            if (!ended.was_cut || !how_.every_step) {
                tell_of_end(ended);
                return kExitOk;
            }
        }
    }

  private:
    std::vector<std::string> environment() const {
        std::vector<std::string> added{preload_in_front(library_), before_sanitizer(),
                                       "SLUICE_PERSISTENCE=simulated:" + files_.directory(),
                                       "PMEM_IS_PMEM_FORCE=1", "PMEM2_FORCE_GRANULARITY=CACHE_LINE"};
        return environment_with(std::move(added));
    }

    Ended run_once(std::uint64_t cut_at) {
        files_.begin(cut_at, how_.is_ddio_off);
        output_.forget();
        RunningCommand running(signals_, Reaps::kAll);
        Ended ended;
        ended.status = running.start(command_, environment(), output_.streams());
        if (ended.status != 0) {
            return ended;
        }
        ended.was_cut = wait_for_cut(running);
        if (ended.was_cut) {
            let_others_go_on(running);
        }
        const EndsTheRest rest;
        files_.end();
        if (!stop_all()) { // what is looked at doesn't change otherwise
            say("not all processes of the run stop; some may see that others end");
        }
        at_cut_ = files_.at_cut();
        ended.last = files_.last_step();
        ended.was_cut = ended.last.was_cut; // also where the thread died that was about to tell
        ended.is_late = !ended.was_cut && !running.has_ended();
        ended.status = running.told_to_end_by() != 0 ? kBySignal + running.told_to_end_by()
                       : ended.was_cut               ? 0
                       : ended.is_late               ? kTimedOut
                                                     : exit_status(running.wait_status());
        return ended;
    }

    // Of a run of the command, and of one of the check.
    seconds limit() const { return how_.timeout_seconds != 0 ? seconds(how_.timeout_seconds) : kLongest; }

    // False: the command has ended, or the time is over.
    bool wait_for_cut(RunningCommand& running) const {
        return running.wait_for_end_or(files_.cut_fd(), limit()) ||
               running.wait_until_readable(files_.cut_fd(), std::chrono::milliseconds(0));
    }

    int look_behind(const Ended& ended, std::uint64_t cut_at) {
        const Outcomes outcomes(at_cut_, seed_ + (ended.was_cut ? cut_at : 0));
        if (how_.outcome || how_.check.empty()) {
            return look_at_one(ended, outcomes);
        }
        for (unsigned number = 0; number < how_.outcomes; ++number) {
            if (const std::optional<Outcome> outcome = outcomes.at(number)) {
                if (const int status = check(ended, number, *outcome); status != 0) {
                    return status;
                }
            }
        }
        return kExitOk;
    }

    int look_at_one(const Ended& ended, const Outcomes& outcomes) {
        const unsigned number = how_.outcome.value_or(kUsualOutcome);
        std::optional<Outcome> outcome = outcomes.at(number);
        if (!outcome && how_.outcome) {
            throw Failure(kExitFailure, "persist run: there is no outcome " + std::to_string(number) +
                                            " here: too little had not been flushed");
        }
        if (!outcome) { // of one word, or of none
            outcome = outcomes.at(outcomes.has_unflushed() ? static_cast<unsigned>(seed_ % 2) : 0);
        }
        if (how_.check.empty()) {
            files_.leave(*outcome);
            return kExitOk;
        }
        return check(ended, number, *outcome);
    }

    // 0, or the status with which to end.
    int check(const Ended& ended, unsigned number, const Outcome& outcome) {
        files_.leave(outcome);
        RunningCommand checker(signals_, Reaps::kAll);
        std::vector<std::string> environment = environment_with({});
        if (const int failed =
                checker.start({"/bin/sh", "-c", how_.check}, std::move(environment), output_.streams());
            failed != 0) {
            return failed;
        }
        const EndsTheRest rest;
        checker.wait(limit());
        if (!checker.has_ended()) {
            output_.show();
            say("the check has not ended in time: outcome " + std::to_string(number) + ": " + outcome.way);
            return kTimedOut;
        }
        const int status = exit_status(checker.wait_status());
        if (checker.told_to_end_by() != 0) {
            return kBySignal + checker.told_to_end_by();
        }
        if (checked_ == 0 && (status == kNotFound || status == kExitNotExecutable)) {
            output_.show();
            say("the check can't be run: " + how_.check);
            return status;
        }
        ++checked_;
        if (status != 0) {
            tell_of_failure(ended, number, outcome, status);
            return kExitNotDurable;
        }
        return kExitOk;
    }

    void tell_of_failure(const Ended& ended, unsigned number, const Outcome& outcome, int status) {
        output_.show();
        const std::string where = ended.was_cut ? "before step " + std::to_string(ended.last.steps) + " (" +
                                                      ended.last.call + ", process " +
                                                      std::to_string(ended.last.pid) + ")"
                                                : "behind the last of " + counted(ended.last.steps, "step");
        say("the check failed with status " + std::to_string(status) + ": power cut " + where + ", outcome " +
            std::to_string(number) + ": " + outcome.way);
        for (std::size_t i = 0; i < outcome.lost.size() && i < kExtentsShown; ++i) {
            const Extent& lost = outcome.lost[i];
            say("  stored, not flushed and lost: bytes " + std::to_string(lost.first) + " to " +
                std::to_string(lost.last) + " of " + files_.path(lost.file));
        }
        if (outcome.lost.size() > kExtentsShown) {
            say("  and " + counted(outcome.lost.size() - kExtentsShown, "other range"));
        }
        say("  again: " + same_again(ended, number));
    }

    std::string same_again(const Ended& ended, unsigned number) const {
        std::string line = "sluice persist run --seed " + std::to_string(seed_);
        if (ended.was_cut) {
            line += " --cut " + std::to_string(ended.last.steps);
        }
        line += std::string(how_.is_ddio_off ? " --no-ddio" : "") + " --outcome " + std::to_string(number);
        for (const std::string& file : how_.files) {
            line += " --file " + in_quotes(file);
        }
        line += " --check " + in_quotes(how_.check) + " --";
        for (const std::string& word : command_) {
            line += " " + in_quotes(word);
        }
        return line;
    }

    int tell_of_command(const Ended& ended) {
        output_.show();
        say(ended.is_late ? "the command has not ended in time"
                          : "the command ended with status " + std::to_string(ended.status) +
                                " before the power was cut, behind " + counted(ended.last.steps, "step"));
        return ended.status;
    }

    void tell_of_end(const Ended& ended) const {
        if (ended.last.steps == 0) {
            say("no call that makes the files durable was seen: a program's own cache instructions, and what "
                "is "
                "linked statically, can't be");
        }
        if (how_.check.empty()) {
            say(ended.was_cut ? "power cut before step " + std::to_string(ended.last.steps) + " (" +
                                    ended.last.call + "), seed " + std::to_string(seed_)
                              : counted(ended.last.steps, "step") + "; power cut behind the last, seed " +
                                    std::to_string(seed_));
            return;
        }
        say(std::string(how_.every_step ? "power cut before each of " + counted(ended.last.steps, "step") +
                                              " and behind the last"
                        : ended.was_cut
                            ? "power cut before step " + std::to_string(ended.last.steps)
                            : "power cut behind the last of " + counted(ended.last.steps, "step")) +
            ": the check passed for " + counted(checked_, "outcome"));
    }

    const PersistOptions& how_;
    const std::vector<std::string>& command_;
    const std::uint64_t seed_;
    const std::string library_;
    const BlockedSignals signals_; // before what is to be cleaned up
    SimulatedFiles files_;
    const KeptOutput output_;
    std::vector<AtCut> at_cut_;
    std::uint64_t checked_ = 0;
};

} // namespace

} // namespace sluice::tools::persist

int sluice::tools::run_persist_run(const Options& options, const PersistOptions& how,
                                   const std::vector<std::string>& command) {
    if (options.json || !options.root.empty()) {
        throw Failure(kExitUsage, "persist run: --json and --root have no meaning here");
    }
    if (how.every_step && how.check.empty()) {
        throw Failure(kExitUsage,
                      "persist run: --every-step needs --check COMMAND, which looks at what is left");
    }
    return persist::Experiment(how, command).run();
}
