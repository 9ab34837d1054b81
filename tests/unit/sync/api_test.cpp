// SPDX-License-Identifier: BSD-3-Clause
//
// libsluice-sync as a program sees it, on the CPU that runs this.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/sync.h"
#include "tests/cmocka.hpp"

namespace {

sluice_sync_cpu cpu() {
    sluice_sync_cpu cpu{};
    assert_int_equal(sluice_sync_query(&cpu, sizeof cpu), 0);
    return cpu;
}

// Some CPUs can't: riscv64 without Zicbom. Then every call says so, and there is nothing else to see.
bool can_flush() {
    sluice_sync_cpu ignored{};
    const int error = sluice_sync_query(&ignored, sizeof ignored);
    assert_true(error == 0 || error == EOPNOTSUPP);
    if (error != 0) {
        print_message("this CPU gives user mode no cache instructions\n");
    }
    return error == 0;
}

#define NEEDS_A_CPU_THAT_CAN                                                                                 \
    if (!can_flush()) {                                                                                      \
        skip();                                                                                              \
    }

bool has_persist() {
#if defined(__aarch64__) && defined(TEST_EMULATED)
    return false; // QEMU announces dc cvap and doesn't execute it
#else
    return std::string_view(cpu().persist) != "none";
#endif
}

std::vector<unsigned char> pattern(std::size_t size) {
    std::vector<unsigned char> bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<unsigned char>(i * 7 + i / 256);
    }
    return bytes;
}

