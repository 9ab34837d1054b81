// SPDX-License-Identifier: BSD-3-Clause
//
// A shell that is broken on purpose, in namespaces of its own, and cured by what `sluice doctor` prints.
// Included last, as run_command.hpp.
#pragma once

#include <string>

#include "tests/tools/run_command.hpp"

namespace sluice::test {

class Patient {
  public:
    // Healthy: an empty network but for lo, a home in $HOME, an /etc that may be changed, and `sluice` on the
    // path.
    Patient() {
        int to_shell[2];
        int from_shell[2];
        assert_int_equal(pipe2(to_shell, O_CLOEXEC), 0);
        assert_int_equal(pipe2(from_shell, O_CLOEXEC), 0);
        start(to_shell[0], from_shell[1]);
        close(to_shell[0]);
        close(from_shell[1]);
        to_ = to_shell[1];
        from_ = fdopen(from_shell[0], "r");
        say("unset ${!SLUICE_@} ${!DAT_@} LD_PRELOAD LD_LIBRARY_PATH RDMAV_DRIVERS IBV_DRIVERS SYSFS_PATH "
            "NO_COLOR");
        say("export HOME=" + home_.root() + " PATH=" + directory_of_command() + ":$PATH; cd; hash -r");
        say("echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6"); // new addresses take seconds there
        say("mkdir etc && cp -r /etc/ld.so* /etc/libibverbs.d /etc/passwd /etc/group etc");
        can_live_ =
            say("ip link set lo up && mount --bind etc /etc && mount -t sysfs none /sys && echo ready")
                .starts_with("ready");
    }
    ~Patient() {
        close(to_);
        (void)fclose(from_);
        (void)waitpid(shell_, nullptr, 0);
    }
    Patient(const Patient&) = delete;
    Patient& operator=(const Patient&) = delete;

    // False where no such namespaces are to be had.
    bool can_live() const { return can_live_; }

    // What the shell prints for SCRIPT; it keeps what SCRIPT sets.
    std::string say(const std::string& script) {
        const std::string end = "--- end of an answer ---";
        const std::string line = script + "\necho '" + end + "'\n";
        assert_int_equal(write(to_, line.data(), line.size()), line.size());
        std::string answer;
        char* text = nullptr;
        std::size_t size = 0;
        while (getline(&text, &size, from_) >= 0 && !std::string(text).starts_with(end)) {
            answer += text;
        }
        free(text);
        return answer;
    }

    // The findings of `sluice doctor ARGUMENTS`, and what it ended with.
    Json examine(const std::string& arguments = "") {
        const Json document =
            Json::parse(say("sluice doctor --json " + arguments + " 2>/dev/null; status=$?"), nullptr, false);
        assert_false(document.is_discarded());
        return document["findings"];
    }
    std::string status() { return say("echo $status"); }

  private:
    static std::string directory_of_command() {
        return std::filesystem::path(TEST_COMMAND).parent_path().string();
    }

    void start(int in, int out) {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in, 0);
        posix_spawn_file_actions_adddup2(&actions, out, 1);
        posix_spawn_file_actions_adddup2(&actions, out, 2);
        const char* const command[] = {"unshare", "-Urnm", "bash", "--norc", nullptr};
        assert_int_equal(
            posix_spawnp(&shell_, command[0], &actions, nullptr, const_cast<char* const*>(command), environ),
            0);
        posix_spawn_file_actions_destroy(&actions);
    }

    Machine home_;
    pid_t shell_ = 0;
    int to_ = -1;
    std::FILE* from_ = nullptr;
    bool can_live_ = false;
};

// The finding about SUBJECT with that verdict and FACT in its text; null if there is none.
inline Json find_finding(const Json& findings, const char* subject, const char* verdict, const char* fact) {
    for (const Json& finding : findings) {
        if (finding["subject"] == subject && finding["verdict"] == verdict &&
            finding["fact"].get<std::string>().find(fact) != std::string::npos) {
            return finding;
        }
    }
    return nullptr;
}

// One set-up: how a shell comes to it, and what the doctor is to say.
struct SetUp {
    std::string break_it;
    const char* subject;
    const char* verdict;
    const char* fact;
    std::string arguments{};         // of the doctor
    const char* settle = "";         // waits until what the remedy began has happened
    const char* last_status = "0\n"; // of the doctor, when it is cured
    bool is_run_again = false; // the remedy is another way to run the program: it is cured if that succeeds
};

// The doctor names what BREAK_IT did, its command is executed as it is printed, and it finds nothing any
// more.
inline void name_and_cure(const SetUp& set_up) {
    Patient patient;
    if (!patient.can_live()) {
        print_message("no user and network namespaces are to be had here\n");
        skip();
    }
    print_message("%s", patient.say(set_up.break_it).c_str());
    const Json findings = patient.examine(set_up.arguments);
    const Json named = find_finding(findings, set_up.subject, set_up.verdict, set_up.fact);
    if (named.is_null() || !named["remedy"].is_string()) {
        fail_msg("not named, or without a command: %s", findings.dump(1).c_str());
    }
    assert_string_equal(patient.status().c_str(), named["verdict"] == "problem" ? "1\n" : "0\n");
    print_message("%s", patient.say(named["remedy"].get<std::string>() + "\nstatus=$?").c_str());
    const std::string status = patient.status();
    if (set_up.is_run_again) {
        assert_string_equal(status.c_str(), "0\n");
        return;
    }
    patient.say(set_up.settle);
    const Json after = patient.examine(set_up.arguments);
    if (!find_finding(after, set_up.subject, set_up.verdict, set_up.fact).is_null() ||
        patient.status() != set_up.last_status) {
        fail_msg("'%s' didn't cure it: %s", named["remedy"].get<std::string>().c_str(),
                 after.dump(1).c_str());
    }
}

} // namespace sluice::test

// A set-up that is named and cured: SET_UP(name, {...});
#define SET_UP(name, ...)                                                                                    \
    TEST(name) {                                                                                             \
        ::sluice::test::name_and_cure(__VA_ARGS__);                                                          \
    }
