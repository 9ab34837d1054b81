// SPDX-License-Identifier: BSD-3-Clause
//
// Runs the `sluice` command on a terminal of its own.
#pragma once

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "tests/tools/run_command.hpp"

namespace sluice::test {

using Variables = std::map<std::string, std::string>;

struct Shown {
    int status;
    std::string text;
};

inline std::string read_terminal(int terminal) {
    std::string text;
    char piece[4096];
    // The other end's closing is an error, EIO.
    for (ssize_t bytes = 0; (bytes = read(terminal, piece, sizeof piece)) > 0;) {
        text.append(piece, static_cast<std::size_t>(bytes));
    }
    std::erase(text, '\r');
    return text;
}

[[noreturn]] inline void become_command(const Variables& variables, std::vector<std::string>& arguments) {
    for (const char* name : {"NO_COLOR", "COLUMNS", "SLUICE_LOG", "SLUICE_COHERENCE"}) {
        unsetenv(name);
    }
    setenv("TERM", "xterm", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    for (const auto& [name, value] : variables) {
        setenv(name.c_str(), value.c_str(), 1);
    }
    std::vector<char*> pointers;
    for (std::string& argument : arguments) {
        pointers.push_back(argument.data());
    }
    pointers.push_back(nullptr);
    execv(TEST_COMMAND, pointers.data());
    _exit(127);
}

// On a terminal of COLUMNS columns; 0: it doesn't know.
inline Shown run_at(unsigned short columns, std::vector<std::string> arguments,
                    const Variables& variables = {}) {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = columns;
    arguments.insert(arguments.begin(), "sluice");
    int terminal = -1;
    const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
    assert_true(child >= 0);
    if (child == 0) {
        become_command(variables, arguments);
    }
    const std::string text = read_terminal(terminal);
    close(terminal);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return {WEXITSTATUS(status), text};
}

} // namespace sluice::test
