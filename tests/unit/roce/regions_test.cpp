// SPDX-License-Identifier: BSD-3-Clause
//
// Which key opens which bytes for whom.
#include "roce/engine/region_table.hpp"

#include <set>

#include "tests/cmocka.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using sluice::ErrorKind;
using sluice::RandomKey;

namespace {

constexpr std::uint32_t kPd = 3, kOtherPd = 4, kQpn = 0x77, kOtherQpn = 0x78;
constexpr std::uint64_t kHost = 0x700000, kIova = 0x1000, kLen = 0x2000;
constexpr std::uint32_t kAll = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kMwBindAllowed;

struct Table {
    RegionTable regions{16, RandomKey::repeatable(1)};
    std::uint32_t key = *regions.add_region(kPd, kHost, kIova, kLen, kAll);

    bool opens(std::uint32_t rkey, std::uint64_t addr, std::uint64_t len, std::uint32_t access = kRemoteRead,
               std::uint32_t pd = kPd, std::uint32_t qpn = kQpn) {
        return regions.remote(rkey, pd, qpn, addr, len, access).has_value();
    }
    std::uint32_t window(WindowType type) { return *regions.add_window(kPd, type); }
    bool bind(std::uint32_t from, std::uint32_t to, std::uint32_t access = kRemoteRead,
              std::uint64_t addr = kIova, std::uint64_t len = 0x100) {
        return regions.bind({from, to, key, addr, len, access}, kPd, kQpn);
    }
};

TEST(remote__inside_region__host_address) {
    Table table;
    assert_int_equal(*table.regions.remote(table.key, kPd, kQpn, kIova + 5, 10, kRemoteRead), kHost + 5);
    assert_int_equal(*table.regions.local(table.key, kPd, kIova + 5, 10, kLocalWrite), kHost + 5);
}

TEST(remote__every_edge_of_the_range__exactly_inside_opens) {
    Table table;
    assert_true(table.opens(table.key, kIova, kLen));
    assert_true(table.opens(table.key, kIova + kLen - 1, 1));
    assert_true(table.opens(table.key, kIova + kLen, 0));
    assert_false(table.opens(table.key, kIova - 1, 1));
    assert_false(table.opens(table.key, kIova, kLen + 1));
    assert_false(table.opens(table.key, kIova + 1, kLen));
    assert_false(table.opens(table.key, kIova + kLen, 1));
    // Sums that would wrap round.
    assert_false(table.opens(table.key, kIova + 1, ~std::uint64_t{0}));
    assert_false(table.opens(table.key, ~std::uint64_t{0}, 2));
    assert_false(table.opens(table.key, ~std::uint64_t{0} - 4, 0x100));
}

TEST(remote__other_key_pd_or_access__closed) {
    Table table;
    assert_false(table.opens(table.key ^ 1, kIova, 1));
    assert_false(table.opens(table.key ^ 0x80000000, kIova, 1));
    assert_false(table.opens(table.key, kIova, 1, kRemoteRead, kOtherPd));
    assert_false(table.opens(table.key, kIova, 1, kFlushGlobal));
    assert_false(table.opens(0, kIova, 1));
}

TEST(remote__after_removal_and_reuse_of_the_slot__old_key_closed) {
    RegionTable regions(2, RandomKey::repeatable(1));
    std::set<std::uint32_t> keys;
    for (int i = 0; i < 1000; ++i) {
        const std::uint32_t key = *regions.add_region(kPd, kHost, kIova, kLen, kAll);
        for (const std::uint32_t old : keys) {
            assert_true(old == key || !regions.remote(old, kPd, kQpn, kIova, 1, kRemoteRead));
        }
        keys.insert(key);
        assert_true(regions.remove_region(key).ok());
        assert_false(regions.remote(key, kPd, kQpn, kIova, 1, kRemoteRead).has_value());
    }
    assert_true(keys.size() > 990);
}

TEST(add_region__remote_write_without_local__refused) {
    RegionTable regions(2, RandomKey::repeatable(1));
    assert_true(regions.add_region(kPd, kHost, kIova, kLen, kRemoteWrite).error().kind() ==
                ErrorKind::kInvalidArgument);
    assert_true(regions.add_region(kPd, ~std::uint64_t{0} - 1, kIova, kLen, 0).error().kind() ==
                ErrorKind::kOutOfRange);
}

// UCX 1.13 crashes with odd ones.
TEST(add_region__all_memory__even_key) {
    RegionTable regions(16, RandomKey::repeatable(1));
    std::set<std::uint32_t> lowest_bits;
    for (int i = 0; i < 100; ++i) {
        const std::uint32_t all = *regions.add_region(kPd, 0, 0, ~std::uint64_t{0}, kAll);
        const std::uint32_t some = *regions.add_region(kPd, kHost, kIova, kLen, kAll);
        assert_int_equal(all % 2, 0);
        assert_true(regions.remote(all, kPd, kQpn, kHost, kLen, kRemoteRead).has_value());
        lowest_bits.insert(some % 2);
        assert_true(regions.remove_region(all).ok());
        assert_true(regions.remove_region(some).ok());
    }
    assert_int_equal(lowest_bits.size(), 2);
}

TEST(add_region__table_full__insufficient_resources) {
    RegionTable regions(2, RandomKey::repeatable(1));
    assert_true(regions.add_region(kPd, kHost, kIova, kLen, 0).ok());
    assert_true(regions.add_window(kPd, WindowType::kType1).ok());
    assert_true(regions.add_region(kPd, kHost, kIova, kLen, 0).error().kind() ==
                ErrorKind::kInsufficientResources);
}

TEST(window2__bound__opens_its_range_for_its_queue_pair_only) {
    Table table;
    const std::uint32_t fresh = table.window(WindowType::kType2);
    assert_false(table.opens(fresh, kIova, 1));
    assert_true(table.bind(fresh, fresh ^ 3, kRemoteRead, kIova + 0x10));
    assert_false(table.opens(fresh, kIova + 0x10, 1));
    assert_true(table.opens(fresh ^ 3, kIova + 0x10, 0x100));
    assert_false(table.opens(fresh ^ 3, kIova + 0x10, 0x101));
    assert_false(table.opens(fresh ^ 3, kIova, 1));
    assert_false(table.opens(fresh ^ 3, kIova + 0x10, 1, kRemoteWrite));
    assert_false(table.opens(fresh ^ 3, kIova + 0x10, 1, kRemoteRead, kPd, kOtherQpn));
    assert_false(table.regions.local(fresh ^ 3, kPd, kIova + 0x10, 1, 0).has_value());
}

TEST(window2__bound_twice__only_after_invalidation) {
    Table table;
    const std::uint32_t fresh = table.window(WindowType::kType2);
    assert_true(table.bind(fresh, fresh ^ 1));
    assert_false(table.bind(fresh ^ 1, fresh ^ 2));
    assert_false(table.regions.invalidate(fresh ^ 1, kPd, kOtherQpn));
    assert_false(table.regions.invalidate(fresh, kPd, kQpn));
    assert_true(table.regions.invalidate(fresh ^ 1, kPd, kQpn));
    assert_false(table.regions.invalidate(fresh ^ 1, kPd, kQpn));
    assert_false(table.opens(fresh ^ 1, kIova, 1));
    assert_true(table.bind(fresh ^ 1, fresh ^ 2));
    assert_true(table.opens(fresh ^ 2, kIova, 1));
}

TEST(window1__rebound_and_unbound__key_follows) {
    Table table;
    const std::uint32_t fresh = table.window(WindowType::kType1);
    assert_true(table.bind(fresh, fresh ^ 1));
    assert_true(table.opens(fresh ^ 1, kIova, 1, kRemoteRead, kPd, kOtherQpn));
    assert_false(table.regions.invalidate(fresh ^ 1, kPd, kQpn));
    assert_true(table.bind(fresh ^ 1, fresh ^ 2, kRemoteRead, kIova + 0x20));
    assert_false(table.opens(fresh ^ 1, kIova, 1));
    assert_false(table.opens(fresh ^ 2, kIova, 1));
    assert_true(table.opens(fresh ^ 2, kIova + 0x20, 1));
    assert_true(table.bind(fresh ^ 2, fresh ^ 3, 0, 0, 0));
    assert_false(table.opens(fresh ^ 3, kIova + 0x20, 1));
}

TEST(bind__what_the_region_forbids__refused) {
    Table table;
    const std::uint32_t fresh = table.window(WindowType::kType2);
    assert_false(table.bind(fresh, fresh ^ 0x100)); // another index
    assert_false(table.bind(fresh, fresh ^ 1, kLocalWrite));
    assert_false(table.bind(fresh, fresh ^ 1, kRemoteRead, kIova + kLen - 1, 2));
    const std::uint32_t plain = *table.regions.add_region(kPd, kHost, kIova, kLen, kRemoteRead);
    assert_false(table.regions.bind({fresh, fresh ^ 1, plain, kIova, 1, kRemoteRead}, kPd, kQpn));
    const std::uint32_t fixed = *table.regions.add_region(kPd, kHost, kIova, kLen, kMwBindAllowed);
    assert_false(table.regions.bind({fresh, fresh ^ 1, fixed, kIova, 1, kRemoteWrite}, kPd, kQpn));
    assert_false(table.regions.bind({fresh, fresh ^ 1, table.key, kIova, 1, kRemoteRead}, kOtherPd, kQpn));
}

TEST(change_region__other_bytes_and_domain__same_key_opens_them_alone) {
    Table table;
    assert_true(
        table.regions.change_region(table.key, kOtherPd, kHost + 0x100, kIova * 2, 0x10, kRemoteRead).ok());
    assert_false(table.opens(table.key, kIova * 2, 1));
    assert_int_equal(*table.regions.remote(table.key, kOtherPd, kQpn, kIova * 2 + 5, 1, kRemoteRead),
                     kHost + 0x105);
    assert_false(table.opens(table.key, kIova * 2, 0x11, kRemoteRead, kOtherPd));
    assert_false(table.opens(table.key, kIova * 2, 1, kRemoteWrite, kOtherPd));
}

TEST(change_region__wrong_or_busy__stays_as_it_was) {
    Table table;
    const auto kind = [&](std::uint32_t key, std::uint64_t addr, std::uint32_t access) {
        return table.regions.change_region(key, kPd, addr, addr, kLen, access).error().kind();
    };
    assert_true(kind(table.key ^ 1, kHost, kRemoteRead) == ErrorKind::kNotFound);
    assert_true(kind(table.key, kHost, kRemoteWrite) == ErrorKind::kInvalidArgument);
    assert_true(kind(table.key, ~std::uint64_t{0}, kRemoteRead) == ErrorKind::kOutOfRange);
    const std::uint32_t fresh = table.window(WindowType::kType2);
    assert_true(kind(fresh, kHost, kRemoteRead) == ErrorKind::kNotFound);
    assert_true(table.bind(fresh, fresh ^ 1));
    assert_true(kind(table.key, kHost, kRemoteRead) == ErrorKind::kBusy);
    assert_true(table.opens(table.key, kIova, kLen, kRemoteWrite));
}

TEST(remove_region__window_bound__busy_until_unbound) {
    Table table;
    const std::uint32_t fresh = table.window(WindowType::kType2);
    assert_true(table.bind(fresh, fresh ^ 1));
    assert_true(table.regions.remove_region(table.key).error().kind() == ErrorKind::kBusy);
    table.regions.forget_queue_pair(kOtherQpn);
    assert_true(table.opens(fresh ^ 1, kIova, 1));
    table.regions.forget_queue_pair(kQpn);
    assert_false(table.opens(fresh ^ 1, kIova, 1));
    assert_true(table.regions.remove_region(table.key).ok());
    assert_true(table.regions.remove_window(fresh ^ 1).ok());
    assert_true(table.regions.remove_window(fresh ^ 1).error().kind() == ErrorKind::kNotFound);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.regions");
}
