// SPDX-License-Identifier: BSD-3-Clause
//
// The choice on CPUs that aren't at hand: CTR_EL0 as each of them answers it.
#include "core/coherence/aarch64.hpp"

#include <bit>

#include "core/coherence/choice.hpp"
#include "tests/cmocka.hpp"

using sluice::ErrorKind;
using sluice::Result;
using sluice::coherence::choose;
using sluice::coherence::CpuFacts;
using sluice::coherence::Ops;

namespace {

// Logarithms of the number of 4-byte words, as the register has them.
CpuFacts ctr(std::uint64_t cwg, std::uint64_t dminline) {
    return {std::uint64_t{1} << 31 | cwg << 24 | std::uint64_t{4} << 20 | dminline << 16 | 4};
}

void assert_sizes(const CpuFacts& facts, std::size_t line_bytes, std::size_t granule_bytes) {
    const Result<Ops> ops = choose(facts, "");
    assert_int_equal(ops->line_bytes, line_bytes);
    assert_int_equal(ops->granule_bytes, granule_bytes);
}

TEST(choose__line_sizes__dminline_steps_and_cwg_is_the_granule) {
    assert_sizes(ctr(4, 4), 64, 64);   // most
    assert_sizes(ctr(3, 3), 32, 32);   // smallest in use
    assert_sizes(ctr(5, 5), 128, 128); // some servers
    assert_sizes(ctr(5, 4), 64, 128);  // outer caches with larger lines
    assert_sizes(ctr(4, 3), 32, 64);   // big and little cores
}

TEST(choose__cwg_unknown__worst_case_granule) {
    assert_sizes(ctr(0, 4), 64, 2048);
}

TEST(choose__cwg_smaller_than_a_line__line_is_the_granule) {
    assert_sizes(ctr(3, 5), 128, 128);
}

TEST(choose__best__cvac_and_civac_with_dsb) {
    const Result<Ops> ops = choose(ctr(4, 4), "");
    assert_string_equal(ops->clean.name, "cvac");
    assert_string_equal(ops->invalidate.name, "civac");
    assert_string_equal(ops->before_clean.name, "none");
    assert_string_equal(ops->after_clean.name, "dsb sy");
    assert_string_equal(ops->before_invalidate.name, "dsb sy");
    assert_string_equal(ops->after_invalidate.name, "dsb sy");
}

TEST(choose__forced__weaker_taken_and_unknown_refused) {
    assert_string_equal(choose(ctr(4, 4), "civac")->clean.name, "civac");
    assert_true(choose(ctr(4, 4), "cvap").error().kind() == ErrorKind::kInvalidArgument);
}

TEST(choose__persist__cvap_where_the_cpu_has_it) {
    CpuFacts facts = ctr(4, 4);
    assert_string_equal(choose(facts, "")->persist.name, "cvac");
    facts.hwcap = 1u << 16; // HWCAP_DCPOP
    assert_string_equal(choose(facts, "")->persist.name, "cvap");
    assert_string_equal(choose(facts, "")->clean.name, "cvac");
}

// Without DCPOP persistence is where a clean ends, so what is forced for a clean is right for it. With DCPOP
// it lies behind that, where dc cvap alone gets.
TEST(choose__persist_forced__as_clean_without_dcpop_and_cvap_with_it) {
    CpuFacts facts = ctr(4, 4);
    assert_string_equal(choose(facts, "civac")->persist.name, "civac");
    assert_string_equal(choose(facts, "cvac")->persist.name, "cvac");
    facts.hwcap = 1u << 16; // HWCAP_DCPOP
    assert_string_equal(choose(facts, "civac")->persist.name, "cvap");
    assert_string_equal(choose(facts, "civac")->clean.name, "civac");
}

TEST(barriers__outer_shareable) {
    assert_string_equal(sluice::coherence::native_barriers().to_device.name, "dmb oshst");
    assert_string_equal(sluice::coherence::native_barriers().from_device.name, "dmb oshld");
}

TEST(read_facts__this_cpu__line_of_a_sane_size) {
    const Result<Ops> ops = sluice::coherence::choose_for_this_cpu("");
    assert_true(std::has_single_bit(ops->line_bytes));
    assert_in_range(ops->line_bytes, 16, 2048);
    assert_true(ops->granule_bytes >= ops->line_bytes);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("cacheflush.aarch64");
}
