// SPDX-License-Identifier: BSD-3-Clause
//
// Requests that come and go, as often as the command line says: what protects their memory takes no more of
// it in the end than in the beginning.
#include <cstdlib>
#include <string>

#include "core/file_tree.hpp"
#include "layers/check/pages/pages.hpp"
#include "tests/cmocka.hpp"
#include "tests/unit/layers/buffer.hpp"

using namespace sluice::layers::check::pages;
using namespace sluice::test;

namespace {

std::uint64_t rounds = 0;

// As many as a busy program has outstanding, each of which has two pieces.
constexpr std::uint64_t kOutstanding = 16;

// In pages.
struct Memory {
    unsigned long addresses = 0;
    unsigned long resident = 0;
};

Memory memory_of_process() {
    Memory memory;
    const std::string text = sluice::FileTree().read_line("/proc/self/statm");
    char* end = nullptr;
    memory.addresses = std::strtoul(text.c_str(), &end, 10);
    memory.resident = std::strtoul(end, nullptr, 10);
    assert_true(memory.addresses != 0 && memory.resident != 0);
    return memory;
}

void run(const Buffer& buffer, std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t tag = first; tag < first + count; ++tag) {
        std::uint8_t* const piece = buffer.page(2 * (tag % kOutstanding));
        const Forbidden forbidden = tag % 3 == 0 ? Forbidden::kStores : Forbidden::kEverything;
        if (!protects(tag, piece, kPage, forbidden) || !protects(tag, piece + kPage, kPage, forbidden)) {
            fail_msg("request %llu is refused", static_cast<unsigned long long>(tag));
        }
        if (tag >= kOutstanding) {
            lift(tag - kOutstanding);
        }
    }
}

TEST(protect__many_times__nothing_grows) {
    const Buffer buffer(2 * kOutstanding);
    run(buffer, 0, 1000);
    const Memory before = memory_of_process();
    run(buffer, 1000, rounds);
    const Memory after = memory_of_process();
    assert_int_equal(after.addresses, before.addresses);
#ifndef SLUICE_UNDER_SANITIZER                                // a sanitizer writes down what happened
    assert_in_range(after.resident, 0, before.resident + 16); // the look itself may take some
#endif
    for (std::uint64_t tag = 1000 + rounds - kOutstanding; tag < 1000 + rounds; ++tag) {
        lift(tag);
    }
    for (std::size_t page = 0; page < 2 * kOutstanding; ++page) {
        store(buffer.page(page));
    }
    Touch touch;
    assert_false(take_touch(touch));
}

} // namespace

int main(int argc, char** argv) {
    rounds = argc == 2 ? std::strtoull(argv[1], nullptr, 10) : 0;
    if (rounds < kOutstanding) {
        return 2;
    }
    return run_all_tests("check.pages_many");
}
