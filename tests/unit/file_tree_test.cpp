// SPDX-License-Identifier: BSD-3-Clause
#include "core/file_tree.hpp"

#include <initializer_list>
#include <string>
#include <vector>

#include "tests/machine.hpp"
// Last: its macros are common words.
#include "tests/cmocka.hpp"

using sluice::ErrorKind;
using sluice::FileTree;
using sluice::Result;
using sluice::test::Machine;

namespace {

constexpr char kFile[] = "/proc/lines";
constexpr std::size_t kLimit = std::size_t{1} << 20;

struct Lines {
    std::vector<std::string> taken;
    bool succeeded = false;
};

Lines lines_of(const std::string& text, std::size_t limit_bytes = kLimit) {
    Machine machine;
    machine.write(kFile, text);
    Lines lines;
    lines.succeeded = FileTree(machine.root())
                          .read_lines(kFile, limit_bytes,
                                      [&](std::string_view line) {
                                          lines.taken.emplace_back(line);
                                          return true;
                                      })
                          .ok();
    return lines;
}

std::string joined(const std::vector<std::string>& lines) {
    std::string all;
    for (const std::string& line : lines) {
        all += line;
    }
    return all;
}

TEST(read_lines__short_file__each_line_without_its_end) {
    assert_true(lines_of("").taken.empty());
    assert_true(lines_of("\n").taken == std::vector<std::string>{""});
    assert_true(lines_of("a\n\nb").taken == (std::vector<std::string>{"a", "", "b"}));
    assert_true(lines_of("a\nb\n").taken == (std::vector<std::string>{"a", "b"}));
}

// Longer than what is read at once, so that lines lie across its ends at every place.
TEST(read_lines__long_file__the_same_lines) {
    std::string text;
    std::vector<std::string> wanted;
    for (std::size_t i = 0; text.size() < 20 * FileTree::kMaxLine; ++i) {
        wanted.emplace_back(i % 251, static_cast<char>('a' + i % 26));
        text += wanted.back() + "\n";
    }
    assert_true(lines_of(text).taken == wanted);
}

TEST(read_lines__line_too_long__in_pieces) {
    const std::string longest(FileTree::kMaxLine - 1, 'x');
    assert_true(lines_of(longest + "\nend\n").taken == (std::vector<std::string>{longest, "end"}));
    const std::string longer = "ab" + std::string(3 * FileTree::kMaxLine, 'y') + "z";
    const Lines pieces = lines_of("first\n" + longer + "\nlast");
    assert_true(pieces.taken.size() > 4);
    assert_string_equal(pieces.taken.front().c_str(), "first");
    assert_string_equal(pieces.taken.back().c_str(), "last");
    assert_string_equal(joined(pieces.taken).c_str(), ("first" + longer + "last").c_str());
}

TEST(read_lines__enough__no_more_is_taken) {
    Machine machine;
    machine.write(kFile, "1\n2\n3\n" + std::string(kLimit, '\n'));
    std::string taken;
    const Result<void> read = FileTree(machine.root()).read_lines(kFile, kLimit, [&](std::string_view line) {
        taken += line;
        return taken.size() < 2;
    });
    assert_true(read.ok());
    assert_string_equal(taken.c_str(), "12");
}

TEST(read_lines__longer_than_the_limit__an_error_behind_what_is_there) {
    for (const std::size_t limit_bytes : {std::size_t{0}, std::size_t{5}}) {
        assert_false(lines_of("abc\ndef", limit_bytes).succeeded);
    }
    const Lines exact = lines_of("abc\ndef", 7);
    assert_true(exact.succeeded);
    assert_int_equal(exact.taken.size(), 2);
}

TEST(read_lines__no_regular_file__an_error) {
    Machine machine;
    const FileTree tree(machine.root());
    const auto nothing = [](std::string_view) { return true; };
    assert_false(tree.read_lines(kFile, kLimit, nothing).ok());
    machine.write(std::string(kFile) + "/file", "");
    const Result<void> directory = tree.read_lines(kFile, kLimit, nothing);
    assert_true(!directory.ok() && directory.error().kind() == ErrorKind::kInvalidArgument);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
