// SPDX-License-Identifier: BSD-3-Clause
#include "tools/nearest.hpp"

#include "tests/cmocka.hpp"

using namespace sluice::tools;

namespace {

TEST(edits_between__each_kind_of_edit__costs_one) {
    assert_int_equal(edits_between("devices", "devices"), 0);
    assert_int_equal(edits_between("device", "devices"), 1);
    assert_int_equal(edits_between("deevices", "devices"), 1);
    assert_int_equal(edits_between("devises", "devices"), 1);
    assert_int_equal(edits_between("edvices", "devices"), 1);
    assert_int_equal(edits_between("", "run"), 3);
    assert_int_equal(edits_between("run", ""), 3);
    assert_int_equal(edits_between("ca", "abc"), 3); // no place twice
}

TEST(nearest__two_edits__found_and_three_not) {
    const std::vector<std::string> words{"devices", "info", "doctor", "stat"};
    assert_string_equal(nearest("dveics", words).c_str(), "devices");
    assert_string_equal(nearest("docotr", words).c_str(), "doctor");
    assert_string_equal(nearest("dcotorx", words).c_str(), "doctor");
    assert_string_equal(nearest("dcotorxy", words).c_str(), "");
    assert_string_equal(nearest("provider", words).c_str(), "");
}

TEST(nearest__several__the_first_of_the_nearest) {
    assert_string_equal(nearest("uroce9", {"siw0", "uroce0", "uroce1"}).c_str(), "uroce0");
    assert_string_equal(nearest("uroce1", {"uroce0", "uroce1"}).c_str(), "uroce1");
}

TEST(nearest__short_word__needs_more_than_half_right) {
    assert_string_equal(nearest("a", {"b", "ab"}).c_str(), "");
    assert_string_equal(nearest("rn", {"run"}).c_str(), "");
    assert_string_equal(nearest("rum", {"run"}).c_str(), "run");
    assert_string_equal(nearest("", {"x", "yy"}).c_str(), "");
}

TEST(nearest__word_of_a_megabyte__no_table_for_it) {
    assert_string_equal(nearest(std::string(1 << 20, 'x'), {"run"}).c_str(), "");
}

TEST(did_you_mean__says_it_or_nothing) {
    assert_string_equal(did_you_mean("dta", {"dat"}).c_str(), " (did you mean 'dat'?)");
    assert_string_equal(did_you_mean("nosuch", {"dat"}).c_str(), "");
}

} // namespace

int main() {
    return sluice::test::run_all_tests("tools.nearest");
}
