// SPDX-License-Identifier: BSD-3-Clause
//
// The choice under kernels that aren't at hand: riscv_hwprobe() as each of them answers it.
#include "core/coherence/riscv64.hpp"

#include <cerrno>
#include <cstring>

#include "core/coherence/choice.hpp"
#include "tests/cmocka.hpp"

using sluice::ErrorKind;
using sluice::Result;
using sluice::coherence::choose;
using sluice::coherence::CpuFacts;
using sluice::coherence::Ops;

namespace {

constexpr std::uint64_t kZicbom = std::uint64_t{1} << 55;
const CpuFacts kWithZicbom{0, kZicbom, 64};

void assert_not_supported(const CpuFacts& facts, const char* reason) {
    const Result<Ops> ops = choose(facts, "");
    assert_true(ops.error().kind() == ErrorKind::kNotSupported);
    assert_non_null(std::strstr(ops.error().text(), reason));
}

TEST(choose__zicbom__clean_and_flush_with_fences) {
    const Result<Ops> ops = choose(kWithZicbom, "");
    assert_string_equal(ops->clean.name, "cbo.clean");
    assert_string_equal(ops->invalidate.name, "cbo.flush");
    assert_string_equal(ops->before_clean.name, "fence rw,rw");
    assert_string_equal(ops->after_clean.name, "fence iorw,iorw");
    assert_string_equal(ops->before_invalidate.name, "fence iorw,iorw");
    assert_string_equal(ops->after_invalidate.name, "fence iorw,iorw");
}

TEST(choose__block_size__steps_by_it) {
    assert_int_equal(choose({0, kZicbom, 128}, "")->line_bytes, 128);
    assert_int_equal(choose({0, kZicbom, 32}, "")->granule_bytes, 32);
}

TEST(choose__no_hwprobe__not_supported_with_errno) {
    assert_not_supported({ENOSYS, 0, 0}, "no riscv_hwprobe()");
    assert_int_equal(choose({ENOSYS, 0, 0}, "").error().os_errno(), ENOSYS);
}

TEST(choose__no_zicbom__not_supported) {
    assert_not_supported({0, ~kZicbom, 64}, "doesn't report Zicbom");
}

TEST(choose__block_size_missing_or_odd__not_supported) {
    assert_not_supported({0, kZicbom, 0}, "size of its blocks");
    assert_not_supported({0, kZicbom, 48}, "size of its blocks");
}

TEST(choose__forced__weaker_taken_and_inval_never) {
    assert_string_equal(choose(kWithZicbom, "cbo.flush")->clean.name, "cbo.flush");
    assert_true(choose(kWithZicbom, "cbo.inval").error().kind() == ErrorKind::kInvalidArgument);
}

TEST(barriers__device_output_and_input) {
    assert_string_equal(sluice::coherence::native_barriers().to_device.name, "fence ow,ow");
    assert_string_equal(sluice::coherence::native_barriers().from_device.name, "fence ir,ir");
}

// The emulator that runs this has neither; a newer one, or a board, has both.
TEST(this_machine__without_means__says_so) {
    const CpuFacts facts = sluice::coherence::read_facts();
    const Result<Ops> ops = sluice::coherence::choose_for_this_cpu("");
    assert_int_equal(ops.ok(), (facts.ima_ext_0 & kZicbom) != 0);
    if (!ops) {
        assert_true(ops.error().kind() == ErrorKind::kNotSupported);
        assert_non_null(std::strstr(ops.error().text(), "Zicbom"));
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests("cacheflush.riscv64");
}