// What query() says in a process of its own under SLUICE_CACHEFLUSH=SAID: whether that was obeyed, or the
// error.
int forced_under(const char* said) {
    const pid_t child = fork();
    if (child == 0) {
        setenv("SLUICE_CACHEFLUSH", said, 1);
        sluice_sync_cpu answer{};
        const int error = sluice_sync_query(&answer, sizeof answer);
        _exit(error != 0 ? error : static_cast<int>(answer.forced));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

// The table is chosen once, so this comes before anything in this process has asked for it.
TEST(query__instruction_named_in_the_environment__forced_only_by_a_name) {
#if defined(__x86_64__)
    assert_int_equal(forced_under("clflush"), 1);
#elif defined(__aarch64__)
    assert_int_equal(forced_under("civac"), 1);
#endif
    const int empty = forced_under("");
    assert_true(empty == 0 || empty == EOPNOTSUPP);
    assert_int_equal(forced_under("typo"), empty == 0 ? EINVAL : EOPNOTSUPP);
}

TEST(query__environment_changed_later__still_as_the_table_was_chosen) {
    NEEDS_A_CPU_THAT_CAN
    assert_int_equal(cpu().forced, 0);
    setenv("SLUICE_CACHEFLUSH", "clflush", 1);
    assert_int_equal(cpu().forced, 0);
    unsetenv("SLUICE_CACHEFLUSH");
}

TEST(version__is_that_of_the_project) {
    assert_non_null(std::strchr(sluice_sync_version(), '.'));
}

TEST(query__this_cpu__instructions_fences_and_sizes) {
    NEEDS_A_CPU_THAT_CAN
    const sluice_sync_cpu can = cpu();
    for (const char* text : {can.clean, can.invalidate, can.persist, can.copy, can.before_clean,
                             can.after_clean, can.before_invalidate, can.after_invalidate, can.line_source}) {
        assert_true(std::strlen(text) > 0);
    }
    assert_true(can.line_bytes >= 16 && can.granule_bytes % can.line_bytes == 0);
    assert_int_equal(can.forced, 0);
    assert_int_equal(can.checking, 0);
    assert_int_equal(can.copy_bytes != 0, std::string_view(can.copy) != "none");
}

TEST(query__size_of_another_version__fits_or_is_refused) {
    NEEDS_A_CPU_THAT_CAN
    struct {
        sluice_sync_cpu known;
        std::array<unsigned char, 64> later;
    } newer;
    std::memset(&newer, 0xee, sizeof newer);
    assert_int_equal(sluice_sync_query(&newer.known, sizeof newer), 0);
    for (const unsigned char byte : newer.later) {
        assert_int_equal(byte, 0);
    }
    sluice_sync_cpu can{};
    can.line_bytes = 7;
    assert_int_equal(sluice_sync_query(&can, sizeof can - 1), EINVAL);
    assert_int_equal(sluice_sync_query(&can, 0), EINVAL);
    assert_int_equal(sluice_sync_query(&can, ~std::size_t{0}), EINVAL);
    assert_int_equal(sluice_sync_query(nullptr, sizeof can), EINVAL);
    assert_int_equal(can.line_bytes, 7);
}

using RangeCall = int (*)(const void*, uint64_t);
using BatchCall = int (*)(const sluice_sync_segment*, uint64_t);
constexpr RangeCall kRangeCalls[] = {sluice_sync_clean, sluice_sync_invalidate, sluice_sync_clean_invalidate};
constexpr BatchCall kBatchCalls[] = {sluice_sync_clean_batch, sluice_sync_invalidate_batch,
                                     sluice_sync_clean_invalidate_batch};

TEST(ranges__any_place__bytes_stay_as_they_are) {
    NEEDS_A_CPU_THAT_CAN
    const std::vector<unsigned char> wanted = pattern(10000);
    std::vector<unsigned char> bytes = wanted;
    for (const RangeCall call : kRangeCalls) {
        for (const std::size_t length : {0, 1, 63, 64, 65, 4096, 9000}) {
            assert_int_equal(call(bytes.data() + 13, length), 0);
        }
        assert_int_equal(call(nullptr, 0), 0);
    }
    assert_true(bytes == wanted);
}

TEST(batches__overlapping_empty_and_unordered__bytes_stay_as_they_are) {
    NEEDS_A_CPU_THAT_CAN
    const std::vector<unsigned char> wanted = pattern(10000);
    std::vector<unsigned char> bytes = wanted;
    const sluice_sync_segment segments[] = {{bytes.data() + 5000, 700},
                                            {bytes.data(), 100},
                                            {nullptr, 0},
                                            {bytes.data() + 90, 100},
                                            {bytes.data(), 1}};
    for (const BatchCall call : kBatchCalls) {
        assert_int_equal(call(segments, 5), 0);
        assert_int_equal(call(nullptr, 0), 0);
    }
    assert_true(bytes == wanted);
}

TEST(persist__range_and_batch__done_or_not_supported) {
    NEEDS_A_CPU_THAT_CAN
    const std::vector<unsigned char> wanted = pattern(1000);
    std::vector<unsigned char> bytes = wanted;
    const sluice_sync_segment segment{bytes.data(), bytes.size()};
    if (std::string_view(cpu().persist) == "none") {
        assert_int_equal(sluice_sync_persist(bytes.data(), 10), EOPNOTSUPP);
        assert_int_equal(sluice_sync_persist_batch(&segment, 1), EOPNOTSUPP);
    } else if (has_persist()) {
        assert_int_equal(sluice_sync_persist(bytes.data() + 3, 900), 0);
        assert_int_equal(sluice_sync_persist_batch(&segment, 1), 0);
    }
    assert_true(bytes == wanted);
}

TEST(copy__every_length_and_alignment__those_bytes_and_no_others) {
    NEEDS_A_CPU_THAT_CAN
    const std::vector<unsigned char> source = pattern(3000);
    for (std::size_t length = 0; length < 700; length += length < 140 ? 1 : 37) {
        for (const std::size_t to_offset : {0, 1, 8, 63}) {
            for (const std::size_t from_offset : {0, 1, 16}) {
                std::vector<unsigned char> target(1024, 0xee);
                std::vector<unsigned char> wanted = target;
                std::memcpy(wanted.data() + to_offset, source.data() + from_offset, length);
                assert_int_equal(
                    sluice_sync_copy(target.data() + to_offset, source.data() + from_offset, length), 0);
                assert_true(target == wanted);
            }
        }
    }
}

TEST(copy__megabyte__whole) {
    NEEDS_A_CPU_THAT_CAN
    const std::vector<unsigned char> source = pattern(1 << 20);
    std::vector<unsigned char> target(source.size());
    assert_int_equal(sluice_sync_copy(target.data(), source.data(), source.size()), 0);
    assert_true(target == source);
}

TEST(flag__published__observed) {
    NEEDS_A_CPU_THAT_CAN
    alignas(2048) std::array<uint64_t, 256> granule{};
    uint64_t value = 7;
    assert_int_equal(sluice_sync_observe(&granule[0], &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(sluice_sync_publish(&granule[0], ~uint64_t{0}), 0);
    assert_int_equal(sluice_sync_observe(&granule[0], &value), 0);
    assert_true(value == ~uint64_t{0});
    assert_int_equal(granule[1], 0);
}

} // namespace

int main() {
    unsetenv("SLUICE_CACHEFLUSH");
    unsetenv("SLUICE_SYNC_CHECK");
    return sluice::test::run_all_tests("sync.api");
}
