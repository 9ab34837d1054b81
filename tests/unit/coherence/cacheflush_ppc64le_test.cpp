// SPDX-License-Identifier: BSD-3-Clause
//
// The choice on CPUs that aren't at hand: the auxiliary vector as each of them gives it.
#include "core/coherence/ppc64le.hpp"

#include <cstring>

#include "core/coherence/choice.hpp"
#include "tests/cmocka.hpp"

using sluice::ErrorKind;
using sluice::Result;
using sluice::coherence::choose;
using sluice::coherence::Ops;

namespace {

TEST(choose__block_size__from_the_vector) {
    assert_int_equal(choose({128, 0}, "")->line_bytes, 128); // servers
    assert_int_equal(choose({32, 0}, "")->line_bytes, 32);   // embedded
    assert_int_equal(choose({32, 0}, "")->granule_bytes, 32);
}

TEST(choose__block_size_only_in_the_geometry__taken_from_there) {
    assert_int_equal(choose({0, 0x80080}, "")->line_bytes, 128); // 8 ways of 128 bytes
}

TEST(choose__no_or_odd_block_size__not_supported) {
    const Result<Ops> none = choose({0, 0}, "");
    assert_true(none.error().kind() == ErrorKind::kNotSupported);
    assert_non_null(std::strstr(none.error().text(), "AT_DCACHEBSIZE"));
    assert_false(choose({96, 0}, "").ok());
}

TEST(choose__best__dcbst_and_dcbf_with_sync) {
    const Result<Ops> ops = choose({128, 0}, "");
    assert_string_equal(ops->clean.name, "dcbst");
    assert_string_equal(ops->invalidate.name, "dcbf");
    assert_string_equal(ops->before_clean.name, "none");
    assert_string_equal(ops->after_clean.name, "sync");
    assert_string_equal(ops->before_invalidate.name, "sync");
    assert_string_equal(ops->after_invalidate.name, "sync");
}

TEST(choose__forced__weaker_taken_and_unknown_refused) {
    assert_string_equal(choose({128, 0}, "dcbf")->clean.name, "dcbf");
    assert_true(choose({128, 0}, "dcbi").error().kind() == ErrorKind::kInvalidArgument);
}

TEST(barriers__sync_and_lwsync) {
    assert_string_equal(sluice::coherence::native_barriers().to_device.name, "sync");
    assert_string_equal(sluice::coherence::native_barriers().from_device.name, "lwsync");
}

TEST(read_facts__this_cpu__block_of_128_bytes) {
    assert_int_equal(sluice::coherence::choose_for_this_cpu("")->line_bytes, 128);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("cacheflush.ppc64le");
}
