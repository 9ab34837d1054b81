// SPDX-License-Identifier: BSD-3-Clause
//
// The choice on CPUs that aren't at hand: CPUID as each of them answers it.
#include "core/coherence/x86_64.hpp"

#include <cstring>

#include "core/coherence/choice.hpp"
#include "tests/cmocka.hpp"

using sluice::ErrorKind;
using sluice::Result;
using sluice::coherence::choose;
using sluice::coherence::CpuFacts;
using sluice::coherence::Ops;

namespace {

constexpr std::uint32_t kLines64 = 8 << 8;
constexpr std::uint32_t kClflush = 1u << 19;
constexpr std::uint32_t kClflushopt = 1u << 23;
constexpr std::uint32_t kClwb = 1u << 24;

CpuFacts cpu(const char (&vendor)[13], std::uint32_t signature, std::uint32_t leaf7_ebx) {
    CpuFacts facts;
    std::memcpy(facts.vendor.data(), vendor, 12);
    facts.signature = signature;
    facts.leaf1_ebx = kLines64;
    facts.leaf1_edx = kClflush;
    facts.leaf7_ebx = leaf7_ebx;
    return facts;
}

const CpuFacts kHaswell = cpu("GenuineIntel", 0x000306c3, 0);
const CpuFacts kSkylakeClient = cpu("GenuineIntel", 0x000506e3, kClflushopt);
const CpuFacts kIceLake = cpu("GenuineIntel", 0x000606a6, kClflushopt | kClwb);
const CpuFacts kBayTrail = cpu("GenuineIntel", 0x00030678, 0);
const CpuFacts kGoldmont = cpu("GenuineIntel", 0x000506c9, kClflushopt);
const CpuFacts kTremont = cpu("GenuineIntel", 0x00090661, kClflushopt | kClwb);
const CpuFacts kBulldozer = cpu("AuthenticAMD", 0x00600f12, 0);
const CpuFacts kZen1 = cpu("AuthenticAMD", 0x00800f11, kClflushopt);
const CpuFacts kZen4 = cpu("AuthenticAMD", 0x00a10f11, kClflushopt | kClwb);
const CpuFacts kHygonHidden = cpu("HygonGenuine", 0x00900f01, 0); // by a hypervisor

void assert_instructions(const CpuFacts& facts, const char* forced, const char* clean,
                         const char* invalidate) {
    const Result<Ops> ops = choose(facts, forced);
    assert_true(ops.ok());
    assert_string_equal(ops->clean.name, clean);
    assert_string_equal(ops->invalidate.name, invalidate);
    assert_int_equal(ops->line_bytes, 64);
    assert_int_equal(ops->granule_bytes, 64);
}

void assert_fences(const CpuFacts& facts, const char* before_clean, const char* after_clean) {
    const Result<Ops> ops = choose(facts, "");
    assert_string_equal(ops->before_clean.name, before_clean);
    assert_string_equal(ops->after_clean.name, after_clean);
    assert_string_equal(ops->before_invalidate.name, "mfence");
    assert_string_equal(ops->after_invalidate.name, "mfence");
}

TEST(choose__intel__best_that_is_present) {
    assert_instructions(kHaswell, "", "clflush", "clflush");
    assert_instructions(kSkylakeClient, "", "clflushopt", "clflushopt");
    assert_instructions(kIceLake, "", "clwb", "clflushopt");
}

TEST(choose__amd__best_that_is_present) {
    assert_instructions(kBulldozer, "", "clflush", "clflush");
    assert_instructions(kZen1, "", "clflushopt", "clflushopt");
    assert_instructions(kZen4, "", "clwb", "clflushopt");
}

TEST(choose__atom__last_line_flushed_twice_by_invalidate_only) {
    assert_instructions(kBayTrail, "", "clflush", "clflush, last line twice");
    assert_instructions(kGoldmont, "", "clflushopt", "clflushopt, last line twice");
    assert_instructions(kTremont, "", "clwb", "clflushopt, last line twice");
    assert_instructions(kTremont, "clflush", "clflush", "clflush, last line twice");
}

TEST(choose__same_model_number_of_another_vendor_or_family__not_an_atom) {
    assert_instructions(cpu("AuthenticAMD", 0x00030678, kClflushopt), "", "clflushopt", "clflushopt");
    assert_instructions(cpu("GenuineIntel", 0x00030f78, kClflushopt), "", "clflushopt", "clflushopt");
}

TEST(choose__clwb_without_clflushopt__invalidate_uses_clflush) {
    assert_instructions(cpu("GenuineIntel", 0x000606a6, kClwb), "", "clwb", "clflush");
}

TEST(choose__fences__sfence_after_clean_and_mfence_around_invalidate) {
    assert_fences(kIceLake, "none", "sfence");
    assert_fences(kHaswell, "none", "sfence");
    assert_fences(kBayTrail, "none", "sfence");
    assert_fences(kZen4, "none", "sfence");
}

TEST(choose__amd_and_hygon_without_clflushopt__mfence_around_everything) {
    assert_fences(kBulldozer, "mfence", "mfence");
    assert_fences(kHygonHidden, "mfence", "mfence");
}

TEST(choose__weaker_forced__both_operations_follow) {
    assert_instructions(kIceLake, "clwb", "clwb", "clflushopt");
    assert_instructions(kIceLake, "clflushopt", "clflushopt", "clflushopt");
    assert_instructions(kIceLake, "clflush", "clflush", "clflush");
}

void assert_refused(const CpuFacts& facts, const char* forced, ErrorKind kind, const char* reason) {
    const Result<Ops> ops = choose(facts, forced);
    assert_false(ops.ok());
    assert_true(ops.error().kind() == kind);
    assert_non_null(std::strstr(ops.error().text(), reason));
}

TEST(choose__forced_one_is_absent__refused) {
    assert_refused(kHaswell, "clwb", ErrorKind::kNotSupported, "use one of: clflush,");
    assert_refused(kSkylakeClient, "clwb", ErrorKind::kNotSupported, "use one of: clflushopt clflush,");
    assert_refused(kHaswell, "clflushopt", ErrorKind::kNotSupported, "SLUICE_CACHEFLUSH=clflushopt");
}

TEST(choose__forced_one_is_unknown__refused) {
    assert_refused(kIceLake, "wbinvd", ErrorKind::kInvalidArgument, "clwb clflushopt clflush");
}

TEST(choose__no_clflush__not_supported) {
    CpuFacts facts = kHaswell;
    facts.leaf1_edx = 0;
    assert_refused(facts, "", ErrorKind::kNotSupported, "no clflush");
    assert_refused(facts, "clflush", ErrorKind::kNotSupported, "no clflush");
}

TEST(choose__no_or_odd_line_size__not_supported) {
    CpuFacts facts = kHaswell;
    facts.leaf1_ebx = 0;
    assert_refused(facts, "", ErrorKind::kNotSupported, "line size");
    facts.leaf1_ebx = 6 << 8;
    assert_refused(facts, "", ErrorKind::kNotSupported, "line size");
}

TEST(choose__line_of_32_bytes__steps_by_it) {
    CpuFacts facts = kHaswell;
    facts.leaf1_ebx = 4 << 8;
    assert_int_equal(choose(facts, "")->line_bytes, 32);
}

TEST(read_facts__this_cpu__what_every_x86_64_has) {
    const CpuFacts facts = sluice::coherence::read_facts();
    assert_true((facts.leaf1_edx & kClflush) != 0);
    assert_int_equal(facts.leaf1_ebx >> 8 & 0xff, 8);
    assert_true(sluice::coherence::choose_for_this_cpu("clflush").ok());
}

} // namespace

int main() {
    return sluice::test::run_all_tests("cacheflush.x86_64");
}
