// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice sync run`: programs that are right, and the same with one call forgotten.
#include <algorithm>
#include <cstdlib>
#include <fstream>

// Last: its macros are common words.
#include "tests/tools/run_command.hpp"

using namespace sluice::test;

namespace {

struct Scenario {
    const char* memory;
    const char* name;
    int calls; // that can be forgotten
};

// The ways to call, through a file; and the ways to get at memory.
constexpr Scenario kScenarios[] = {
    {"file", "range", 4},         {"file", "both", 4},         {"file", "persist", 4},
    {"file", "copy", 4},          {"file", "batch", 4},        {"file", "both-batch", 4},
    {"file", "persist-batch", 4}, {"file", "fork", 4},         {"file", "dlclose", 4},
    {"read-only", "range", 4},    {"memfd", "range", 4},       {"parts", "range", 4},
    {"file", "take-over", 3},     {"file", "leave-behind", 1}, {"late", "range", 4},
};
constexpr unsigned kSeeds = 4;

Ran run_hosts(std::vector<std::string> options, const Scenario& scenario, int forgotten) {
    const Machine scratch;
    std::vector<std::string> arguments = {"sync", "run", "--timeout", "60"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    for (const std::string& word :
         {std::string("--"), std::string(TEST_SHARER), scratch.root(), std::string(scenario.memory),
          std::string(scenario.name), std::to_string(forgotten)}) {
        arguments.push_back(word);
    }
    return run_program(TEST_COMMAND, std::move(arguments));
}

void expect(const Ran& ran, int status, const Scenario& scenario, int forgotten, unsigned seed) {
    if (ran.status != status) {
        fail_msg("%s, %s, without call %d, seed %u: exit status %d instead of %d: %s%s", scenario.memory,
                 scenario.name, forgotten, seed, ran.status, status, ran.out.c_str(), ran.err.c_str());
    }
}

TEST(right_programs__any_seed__pass) {
    for (const Scenario& scenario : kScenarios) {
        for (unsigned seed = 1; seed <= kSeeds; ++seed) {
            expect(run_hosts({"--seed", std::to_string(seed)}, scenario, 0), 0, scenario, 0, seed);
        }
    }
}

TEST(command__that_isnt_there__is_told_alone) {
    const Ran ran = run({"sync", "run", "--", "no-such-program"});
    assert_int_equal(ran.status, 127);
    assert_contains(ran.err, "no directory of PATH has such a program");
    assert_lacks(ran.err, "nothing was tried");
    assert_lacks(ran.err, "seed");
}

TEST(right_programs__with_evictions__pass) {
    for (const Scenario& scenario : kScenarios) {
        expect(run_hosts({"--seed", "5", "--evict", "50"}, scenario, 0), 0, scenario, 0, 5);
    }
}

// What `sluice check` would be told of them: ADR 93.
TEST(right_programs__watched__nothing_is_found) {
    const Machine scratch;
    const std::string found = std::string(scratch.root()) + "/found";
    std::ofstream(found).close();
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread
    assert_int_equal(setenv("SLUICE_CHECK", ("full:" + found).c_str(), 1), 0);
    for (const Scenario& scenario : kScenarios) {
        expect(run_hosts({"--seed", "1"}, scenario, 0), 0, scenario, 0, 1);
        expect(run_hosts({"--seed", "5", "--evict", "50"}, scenario, 0), 0, scenario, 0, 5);
        if (std::ifstream(found).peek() != std::ifstream::traits_type::eof()) {
            fail_msg("%s, %s: something is found", scenario.memory, scenario.name);
        }
    }
    unsetenv("SLUICE_CHECK"); // NOLINT(concurrency-mt-unsafe): as above
}

TEST(one_call_forgotten__any_seed__fails) {
    for (const Scenario& scenario : kScenarios) {
        for (int forgotten = 1; forgotten <= scenario.calls; ++forgotten) {
            const auto seed = static_cast<unsigned>(forgotten) + kSeeds;
            const Ran ran = run_hosts({"--seed", std::to_string(seed)}, scenario, forgotten);
            expect(ran, 1, scenario, forgotten, seed);
            assert_contains(ran.out, "wrong: ");
            assert_contains(ran.err, "the seed was " + std::to_string(seed) + "\n");
        }
    }
}

TEST(one_call_forgotten__many_seeds__fails_each_time) {
    for (const Scenario& scenario : {kScenarios[0], Scenario{"file", "take-over", 3}}) {
        for (int forgotten = 1; forgotten <= scenario.calls; ++forgotten) {
            for (unsigned seed = 20; seed < 20 + kSeeds; ++seed) {
                expect(run_hosts({"--seed", std::to_string(seed)}, scenario, forgotten), 1, scenario,
                       forgotten, seed);
            }
        }
    }
}

TEST(file_with_contents__in_each_cache_until_it_is_dropped) {
    constexpr Scenario kStay{"filled", "stay", 0};
    expect(run_hosts({}, kStay, 0), 0, kStay, 0, 0);
}

TEST(line_that_nobody_cleans__is_seen_with_evictions_alone) {
    constexpr Scenario kKeepBack{"file", "keep-back", 0};
    expect(run_hosts({"--seed", "1"}, kKeepBack, 0), 0, kKeepBack, 0, 1);
    expect(run_hosts({"--seed", "1", "--evict", "1000"}, kKeepBack, 0), 1, kKeepBack, 0, 1);
}

TEST(two_writers_of_a_line__any_seed__lose_a_byte) {
    constexpr Scenario kOneLine{"file", "one-line", 0};
    for (unsigned seed = 1; seed <= kSeeds; ++seed) {
        expect(run_hosts({"--seed", std::to_string(seed)}, kOneLine, 0), 1, kOneLine, 0, seed);
    }
}

TEST(two_writers_of_a_line__watched__the_line_is_named) {
    constexpr Scenario kOneLine{"file", "one-line", 0};
    const Machine scratch;
    const std::string found = std::string(scratch.root()) + "/found";
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread
    assert_int_equal(setenv("SLUICE_CHECK", ("full:" + found).c_str(), 1), 0);
    for (unsigned seed = 1; seed <= kSeeds; ++seed) {
        std::ofstream(found).close();
        expect(run_hosts({"--seed", std::to_string(seed)}, kOneLine, 0), 1, kOneLine, 0, seed);
        const std::string text{std::istreambuf_iterator<char>(std::ifstream(found).rdbuf()), {}};
        assert_contains(text, "rule line-stored-by-two-hosts\n");
    }
    unsetenv("SLUICE_CHECK"); // NOLINT(concurrency-mt-unsafe): as above
}

TEST(bad_input__an_error_and_nothing_touched) {
    constexpr Scenario kBad{"file", "bad", 0};
    expect(run_hosts({}, kBad, 0), 0, kBad, 0, 0);
}

TEST(file_that_became_shorter__its_lines_stay_and_each_host_says_so_once) {
    constexpr Scenario kShorter{"file", "shorter", 0};
    const Ran ran = run_hosts({}, kShorter, 0);
    expect(ran, 0, kShorter, 0, 0);
    for (const std::string host : {"[0] ", "[1] "}) {
        const std::string line = host + "sluice: warning: hosts: a range lies behind the end of its file";
        assert_contains(ran.err, line);
        assert_int_equal(ran.err.find(line), ran.err.rfind(line));
    }
}

TEST(nothing_shared__says_so) {
    const Ran ran = run({"sync", "run", "--", "true"});
    assert_status(ran, 0);
    assert_contains(ran.err, "no host has mapped a file to share it");
}

constexpr const char* kMapOnly = R"(import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.truncate(file, 4096)
mmap.mmap(file, 4096)[0] = 1)";

TEST(no_call__says_which_host) {
    const Machine scratch;
    const std::string file = scratch.root() + "/memory";
    const Ran ran = run({"sync", "run", "--", "python3", "-c", kMapOnly, file});
    assert_status(ran, 0);
    assert_contains(ran.err, "host 0 has called no function of libsluice-sync");
    assert_contains(ran.err, "host 1 has called no function of libsluice-sync");
    assert_true(content_of(file) == std::string(4096, '\0')); // nobody has cleaned
}

// A file of so many MiB, of which one page is used; what the file takes in the end may be a tenth.
constexpr const char* kMapMuch = R"(import mmap, os, sys
size = int(sys.argv[1]) << 20
file = os.memfd_create("much")
os.truncate(file, size)
try:
    mmap.mmap(file, size)[size // 2] = 1
except OSError as error:
    sys.exit(error.errno)
sys.exit(os.fstat(file).st_blocks * 512 > size // 10))";

TEST(sparse_file__nobody_gives_it_memory) {
    const Ran ran = run({"sync", "run", "--timeout", "60", "--", "python3", "-c", kMapMuch, "8"});
    assert_status(ran, 0);
}

TEST(more_than_there_is_room_for__ENOMEM_and_the_reason) {
    const Ran ran = run({"sync", "run", "--timeout", "60", "--", "python3", "-c", kMapMuch, "8388608"});
    assert_status(ran, ENOMEM);
    assert_contains(ran.err, "images of a file that hosts share may need");
}

TEST(static_program__says_once_that_it_is_not_seen) {
    const Ran ran = run({"sync", "run", "--", TEST_STATIC});
    assert_contains(ran.err, TEST_STATIC " is linked statically");
    assert_contains(ran.err, "may be on a simulated host");
    assert_int_equal(ran.err.find("linked statically"), ran.err.rfind("linked statically"));
}

TEST(facts__in_arguments_and_variables_alike) {
    const Ran ran =
        run({"sync", "run", "--hosts", "3", "--", "sh", "-c",
             R"(test "$1 $2" = "$SYNC_HOST $SYNC_HOSTS" && test $2 = 3)", "sh", "{host}", "{hosts}"});
    assert_status(ran, 0);
}

TEST(images__gone_after_the_run) {
    const Ran ran = run({"sync", "run", "--", "sh", "-c", "echo ${SLUICE_SYNC_HOST##*:}"});
    assert_status(ran, 0);
    const std::string path = ran.out.substr(ran.out.find('/'), ran.out.find('\n') - ran.out.find('/'));
    assert_true(path.find("/sluice-hosts-") != std::string::npos);
    assert_false(std::filesystem::exists(path));
}

TEST(images__without_TMPDIR__in_memory) {
    const char* const chosen = std::getenv("TMPDIR");
    const std::string former = chosen != nullptr ? chosen : "";
    unsetenv("TMPDIR");
    const Ran ran = run({"sync", "run", "--", "sh", "-c", "echo ${SLUICE_SYNC_HOST##*:}"});
    if (chosen != nullptr) {
        setenv("TMPDIR", former.c_str(), 1);
    }
    assert_contains(ran.out, "[0] /dev/shm/sluice-hosts-");
}

TEST(wrong_command_line__2) {
    const std::vector<std::vector<std::string>> wrong = {
        {"--"},
        {"--hosts", "1", "--", "true"},
        {"--hosts", "9", "--", "true"},
        {"--seed", "red", "--", "true"},
        {"--evict", "1001", "--", "true"},
        {"--timeout", "0", "--", "true"},
        {"--json", "--", "true"},
        {"--", "true", ":"},
    };
    for (std::vector<std::string> arguments : wrong) {
        arguments.insert(arguments.begin(), {"sync", "run"});
        const Ran ran = run(arguments);
        assert_status(ran, 2);
        assert_true(ran.err.starts_with("sluice: "));
    }
}

} // namespace

int main() {
    return run_all_tests();
}
