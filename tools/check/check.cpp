// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice check`: a command behind a library that looks at what it does (ADR 79). The library is preloaded
// and appends what it finds to a file, which is read here while the command runs, and once more when it has
// ended.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>

#include "tools/check/findings_file.hpp"
#include "tools/check/record.hpp"
#include "tools/check/report.hpp"
#include "tools/check/suppressions.hpp"
#include "tools/check/symbols.hpp"
#include "tools/check/tally.hpp"
#include "tools/check/timeline_run.hpp"
#include "tools/child.hpp"
#include "tools/commands.hpp"
#include "tools/output_file.hpp"
#include "tools/parts.hpp"
#include "tools/running_command.hpp"

namespace sluice::tools::check {

namespace {

constexpr std::chrono::milliseconds kLookAgain{100};

Suppressions suppressions_of(const std::string& file) {
    if (file.empty()) {
        return {};
    }
    std::ifstream lines(file);
    if (!lines) {
        throw Failure(kExitUsage, "check: " + file + ": " + std::strerror(errno));
    }
    return {lines, file};
}

// Objects, one a line, for a reader that doesn't wait for the end.
class JsonLines {
  public:
    explicit JsonLines(const std::string& name) {
        if (!name.empty()) {
            file_.emplace("check", name);
        }
    }

    void add(const nlohmann::json& object) {
        if (file_) {
            file_->stream() << object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n'
                            << std::flush;
        }
    }
    void finish() {
        if (file_) {
            file_->finish();
        }
    }

  private:
    std::optional<OutputFile> file_;
};

// One run of a command.
class Run {
  public:
    explicit Run(const CheckOptions& how)
        : how_(how), tally_(suppressions_of(how.suppressions), how.limit), json_(how.json) {
        if (!how.timeline.empty() || !how.timeline_json.empty()) {
            timeline_.emplace(how);
        }
    }

    int run(const std::vector<std::string>& command) {
        const std::string library = part_for_loader(find_part(kCheck), "LD_PRELOAD");
        look_first(command.front(), kChecksProgram);
        const int failed = running_.start(command, environment_with(settings_with(library)));
        if (failed != 0) {
            return failed;
        }
        signal(SIGPIPE, SIG_IGN); // if nobody reads us, the command goes on
        while (!running_.has_ended()) {
            running_.wait(kLookAgain);
            take_what_is_there();
        }
        take_what_is_there();
        finish();
        if (timeline_) {
            timeline_->write(symbols_, joined(command));
        }
        const int status = exit_status(running_.wait_status());
        if (status == 0) {
            json_.finish();
        }
        if (status == 0 && timeline_) {
            timeline_->finish();
        }
        return status == 0 && tally_.has_mistakes() ? how_.exit_code : status;
    }

  private:
    std::vector<std::string> settings_with(const std::string& library) const {
        const char* const depth = how_.quick           ? "quick:"
                                  : how_.pedantic      ? "pedantic:"
                                  : how_.every_request ? "every:"
                                                       : "full:";
        std::vector<std::string> settings = {preload_in_front(library), before_sanitizer(),
                                             std::string("SLUICE_CHECK=") + depth + file_.path()};
        if (timeline_) {
            timeline_->add_settings(settings);
        }
        return settings;
    }

    void take_what_is_there() {
        const std::uint64_t end = file_.size();
        for (std::string_view bytes; !(bytes = file_.read_next(end)).empty();) {
            const RecordReader::Batch batch = reader_.feed(bytes);
            for (const Finding& finding : batch.findings) {
                take(symbols_.named(finding));
            }
            for (const std::string& text : batch.blind_spots) {
                take_blind_spot(text);
            }
        }
    }

    void take(const Report& report) {
        if (!tally_.add(report)) {
            return;
        }
        say_in_one_piece(text_of(report));
        json_.add(json_of(report));
        if (symbols_.lacks_addr2line() && !hint_given_) {
            hint_given_ = true;
            say_in_one_piece("sluice: check: install binutils to see functions and lines\n");
        }
    }

    void take_blind_spot(const std::string& text) {
        if (tally_.add_blind_spot(text)) {
            json_.add({{"schema", 1}, {"kind", "blind-spot"}, {"what", text}});
        }
    }

    void finish() {
        if (reader_.unreadable() != 0) {
            say_in_one_piece("sluice: check: records that can't be understood: " +
                             std::to_string(reader_.unreadable()) + "\n");
        }
        say_in_one_piece(tally_.text());
        json_.add(tally_.json());
    }

    const CheckOptions& how_;
    Tally tally_;
    JsonLines json_;
    FindingsFile file_;
    const BlockedSignals signals_;
    RunningCommand running_{signals_, Reaps::kCommand};
    Symbols symbols_{running_};
    RecordReader reader_;
    std::optional<TimelineRun> timeline_;
    bool hint_given_ = false;
};

} // namespace

} // namespace sluice::tools::check

int sluice::tools::run_check(const Options& options, const CheckOptions& how,
                             const std::vector<std::string>& command) {
    if (options.json || !options.root.empty()) {
        throw Failure(kExitUsage,
                      "check: --json FILE belongs behind `check`, and --root has no meaning here");
    }
    return check::Run(how).run(command);
}
