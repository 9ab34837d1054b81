// SPDX-License-Identifier: BSD-3-Clause
//
// For how long it stays decided where a region of another process lies. The process is this one, and nothing
// of it can be mapped; that is a decision, too.
#include <unistd.h>

#include "roce/near/shared_regions.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::roce;
using Search = near::SharedRegions::Search;

namespace {

constexpr std::uint32_t kKey = 7 << engine::kKeyVariantBits;
constexpr std::uint32_t kOfTheSamePlace = (7 + 256) << engine::kKeyVariantBits;
constexpr int kUsesBeforeExchange = 256;

near::SeenRegion seen(std::uint32_t key, std::uint32_t version = 2) {
    return {{.key = key, .access = engine::kRemoteWrite, .host_addr = 0x1000, .len_bytes = 64}, version};
}

TEST(region__used_some_times__is_settled) {
    near::SharedRegions regions(getpid());
    int uses = 0;
    for (; !regions.is_settled(kKey); ++uses) {
        assert_true(uses < 100);
        regions.before_use(seen(kKey), Search::kAfterSomeUses);
    }
    assert_true(uses > 1);
    assert_false(regions.is_settled(kOfTheSamePlace));
}

TEST(region__registered_anew_under_its_key__is_settled_until_that_is_seen) {
    near::SharedRegions regions(getpid());
    regions.before_use(seen(kKey), Search::kNow);
    assert_false(regions.find(seen(kKey), {0x1000, 64}).has_value());
    assert_true(regions.is_settled(kKey));
    assert_false(regions.find(seen(kKey, 4), {0x1000, 64}).has_value());
    assert_false(regions.is_settled(kKey));
    regions.before_use(seen(kKey, 4), Search::kNow);
    assert_true(regions.is_settled(kKey));
}

// To ask whether it is settled is a use.
TEST(region__used_in_between__keeps_its_place_from_another) {
    near::SharedRegions regions(getpid());
    regions.before_use(seen(kKey), Search::kNow);
    for (int i = 0; i < 2 * kUsesBeforeExchange; ++i) {
        regions.before_use(seen(kOfTheSamePlace), Search::kNow);
        assert_true(regions.is_settled(kKey));
    }
    for (int i = 0; i < kUsesBeforeExchange; ++i) {
        regions.before_use(seen(kOfTheSamePlace), Search::kNow);
    }
    assert_false(regions.is_settled(kKey));
    assert_true(regions.is_settled(kOfTheSamePlace));
}

TEST(region__before_the_first_use__is_nowhere) {
    near::SharedRegions regions(getpid());
    assert_false(regions.is_settled(kKey));
    assert_false(regions.find(seen(kKey), {0x1000, 64}).has_value());
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
