// SPDX-License-Identifier: BSD-3-Clause
//
// The parts of `sluice check` that read what others have written.
#include <algorithm>
#include <cstring>
#include <sstream>
#include <string>

#include "tools/check/answer.hpp"
#include "tools/check/record.hpp"
#include "tools/check/report.hpp"
#include "tools/check/suppressions.hpp"
#include "tools/check/tally.hpp"
#include "tools/output.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::tools::check;

namespace {

constexpr const char* kWhole = "finding 1\npid 7\nrule a-rule\nobject queue pair 3\nwhat it is wrong\n"
                               "remedy make it right\nside it was posted\n"
                               "frame 0x1a2b post /a/program with blanks\nframe 0x10 ? /b\n"
                               "side it was written to\nframe 0x20 main /b\nend\n";

RecordReader::Batch read_all(const std::string& text) {
    return RecordReader().feed(text);
}

void assert_equal(const std::string& is, const std::string& wanted) {
    assert_string_equal(is.c_str(), wanted.c_str());
}

TEST(record__whole__all_its_fields) {
    const RecordReader::Batch batch = read_all(kWhole);
    assert_int_equal(batch.findings.size(), 1);
    const Finding& finding = batch.findings[0];
    assert_int_equal(finding.pid, 7);
    assert_equal(finding.rule, "a-rule");
    assert_equal(finding.object, "queue pair 3");
    assert_equal(finding.what, "it is wrong");
    assert_equal(finding.remedy, "make it right");
    assert_int_equal(finding.sides.size(), 2);
    assert_int_equal(finding.sides[0].frames.size(), 2);
    assert_int_equal(finding.sides[0].frames[0].offset, 0x1a2b);
    assert_equal(finding.sides[0].frames[0].function, "post");
    assert_equal(finding.sides[0].frames[0].module, "/a/program with blanks");
    assert_equal(finding.sides[1].title, "it was written to");
}

TEST(record__in_pieces__as_in_one) {
    for (std::size_t size = 1; size < 20; ++size) {
        RecordReader reader;
        std::size_t found = 0;
        for (std::string_view rest = kWhole; !rest.empty(); rest.remove_prefix(std::min(size, rest.size()))) {
            const RecordReader::Batch batch = reader.feed(rest.substr(0, size));
            for (const Finding& finding : batch.findings) {
                ++found;
                assert_equal(finding.sides.at(0).frames.at(0).module, "/a/program with blanks");
            }
        }
        assert_int_equal(found, 1);
    }
}

TEST(record__without_end__none) {
    const std::string whole = kWhole;
    for (std::size_t size = 0; size + 4 < whole.size(); ++size) {
        assert_true(read_all(whole.substr(0, size)).findings.empty());
    }
}

TEST(record__behind_one_that_was_cut_off__is_read) {
    RecordReader reader;
    assert_int_equal(reader.feed("finding 1\nrule cut-off\nside a\n" + std::string(kWhole)).findings.size(),
                     1);
    assert_int_equal(reader.unreadable(), 1);
}

TEST(record__unknown_words_and_bad_frames__passed_over) {
    const RecordReader::Batch batch = read_all(
        "noise\nend\nfinding 1\nrule r\ncolour red\nframe 0x1 before /side\nside s\nframe 12 f /m\n"
        "frame 0x f /m\nframe 0x1g f /m\nframe 0x11112222333344445 f /m\nframe 0x1 f\nframe 0x2 f /m\nend\n");
    assert_int_equal(batch.findings.size(), 1);
    assert_int_equal(batch.findings[0].sides.at(0).frames.size(), 1);
    assert_int_equal(batch.findings[0].sides[0].frames[0].offset, 2);
}

TEST(record__without_a_rule_or_of_another_form__counted_and_not_taken) {
    for (const char* text : {"finding 1\nobject x\nend\n", "finding 1\nrule A Rule\nend\n",
                             "finding 2\nrule r\nend\n", "finding\nrule r\nend\n"}) {
        RecordReader reader;
        assert_true(reader.feed(text).findings.empty());
        assert_int_equal(reader.unreadable(), 1);
    }
}

TEST(record__more_than_the_limits__cut) {
    std::string text = "finding 1\nrule r\nobject ok\n";
    text +=
        "what " + std::string(sluice::report::file::kLongestLine, 'x') + "\n"; // with its word it is too long
    for (std::size_t side = 0; side < kMostSides + 2; ++side) {
        text += "side s\n";
        for (std::size_t frame = 0; frame < kMostFrames + 2; ++frame) {
            text += "frame 0x1 f /m\n";
        }
    }
    const RecordReader::Batch batch = read_all(text + "end\n");
    assert_int_equal(batch.findings.size(), 1);
    assert_equal(batch.findings[0].what, "");
    assert_equal(batch.findings[0].object, "ok");
    assert_int_equal(batch.findings[0].sides.size(), kMostSides);
    assert_int_equal(batch.findings[0].sides[0].frames.size(), kMostFrames);
}

TEST(blind_spot__anywhere__taken) {
    const RecordReader::Batch batch = read_all("blind one\nfinding 1\nblind two\nrule r\nend\n");
    assert_int_equal(batch.blind_spots.size(), 2);
    assert_equal(batch.blind_spots[1], "two");
    assert_int_equal(batch.findings.size(), 1);
}

TEST(text__what_a_terminal_executes__is_no_part_of_it) {
    assert_equal(printable("\x1b[2J\a\x7f"), "?[2J??");
    assert_equal(printable("\xc2\x9b"
                           "2J"),
                 "??2J"); // U+009B begins a sequence, too
    assert_equal(printable("Gr\xc3\xb6\xc3\x9f"
                           "e \xe2\x82\xac \xf0\x9f\x98\x80"),
                 "Gr\xc3\xb6\xc3\x9f"
                 "e \xe2\x82\xac \xf0\x9f\x98\x80");
    assert_equal(printable("\xc0\xaf\xe0\x80\xaf\xed\xa0\x80\xf5\x80\x80\x80\xff\xe2\x82"),
                 "???????????????");
}

TEST(answer__inlined_functions__each_a_place) {
    const std::vector<Place> places =
        places_in("0x0000000000001138\nibv_post_send\n/usr/include/infiniband/../infiniband/verbs.h:3300\n"
                  "post(int)\n/src/pair.c:300 (discriminator 3)\n");
    assert_int_equal(places.size(), 2);
    assert_equal(places[0].function, "ibv_post_send");
    assert_equal(places[0].file, "/usr/include/infiniband/verbs.h");
    assert_int_equal(places[0].line, 3300);
    assert_true(places[0].is_inlined);
    assert_equal(places[1].function, "post(int)");
    assert_int_equal(places[1].line, 300);
    assert_false(places[1].is_inlined);
}

TEST(answer__nothing_known__no_line) {
    for (const char* text :
         {"0x1\n??\n??:0\n", "0x1\n??\n??:?\n", "0x1\n??\n", "0x1\n??\n/a.c:?\n", "0x1\n??\n:30\n"}) {
        const std::vector<Place> places = places_in(text);
        assert_int_equal(places.size(), 1);
        assert_equal(places[0].function, "?");
        assert_int_equal(places[0].line, 0);
        assert_equal(places[0].file, "");
    }
    assert_true(places_in("").empty());
}

// Of a rule, with one side of those functions, innermost first; "ibv_..." is inlined into the next one.
Report report_at(const std::string& rule, std::initializer_list<const char*> functions) {
    Report report{.pid = 1, .rule = rule, .object = "o", .what = "w", .remedy = "r", .sides = {}};
    NamedSide side{.title = "posted", .places = {}};
    for (const char* function : functions) {
        side.places.push_back({.function = function,
                               .file = "/src/net/pair.c",
                               .line = static_cast<unsigned>(side.places.size() + 1),
                               .module = "/opt/lib/libpair.so.1",
                               .offset = 16,
                               .is_inlined = std::string(function).starts_with("ibv_")});
    }
    report.sides.push_back(side);
    return report;
}

TEST(pattern__star__any_text) {
    assert_true(matches("post", "post"));
    assert_false(matches("post", "posts"));
    assert_false(matches("post", "pos"));
    assert_true(matches("*", ""));
    assert_true(matches("a*c*e", "abcde"));
    assert_true(matches("a*bc", "abbcbc"));
    assert_false(matches("a*bc", "abbcb"));
    assert_true(matches("a::b(char*)", "a::b(char*)"));
    assert_false(matches("", "a"));
    assert_false(matches("[a]", "a"));
    assert_false(matches(std::string(2000, '*') + "b", std::string(5000, 'a')));
}

TEST(suppressions__function_library_or_source__by_path_or_name) {
    const Report report = report_at("a-rule", {"ibv_post_send", "post", "main"});
    for (const char* line :
         {"a-rule:post", "a-rule:main", "a-*:po*", "*:libpair.so.*", "a-rule:/opt/lib/*", "a-rule:pair.c",
          "a-rule:/src/net/pair.c", "  a-rule : post \r", "# other\n\na-rule:*"}) {
        std::istringstream text(line);
        assert_true(Suppressions(text, "file").cover(report));
    }
    for (const char* line : {"", "b-rule:post", "a-rule:pos", "a:post", "a-rule:net", "#a-rule:post"}) {
        std::istringstream text(line);
        assert_false(Suppressions(text, "file").cover(report));
    }
}

TEST(suppressions__line_of_another_form__named_by_its_number) {
    for (const char* line : {"post", "a rule:post", ":post", "a-rule:", "A:post", "a-rule: "}) {
        std::istringstream text("# first\n\n" + std::string(line) + "\n");
        try {
            const Suppressions wrong(text, "some/file");
            fail_msg("'%s' was taken", line);
        } catch (const sluice::tools::Failure& failure) {
            assert_int_equal(failure.status(), sluice::tools::kExitUsage);
            assert_non_null(std::strstr(failure.what(), "some/file:3: "));
        }
    }
}

TEST(suppression_offered__function_of_the_program_not_of_verbs) {
    assert_equal(suppression_of(report_at("r", {"ibv_post_send", "post", "main"})), "r:post");
    assert_equal(suppression_of(report_at("r", {"?", "main"})), "r:main");
    assert_equal(suppression_of(report_at("r", {"?"})), "r:libpair.so.1");
    assert_equal(suppression_of(report_at("r", {})), "");
}

TEST(tally__same_finding_again__shown_once) {
    Tally tally({}, 10);
    assert_true(tally.add(report_at("r", {"post", "main"})));
    assert_false(tally.add(report_at("r", {"post", "main"})));
    assert_true(tally.add(report_at("other", {"post", "main"})));
    const std::string text = tally.text();
    assert_non_null(
        std::strstr(text.c_str(), "r: post at /src/net/pair.c:1 (libpair.so.1): found 1 more time\n"));
    assert_non_null(std::strstr(text.c_str(), "2 mistakes of 2 kinds\n"));
}

TEST(tally__other_stacks_to_one_place__as_many_as_the_limit) {
    for (std::size_t limit = 1; limit <= 2; ++limit) {
        Tally tally({}, limit);
        assert_true(tally.add(report_at("r", {"ibv_post_send", "post", "main"})));
        assert_int_equal(tally.add(report_at("r", {"ibv_post_send", "post", "other"})), limit == 2);
        assert_false(tally.add(report_at("r", {"ibv_post_send", "post", "third"})));
        assert_true(tally.add(report_at("r", {"ibv_post_send", "elsewhere", "main"})));
    }
}

TEST(tally__nothing_found__says_nothing) {
    std::istringstream lines("r:post\n");
    Tally tally(Suppressions(lines, "file"), 1);
    assert_equal(tally.text(), "");
    assert_true(tally.add_blind_spot("memory of a GPU"));
    assert_false(tally.add_blind_spot("memory of a GPU"));
    assert_equal(tally.text(), "sluice: check: not looked at: memory of a GPU\n");
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
