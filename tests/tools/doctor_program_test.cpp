// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice doctor -- COMMAND`: what is wrong with a program, and with the way it was called.
#include "tests/tools/patient.hpp"

using namespace sluice::test;

namespace {

// A directory in which programs may be executed, unlike in /dev/shm of many containers.
class Workshop {
  public:
    Workshop() {
        path_ = (std::filesystem::temp_directory_path() / "sluice-doctor-XXXXXX").string();
        assert_non_null(mkdtemp(path_.data()));
    }
    ~Workshop() { std::filesystem::remove_all(path_); }
    Workshop(const Workshop&) = delete;
    Workshop& operator=(const Workshop&) = delete;

    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

TEST(program__that_ends_well__is_ok) {
    Patient patient;
    if (!patient.can_live()) {
        skip();
    }
    const Json findings = patient.examine("-- sh -c 'exit 0'");
    assert_false(find_finding(findings, "program", "ok", "ended with status 0").is_null());
    assert_string_equal(patient.status().c_str(), "0\n");
}

TEST(program__that_fails_for_another_reason__its_last_words_are_told) {
    Patient patient;
    if (!patient.can_live()) {
        skip();
    }
    const Json findings = patient.examine("-- sh -c 'echo it is Monday >&2; exit 3'");
    const Json named = find_finding(findings, "program", "problem", "status 3; its last words: it is Monday");
    assert_false(named.is_null());
    assert_true(named["remedy"].is_null());
    assert_string_equal(patient.status().c_str(), "1\n");
}

TEST(program__that_lacks_a_gid__is_called_with_one) {
    Patient patient;
    if (!patient.can_live()) {
        skip();
    }
    const Json findings =
        patient.examine("-- sh -c 'echo Failed to modify QP to RTR >&2; exit 1' ibv_rc_pingpong 10.0.0.1");
    const Json named = find_finding(findings, "program", "problem", "RoCE needs a GID");
    assert_false(named.is_null());
    assert_true(named["remedy"].get<std::string>().ends_with(" ibv_rc_pingpong 10.0.0.1 -g 0"));
}

TEST(program__on_a_recorded_machine__is_refused) {
    const Ran ran = run({"--root", "/", "doctor", "--", "true"});
    assert_int_equal(ran.status, 2);
    assert_contains(ran.err, "sluice: doctor: --root has no meaning for a command");
}

TEST(program__not_installed__named) {
    Patient patient;
    if (!patient.can_live()) {
        skip();
    }
    const Json findings = patient.examine("-- no-such-program --json");
    assert_false(find_finding(findings, "program", "problem", "no program 'no-such-program'").is_null());
}

TEST(program__not_installed_and_known__its_package_is_named) {
    Patient patient;
    if (!patient.can_live() || access("/usr/bin/apt-get", X_OK) != 0 ||
        access("/usr/bin/ib_acme", F_OK) == 0) {
        skip();
    }
    const Json named =
        find_finding(patient.examine("-- ib_acme -h"), "program", "problem", "no program 'ib_acme'");
    assert_false(named.is_null());
    assert_true(named["remedy"].get<std::string>().ends_with("apt-get install -y ibacm"));
}

TEST(program__linked_statically__named_and_run) {
    Patient patient;
    if (!patient.can_live()) {
        skip();
    }
    const Json findings = patient.examine("-- " TEST_STATIC);
    assert_false(find_finding(findings, "program", "warning", "is linked statically").is_null());
    assert_false(find_finding(findings, "program", "ok", "ended with status 0").is_null());
}

TEST(program__may_not_be_executed__named_and_cured) {
    const Workshop workshop;
    const std::string program = workshop.path() + "/program";
    name_and_cure(
        {"echo '#!/bin/sh' >" + program, "program", "problem", "may not be executed", "-- " + program});
}

TEST(program__library_in_a_directory_beside__named_and_cured) {
    name_and_cure(
        {"", "program", "problem", "needs libtest_near.so, which the loader doesn't find", "-- " TEST_FAR});
}

// Only root may give a file to somebody else.
TEST(program__setuid__named_and_cured) {
    if (geteuid() != 0) {
        skip();
    }
    const Workshop workshop;
    const std::string program = workshop.path() + "/program";
    std::filesystem::copy_file("/bin/true", program);
    assert_int_equal(chown(program.c_str(), 65534, 65534), 0);
    assert_int_equal(chmod(program.c_str(), 04755), 0);
    name_and_cure({.break_it = "cd " + workshop.path(),
                   .subject = "program",
                   .verdict = "problem",
                   .fact = "runs as its file's owner (setuid)",
                   .arguments = "-- " + program,
                   .is_run_again = true});
}

TEST(program__finds_no_device__named_and_cured) {
    if (access("/usr/bin/ibv_devinfo", X_OK) != 0) {
        print_message("ibv_devinfo is not installed (scripts/packages install programs)\n");
        skip();
    }
    name_and_cure({.break_it = "",
                   .subject = "program",
                   .verdict = "problem",
                   .fact = "libibverbs",
                   .arguments = "-- ibv_devinfo",
                   .is_run_again = true});
}

} // namespace
