// SPDX-License-Identifier: BSD-3-Clause
#include "core/settings.hpp"

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "core/log.hpp"
#include "tests/cmocka.hpp"

using sluice::Setting;

namespace {

std::vector<std::string> unknown_in(std::vector<const char*> environment) {
    environment.push_back(nullptr);
    std::vector<std::string> found;
    sluice::find_unknown_settings(
        const_cast<char* const*>(environment.data()),
        [](void* context, std::string_view name) {
            static_cast<std::vector<std::string>*>(context)->emplace_back(name);
        },
        &found);
    return found;
}

TEST(value__unset__is_null) {
    unsetenv("SLUICE_CACHEFLUSH");
    assert_null(sluice::setting_value(Setting::kCacheflush));
}

TEST(value__set__is_given) {
    setenv("SLUICE_CACHEFLUSH", "clflush", 1);
    assert_string_equal(sluice::setting_value(Setting::kCacheflush), "clflush");
    unsetenv("SLUICE_CACHEFLUSH");
}

TEST(table__names_begin_with_the_prefix_and_are_sorted) {
    const char* last = "";
    for (const sluice::SettingInfo& info : sluice::all_settings()) {
        assert_int_equal(std::strncmp(info.name, "SLUICE_", 7), 0);
        assert_true(std::strcmp(last, info.name) < 0);
        assert_true(std::strlen(info.meaning) > 0 && std::strlen(info.values) > 0);
        last = info.name;
    }
}

std::optional<std::size_t> index_of(std::string_view values, std::string_view text) {
    const std::optional<sluice::Choice> found = sluice::find_choice(values, text);
    return found ? std::optional(found->index) : std::nullopt;
}

TEST(choice__word_of_the_values__is_its_index) {
    assert_true(index_of("no|yes|maybe", "no") == 0U && index_of("no|yes|maybe", "maybe") == 2U);
    assert_true(index_of("a|b[,AREA=LEVEL]", "b") == 1U && index_of("a|b, or DEV=a", "b") == 1U);
}

TEST(choice__anything_else__is_none) {
    for (const char* text : {"", "n", "noo", "yes|no", "|", "NO", " no"}) {
        assert_false(index_of("no|yes", text).has_value());
    }
    assert_false(index_of("", "").has_value());
    assert_false(index_of("a|b[,AREA=LEVEL]", ",AREA=LEVEL]").has_value());
}

TEST(choice__word_with_a_name__gives_the_name) {
    const auto found = sluice::find_choice("quick:FILE|full:FILE", "full:/tmp/a:b");
    assert_true(found.has_value() && found->index == 1 && found->rest == "/tmp/a:b");
    for (const char* text : {"full", "full:", "fuller:a", "full=a"}) {
        assert_false(index_of("quick:FILE|full:FILE", text).has_value());
    }
}

TEST(choice__of_a_setting__refusal_names_setting_text_and_values) {
    const auto refused = sluice::parse_choice(Setting::kUroceGuard, "prayer");
    assert_false(refused.ok());
    assert_string_equal(refused.error().text(),
                        "SLUICE_UROCE_GUARD is 'prayer'; it may be signal or syscall");
}

TEST(seconds__limit_is_the_one_in_the_values) {
    assert_int_equal(*sluice::parse_seconds(Setting::kUroceSilence, "3600", 8), 3600);
    assert_int_equal(*sluice::parse_seconds(Setting::kUroceSilence, "", 8), 8);
    for (const char* text : {"3601", "-1", "1s", " 1", "99999999999"}) {
        assert_false(sluice::parse_seconds(Setting::kUroceSilence, text, 8).ok());
    }
}

TEST(unknown__misspelt_name__is_found) {
    const std::vector<std::string> found = unknown_in({"PATH=/bin", "SLUICE_LGO=debug", "SLUICE_LOG=info"});
    assert_int_equal(found.size(), 1);
    assert_string_equal(found[0].c_str(), "SLUICE_LGO");
}

TEST(unknown__prefix_or_extension_of_a_name__is_found) {
    assert_int_equal(unknown_in({"SLUICE_LO=1", "SLUICE_LOGS=1", "SLUICE_"}).size(), 3);
}

TEST(unknown__entry_without_value_or_other_prefix__is_ignored) {
    assert_int_equal(unknown_in({"SLUICE", "XSLUICE_LOG=1", "", "="}).size(), 0);
}

TEST(warn__is_said_once_per_process) {
    static int lines;
    lines = 0;
    setenv("SLUICE_NO_SUCH_THING", "1", 1);
    sluice::set_log_sink(
        [](void*, int, const char*, const char* message) {
            lines += std::strstr(message, "SLUICE_NO_SUCH_THING") != nullptr;
        },
        nullptr);
    sluice::warn_about_unknown_settings();
    sluice::warn_about_unknown_settings();
    sluice::set_log_sink(nullptr, nullptr);
    unsetenv("SLUICE_NO_SUCH_THING");
    assert_int_equal(lines, 1);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("core.settings");
}
