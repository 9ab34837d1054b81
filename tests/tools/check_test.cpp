// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice check`: a program about which things are found, and what is said about it.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

// Last: its macros are common words.
#include "tests/tools/run_command.hpp"

using namespace sluice::test;

namespace {

Ran check(const std::vector<std::string>& options, const std::vector<std::string>& program) {
    std::vector<std::string> arguments = {"check"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.insert(arguments.end(), {"--", TEST_FINDING_PROGRAM});
    arguments.insert(arguments.end(), program.begin(), program.end());
    return run(arguments);
}

// The lines of OUT by the names before them.
std::map<std::string, std::string> lines_by_name(const std::string& out) {
    std::map<std::string, std::string> lines;
    std::istringstream stream(out);
    for (std::string line; std::getline(stream, line);) {
        lines[line.substr(0, line.find(':'))] = line.substr(line.find(':') + 1);
    }
    return lines;
}

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) {
        ++count;
    }
    return count;
}

std::string source_line(const std::string& line) {
    return std::string(TEST_FINDING_SOURCE) + ":" + line + " (" +
           std::filesystem::path(TEST_FINDING_PROGRAM).filename().string() + ")\n";
}

void assert_one_report(const Ran& ran) {
    assert_int_equal(count_of(ran.err, "sluice: check: buffer-changed-while-sent: Send 3 of"), 1);
}

