// SPDX-License-Identifier: BSD-3-Clause
#include "core/coherence/region_table.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <vector>

#include "tests/cmocka.hpp"

using sluice::ErrorKind;
using sluice::coherence::Region;
using sluice::coherence::RegionTable;

namespace {

constexpr std::uint32_t kFrees = 1u << 16;

TEST(add__then_find__gives_the_region_back) {
    RegionTable table = *RegionTable::make();
    const Region region{.address = 0x1000, .length = 77, .flags = 5, .zone = 3, .user = 0xdeadbeef};
    const std::uint32_t context = *table.add(region);
    Region found;
    assert_true(table.find(context, found));
    assert_int_equal(found.address, 0x1000);
    assert_int_equal(found.length, 77);
    assert_int_equal(found.flags, 5);
    assert_int_equal(found.zone, 3);
    assert_int_equal(found.user, 0xdeadbeef);
    assert_int_equal(table.live(), 1);
}

TEST(find__not_live__region_left_alone) {
    RegionTable table = *RegionTable::make();
    Region found{.address = 42};
    for (std::uint32_t context : {0u, 1u, 0xffffu, 0x10000u, 0x10001u, 0xffffffffu}) {
        assert_false(table.find(context, found));
    }
    assert_int_equal(found.address, 42);
}

TEST(remove__live__gone) {
    RegionTable table = *RegionTable::make();
    const std::uint32_t context = *table.add({.length = 1});
    assert_true(table.remove(context).ok());
    Region found;
    assert_false(table.find(context, found));
    assert_int_equal(table.live(), 0);
}

TEST(remove__not_live__invalid_handle) {
    RegionTable table = *RegionTable::make();
    const std::uint32_t context = *table.add({.length = 1});
    assert_true(table.remove(context).ok());
    for (std::uint32_t wrong : {context, 0u, 1u << 16, 0x12345u, 0xffffffffu}) {
        assert_true(table.remove(wrong).error().kind() == ErrorKind::kInvalidHandle);
    }
    assert_int_equal(table.live(), 0);
}

TEST(context__of_one_slot__comes_back_only_after_2_to_the_16_frees) {
    RegionTable table = *RegionTable::make();
    std::vector<bool> seen(kFrees);
    std::uint32_t first = 0;
    for (std::uint32_t i = 0; i < kFrees; ++i) {
        const std::uint32_t context = *table.add({.length = 1});
        first = i == 0 ? context : first;
        assert_int_equal(context & RegionTable::kIndexMask, first & RegionTable::kIndexMask);
        assert_false(seen[context >> 16]);
        seen[context >> 16] = true;
        assert_true(table.remove(context).ok());
    }
    assert_int_equal(*table.add({.length = 1}), first);
}

TEST(slots__freed__used_again_in_the_order_they_were_freed) {
    RegionTable table = *RegionTable::make();
    const std::uint32_t a = *table.add({.length = 1});
    const std::uint32_t b = *table.add({.length = 1});
    assert_true(table.remove(b).ok());
    assert_true(table.remove(a).ok());
    assert_int_equal(*table.add({.length = 1}) & RegionTable::kIndexMask, b & RegionTable::kIndexMask);
    assert_int_equal(*table.add({.length = 1}) & RegionTable::kIndexMask, a & RegionTable::kIndexMask);
    assert_int_equal(*table.add({.length = 1}) & RegionTable::kIndexMask, 3);
}

TEST(add__table_full__refused_until_one_is_freed) {
    RegionTable table = *RegionTable::make();
    std::set<std::uint32_t> contexts;
    for (std::uint32_t i = 0; i < RegionTable::kMaxRegions; ++i) {
        const std::uint32_t context = *table.add({.address = i, .length = i});
        assert_true(context != 0);
        assert_true(contexts.insert(context).second);
    }
    assert_int_equal(table.live(), RegionTable::kMaxRegions);
    assert_true(table.add({.length = 1}).error().kind() == ErrorKind::kInsufficientResources);
    assert_int_equal(table.live(), RegionTable::kMaxRegions);
    Region found;
    for (std::uint32_t context : contexts) {
        assert_true(table.find(context, found));
        assert_int_equal(found.address, found.length);
    }
    assert_true(table.remove(*contexts.begin()).ok());
    assert_true(table.add({.length = 1}).ok());
}

TEST(make__moved_from__does_not_free_twice) {
    RegionTable first = *RegionTable::make();
    const RegionTable second(std::move(first));
    assert_int_equal(second.live(), 0);
}

long resident_pages() {
    long total = 0;
    long resident = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    assert_true(resident > 0);
    return resident;
}

TEST(memory__per_live_region__at_most_64_bytes) {
    assert_true(sizeof(RegionTable::Slot) <= 64);
    constexpr std::uint32_t kRegions = 20000;
    RegionTable table = *RegionTable::make();
    const long before = resident_pages();
    for (std::uint32_t i = 0; i < kRegions; ++i) {
        (void)*table.add({.length = 1});
    }
    const long grown = (resident_pages() - before) * sysconf(_SC_PAGESIZE);
    print_message("%ld bytes for %u regions\n", grown, kRegions);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); // the sanitizer keeps memory about our memory
#endif
    assert_true(grown <= long{kRegions} * 64);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("coherence.region_table");
}
