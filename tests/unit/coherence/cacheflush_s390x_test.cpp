// SPDX-License-Identifier: BSD-3-Clause
//
// An architecture that is coherent by its own promise: order remains, lines don't.
#include "core/coherence/s390x.hpp"

#include <cstring>

#include "core/coherence/choice.hpp"
#include "tests/cmocka.hpp"

using sluice::ErrorKind;
using sluice::Result;
using sluice::coherence::choose;
using sluice::coherence::Ops;

namespace {

TEST(choose__always__no_instruction_and_serialising_fences) {
    const Result<Ops> ops = choose({}, "");
    assert_string_equal(ops->clean.name, "nothing: coherent");
    assert_string_equal(ops->invalidate.name, "nothing: coherent");
    assert_string_equal(ops->after_clean.name, "bcr 15,0");
    assert_string_equal(ops->before_invalidate.name, "bcr 15,0");
    assert_string_equal(ops->after_invalidate.name, "bcr 15,0");
    assert_int_equal(ops->line_bytes, 256);
}

TEST(choose__anything_forced__refused) {
    const Result<Ops> ops = choose({}, "clflush");
    assert_true(ops.error().kind() == ErrorKind::kInvalidArgument);
    assert_non_null(std::strstr(ops.error().text(), "SLUICE_CACHEFLUSH=clflush"));
}

TEST(barriers__serialise) {
    assert_string_equal(sluice::coherence::native_barriers().to_device.name, "bcr 15,0");
    assert_string_equal(sluice::coherence::native_barriers().from_device.name, "bcr 15,0");
}

TEST(this_machine__chooses) {
    assert_true(sluice::coherence::choose_for_this_cpu("").ok());
}

} // namespace

int main() {
    return sluice::test::run_all_tests("cacheflush.s390x");
}
