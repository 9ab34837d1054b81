// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/registry/conf_files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "tests/cmocka.hpp"
#include "tests/machine.hpp"

using sluice::FileTree;
using sluice::dat::read_static_registry;
using sluice::dat::StaticRegistry;
using sluice::test::Machine;

namespace {

std::string line(const std::string& name, const std::string& api = "u1.2",
                 const std::string& mark = "default") {
    return name + " " + api + " threadsafe " + mark + " lib.so v.1.0 \"\" \"\"\n";
}

std::string names_that_count(const StaticRegistry& registry) {
    std::string names;
    for (const auto& entry : registry.all) {
        if (entry.counts()) {
            names += entry.entry.ia_name + " ";
        }
    }
    return names;
}

TEST(places__no_file__devices_count) {
    const Machine machine;
    const StaticRegistry registry = read_static_registry(FileTree(machine.root()), nullptr);
    assert_int_equal(registry.all.size(), 0);
    assert_true(registry.devices_count);
}

TEST(places__own_provider_s_entries_only__devices_count_too) {
    const Machine machine;
    const std::string own = "ib0 u1.2 threadsafe default libdapl-sluice.so.1 sluice.1.0 uroce_eth0 \"\"\n";
    machine.write("/etc/dat.conf.d/sluice.conf", own);
    machine.write("/etc/dat.conf",
                  "ib1 u1.2 threadsafe default /usr/lib/libdapl-sluice.so v.1.0 rxe0 \"\"\n");
    const StaticRegistry named = read_static_registry(FileTree(machine.root()), nullptr);
    assert_string_equal(names_that_count(named).c_str(), "ib1 ib0 ");
    assert_true(named.devices_count);
    // Another provider's entry is a decision about what can be opened.
    machine.write("/etc/rdma/dat.conf", line("other"));
    assert_false(read_static_registry(FileTree(machine.root()), nullptr).devices_count);
    // And so is a file that somebody names.
    const std::string path = machine.root() + "/etc/dat.conf.d/sluice.conf";
    assert_false(read_static_registry(FileTree(machine.root()), path.c_str()).devices_count);
}

TEST(places__all_of_them__are_read_in_their_order) {
    const Machine machine;
    machine.write("/etc/dat.conf.d/b.conf", line("six"));
    machine.write("/etc/dat.conf.d/a.conf", line("five"));
    machine.write("/etc/dat.conf.d/.hidden.conf", line("never"));
    machine.write("/etc/dat.conf.d/a.conf.bak", line("never"));
    machine.write("/etc/ofed/dat.conf", line("four"));
    machine.write("/etc/rdma/dat.conf", line("three"));
    machine.write("/etc/dat/dat.conf", line("two"));
    machine.write("/etc/dat.conf", line("one"));
    const StaticRegistry registry = read_static_registry(FileTree(machine.root()), nullptr);
    assert_string_equal(names_that_count(registry).c_str(), "one two three four five six ");
    assert_string_equal(registry.all[1].file.c_str(), "/etc/dat/dat.conf");
    assert_int_equal(registry.all[1].line, 1);
    assert_false(registry.devices_count);
}

TEST(places__links_to_one_file__are_read_once) {
    Machine machine;
    machine.write("/etc/dat/dat.conf", line("one"));
    machine.add("/etc/dat.conf -> /etc/dat/dat.conf");
    machine.add("/etc/rdma/dat.conf -> ../dat.conf");
    const StaticRegistry registry = read_static_registry(FileTree(machine.root()), nullptr);
    assert_int_equal(registry.all.size(), 1);
    assert_string_equal(registry.all[0].file.c_str(), "/etc/dat.conf");
}

TEST(entries__not_for_us__are_told_and_don_t_count) {
    const Machine machine;
    machine.write("/etc/dat.conf", line("kernel", "k1.2") + "nonsense\n" +
                                       line("other", "u1.2", "nondefault") + line("ofa-v2-mlx4", "u2.0"));
    const StaticRegistry registry = read_static_registry(FileTree(machine.root()), nullptr);
    assert_int_equal(registry.all.size(), 4);
    const char* const why[] = {"for the kernel", "the API version is missing", "nondefault",
                               "it is for API 2"};
    for (std::size_t i = 0; i < 4; ++i) {
        assert_int_equal(registry.all[i].line, i + 1);
        assert_non_null(strstr(registry.all[i].problem.c_str(), why[i]));
    }
    // As on a machine with libdapl2 alone: nothing for this API is said, so devices count.
    assert_true(registry.devices_count);
}

TEST(file__without_an_end_or_too_long__is_told) {
    const Machine machine;
    machine.write("/etc/dat.conf", std::string(sluice::dat::kMaxConfBytes + 1, '\n'));
    StaticRegistry registry = read_static_registry(FileTree(machine.root()), nullptr);
    assert_int_equal(registry.all.size(), 1);
    assert_non_null(strstr(registry.all[0].problem.c_str(), "longer than"));
    machine.remove("/etc/dat.conf");
    std::filesystem::create_directories(machine.root() + "/etc/dat.conf");
    registry = read_static_registry(FileTree(machine.root()), nullptr);
    assert_non_null(strstr(registry.all[0].problem.c_str(), "not a regular file"));
}

TEST(file__others_may_write_it__is_ignored_by_root) {
    if (geteuid() != 0) {
        skip();
    }
    const Machine machine;
    machine.write("/etc/dat.conf", line("one"));
    chmod((machine.root() + "/etc/dat.conf").c_str(), 0666);
    const StaticRegistry registry = read_static_registry(FileTree(machine.root()), nullptr);
    assert_int_equal(registry.all.size(), 1);
    assert_non_null(strstr(registry.all[0].problem.c_str(), "belongs to root"));
    const std::string path = machine.root() + "/etc/dat.conf";
    assert_string_equal(names_that_count(read_static_registry(FileTree(), path.c_str())).c_str(), "one ");
}

TEST(override__a_file__counts_alone) {
    const Machine machine;
    machine.write("/etc/dat.conf", line("system"));
    machine.write("/mine", line("mine"));
    const std::string path = machine.root() + "/mine";
    const StaticRegistry registry = read_static_registry(FileTree(machine.root()), path.c_str());
    assert_string_equal(names_that_count(registry).c_str(), "mine ");
    assert_string_equal(registry.all[0].file.c_str(), path.c_str());
}

TEST(override__without_entries__nothing_counts) {
    const Machine machine;
    machine.write("/etc/dat.conf", line("system"));
    for (const char* path : {"/no/such/file", "/dev/null", "", "no-such-file"}) {
        const StaticRegistry registry = read_static_registry(FileTree(machine.root()), path);
        assert_int_equal(registry.all.size(), 1);
        assert_false(registry.all[0].counts());
        assert_false(registry.devices_count);
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
