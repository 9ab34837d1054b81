// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice run --pair` and `--ranks`: copies of a command that find each other.
#include <algorithm>

// Last: its macros are common words.
#include "tests/tools/run_command.hpp"

using namespace sluice::test;

namespace {

Ran run_copies(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "run");
    return run_program(TEST_COMMAND, std::move(arguments));
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(line);
    }
    std::ranges::sort(lines);
    return lines;
}

TEST(ranks__facts__in_arguments_and_variables_alike) {
    const Ran ran = run_copies(
        {"--ranks", "3", "--", "sh", "-c",
         R"([ "$1 $2 $3 $4 $5" = "$UROCE_RANK $UROCE_RANKS $UROCE_ADDRESS $UROCE_PEER $UROCE_PORT" ] &&
                            [ "$SLUICE_UROCE" = "uroce0=$UROCE_ADDRESS" ] && echo "$1 of $2, ${3##*.} to ${4##*.}")",
         "sh", "{rank}", "{ranks}", "{address}", "{peer}", "{port}"});
    assert_int_equal(ran.status, 0);
    assert_string_equal(ran.err.c_str(), "");
    const std::vector<std::string> expected = {"[0] 0 of 3, 1 to 2", "[1] 1 of 3, 2 to 1",
                                               "[2] 2 of 3, 3 to 1"};
    assert_true(lines_of(ran.out) == expected);
}

TEST(ranks__output__labelled_by_line_and_each_on_its_own_stream) {
    const Ran ran = run_copies({"--pair", "--", "sh", "-c", "printf 'a\\nb'; echo c >&2"});
    assert_int_equal(ran.status, 0);
    assert_true(lines_of(ran.out) == (std::vector<std::string>{"[0] a", "[0] b", "[1] a", "[1] b"}));
    assert_true(lines_of(ran.err) == (std::vector<std::string>{"[0] c", "[1] c"}));
}

TEST(pair__two_commands__one_for_each_rank) {
    const Ran ran =
        run_copies({"--pair", "--", "echo", "server", "{address}", ":", "echo", "client", "{peer}"});
    assert_int_equal(ran.status, 0);
    const std::vector<std::string> lines = lines_of(ran.out);
    assert_int_equal(lines.size(), 2);
    assert_true(lines[0].starts_with("[0] server 127."));
    assert_string_equal(lines[0].substr(11).c_str(), lines[1].substr(11).c_str());
}

TEST(pair__one_fails__its_status_and_the_other_is_ended) {
    const Ran ran =
        run_copies({"--pair", "--", "sh", "-c", "[ $UROCE_RANK = 1 ] && exit 7; exec tail -f /dev/null"});
    assert_int_equal(ran.status, 7);
    assert_contains(ran.err, "sluice: rank 1 ended with status 7: sh");
    assert_contains(ran.err, "sluice: rank 0 still runs; it is ended: sh");
}

TEST(pair__server_fails_before_anybody_connects__the_client_is_not_started) {
    const Ran ran = run_copies({"--pair", "--", "false", ":", "echo", "started"});
    assert_int_equal(ran.status, 1);
    assert_string_equal(ran.out.c_str(), "");
}

TEST(pair__takes_too_long__124) {
    const Ran ran =
        run_copies({"--pair", "--timeout", "1", "--", "sh", "-c", "trap '' TERM; exec tail -f /dev/null"});
    assert_int_equal(ran.status, 124);
    assert_contains(ran.err, "sluice: rank 0 still runs after 1 s; it is ended: sh");
}

TEST(pair__server_listens__its_client_finds_it) {
    constexpr const char* kServer = R"(import socket, sys
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(s.accept()[0].recv(9).decode()))";
    constexpr const char* kClient = R"(import socket, sys
socket.create_connection(("127.0.0.1", int(sys.argv[1]))).send(b"hello"))";
    const Ran ran = run_copies(
        {"--pair", "--", "python3", "-c", kServer, "{port}", ":", "python3", "-c", kClient, "{port}"});
    assert_int_equal(ran.status, 0);
    assert_string_equal(ran.out.c_str(), "[0] hello\n");
}

// As on a machine that is slow, or does other things.
TEST(pair__server_computes_for_longer_than_its_head_start__the_client_waits_for_it) {
    const Ran ran =
        run_copies({"--pair", "--", "python3", "-c",
                    R"(import socket, sys, time
end = time.monotonic() + 1.5
while time.monotonic() < end: pass
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server: server.accept()
)",
                    "{address}", "{port}", ":", "python3", "-c",
                    "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])))", "{peer}",
                    "{port}"});
    assert_string_equal(ran.err.c_str(), "");
    assert_int_equal(ran.status, 0);
}

TEST(pair__command_that_isnt_there__127) {
    const Ran ran = run_copies({"--pair", "--", "/nonexistent/program"});
    assert_int_equal(ran.status, 127);
    assert_contains(ran.err, "/nonexistent/program: No such file or directory");
}

TEST(pair__wrong_command_line__2) {
    const std::vector<std::vector<std::string>> wrong = {
        {"--pair"},
        {"--pair", "--ranks", "2", "--", "true"},
        {"--ranks", "0", "--", "true"},
        {"--ranks", "65", "--", "true"},
        {"--ranks", "two", "--", "true"},
        {"--pair", "--device", "rxe", "--", "true"},
        {"--timeout", "3", "--", "true"},
        {"--pair", "--timeout", "0", "--", "true"},
        {"--pair", "--", "true", ":"},
        {"--pair", "--", ":", "true"},
    };
    for (const auto& arguments : wrong) {
        const Ran ran = run_copies(arguments);
        assert_int_equal(ran.status, 2);
        assert_true(ran.err.starts_with("sluice: "));
    }
}

} // namespace

int main() {
    return run_all_tests();
}
