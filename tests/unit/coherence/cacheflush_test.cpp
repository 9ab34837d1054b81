// SPDX-License-Identifier: BSD-3-Clause
//
// What holds on every architecture, on the CPU that runs this.
#include "core/coherence/cacheflush.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/coherence/choice.hpp"
#include "tests/cmocka.hpp"
#include "tests/unit/coherence/recorder.hpp"

namespace coherence = sluice::coherence;
using coherence::Candidate;
using coherence::LineRun;
using coherence::Ops;
using sluice::ErrorKind;
using sluice::Result;
using sluice::testing::Event;
using sluice::testing::Recorded;
using sluice::testing::Recorder;

namespace {

constexpr std::uintptr_t kTop = ~std::uintptr_t{0};

TEST(lines_of__any_range__first_and_last_line) {
    const LineRun one = coherence::lines_of(127, 1, 64);
    assert_int_equal(one.first, 64);
    assert_int_equal(one.last, 64);
    const LineRun two = coherence::lines_of(127, 2, 64);
    assert_int_equal(two.first, 64);
    assert_int_equal(two.last, 128);
    const LineRun top = coherence::lines_of(kTop, 1, 64);
    assert_int_equal(top.first, kTop - 63);
    assert_int_equal(top.last, kTop - 63);
    const LineRun all = coherence::lines_of(0, kTop, 64);
    assert_int_equal(all.first, 0);
    assert_int_equal(all.last, kTop - 63);
}

TEST(issue__run__every_line_once_and_the_last_too) {
    Recorder recorder;
    const Ops& ops = recorder.ops();
    ops.clean.issue(ops, {64, 192});
    ops.clean.issue(ops, {512, 512});
    ops.clean.issue(ops, {kTop - 127, kTop - 63});
    assert_true((recorder.lines_of(Event::kClean) ==
                 std::vector<std::uintptr_t>{64, 128, 192, 512, kTop - 127, kTop - 63}));
}

TEST(clean__range__fences_around_its_lines) {
    Recorder recorder;
    coherence::clean(recorder.ops(), 100, 100);
    const std::vector<Recorded> expected{{Event::kBeforeClean, 0},
                                         {Event::kClean, 64},
                                         {Event::kClean, 128},
                                         {Event::kClean, 192},
                                         {Event::kAfterClean, 0}};
    assert_true(recorder.events() == expected);
}

TEST(invalidate__range__fences_around_its_lines) {
    Recorder recorder;
    coherence::invalidate(recorder.ops(), 64, 64);
    const std::vector<Recorded> expected{
        {Event::kBeforeInvalidate, 0}, {Event::kInvalidate, 64}, {Event::kAfterInvalidate, 0}};
    assert_true(recorder.events() == expected);
}

TEST(range__no_bytes__fences_only) {
    Recorder recorder;
    coherence::clean(recorder.ops(), 64, 0);
    coherence::invalidate(recorder.ops(), 64, 0);
    const std::vector<Recorded> expected{{Event::kBeforeClean, 0},
                                         {Event::kAfterClean, 0},
                                         {Event::kBeforeInvalidate, 0},
                                         {Event::kAfterInvalidate, 0}};
    assert_true(recorder.events() == expected);
}

constexpr Candidate kCandidates[] = {{"best", false}, {"good", true}, {"poor", true}};

TEST(choose_candidate__nothing_forced__best_present) {
    assert_int_equal(*coherence::choose_candidate(kCandidates, ""), 1);
}

TEST(choose_candidate__weaker_forced__taken) {
    assert_int_equal(*coherence::choose_candidate(kCandidates, "poor"), 2);
}

TEST(choose_candidate__absent_forced__refused_with_what_there_is) {
    const Result<std::size_t> choice = coherence::choose_candidate(kCandidates, "best");
    assert_true(choice.error().kind() == ErrorKind::kNotSupported);
    assert_non_null(std::strstr(choice.error().text(), "SLUICE_CACHEFLUSH=best"));
    assert_non_null(std::strstr(choice.error().text(), "good poor"));
}

TEST(choose_candidate__unknown_forced__refused_with_what_is_known) {
    const Result<std::size_t> choice = coherence::choose_candidate(kCandidates, "wbinvd");
    assert_true(choice.error().kind() == ErrorKind::kInvalidArgument);
    assert_non_null(std::strstr(choice.error().text(), "SLUICE_CACHEFLUSH=wbinvd"));
    assert_non_null(std::strstr(choice.error().text(), "best good poor"));
    assert_false(coherence::choose_candidate(kCandidates, "goo").ok());
}

// What native_ops() answers in a process of its own whose environment says FORCED: the kind of
// the error, or -1 when it chose.
int kind_under(const char* forced) {
    const pid_t child = fork();
    if (child == 0) {
        setenv("SLUICE_CACHEFLUSH", forced, 1);
        const Result<const Ops*> ops = coherence::native_ops();
        const bool obeyed = ops.ok() && std::strcmp((*ops)->clean.name, forced) == 0;
        _exit(obeyed ? 100 : ops.ok() ? 101 : static_cast<int>(ops.error().kind()));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), 101);
    return WEXITSTATUS(status) == 100 ? -1 : WEXITSTATUS(status);
}

