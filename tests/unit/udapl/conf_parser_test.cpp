// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/registry/conf_parser.hpp"

#include <cstring>

#include "tests/cmocka.hpp"

using sluice::dat::Conf;
using sluice::dat::ConfEntry;
using sluice::dat::parse_conf;

namespace {

constexpr std::string_view kGood =
    "ibd0 u1.2 nonthreadsafe default udapl_tavor.so.1 SUNW.1.0 \" \" \"driver_name=tavor\"";

ConfEntry only_entry(std::string_view text) {
    Conf conf = parse_conf(text);
    if (!conf.problems.empty()) {
        fail_msg("line %d: %s", conf.problems[0].line, conf.problems[0].text.c_str());
    }
    assert_int_equal(conf.entries.size(), 1);
    return conf.entries[0];
}

void assert_problem(std::string_view text, const char* what) {
    const Conf conf = parse_conf(text);
    assert_int_equal(conf.entries.size(), 0);
    assert_int_equal(conf.problems.size(), 1);
    if (conf.problems[0].text.find(what) == std::string::npos) {
        fail_msg("'%s' is not in: %s", what, conf.problems[0].text.c_str());
    }
}

TEST(entry__as_on_solaris__eight_fields) {
    const ConfEntry entry = only_entry(kGood);
    assert_string_equal(entry.ia_name.c_str(), "ibd0");
    assert_int_equal(entry.api_major, 1);
    assert_int_equal(entry.api_minor, 2);
    assert_false(entry.is_thread_safe);
    assert_true(entry.is_default);
    assert_false(entry.is_for_kernel);
    assert_string_equal(entry.library.c_str(), "udapl_tavor.so.1");
    assert_string_equal(entry.provider_version.c_str(), "SUNW.1.0");
    assert_string_equal(entry.instance_data.c_str(), " ");
    assert_string_equal(entry.platform.c_str(), "driver_name=tavor");
    assert_int_equal(entry.line, 1);
}

TEST(entry__other_words__are_understood) {
    const ConfEntry entry =
        only_entry("rxe0\tk4294967295.0  threadsafe nondefault ./x.so v \"eth0 0\" \"\"\r\n");
    assert_true(entry.is_for_kernel);
    assert_true(entry.is_thread_safe);
    assert_false(entry.is_default);
    assert_int_equal(entry.api_major, 4294967295U);
    assert_string_equal(entry.instance_data.c_str(), "eth0 0");
    assert_string_equal(entry.platform.c_str(), "");
}

TEST(entry__quotes_and_backslashes__give_any_byte) {
    const ConfEntry entry =
        only_entry(R"("my ia" u1.2 threadsafe default /a\ b.so v "say \"hi\" \\" a#b # comment)");
    assert_string_equal(entry.ia_name.c_str(), "my ia");
    assert_string_equal(entry.library.c_str(), "/a b.so");
    assert_string_equal(entry.instance_data.c_str(), "say \"hi\" \\");
    assert_string_equal(entry.platform.c_str(), "a#b");
}

TEST(lines__empty_and_comments__say_nothing) {
    for (const char* text : {"", "\n\n", "# a comment", "  \t# ibd0 u1.2\n\r\n\n"}) {
        const Conf conf = parse_conf(text);
        assert_int_equal(conf.entries.size() + conf.problems.size(), 0);
    }
}

TEST(lines__one_is_wrong__the_others_count) {
    const Conf conf =
        parse_conf("# first\nibd0 u1.2\n" + std::string(kGood) + "\n\nwhat\n" + std::string(kGood));
    assert_int_equal(conf.entries.size(), 2);
    assert_int_equal(conf.entries[0].line, 3);
    assert_int_equal(conf.entries[1].line, 6);
    assert_int_equal(conf.problems.size(), 2);
    assert_int_equal(conf.problems[0].line, 2);
    assert_int_equal(conf.problems[1].line, 5);
}

TEST(fields__wrong__are_named_with_what_is_valid) {
    assert_problem("\"\" u1.2 threadsafe default l v i p",
                   "the IA name is '' instead of 1 to 255 characters");
    assert_problem(std::string(256, 'n') + " u1.2 threadsafe default l v i p", "1 to 255");
    assert_int_equal(only_entry(std::string(255, 'n') + " u1.2 threadsafe default l v i p").ia_name.size(),
                     255);
    for (const char* api :
         {"1.2", "u1", "u1.", "u.2", "u1.2x", "u-1.2", "x1.2", "u1.4294967296", "u", "\"\"", "u1,2"}) {
        assert_problem(std::string("a ") + api + " threadsafe default l v i p", "the API version is ");
    }
    assert_problem("a u1.2 safe default l v i p", "'safe' instead of threadsafe or nonthreadsafe");
    assert_problem("a u1.2 threadsafe yes l v i p", "default or nondefault");
    assert_problem("a u1.2 threadsafe default \"\" v i p", "the library is ''");
    assert_problem("a u1.2 threadsafe default l \"\" i p", "the provider's version");
    assert_problem("a u1.2 threadsafe default l v i", "the platform is missing; an entry has 8 fields");
    assert_problem("a u1.2 threadsafe default l v i p more", "after the last field");
    assert_problem("a u1.2 threadsafe default l v \"i p", "a quote is not closed");
    assert_problem("a u1.2 threadsafe default l v i p\\", "backslash");
    assert_problem("a u1.2 threadsafe default l\x01 v i p", "control characters");
    assert_problem(std::string_view("a\0b u1.2 threadsafe default l v i p", 35), "control characters");
}

TEST(file__too_many_entries__stops_and_says_so) {
    std::string text;
    for (std::size_t i = 0; i < sluice::dat::kMaxConfEntries + 10; ++i) {
        text += kGood;
        text += '\n';
    }
    const Conf conf = parse_conf(text);
    assert_int_equal(conf.entries.size(), sluice::dat::kMaxConfEntries);
    assert_int_equal(conf.problems.size(), 1);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
