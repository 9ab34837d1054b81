// SPDX-License-Identifier: BSD-3-Clause
//
// SLUICE_PERSISTENCE is set, and nothing is there that simulates (power_test has the rest).
#include "core/coherence/power.hpp"

#include <cstdlib>
#include <string_view>

#include "tests/cmocka.hpp"

using namespace sluice;

namespace {

TEST(is_power_simulated__nothing_there__error_that_says_what_to_do) {
    const Result<bool> answer = coherence::is_power_simulated();
    assert_false(answer.ok());
    assert_int_equal(answer.error().kind(), ErrorKind::kNotSupported);
    assert_true(std::string_view(answer.error().text()).find("sluice persist run") != std::string_view::npos);
}

TEST(calls__nothing_there__no_answer_is_yes) {
    const char byte = 0;
    const coherence::Range range{.address = reinterpret_cast<std::uintptr_t>(&byte), .length = 1};
    coherence::persist_in_simulation(&range, 1);
    coherence::note_device_write(range);
    coherence::push_device_writes();
    assert_false(coherence::is_simulated_persistent(&byte, 1));
    assert_false(coherence::do_device_writes_pass_caches());
}

} // namespace

int main() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread
    if (setenv("SLUICE_PERSISTENCE", "simulated", 1) != 0) {
        return EXIT_FAILURE;
    }
    return sluice::test::run_all_tests();
}
