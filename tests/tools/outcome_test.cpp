// SPDX-License-Identifier: BSD-3-Clause
//
// What `sluice persist run` takes for possible behind a cut of the power.
#include <algorithm>
#include <set>
#include <string>

#include "tools/persist/outcome.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::tools::persist;

namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kWord = 8;

std::string lines_of(char c, std::size_t count) {
    return std::string(count * kLine, c);
}

std::set<std::string> contents(const Outcomes& outcomes, unsigned count) {
    std::set<std::string> all;
    for (unsigned number = 0; number < count; ++number) {
        if (const std::optional<Outcome> outcome = outcomes.at(number)) {
            all.insert(*outcome->files.at(0));
        }
    }
    return all;
}

TEST(all_flushed__one_outcome) {
    const Outcomes outcomes({{lines_of('a', 3), lines_of('a', 3)}}, 1);
    assert_false(outcomes.has_unflushed());
    assert_true(outcomes.at(0)->files.at(0) == lines_of('a', 3));
    assert_true(outcomes.at(0)->lost.empty());
    for (unsigned number = 1; number < 20; ++number) {
        assert_false(outcomes.at(number).has_value());
    }
}

TEST(first_outcomes__nothing_and_all) {
    const Outcomes outcomes({{lines_of('b', 2), lines_of('a', 2)}}, 1);
    assert_true(outcomes.at(0)->files.at(0) == lines_of('a', 2));
    assert_true(outcomes.at(1)->files.at(0) == lines_of('b', 2));
    assert_int_equal(outcomes.at(0)->lost.size(), 1);
    assert_int_equal(outcomes.at(0)->lost.at(0).first, 0);
    assert_int_equal(outcomes.at(0)->lost.at(0).last, 2 * kLine - 1);
    assert_true(outcomes.at(1)->lost.empty());
}

TEST(two_lines__each_alone_with_any_seed) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const Outcomes outcomes({{lines_of('b', 2), lines_of('a', 2)}}, seed);
        const std::set<std::string> all = contents(outcomes, 14);
        assert_true(all.contains(lines_of('a', 1) + lines_of('b', 1)));
        assert_true(all.contains(lines_of('b', 1) + lines_of('a', 1)));
    }
}

TEST(two_words_of_a_line__each_alone_with_any_seed) {
    std::string caches = lines_of('a', 1);
    caches.replace(0, kWord, kWord, 'b').replace(24, kWord, kWord, 'c');
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const Outcomes outcomes({{caches, lines_of('a', 1)}}, seed);
        const std::set<std::string> all = contents(outcomes, 14);
        assert_int_equal(all.size(), 4);
    }
}

TEST(words__whole_or_not_at_all) {
    const Outcomes outcomes({{lines_of('b', 4), lines_of('a', 4)}}, 7);
    for (const std::string& left : contents(outcomes, 100)) {
        for (std::size_t at = 0; at < left.size(); at += kWord) {
            assert_true(std::count(left.begin() + static_cast<std::ptrdiff_t>(at),
                                   left.begin() + static_cast<std::ptrdiff_t>(at + kWord),
                                   left[at]) == static_cast<std::ptrdiff_t>(kWord));
        }
    }
}

TEST(flushed_words__survive_always) {
    std::string caches = lines_of('b', 4);
    caches.replace(kLine, kLine, kLine, 'a');
    const Outcomes outcomes({{caches, lines_of('a', 4)}}, 7);
    for (const std::string& left : contents(outcomes, 100)) {
        assert_true(left.substr(kLine, kLine) == lines_of('a', 1));
    }
}

TEST(longer_file__zeros_where_nothing_survives) {
    const Outcomes outcomes({{lines_of('a', 1) + "bcd", lines_of('a', 1)}}, 1);
    assert_true(outcomes.at(0)->files.at(0) == lines_of('a', 1) + std::string(3, '\0'));
    assert_true(outcomes.at(1)->files.at(0) == lines_of('a', 1) + "bcd");
    assert_int_equal(outcomes.at(0)->lost.at(0).last, kLine + 2);
}

TEST(shorter_file__as_short) {
    const Outcomes outcomes({{"ab", lines_of('a', 2)}}, 1);
    assert_true(outcomes.at(0)->files.at(0) == "aa");
    assert_true(outcomes.at(1)->files.at(0) == "ab");
}

TEST(two_files__lines_of_both_are_drawn) {
    const Outcomes outcomes({{"b", "a"}, {"d", "c"}}, 1);
    std::set<std::string> all;
    for (unsigned number = 0; number < 14; ++number) {
        if (const std::optional<Outcome> outcome = outcomes.at(number)) {
            all.insert(*outcome->files.at(0) + *outcome->files.at(1));
        }
    }
    assert_true(all == (std::set<std::string>{"ac", "bd", "ad", "bc"}));
}

TEST(same_seed__same_outcomes) {
    const std::vector<AtCut> files{{lines_of('b', 9), lines_of('a', 9)}};
    const Outcomes one(files, 3);
    const Outcomes same(files, 3);
    const Outcomes other(files, 4);
    bool differs = false;
    for (unsigned number = 0; number < 30; ++number) {
        assert_true(one.at(number)->files == same.at(number)->files);
        differs = differs || one.at(number)->files != other.at(number)->files;
    }
    assert_true(differs);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