class Variable {
  public:
    Variable(const char* name, const char* value) : name_(name) {
        const char* const former = std::getenv(name);
        former_ = former != nullptr ? std::optional<std::string>(former) : std::nullopt;
        setenv(name, value, 1);
    }
    ~Variable() {
        if (former_) {
            setenv(name_, former_->c_str(), 1);
        } else {
            unsetenv(name_);
        }
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

  private:
    const char* name_;
    std::optional<std::string> former_;
};

TEST(check__nothing_found__nothing_said_and_status_of_the_command) {
    const Ran ran = check({}, {"nothing"});
    assert_status(ran, 0);
    assert_string_equal(ran.err.c_str(), "");
    assert_int_equal(run({"check", "--", "sh", "-c", "exit 42"}).status, 42);
    assert_string_equal(run({"check", "--", "printf", "<%s>", "[a,b]", "--json"}).out.c_str(),
                        "<[a,b]><--json>");
}

TEST(check__json_on_a_full_disk__the_reason_and_a_failure) {
    const Ran ran = check({"--json", "/dev/full"}, {"nothing"});
    assert_int_equal(ran.status, 1);
    assert_contains(ran.err, "check: /dev/full can't be written: No space left on device");
}

TEST(check__found__functions_and_lines_of_both_sides) {
    const Ran ran = check({}, {"once"});
    assert_status(ran, 66);
    auto lines = lines_by_name(ran.out);
    assert_contains(ran.err, "sluice: check: buffer-changed-while-sent: Send 3 of queue pair 17 of uroce0\n"
                             "  what: its buffer was changed, bytes 0 to 63\n"
                             "  it was posted:\n"
                             "    #0 post_message at " +
                                 source_line(lines["post_message"]) + "    #1 be_wrong at ");
    // The inlined function, and the one that it was inlined into.
    assert_contains(ran.err, "  it was written to:\n    #0 fill_inlined at " +
                                 source_line(lines["fill_inlined"]) + "    #1 fill_buffer at ");
    assert_contains(ran.err, "  remedy: await the completion\n"
                             "  suppress: buffer-changed-while-sent:post_message\n"
                             "sluice: check: 1 mistake of 1 kind\n");
    assert_lacks(ran.err, "__libc_start");
}

TEST(check__source_in_the_working_directory__by_a_short_path) {
    const std::string folder = std::filesystem::path(TEST_FINDING_SOURCE).parent_path();
    assert_int_equal(chdir(folder.c_str()), 0);
    const Ran ran = check({}, {"once"});
    assert_int_equal(chdir("/"), 0);
    assert_contains(ran.err, "    #0 post_message at finding_program.c:");
}

TEST(check__plugin_by_a_relative_path__functions_and_lines) {
    const std::string folder = std::filesystem::path(TEST_FINDING_PROGRAM).parent_path();
    const Ran ran = check({}, {"plugin", folder});
    assert_status(ran, 66);
    assert_contains(ran.err, "    #0 plugin_be_wrong at ");
    assert_contains(ran.err, "/finding_plugin.c:10 (libfinding_plugin.so)\n");
}

TEST(check__found_and_command_fails__its_own_status) {
    const Ran ran = check({}, {"once", "3"});
    assert_status(ran, 3);
    assert_one_report(ran);
}

TEST(check__exit_code__instead_of_66) {
    assert_int_equal(check({"--exit-code", "9"}, {"once"}).status, 9);
    assert_int_equal(check({"--exit-code", "0"}, {"once"}).status, 0);
}

TEST(check__command_killed_after_a_finding__shown_and_status_of_the_signal) {
    for (const int signal : {SIGKILL, SIGSEGV, SIGTERM}) {
        const Ran ran = check({}, {"kill", std::to_string(signal)});
        assert_status(ran, 128 + signal);
        assert_one_report(ran);
    }
}

TEST(check__descriptors_closed_before__shown) {
    const Ran ran = check({}, {"close"});
    assert_one_report(ran);
}

TEST(check__same_in_children__shown_once_and_counted) {
    const Ran ran = check({}, {"fork", "4"});
    assert_status(ran, 66);
    assert_one_report(ran);
    assert_contains(ran.err, "sluice: check: buffer-changed-while-sent: post_message at ");
    assert_contains(ran.err, ": found 3 more times\n");
    assert_contains(ran.err, "1 mistake of 1 kind\n");
}

TEST(check__grandchild_lives_on__not_awaited_and_what_it_found_is_shown) {
    const Ran ran = check({}, {"leave"});
    assert_status(ran, 66);
    assert_one_report(ran);
    const auto pid = static_cast<pid_t>(std::stoi(lines_by_name(ran.out)["grandchild"]));
    assert_int_equal(kill(pid, SIGKILL), 0); // it is still there
}

TEST(check__signal__handed_on_to_the_command) {
    const Ran ran = check({}, {"signal"});
    assert_status(ran, 0);
    assert_string_equal(ran.out.c_str(), "signal 15 came\n");
}

TEST(check__garbage_in_the_file__findings_around_it_are_shown) {
    const Ran ran = check({}, {"garbage"});
    assert_status(ran, 66);
    assert_one_report(ran);
    assert_lacks(ran.err, "\033");
    assert_lacks(ran.err, "cut off");
    assert_contains(ran.err, "sluice: check: records that can't be understood: ");
}

TEST(check__ten_thousand_findings__all_are_counted) {
    const Ran ran = check({}, {"many", "10000"});
    assert_status(ran, 66);
    assert_contains(ran.err, "10000 mistakes of 1 kind\n");
}

TEST(check__limit__so_many_stacks_to_one_place) {
    const Ran one = check({}, {"stacks", "10"});
    assert_int_equal(count_of(one.err, "sluice: check: many: o\n"), 1);
    assert_contains(one.err, ": found with 9 other stacks; --limit shows more\n");
    const Ran three = check({"--limit", "3"}, {"stacks", "10"});
    assert_int_equal(count_of(three.err, "sluice: check: many: o\n"), 3);
    assert_contains(three.err, ": found with 7 other stacks; --limit shows more\n");
}

TEST(check__json__python_reads_each_line) {
    const Machine scratch;
    const std::string file = scratch.root() + "/findings";
    const Ran ran = check({"--json", file}, {"twice"});
    assert_status(ran, 66);
    auto lines = lines_by_name(ran.out);
    const Ran python = run_program("/usr/bin/env", {"python3", "-c", R"(import json, sys
read = [json.loads(line) for line in open(sys.argv[1])]
assert all(each["schema"] == 1 for each in read), read
assert [each["kind"] for each in read] == ["mistake", "mistake", "summary"], read
mistake = read[0]
assert mistake["rule"] == "buffer-changed-while-sent" and mistake["pid"] > 1, mistake
assert mistake["suppression"] == "buffer-changed-while-sent:post_message", mistake
assert [side["title"] for side in mistake["sides"]] == ["it was posted", "it was written to"], mistake
frame = mistake["sides"][0]["frames"][0]
assert frame["function"] == "post_message" and frame["line"] == int(sys.argv[2]), frame
assert frame["file"].endswith("/finding_program.c") and frame["offset"] > 0, frame
assert frame["module"] == sys.argv[3] and not frame["inlined"], frame
assert mistake["sides"][1]["frames"][0]["inlined"], mistake
assert read[2]["mistakes"] == 2 and read[2]["kinds"] == 2, read)",
                                                    file, lines["post_message"], TEST_FINDING_PROGRAM});
    assert_status(python, 0);
}