// Before anything in this process has chosen.
TEST(native_ops__environment_names_an_instruction__obeyed_or_refused) {
    unsetenv("SLUICE_CACHEFLUSH");
#if defined(__riscv)
    const int none = static_cast<int>(ErrorKind::kNotSupported);
    assert_true(kind_under("cbo.flush") == -1 || kind_under("cbo.flush") == none);
#else
    assert_int_equal(kind_under("nonsense"), static_cast<int>(ErrorKind::kInvalidArgument));
#endif
#if defined(__x86_64__)
    assert_int_equal(kind_under("clflush"), -1);
#elif defined(__aarch64__)
    assert_int_equal(kind_under("civac"), -1);
#elif defined(__powerpc64__)
    assert_int_equal(kind_under("dcbf"), -1);
#endif
}

TEST(native_ops__twice__same_answer) {
    const Result<const Ops*> first = coherence::native_ops();
    const Result<const Ops*> second = coherence::native_ops();
    assert_int_equal(first.ok(), second.ok());
    if (first) {
        assert_ptr_equal(*first, *second);
        return;
    }
    assert_true(first.error().kind() == ErrorKind::kNotSupported);
    assert_string_equal(first.error().text(), second.error().text());
    assert_true(std::strlen(first.error().text()) > 0);
}

// The table of this CPU, or null with a line that says why: then there is nothing to run.
const Ops* ops_of_this_cpu() {
    const Result<const Ops*> ops = coherence::native_ops();
    if (!ops) {
        print_message("this CPU: %s\n", ops.error().text());
        return nullptr;
    }
    return *ops;
}

TEST(this_cpu__clean_and_invalidate__leave_the_bytes_alone) {
    const Ops* ops = ops_of_this_cpu();
    if (ops == nullptr) {
        skip();
    }
    std::vector<unsigned char> bytes(10000);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<unsigned char>(i * 7);
    }
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    coherence::clean(*ops, address + 3, 9000);
    coherence::invalidate(*ops, address + 3, 9000);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        assert_int_equal(bytes[i], static_cast<unsigned char>(i * 7));
    }
}

// The signal that ends a child which flushes a page with PROTECTION, 0 if none does.
int signal_of_flushing(const Ops& ops, int protection) {
    const long page = sysconf(_SC_PAGESIZE);
    void* memory =
        mmap(nullptr, static_cast<std::size_t>(page), protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); // a sanitizer's handler would turn it into an exit
        coherence::clean(ops, reinterpret_cast<std::uintptr_t>(memory), 64);
        coherence::invalidate(ops, reinterpret_cast<std::uintptr_t>(memory), 64);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    munmap(memory, static_cast<std::size_t>(page));
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(this_cpu__page_that_may_only_be_read__can_be_flushed) {
    const Ops* ops = ops_of_this_cpu();
    if (ops == nullptr) {
        skip();
    }
    assert_int_equal(signal_of_flushing(*ops, PROT_READ), 0);
}

#if defined(__x86_64__)
// Emulators of the other architectures don't look at the page.
TEST(this_cpu__page_without_access__faults) {
    assert_int_equal(signal_of_flushing(*ops_of_this_cpu(), PROT_NONE), SIGSEGV);
}
#endif

} // namespace

int main() {
    return sluice::test::run_all_tests("cacheflush");
}
