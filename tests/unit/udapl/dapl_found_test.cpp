// SPDX-License-Identifier: BSD-3-Clause
//
// What `sluice check` is told of programs on simulated memory: of those that forget one thing the call and
// the bytes, of those that keep the contract nothing. Each runs in a process of its own, since a place in a
// program is reported once.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/unit/udapl/dapl_contract.hpp"

using namespace sluice::dapl::test;

// As the layer of `sluice check` has it, which opens pages before system calls. There are none on them here.
extern "C" [[gnu::visibility("default")]] void sluice_check_on_buffers(void (*)(const void*, std::size_t,
                                                                                int));
extern "C" void sluice_check_on_buffers(void (*)(const void*, std::size_t, int)) {}

namespace {

constexpr std::size_t kLine = 64;

std::string& found_path() {
    static std::string path;
    return path;
}

// The coherence timeline, which is recorded beside.
std::string& timeline_path() {
    static std::string path;
    return path;
}

std::string content_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

// What was found of PROGRAM, which ends with its own status.
template<typename Program>
std::string found_of(const Program& program) {
    assert_int_equal(truncate(found_path().c_str(), 0), 0);
    assert_int_equal(truncate(timeline_path().c_str(), 0), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        std::exit(program() ? EXIT_SUCCESS : EXIT_FAILURE); // NOLINT(concurrency-mt-unsafe): the only thread
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_SUCCESS);
    return content_of(found_path());
}

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        ++count;
    }
    return count;
}

// The bytes that a report has to name, both included.
struct Expected {
    const char* rule;
    std::size_t first;
    std::size_t end;
};

Expected expected_of(Mistake mistake, std::size_t offset, std::size_t length) {
    const auto down = [](std::size_t at) { return at / kLine * kLine; };
    const auto up = [&](std::size_t at) { return down(at + kLine - 1); };
    switch (mistake) {
    case Mistake::kNoSyncBeforeRead:
    case Mistake::kSyncBeforeStore:
        return {"sync-read-missing", offset, offset + length};
    case Mistake::kWrongRangeForRead: // up to where the wrong range begins
        return {"sync-read-missing", offset, std::min(offset + length, down(2048 + offset / 2))};
    case Mistake::kRangeTooShortForWrite:
        return {"sync-write-missing", up(offset + length - 100), up(offset + length)};
    case Mistake::kStoreBeforeSync:
        return {"sync-write-missing", down(offset + length / 2), down(offset + length / 2) + kLine};
    default:
        return {"sync-write-missing", down(offset), up(offset + length)};
    }
}

// The timeline has the finding, at the same bytes: "mistake PID REGION RULE TIME SINCE FIRST END STACK CALL".
void must_be_on_the_timeline(const Expected& expected) {
    std::istringstream lines(content_of(timeline_path()));
    std::size_t mistakes = 0;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string word;
        std::string rule;
        std::uint64_t pid = 0;
        std::uint64_t region = 0;
        std::uint64_t time = 0;
        std::uint64_t since = 0;
        std::size_t first = 0;
        std::size_t end = 0;
        if (words >> word >> pid >> region >> rule >> time >> since >> first >> end && word == "mistake") {
            ++mistakes;
            assert_string_equal(rule.c_str(), expected.rule);
            assert_int_equal(first, expected.first);
            assert_int_equal(end, expected.end);
        }
    }
    assert_true(mistakes >= 1); // a finding is written once for its places, this each time
}

void must_be_named(unsigned seed, Mistake mistake) {
    std::size_t offset = 0;
    std::size_t length = 0;
    {
        std::mt19937 random(seed); // as Programs draws them
        offset = random() % 1500;
        length = 200 + random() % 1000;
    }
    const std::string found = found_of([&] {
        Pair pair;
        pair.connect();
        return !Programs(pair, seed, mistake).run();
    });
    const Expected expected = expected_of(mistake, offset, length);
    const std::string range =
        ", bytes " + std::to_string(expected.first) + " to " + std::to_string(expected.end) + "\n";
    if (count_of(found, "finding 1\n") != 1 ||
        found.find("rule " + std::string(expected.rule) + "\n") == std::string::npos ||
        found.find(range) == std::string::npos) {
        fail_msg("seed %u, mistake %u, which is%s is found as: %s", seed, static_cast<unsigned>(mistake),
                 range.c_str(), found.c_str());
    }
    must_be_on_the_timeline(expected);
}

// uroce's guard takes the faults' handler whenever memory is registered, and finds ours there.
TEST(guard__taken_over_behind_ours__load_is_found_all_the_same) {
    const std::string found = found_of([] {
        Pair pair;
        pair.connect();
        Programs programs(pair, 1, Mistake::kNoSyncAfterWrite, [&] {
            const Block another(pair.active.opened, pair.active.pz);
            return another.status == DAT_SUCCESS;
        });
        return !programs.run();
    });
    assert_int_equal(count_of(found, "rule sync-write-missing\n"), 1);
}

TEST(contract__kept__nothing_is_found) {
    const std::string found = found_of([] {
        Pair pair;
        pair.connect();
        for (unsigned seed = 1; seed <= kSeeds; ++seed) {
            Programs programs(pair, seed, Mistake::kNone);
            if (!programs.serve_read() || !programs.take_write() || !programs.serve_read()) {
                return false;
            }
        }
        return true;
    });
    assert_string_equal(found.c_str(), "");
    const std::string timeline = content_of(timeline_path());
    assert_int_equal(count_of(timeline, "\nmistake "), 0);
    assert_true(count_of(timeline, " dat_lmr_sync_rdma_write\n") >= kSeeds);
    assert_int_equal(count_of(timeline, "\nlost "), 0);
}

TEST(contract__one_thing_forgotten__call_and_bytes_are_named) {
    constexpr auto kMistakes = static_cast<unsigned>(Mistake::kEnd) - 1;
    for (unsigned seed = 1; seed <= kSeeds; ++seed) {
        must_be_named(seed, static_cast<Mistake>(1 + seed % kMistakes));
    }
}

} // namespace

int main() {
    char path[] = "/tmp/sluice-found-XXXXXX";
    char beside[] = "/tmp/sluice-found-XXXXXX";
    const int file = mkstemp(path);
    const int file_beside = mkstemp(beside);
    if (file < 0 || file_beside < 0) {
        return EXIT_FAILURE;
    }
    close(file);
    close(file_beside);
    found_path() = path;
    timeline_path() = beside;
    // NOLINTBEGIN(concurrency-mt-unsafe): there is no other thread yet
    setenv("SLUICE_COHERENCE", "simulated", 1);
    setenv("SLUICE_CHECK", ("full:" + found_path()).c_str(), 1);
    setenv("SLUICE_TIMELINE", ("100000:" + timeline_path()).c_str(), 1);
    // NOLINTEND(concurrency-mt-unsafe)
    print_message("seeds 1 to %u\n", kSeeds);
    const int status = sluice::test::run_all_tests();
    unlink(path);
    unlink(beside);
    return status;
}
