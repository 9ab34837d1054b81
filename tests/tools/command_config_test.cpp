// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice config`: values, their origins, those that aren't valid, and names that are unknown.
#include <sys/stat.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "tests/tools/run_command.hpp"

using namespace sluice::test;

namespace {

TEST(config__shows_value_and_origin) {
    Machine machine;
    machine.write("/etc/sluice/sluice.conf", "claim = siw\n");
    setenv("SLUICE_COHERENCE", "simulated", 1);
    const Ran ran = run({"--root", machine.root(), "config"});
    const Json document = json_of(run({"--root", machine.root(), "config", "--json"}));
    unsetenv("SLUICE_COHERENCE");
    assert_int_equal(ran.status, 0);
    assert_string_equal(row(ran.out, "SLUICE_COHERENCE")[1].c_str(), "simulated");
    assert_string_equal(row(ran.out, "SLUICE_COHERENCE")[2].c_str(), "environment");
    assert_string_equal(row(ran.out, "claim")[2].c_str(), "/etc/sluice/sluice.conf:1");
    std::set<std::string> names;
    for (const Json& setting : document["settings"]) {
        for (const char* member : {"value", "origin", "default", "values", "meaning"}) {
            assert_true(setting.at(member).is_string());
        }
        names.insert(setting["name"].get<std::string>());
    }
    assert_true(names.contains("SLUICE_LOG") && names.contains("claim") && names.contains("coherence"));
}

// What `sluice config` says of a setting, where the environment has VALUE in NAME.
Json config_with(const char* name, const std::string& value) {
    const Machine machine;
    setenv(name, value.c_str(), 1);
    const Ran ran = run({"--root", machine.root(), "config", "--json"});
    unsetenv(name);
    const Json document = json_of(ran);
    for (const Json& setting : document["settings"]) {
        if (setting["name"] == name) {
            assert_int_equal(ran.status, setting["problem"].is_null() ? 0 : 1);
            return setting;
        }
    }
    fail_msg("%s isn't listed", name);
    return {};
}

TEST(config__value_that_isnt_valid__is_told_for_each_variable) {
    const std::vector<std::pair<const char*, const char*>> wrong{
        {"SLUICE_CACHEFLUSH", "mop"},        {"SLUICE_CHECK", "quick"},
        {"SLUICE_COHERENCE", "sometimes"},   {"SLUICE_DAT_HUGE_PAGES", "1"},
        {"SLUICE_LOG", "info,cm=loud"},      {"SLUICE_SYNC_CHECK", "true"},
        {"SLUICE_UROCE", "uroce0=nowhere"},  {"SLUICE_UROCE_FAULTS", "drop=sometimes"},
        {"SLUICE_UROCE_GUARD", "prayer"},    {"SLUICE_UROCE_KEEPALIVE", "3601"},
        {"SLUICE_UROCE_NEIGHBOURS", "none"}, {"SLUICE_UROCE_SILENCE", "long"}};
    for (const auto& [name, value] : wrong) {
        const Json setting = config_with(name, value);
        assert_true(setting["problem"].is_string());
        assert_string_equal(setting["value"].get<std::string>().c_str(), value);
        assert_string_equal(setting["origin"].get<std::string>().c_str(), "environment");
        assert_false(setting["values"].get<std::string>().empty());
        assert_true(setting["known"].get<bool>());
    }
}

TEST(config__valid_value__is_no_problem) {
    const std::vector<std::pair<const char*, const char*>> right{
        {"SLUICE_CHECK", "full:/tmp/f"},      {"SLUICE_COHERENCE", "auto,mlx5_0=coherent"},
        {"SLUICE_DAT_HUGE_PAGES", "yes"},     {"SLUICE_LOG", "none,cm=trace"},
        {"SLUICE_SYNC_CHECK", "no"},          {"SLUICE_UROCE", "uroce3=127.0.0.9"},
        {"SLUICE_UROCE_FAULTS", "drop=1/10"}, {"SLUICE_UROCE_GUARD", "syscall"},
        {"SLUICE_UROCE_KEEPALIVE", "0"},      {"SLUICE_UROCE_NEIGHBOURS", "packets"},
        {"SLUICE_UROCE_SILENCE", "3600"},     {"SLUICE_LOG", ""}};
    for (const auto& [name, value] : right) {
        assert_true(config_with(name, value)["problem"].is_null());
    }
}

TEST(config__value_that_isnt_valid__is_marked_with_origin_and_what_may_stand_there) {
    const Machine machine;
    setenv("SLUICE_LOG", "loud", 1);
    const Ran ran = run({"--root", machine.root(), "config"});
    unsetenv("SLUICE_LOG");
    assert_int_equal(ran.status, 1);
    assert_contains(ran.out, "loud (not valid)");
    assert_string_equal(row(ran.out, "SLUICE_LOG")[4].c_str(), "environment");
    assert_contains(ran.out, "none|error|warning|info|debug|trace[,AREA=LEVEL...]");
    assert_contains(ran.out, "'loud' is no log level");
}

TEST(config__name_that_nobody_knows__is_listed_with_what_may_have_been_meant) {
    Machine machine;
    machine.write("/etc/sluice/sluice.conf", "[device mlx5_0]\ncohrence = auto\n");
    setenv("SLUICE_UROCE_KEPALIVE", "5", 1);
    setenv("SLUICE_NOTHING_LIKE_IT", "", 1);
    const Ran ran = run({"--root", machine.root(), "config"});
    unsetenv("SLUICE_UROCE_KEPALIVE");
    unsetenv("SLUICE_NOTHING_LIKE_IT");
    assert_int_equal(ran.status, 1);
    assert_contains(ran.out, "UNKNOWN");
    assert_contains(ran.out, "no such variable (did you mean 'SLUICE_UROCE_KEEPALIVE'?)");
    assert_contains(ran.out, "SLUICE_NOTHING_LIKE_IT");
    assert_contains(ran.out, "cohrence of mlx5_0");
    assert_contains(ran.out, "/etc/sluice/sluice.conf:2");
    assert_contains(ran.out, "(did you mean 'coherence'?)");
    assert_contains(ran.out, "Nothing of sluice.conf holds until these lines are corrected");
}

TEST(config__file_with_mistakes__shows_them_all_and_json_too) {
    Machine machine;
    machine.write("/etc/sluice/sluice.conf", "coherence = maybe\nclam = rxe\n");
    const Ran ran = run({"--root", machine.root(), "config", "--json"});
    assert_int_equal(ran.status, 1);
    std::map<std::string, Json> all;
    const Json document = json_of(ran);
    for (const Json& setting : document["settings"]) {
        all[setting["name"].get<std::string>()] = setting;
    }
    assert_true(all["coherence"]["value"] == "maybe" && all["coherence"]["known"] == true);
    assert_true(all["coherence"]["origin"] == "/etc/sluice/sluice.conf:1");
    assert_true(all["clam"]["known"] == false && all["clam"]["suggestion"] == "claim");
}

TEST(config__hostile_values__are_shown_escaped_and_cut) {
    const Machine machine;
    const std::string hostile = "\x1b]0;x\x07\n\xff" + std::string(100'000, 'A');
    setenv("SLUICE_LOG", hostile.c_str(), 1);
    setenv("SLUICE_\x1b[2J", hostile.c_str(), 1);
    const Ran ran = run({"--root", machine.root(), "config"});
    json_of(run({"--root", machine.root(), "config", "--json"}));
    unsetenv("SLUICE_LOG");
    unsetenv("SLUICE_\x1b[2J");
    assert_int_equal(ran.status, 1);
    assert_lacks(ran.out, "\x1b");
    assert_lacks(ran.out, "\x07");
    assert_contains(ran.out, "\\x1b]0;x\\x07");
    assert_contains(ran.out, "AAA... (not valid)");
    assert_true(ran.out.size() < 40'000);
}

#ifndef SLUICE_UNDER_SANITIZER
// A program with more rights than its caller doesn't hear the caller's environment. Nor does a
// sanitizer's runtime work in one.
TEST(config__setuid__environment_is_not_heard) {
    const Machine machine;
    chmod(machine.root().c_str(), 0755);
    setenv("SLUICE_COHERENCE", "simulated", 1);
    const std::optional<Ran> ran = run_setuid({"--root", machine.root(), "config"});
    unsetenv("SLUICE_COHERENCE");
    if (!ran) {
        skip();
    }
    assert_status(*ran, 0);
    assert_string_equal(row(ran->out, "SLUICE_COHERENCE")[1].c_str(), "auto");
}
#endif

} // namespace
