// SPDX-License-Identifier: BSD-3-Clause
#include "tools/nearest.hpp"

#include <algorithm>

namespace sluice::tools {

namespace {

constexpr std::size_t kMostEdits = 2;
// The table of distances grows with the product of the lengths.
constexpr std::size_t kLongestWord = 256;

// Three rows of the table: of the letter before last, of the last one, of this one.
struct Distances {
    std::vector<std::size_t> before;
    std::vector<std::size_t> last;
    std::vector<std::size_t> now;
};

bool are_exchanged(std::string_view one, std::string_view other, std::size_t i, std::size_t j) {
    return i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
}

void add_letter(Distances& rows, std::string_view one, std::string_view other, std::size_t i) {
    rows.now[0] = i;
    for (std::size_t j = 1; j <= other.size(); ++j) {
        const std::size_t replaced = rows.last[j - 1] + (one[i - 1] == other[j - 1] ? 0 : 1);
        rows.now[j] = std::min({rows.last[j] + 1, rows.now[j - 1] + 1, replaced});
        if (are_exchanged(one, other, i, j)) {
            rows.now[j] = std::min(rows.now[j], rows.before[j - 2] + 1);
        }
    }
}

bool is_near(std::size_t edits, std::string_view word) {
    return edits <= kMostEdits && edits * 2 < word.size();
}

} // namespace

std::size_t edits_between(std::string_view one, std::string_view other) {
    Distances rows{std::vector<std::size_t>(other.size() + 1), std::vector<std::size_t>(other.size() + 1),
                   std::vector<std::size_t>(other.size() + 1)};
    for (std::size_t j = 0; j <= other.size(); ++j) {
        rows.last[j] = j;
    }
    for (std::size_t i = 1; i <= one.size(); ++i) {
        add_letter(rows, one, other, i);
        std::swap(rows.before, rows.last);
        std::swap(rows.last, rows.now);
    }
    return rows.last[other.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& words) {
    std::string found;
    std::size_t fewest = kMostEdits + 1;
    for (const std::string& each : words) {
        if (std::max(each.size(), word.size()) > kLongestWord) {
            continue;
        }
        const std::size_t edits = edits_between(word, each);
        if (is_near(edits, word) && edits < fewest) {
            found = each;
            fewest = edits;
        }
    }
    return found;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& words) {
    const std::string found = nearest(word, words);
    return found.empty() ? "" : " (did you mean '" + found + "'?)";
}

} // namespace sluice::tools
