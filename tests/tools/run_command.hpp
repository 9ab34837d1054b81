// SPDX-License-Identifier: BSD-3-Clause
//
// Runs the `sluice` command and looks at what it prints. Included last: cmocka's macro fail() is also
// a name in <fstream>.
#pragma once

#include <fcntl.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/cmocka.hpp"
#include "tests/machine.hpp"

namespace sluice::test {

using Json = nlohmann::json;

struct Ran {
    int status;
    std::string out;
    std::string err;
};

inline std::string content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    return content.str();
}

inline Ran run_program(const std::string& program, std::vector<std::string> arguments) {
    Machine scratch; // for what it prints
    const std::string out = scratch.root() + "/out";
    const std::string err = scratch.root() + "/err";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    arguments.insert(arguments.begin(), "sluice");
    std::vector<char*> pointers;
    for (std::string& argument : arguments) {
        pointers.push_back(argument.data());
    }
    pointers.push_back(nullptr);
    pid_t child = 0;
    assert_int_equal(posix_spawn(&child, program.c_str(), &actions, nullptr, pointers.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return {WEXITSTATUS(status), content_of(out), content_of(err)};
}

inline Ran run(std::vector<std::string> arguments) {
    return run_program(TEST_COMMAND, std::move(arguments));
}

// Whether every user may enter the directories above PATH.
inline bool strangers_reach(const char* path) {
    bool reachable = true;
    for (std::filesystem::path at = path; at.has_relative_path(); at = at.parent_path()) {
        const auto mode = std::filesystem::status(at).permissions();
        reachable = reachable && (mode & std::filesystem::perms::others_exec) != std::filesystem::perms::none;
    }
    return reachable;
}

// The command with the rights of a user nobody, run by root. Nothing where that can't be: without
// root or that user, or in a build tree, which the copy loads its libraries from, that a stranger
// may not enter.
inline std::optional<Ran> run_setuid(std::vector<std::string> arguments) {
#ifdef TEST_LIBRARIES_BESIDE
    print_message("this command finds its libraries beside itself, where a setuid program doesn't look\n");
    return std::nullopt;
#endif
    const passwd* nobody = getpwnam("nobody");
    if (geteuid() != 0 || nobody == nullptr || !strangers_reach(TEST_COMMAND)) {
        print_message("needs root, a user nobody, and a build tree that everybody may enter\n");
        return std::nullopt;
    }
    const std::string copy = "/tmp/sluice-setuid-" + std::to_string(getpid());
    std::filesystem::copy_file(TEST_COMMAND, copy);
    const bool ready =
        chown(copy.c_str(), nobody->pw_uid, nobody->pw_gid) == 0 && chmod(copy.c_str(), 04755) == 0;
    Ran ran = ready ? run_program(copy, std::move(arguments)) : Ran{-1, "", "no copy could be made"};
    unlink(copy.c_str());
    return ran;
}

inline void assert_status(const Ran& ran, int status) {
    if (ran.status != status) {
        fail_msg("exit status %d instead of %d: %s", ran.status, status, ran.err.c_str());
    }
}

inline void assert_contains(const std::string& text, const std::string& part) {
    if (text.find(part) == std::string::npos) {
        fail_msg("'%s' is not in: %s", part.c_str(), text.c_str());
    }
}

inline void assert_lacks(const std::string& text, const std::string& part) {
    if (text.find(part) != std::string::npos) {
        fail_msg("'%s' is in: %s", part.c_str(), text.c_str());
    }
}

// The words of the line of TEXT that begins with WORD.
inline std::vector<std::string> row(const std::string& text, const std::string& word) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::vector<std::string> row;
        for (std::string next; words >> next;) {
            row.push_back(next);
        }
        if (!row.empty() && row[0] == word) {
            return row;
        }
    }
    fail_msg("no line begins with '%s' in: %s", word.c_str(), text.c_str());
    return {};
}

inline Json json_of(const Ran& ran) {
    Json document = Json::parse(ran.out, nullptr, false);
    if (document.is_discarded()) {
        fail_msg("no JSON: %s", ran.out.c_str());
    }
    assert_int_equal(document["schema"], 1);
    return document;
}

} // namespace sluice::test
