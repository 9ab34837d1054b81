// SPDX-License-Identifier: BSD-3-Clause
//
// What a board may hold, and who may write it.
#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

// Last: its macros are common words.
#include "tests/unit/roce/near_neighbours.hpp"

using namespace sluice;
using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::test;

namespace {

Descriptor sealed_file(std::size_t bytes, int seals) {
    Descriptor file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    assert_int_equal(ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
    assert_int_equal(fcntl(file.get(), F_ADD_SEALS, seals), 0);
    return file;
}

TEST(board__that_is_none__is_refused) {
    constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    assert_false(near::PeerBoard::map(Descriptor()).ok());
    assert_false(near::PeerBoard::map(Descriptor(open("/dev/null", O_RDWR | O_CLOEXEC))).ok());
    assert_false(near::PeerBoard::map(Descriptor(open("/proc/self/exe", O_RDONLY | O_CLOEXEC))).ok());
    for (const std::size_t bytes : {0, 1, 4096, 9216, 1 << 20}) {
        assert_false(near::PeerBoard::map(sealed_file(bytes, kSealed)).ok());
        assert_false(near::PeerBoard::map(sealed_file(bytes, F_SEAL_SHRINK)).ok());
    }
}

// Each word of the first page with what breaks sums.
TEST(board__with_a_wild_header__is_refused_or_bounded) {
    const auto board = living_board(1);
    const Descriptor whole(dup(board->descriptor()));
    std::vector<std::uint8_t> bytes(4096 + 64 * 80);
    assert_int_equal(pread(whole.get(), bytes.data(), bytes.size(), 0), bytes.size());
    for (std::size_t word = 0; word < 16; ++word) {
        for (const std::uint32_t value : {0U, 1U, 3U, 32U, 1U << 20, 1U << 31, ~0U}) {
            std::vector<std::uint8_t> wild = bytes;
            std::memcpy(wild.data() + 4 * word, &value, sizeof value);
            Descriptor file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
            assert_int_equal(pwrite(file.get(), wild.data(), wild.size(), 0), wild.size());
            assert_int_equal(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
            const auto mapped = near::PeerBoard::map(file);
            assert_true(!mapped || word > 1); // before, there is what it is
            for (std::uint32_t key = 0; mapped.ok() && key < 1U << 16; key += 256) {
                (void)mapped->region(key);
                (void)mapped->connection({{}, 0, {}, key});
            }
        }
    }
}

TEST(board__its_owner_writes__others_can_not) {
    const auto board = living_board(1);
    assert_true(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, board->descriptor(), 0) ==
                MAP_FAILED);
    assert_true(pwrite(board->descriptor(), "x", 1, 0) < 0);
    assert_true(ftruncate(board->descriptor(), 0) < 0);
}

// Garbage on a neighbour's board costs this process nothing but packets.
TEST(board__with_garbage__is_gone_by_for_the_neighbours_own_memory_alone) {
    const auto board = living_board(1);
    Random random(7);
    const near::PeerBoard seen = seen_by_others(*board);
    std::uint64_t found = 0;
    for (int i = 0; i < 20000; ++i) {
        const std::uint32_t key = random.below(64) << 8 | random.below(4);
        board->publish(random.below(64), PublishedRegion{.key = key,
                                                         .pd = random.below(3),
                                                         .qpn = random.below(2),
                                                         .access = random.below(16),
                                                         .iova = random.next(),
                                                         .host_addr = random.next(),
                                                         .len_bytes = random.next()});
        const auto read = seen.region(key);
        found += read ? 1 : 0;
        assert_true(!read || (read->region.key == key && read->region.access != 0));
    }
    assert_true(found > 100);
}

// A reader gets one state of an entry or none, never half of each.
TEST(board__read_while_it_changes__whole_entries_only) {
    const auto board = living_board(1);
    const near::PeerBoard seen = seen_by_others(*board);
    std::atomic<bool> over{false};
    std::thread writer([&] {
        for (std::uint64_t i = 1; i <= 200000; ++i) {
            board->publish(3, PublishedRegion{.key = 3 << 8,
                                              .pd = static_cast<std::uint32_t>(i),
                                              .access = 1,
                                              .iova = i,
                                              .host_addr = i * 3,
                                              .len_bytes = i * 5});
        }
        over = true;
    });
    std::uint64_t torn = 0;
    while (!over) {
        if (const auto read = seen.region(3 << 8)) {
            const PublishedRegion& region = read->region;
            torn += region.host_addr != region.iova * 3 || region.len_bytes != region.iova * 5 ||
                            region.pd != region.iova
                        ? 1
                        : 0;
        }
    }
    writer.join();
    assert_int_equal(torn, 0);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.near_boards");
}