TEST(check__json_to_standard_output__beside_the_command_s) {
    const Ran ran = run({"check", "--json", "-", "--", TEST_FINDING_PROGRAM, "blind"});
    assert_status(ran, 0);
    assert_true(ran.out.starts_with(R"({"kind":"blind-spot","schema":1,"what":"memory of a GPU"})"
                                    "\n"));
    assert_string_equal(ran.err.c_str(), "sluice: check: not looked at: memory of a GPU\n");
}

TEST(check__suppressions__neither_shown_nor_a_failure_and_counted) {
    const Machine scratch;
    scratch.write("/known", "# of ours\nbuffer-*:post_mess*\nanother-rule:nobody\n");
    const Ran once = check({"--suppressions", scratch.root() + "/known"}, {"once"});
    assert_status(once, 0);
    assert_string_equal(once.err.c_str(), "sluice: check: suppression buffer-*:post_mess*: used 1 time\n"
                                          "sluice: check: suppression another-rule:nobody: not used\n"
                                          "sluice: check: 0 mistakes of 0 kinds, 1 suppressed\n");
    const Ran twice = check({"--suppressions", scratch.root() + "/known"}, {"twice"});
    assert_status(twice, 66);
    assert_contains(twice.err, "sluice: check: another-rule: Send 3");
    assert_contains(twice.err, "1 mistake of 1 kind, 1 suppressed\n");
}

TEST(check__offered_suppression__suppresses) {
    const Machine scratch;
    const Ran before = check({}, {"once"});
    const std::string word = "  suppress: ";
    const std::size_t at = before.err.find(word) + word.size();
    scratch.write("/known", before.err.substr(at, before.err.find('\n', at) - at));
    assert_int_equal(check({"--suppressions", scratch.root() + "/known"}, {"once"}).status, 0);
}

TEST(check__wrong_suppression__its_line_and_nothing_started) {
    const Machine scratch;
    scratch.write("/known", "a-rule:f\nno suppression\n");
    const Ran ran = run({"check", "--suppressions", scratch.root() + "/known", "--", "echo", "it ran"});
    assert_status(ran, 2);
    assert_string_equal(ran.out.c_str(), "");
    assert_contains(ran.err, "/known:2: 'no suppression' is no suppression");
    assert_int_equal(run({"check", "--suppressions", "/no/such/file", "--", "true"}).status, 2);
}

TEST(check__no_addr2line__what_was_recorded_and_one_hint) {
    const Machine scratch; // an empty directory
    const Variable path("PATH", scratch.root().c_str());
    const Ran ran = check({}, {"twice"});
    assert_status(ran, 66);
    assert_one_report(ran);
    assert_contains(ran.err, " (" + std::filesystem::path(TEST_FINDING_PROGRAM).filename().string() + "+0x");
    assert_int_equal(count_of(ran.err, "sluice: check: install binutils"), 1);
}

