// SPDX-License-Identifier: BSD-3-Clause
//
// Bad input to libsluice-sync: an error, and nothing touched.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/sync.h"
#include "tests/cmocka.hpp"

namespace {

constexpr uint64_t kHuge = ~uint64_t{0};

bool can_flush() {
    sluice_sync_cpu cpu{};
    return sluice_sync_query(&cpu, sizeof cpu) == 0;
}

std::size_t page_bytes() {
    return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Two pages of memory; the second isn't there, or has other rights.
class TwoPages {
  public:
    explicit TwoPages(int second_rights)
        : data_(static_cast<unsigned char*>(
              mmap(nullptr, 2 * page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        assert_ptr_not_equal(data_, MAP_FAILED);
        std::memset(data_, 0x5a, 2 * page_bytes());
        if (second_rights < 0) {
            assert_int_equal(munmap(data_ + page_bytes(), page_bytes()), 0);
        } else {
            assert_int_equal(mprotect(data_ + page_bytes(), page_bytes(), second_rights), 0);
        }
    }
    ~TwoPages() { munmap(data_, 2 * page_bytes()); }
    TwoPages(const TwoPages&) = delete;
    TwoPages& operator=(const TwoPages&) = delete;

    // Ten bytes of the first page and ten of the second.
    unsigned char* border() const { return data_ + page_bytes() - 10; }
    bool first_is_untouched() const {
        for (std::size_t i = 0; i < page_bytes(); ++i) {
            if (data_[i] != 0x5a) {
                return false;
            }
        }
        return true;
    }

  private:
    unsigned char* data_;
};

constexpr int kUnmapped = -1;

class Checks {
  public:
    Checks() { sluice_sync_set_checking(1); }
    ~Checks() { sluice_sync_set_checking(0); }
    Checks(const Checks&) = delete;
    Checks& operator=(const Checks&) = delete;
};

using RangeCall = int (*)(const void*, uint64_t);
using BatchCall = int (*)(const sluice_sync_segment*, uint64_t);
constexpr RangeCall kRangeCalls[] = {sluice_sync_clean, sluice_sync_invalidate, sluice_sync_clean_invalidate,
                                     sluice_sync_persist};
constexpr BatchCall kBatchCalls[] = {sluice_sync_clean_batch, sluice_sync_invalidate_batch,
                                     sluice_sync_clean_invalidate_batch, sluice_sync_persist_batch};

const void* at(std::uintptr_t address) {
    return reinterpret_cast<const void*>(address);
}

struct Outcome {
    int status; // 128 and the signal if the process died of one
    std::string said;
};

// What CALL returns in a process of its own, and what that writes to standard error.
template<typename Call>
Outcome outcome_of(Call&& call) {
    std::array<int, 2> ends{};
    assert_int_equal(pipe(ends.data()), 0);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);   // a sanitizer's handler would turn it into an exit
        prctl(PR_SET_DUMPABLE, 0L); // and a core file takes seconds
        dup2(ends[1], STDERR_FILENO);
        _exit(call());
    }
    close(ends[1]);
    Outcome outcome{};
    std::array<char, 512> text;
    for (ssize_t got = 0; (got = read(ends[0], text.data(), text.size())) > 0;) {
        outcome.said.append(text.data(), static_cast<std::size_t>(got));
    }
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    outcome.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return outcome;
}

// For a page that isn't there, with SLUICE_SYNC_CHECK=SAID.
Outcome outcome_under(const char* said) {
    const TwoPages pages(kUnmapped);
    return outcome_of([&] {
        setenv("SLUICE_SYNC_CHECK", said, 1);
        return sluice_sync_clean(pages.border() + 10, 1);
    });
}

// The environment is looked at once, so the tests of it come before anything in this process has looked.
TEST(environment__asks_for_checks__obeyed) {
    assert_int_equal(outcome_under("yes").status, EFAULT);
#if defined(__x86_64__) // emulators of the others don't look at the page
    assert_int_equal(outcome_under("no").status, 128 + SIGSEGV);
    assert_int_equal(outcome_under("").status, 128 + SIGSEGV);
#endif
}

TEST(environment__neither_yes_nor_no__warned_about) {
    for (const char* value : {"1", "on", "YES"}) {
        const std::string said = outcome_under(value).said;
        assert_true(said.find("SLUICE_SYNC_CHECK is '" + std::string(value) + "'; it may be yes or no") !=
                    std::string::npos);
    }
    for (const char* value : {"yes", "no", ""}) {
        assert_true(outcome_under(value).said.find("SLUICE_SYNC_CHECK") == std::string::npos);
    }
}

// What the library logs about CALL, which has to fail with EXPECTED.
template<typename Call>
std::string reason_of(int expected, Call&& call) {
    const Outcome outcome = outcome_of([&] {
        setenv("SLUICE_LOG", "sync=info", 1);
        return call();
    });
    assert_int_equal(outcome.status, expected);
    return outcome.said;
}

void assert_names(const std::string& reason, std::initializer_list<const char*> parts) {
    for (const char* part : parts) {
        if (reason.find(part) == std::string::npos) {
            fail_msg("\"%s\" isn't in: %s", part, reason.c_str());
        }
    }
}

TEST(errors__any__name_address_length_and_segment) {
    const sluice_sync_segment segments[] = {{nullptr, 0}, {at(0x1234), kHuge}};
    assert_names(reason_of(EINVAL, [] { return sluice_sync_clean(at(0x1234), kHuge); }),
                 {"0x1234", "18446744073709551615 bytes"});
    assert_names(reason_of(EINVAL, [&] { return sluice_sync_clean_batch(segments, 2); }),
                 {"segment 1", "0x1234", "18446744073709551615 bytes"});
    assert_names(reason_of(EINVAL, [] { return sluice_sync_clean_batch(nullptr, 3); }),
                 {"3 segments", "0x0"});
    assert_names(reason_of(EINVAL,
                           [] {
                               auto* const to = const_cast<void*>(at(0x1234));
                               return sluice_sync_copy(to, at(0x1230), 16);
                           }),
                 {"0x1234", "0x1230", "16 bytes"});
    assert_names(reason_of(EINVAL,
                           [] {
                               uint64_t value = 0;
                               return sluice_sync_observe(static_cast<const uint64_t*>(at(0x1234)), &value);
                           }),
                 {"0x1234"});
    assert_names(reason_of(EINVAL, [] { return sluice_sync_check(at(0x1234), 1, 7); }), {"7"});
    const sluice_sync_segment missing[] = {{nullptr, 0}, {at(0x10), 32}};
    assert_names(reason_of(EFAULT,
                           [&] {
                               sluice_sync_set_checking(1);
                               return sluice_sync_clean_batch(missing, 2);
                           }),
                 {"segment 1", "32 bytes", "0x10"});
}

#if defined(__x86_64__) // as above
TEST(unchecked__page_that_is_not_there__each_call_touches_it) {
    const TwoPages pages(kUnmapped);
    const sluice_sync_segment segment{pages.border() + 10, 1};
    for (const RangeCall call : kRangeCalls) {
        assert_int_equal(outcome_of([&] { return call(segment.address, 1); }).status, 128 + SIGSEGV);
    }
    for (const BatchCall call : kBatchCalls) {
        assert_int_equal(outcome_of([&] { return call(&segment, 1); }).status, 128 + SIGSEGV);
    }
}
#endif

TEST(ranges__that_wrap_or_begin_at_null__einval) {
    std::array<unsigned char, 64> bytes{};
    for (const RangeCall call : kRangeCalls) {
        assert_int_equal(call(bytes.data(), kHuge), EINVAL);
        assert_int_equal(call(at(kHuge), 2), EINVAL);
        assert_int_equal(call(at(kHuge - 63), 65), EINVAL);
        assert_int_equal(call(nullptr, 1), EINVAL);
    }
    assert_int_equal(sluice_sync_check(bytes.data(), kHuge, SLUICE_SYNC_READ), EINVAL);
    assert_int_equal(sluice_sync_check(nullptr, 1, SLUICE_SYNC_READ), EINVAL);
}

// The address before the one that wraps is nobody's: doing the first segment would be seen as SIGSEGV.
TEST(batches__last_segment_wraps__einval_before_the_first_is_touched) {
    const TwoPages pages(kUnmapped);
    const sluice_sync_segment segments[] = {{pages.border() + 10, 10}, {pages.border(), 1}, {at(kHuge), 2}};
    for (const BatchCall call : kBatchCalls) {
        assert_int_equal(call(segments, 3), EINVAL);
    }
}

TEST(batches__array_that_cannot_be__einval) {
    const sluice_sync_segment segment{nullptr, 0};
    for (const BatchCall call : kBatchCalls) {
        assert_int_equal(call(nullptr, 1), EINVAL);
        assert_int_equal(call(&segment, kHuge), EINVAL);
        assert_int_equal(call(&segment, kHuge / 16 + 1), EINVAL);
    }
}

// The segment behind the first is on a page that isn't there: to look at it would be seen as SIGSEGV.
TEST(batches__array_longer_than_what_is_left_of_memory__einval_before_it_is_read) {
    const TwoPages pages(kUnmapped);
    auto* const last =
        reinterpret_cast<sluice_sync_segment*>(pages.border() + 10 - sizeof(sluice_sync_segment));
    *last = {nullptr, 0};
    for (const BatchCall call : kBatchCalls) {
        assert_int_equal(call(last, kHuge / 16), EINVAL);
    }
}

TEST(checked__array_of_segments_or_value_that_is_not_there__efault) {
    const Checks checks;
    const TwoPages pages(kUnmapped);
    auto* const last =
        reinterpret_cast<sluice_sync_segment*>(pages.border() + 10 - sizeof(sluice_sync_segment));
    *last = {nullptr, 0};
    for (const BatchCall call : kBatchCalls) {
        assert_int_equal(call(last, 2), EFAULT);
    }
    const uint64_t flag = 7;
    assert_int_equal(sluice_sync_observe(&flag, reinterpret_cast<uint64_t*>(pages.border() + 10)), EFAULT);
}

TEST(copy__ranges_wrap_or_overlap__einval_and_nothing_stored) {
    std::array<unsigned char, 512> bytes{};
    bytes.fill(0x5a);
    const std::array<unsigned char, 512> before = bytes;
    unsigned char* const middle = bytes.data() + 100;
    assert_int_equal(sluice_sync_copy(middle, bytes.data(), kHuge), EINVAL);
    assert_int_equal(sluice_sync_copy(nullptr, bytes.data(), 1), EINVAL);
    assert_int_equal(sluice_sync_copy(middle, nullptr, 1), EINVAL);
    assert_int_equal(sluice_sync_copy(middle, middle, 1), EINVAL);
    assert_int_equal(sluice_sync_copy(middle, middle + 99, 100), EINVAL);
    assert_int_equal(sluice_sync_copy(middle + 99, middle, 100), EINVAL);
    assert_true(bytes == before);
    if (can_flush()) {
        assert_int_equal(sluice_sync_copy(middle, middle + 100, 100), 0);
        assert_int_equal(sluice_sync_copy(middle, middle, 0), 0);
    }
}

TEST(flags__misaligned_or_null__einval_and_nothing_stored) {
    std::array<uint64_t, 2> words{1, 2};
    auto* const misaligned = reinterpret_cast<uint64_t*>(reinterpret_cast<std::uintptr_t>(words.data()) + 4);
    uint64_t value = 7;
    assert_int_equal(sluice_sync_publish(misaligned, 9), EINVAL);
    assert_int_equal(sluice_sync_publish(nullptr, 9), EINVAL);
    assert_int_equal(sluice_sync_observe(misaligned, &value), EINVAL);
    assert_int_equal(sluice_sync_observe(nullptr, &value), EINVAL);
    assert_int_equal(sluice_sync_observe(words.data(), nullptr), EINVAL);
    assert_true(words[0] == 1 && words[1] == 2 && value == 7);
}

TEST(checked__page_that_is_not_there__efault) {
    const Checks checks;
    for (const int rights : {kUnmapped, PROT_NONE}) {
        const TwoPages pages(rights);
        for (const RangeCall call : kRangeCalls) {
            assert_int_equal(call(pages.border(), 20), EFAULT);
        }
        const sluice_sync_segment segments[] = {{pages.border(), 10}, {pages.border() + 9, 2}};
        for (const BatchCall call : kBatchCalls) {
            assert_int_equal(call(segments, 2), EFAULT);
        }
        std::array<unsigned char, 20> bytes{};
        assert_int_equal(sluice_sync_copy(pages.border(), bytes.data(), 20), EFAULT);
        assert_int_equal(sluice_sync_copy(bytes.data(), pages.border(), 20), EFAULT);
        assert_int_equal(bytes[0], 0);
        assert_true(pages.first_is_untouched());
    }
}

TEST(checked__read_only_page__eacces_for_what_writes_and_fine_for_the_rest) {
    const Checks checks;
    const TwoPages pages(PROT_READ);
    std::array<unsigned char, 20> bytes{};
    auto* const flag = reinterpret_cast<uint64_t*>(pages.border() + 10);
    uint64_t value = 0;
    assert_int_equal(sluice_sync_copy(pages.border(), bytes.data(), 20), EACCES);
    assert_int_equal(sluice_sync_publish(flag, 9), EACCES);
    assert_int_equal(sluice_sync_observe(&value, flag), EACCES);
    assert_true(pages.first_is_untouched());
    if (can_flush()) {
        assert_int_equal(sluice_sync_clean(pages.border(), 20), 0);
        assert_int_equal(sluice_sync_invalidate(pages.border(), 20), 0);
        assert_int_equal(sluice_sync_observe(flag, &value), 0);
        assert_true(value == 0x5a5a5a5a5a5a5a5a);
        assert_int_equal(sluice_sync_copy(bytes.data(), pages.border(), 20), 0);
    }
}

TEST(check__kinds_of_pages__as_they_are) {
    const TwoPages fine(PROT_READ | PROT_WRITE);
    const TwoPages read_only(PROT_READ);
    assert_int_equal(sluice_sync_check(fine.border(), 20, SLUICE_SYNC_WRITE), 0);
    assert_int_equal(sluice_sync_check(read_only.border(), 20, SLUICE_SYNC_READ), 0);
    assert_int_equal(sluice_sync_check(read_only.border(), 20, SLUICE_SYNC_WRITE), EACCES);
    assert_int_equal(sluice_sync_check(read_only.border(), 10, SLUICE_SYNC_WRITE), 0);
    assert_int_equal(sluice_sync_check(at(page_bytes()), 1, SLUICE_SYNC_READ), EFAULT);
    assert_int_equal(sluice_sync_check(nullptr, 0, SLUICE_SYNC_READ), 0);
    for (const unsigned access : {0u, 3u, 4u}) {
        assert_int_equal(sluice_sync_check(fine.border(), 20, access), EINVAL);
    }
}

#if !defined(TEST_EMULATED) // emulators tell what is mapped, and not what a file has lost
TEST(check__page_behind_the_end_of_its_file__efault) {
    const int file = memfd_create("sync-test", 0);
    assert_int_equal(ftruncate(file, static_cast<off_t>(page_bytes())), 0);
    void* const pages = mmap(nullptr, 2 * page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(sluice_sync_check(pages, page_bytes(), SLUICE_SYNC_WRITE), 0);
    assert_int_equal(sluice_sync_check(pages, page_bytes() + 1, SLUICE_SYNC_READ), EFAULT);
    assert_int_equal(sluice_sync_check(pages, page_bytes() + 1, SLUICE_SYNC_WRITE), EFAULT);
    munmap(pages, 2 * page_bytes());
    close(file);
}

TEST(check__list_of_mappings_that_cannot_be_read__enomem) {
    const TwoPages pages(kUnmapped);
    const Outcome outcome = outcome_of([&] {
        const rlimit none{0, 0};
        setrlimit(RLIMIT_NOFILE, &none);
        return sluice_sync_check(pages.border(), 20, SLUICE_SYNC_READ);
    });
    assert_int_equal(outcome.status, ENOMEM);
}
#endif

} // namespace

int main() {
    unsetenv("SLUICE_SYNC_CHECK");
    return sluice::test::run_all_tests("sync.hostile");
}
