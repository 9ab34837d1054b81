// SPDX-License-Identifier: BSD-3-Clause
//
// libsluice-sync from several threads at once.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <thread>

#include "sluice/sync.h"
#include "tests/cmocka.hpp"

namespace {

// 0, or EOPNOTSUPP from every call: riscv64 without Zicbom.
int usual_answer() {
    sluice_sync_cpu ignored{};
    return sluice_sync_query(&ignored, sizeof ignored);
}

TEST(clean__while_checks_are_switched__each_call_is_done) {
    constexpr int kTurns = 2000;
    constexpr int kSwitches = 500; // so many while each of the others is at work
    std::array<unsigned char, 1000> bytes{};
    std::atomic<int> running{2};
    std::atomic<int> switches{0};
    std::atomic<int> surprises{0};
    const int usual = usual_answer();
    const auto clean = [&] {
        const sluice_sync_segment segments[] = {{bytes.data(), 300}, {bytes.data() + 200, 600}};
        for (int i = 0; i < kTurns || switches < kSwitches; ++i) {
            const int range = sluice_sync_clean(bytes.data(), bytes.size());
            const int batch = sluice_sync_clean_batch(segments, 2);
            surprises += range != usual || batch != usual ? 1 : 0;
        }
        --running;
    };
    std::thread first(clean);
    std::thread second(clean);
    std::thread switching([&] {
        for (int on = 1; running != 0; on = 1 - on) {
            sluice_sync_set_checking(on);
            ++switches;
            // Nothing else here: a call that takes the library's lock would hide a race from the sanitizer.
        }
        sluice_sync_set_checking(0);
    });
    first.join();
    second.join();
    switching.join();
    assert_int_equal(surprises.load(), 0);
}

// One writes, the other reads; each waits for the other's flag. What lies behind a flag needs no other order.
TEST(flags__between_two_threads__the_data_behind_them_is_there) {
    if (usual_answer() != 0) {
        skip();
    }
    constexpr uint64_t kTurns = 2000;
    constexpr std::size_t kGranule = 2048 / sizeof(uint64_t); // the largest of any CPU
    alignas(2048) static std::array<uint64_t, 3 * kGranule> memory{};
    uint64_t* const full = memory.data();
    uint64_t* const empty = full + kGranule;
    uint64_t* const data = empty + kGranule;
    const auto wait_for = [](const uint64_t* flag, uint64_t wanted) {
        uint64_t value = 0;
        while (sluice_sync_observe(flag, &value) == 0 && value != wanted) {
            std::this_thread::yield();
        }
    };
    std::thread writer([&] {
        for (uint64_t turn = 1; turn <= kTurns; ++turn) {
            wait_for(empty, turn - 1);
            for (uint64_t i = 0; i < 16; ++i) {
                data[i] = turn + i;
            }
            sluice_sync_clean(data, 16 * sizeof *data);
            sluice_sync_publish(full, turn);
        }
    });
    uint64_t wrong = 0;
    for (uint64_t turn = 1; turn <= kTurns; ++turn) {
        wait_for(full, turn);
        sluice_sync_invalidate(data, 16 * sizeof *data);
        for (uint64_t i = 0; i < 16; ++i) {
            wrong += data[i] != turn + i ? 1 : 0;
        }
        sluice_sync_publish(empty, turn);
    }
    writer.join();
    assert_int_equal(wrong, 0);
}

} // namespace

int main() {
    unsetenv("SLUICE_SYNC_CHECK");
    return sluice::test::run_all_tests("sync.threads");
}