// In the place of addr2line.
void make_addr2line(const Machine& machine, const std::string& script) {
    machine.write("/addr2line", "#!/bin/sh\n" + script);
    assert_int_equal(chmod((machine.root() + "/addr2line").c_str(), 0700), 0);
}

TEST(check__addr2line_that_fails_or_talks_nonsense__what_was_recorded) {
    for (const char* script : {"exit 1\n", "read line; echo $line; exit 0\n", "exec yes\n", "kill -9 $$\n"}) {
        const Machine scratch;
        make_addr2line(scratch, script);
        const Variable path("PATH", (scratch.root() + ":" + std::getenv("PATH")).c_str());
        const Ran ran = check({}, {"once"});
        assert_status(ran, 66);
        assert_one_report(ran);
        assert_contains(ran.err, "+0x");
    }
}

TEST(check__addr2line_that_never_answers__given_up) {
    const Machine scratch;
    make_addr2line(scratch, "exec sleep 1000\n");
    const Variable path("PATH", (scratch.root() + ":" + std::getenv("PATH")).c_str());
    const Ran ran = check({}, {"stacks", "2"});
    assert_status(ran, 66);
    assert_contains(ran.err, "    #0 f (");
}

TEST(check__preloaded__in_front_of_ours_and_behind_sanitizers) {
    const Ran under =
        run({"check", "--", TEST_COMMAND, "run", "--local", "--", "sh", "-c", "echo $LD_PRELOAD"});
    assert_contains(under.out, "/libsluice-check.so:");
    assert_contains(under.out, "/libsluice-preload.so\n");
    const Ran over =
        run({"run", "--local", "--", TEST_COMMAND, "check", "--", "sh", "-c", "echo $LD_PRELOAD"});
    assert_string_equal(over.out.c_str(), under.out.c_str());
    const Variable others("LD_PRELOAD", "/no/libasan.so.8 /no/libother.so");
    const Ran three = run({"check", "--", "sh", "-c", "echo $LD_PRELOAD"});
    assert_true(three.out.starts_with("/no/libasan.so.8:/"));
    assert_contains(three.out, "/libsluice-check.so:/no/libother.so\n");
}

TEST(check__the_file__private_and_gone_afterwards) {
    const Ran ran =
        run({"check", "--quick", "--", "sh", "-c", "echo $SLUICE_CHECK; stat -c %a ${SLUICE_CHECK#quick:}"});
    assert_true(ran.out.starts_with("quick:/"));
    assert_true(ran.out.ends_with("\n600\n"));
    const std::string path = ran.out.substr(6, ran.out.find('\n') - 6);
    assert_contains(path, "/sluice-check-");
    assert_false(std::filesystem::exists(path));
}

TEST(check__command_that_cannot_be_started__as_shells_say) {
    const Ran missing = run({"check", "--", "no-such-command"});
    assert_status(missing, 127);
    assert_contains(missing.err, "no-such-command");
    assert_int_equal(run({"check", "--", "/etc/passwd"}).status, 126);
    assert_contains(run({"check", "--", TEST_STATIC}).err,
                    "sluice: check: " TEST_STATIC " is linked statically");
}

TEST(check__wrong_command_line__2) {
    const std::vector<std::vector<std::string>> wrong = {
        {"--"},
        {"--limit", "0", "--", "true"},
        {"--exit-code", "256", "--", "true"},
        {"--json", "--", "true"},
        {"--suppressions", "--", "true"},
        {"--root", "/", "--", "true"},
    };
    for (std::vector<std::string> arguments : wrong) {
        arguments.insert(arguments.begin(), "check");
        assert_int_equal(run(arguments).status, 2);
    }
    assert_int_equal(run({"--json", "check", "--", "true"}).status, 2);
    assert_int_equal(run({"check", "--json", "/no/such/folder/file", "--", "true"}).status, 1);
}

} // namespace

int main() {
    // Sources in the working directory are shown by short paths.
    return chdir("/") == 0 ? run_all_tests() : 1;
}
