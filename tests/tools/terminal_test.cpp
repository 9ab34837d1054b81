// SPDX-License-Identifier: BSD-3-Clause
//
// The `sluice` command as a person sees it: on a terminal, narrow or wide.
#include <cstdlib>

#include "tests/tools/run_on_terminal.hpp"

using namespace sluice::test;

namespace {

std::string without_colours(std::string text) {
    for (std::size_t at = text.find("\x1b["); at != std::string::npos; at = text.find("\x1b[")) {
        text.erase(at, text.find('m', at) - at + 1);
    }
    return text;
}

void assert_fits(const std::string& text, std::size_t columns) {
    std::istringstream lines(without_colours(text));
    for (std::string line; std::getline(lines, line);) {
        if (line.size() > columns) {
            fail_msg("%zu columns instead of %zu: %s", line.size(), columns, line.c_str());
        }
    }
}

const Machine& server() {
    static const Machine machine("x86-server");
    return machine;
}

Shown devices_at(unsigned short columns, const Variables& variables = {},
                 const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"--root", server().root(), "devices"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_at(columns, arguments, variables);
}

TEST(devices__80_columns__paging_goes_first) {
    const Shown shown = devices_at(80);
    assert_int_equal(shown.status, 0);
    assert_fits(shown.text, 80);
    assert_contains(shown.text, "FLUSH");
    assert_lacks(shown.text, "PAGING");
}

TEST(devices__40_columns__what_matters_stays) {
    const Shown shown = devices_at(40);
    assert_fits(shown.text, 40);
    assert_contains(shown.text, "DEVICE");
    assert_contains(shown.text, "CPU CACHES");
    assert_contains(shown.text, "mlx5_0");
    for (const char* gone : {"PAGING", "FLUSH", "ATOMIC WRITE", "PROVIDER"}) {
        assert_lacks(shown.text, gone);
    }
}

TEST(devices__20_columns__are_cut) {
    const Shown shown = devices_at(20);
    assert_int_equal(shown.status, 0);
    assert_fits(shown.text, 20);
    assert_contains(shown.text, "mlx5_0");
    assert_contains(shown.text, "coherent");
}

TEST(each_table__20_columns__fits) {
    for (const char* command : {"info", "config"}) {
        const Shown shown = run_at(20, {"--root", server().root(), command});
        assert_int_equal(shown.status, 0);
        std::istringstream lines(without_colours(shown.text));
        std::string line; // tables only: sentences are broken by the terminal
        while (std::getline(lines, line) && line.find("ATTRIBUTE") == std::string::npos &&
               line.find("NAME") == std::string::npos) {
        }
        for (; !line.empty() && lines; std::getline(lines, line)) {
            assert_true(line.size() <= 20);
        }
    }
}

TEST(wide__40_columns__keeps_all) {
    const Shown shown = devices_at(40, {}, {"--wide"});
    for (const char* kept : {"PAGING", "FLUSH", "ATOMIC WRITE", "PROVIDER", "CONFIDENCE"}) {
        assert_contains(shown.text, kept);
    }
}

TEST(pipe__columns_set__whole_and_without_colours) {
    setenv("COLUMNS", "20", 1);
    const Ran ran = run({"--root", server().root(), "devices"});
    unsetenv("COLUMNS");
    assert_contains(ran.out, "DEVICE  DRIVER");
    assert_contains(ran.out, "PAGING");
    assert_lacks(ran.out, "\x1b");
}

TEST(terminal_without_size__columns__is_taken) {
    assert_fits(devices_at(0, {{"COLUMNS", "40"}}).text, 40);
    assert_fits(devices_at(0, {{"COLUMNS", "many"}}).text, 80);
    assert_lacks(devices_at(0, {{"COLUMNS", "0"}}).text, "PAGING");
}

TEST(wrapped_column__40_columns__breaks_at_spaces) {
    const Machine machine("x86-server");
    const Shown shown = run_at(40, {"--root", machine.root(), "provider", "status"});
    assert_int_equal(shown.status, 0);
    assert_contains(shown.text, "a recorded");
    const std::string table = shown.text.substr(shown.text.find("DEVICE"));
    assert_fits(table, 40);
    assert_lacks(table, "PROVIDER");
    assert_contains(table, "nothing");
}

TEST(colours__only_on_terminals_that_have_them) {
    assert_contains(devices_at(120).text, "\x1b[1m");
    assert_lacks(devices_at(120, {{"NO_COLOR", "1"}}).text, "\x1b");
    assert_lacks(devices_at(120, {{"TERM", "dumb"}}).text, "\x1b");
    assert_lacks(devices_at(120, {}, {"--color", "never"}).text, "\x1b");
    assert_contains(devices_at(120, {{"NO_COLOR", "1"}}, {"--color", "always"}).text, "\x1b[1m");
    const Ran ran = run({"--root", server().root(), "devices", "--color=always"});
    assert_contains(ran.out, "\x1b[1m");
    assert_int_equal(run({"devices", "--color", "blue"}).status, 2);
}

TEST(doctor__colours_and_width__as_everywhere) {
    const Machine machine("x86-server");
    const Shown shown = run_at(60, {"--root", machine.root(), "doctor"});
    assert_contains(shown.text, "\x1b[3");
    assert_lacks(run_at(60, {"--root", machine.root(), "doctor"}, {{"TERM", "dumb"}}).text, "\x1b");
    std::istringstream lines(without_colours(shown.text));
    for (std::string line; std::getline(lines, line);) {
        // A word may be wider, and a command isn't broken within one.
        assert_true(line.size() <= 60 || line.find_last_of(' ') < 60);
    }
}

TEST(hostile_value__terminal__its_commands_are_shown) {
    const Shown shown =
        run_at(400, {"config", "--color", "never"}, {{"SLUICE_UROCE_PCAP", "/tmp/\x1b]0;x\x07"}});
    assert_lacks(shown.text, "\x1b");
    assert_lacks(shown.text, "\x07");
    assert_contains(shown.text, "/tmp/\\x1b]0;x\\x07");
}

} // namespace

int main() {
    return sluice::test::run_all_tests("tools.terminal");
}
