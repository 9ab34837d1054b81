// SPDX-License-Identifier: BSD-3-Clause
//
// Which name is which address: by SLUICE_UROCE, by sluice.conf, and by nobody.
#include <cstdlib>
#include <cstring>

#include "provider/uroce/device/addresses.hpp"
#include "tests/machine.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace {

using namespace sluice::roce;
using namespace sluice::uroce::device;
using namespace sluice::roce::engine;
using sluice::FileTree;
using sluice::test::Machine;

struct Variable {
    explicit Variable(const char* value) { setenv("SLUICE_UROCE", value, 1); }
    ~Variable() { unsetenv("SLUICE_UROCE"); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;
};

void assert_named(const NamedAddress& one, const char* name, const char* address, const char* origin) {
    assert_string_equal(one.name().c_str(), name);
    assert_string_equal(socket::to_text(one.address).data(), address);
    assert_string_equal(one.origin.c_str(), origin);
}

TEST(named__nobody_says_anything__uroce0_alone) {
    const Machine machine;
    const auto named = named_addresses(FileTree(machine.root()));
    assert_true(named.ok());
    assert_int_equal(named->size(), 1);
    assert_named(named->front(), "uroce0", "127.0.0.1", "default");
}

TEST(named__variable_and_file__the_variable_wins) {
    const Machine machine;
    machine.write("/etc/sluice/sluice.conf",
                  "[device uroce3]\naddress = 10.0.0.3\n[device uroce1]\naddress = 10.0.0.1\n");
    const Variable variable("uroce3=10.9.9.9,uroce0=fd00::1");
    const auto named = named_addresses(FileTree(machine.root()));
    assert_true(named.ok());
    assert_int_equal(named->size(), 3);
    assert_named((*named)[0], "uroce0", "fd00::1", "SLUICE_UROCE");
    assert_named((*named)[1], "uroce1", "10.0.0.1", "/etc/sluice/sluice.conf:4");
    assert_named((*named)[2], "uroce3", "10.9.9.9", "SLUICE_UROCE");
}

TEST(named__what_is_wrong__refused_with_the_place) {
    const Machine machine;
    machine.write("/etc/sluice/sluice.conf", "[device uroce1]\naddress = 224.0.0.1\n");
    const auto multicast = named_addresses(FileTree(machine.root()));
    assert_false(multicast.ok());
    assert_non_null(std::strstr(multicast.error().text(), "sluice.conf:2"));
    machine.write("/etc/sluice/sluice.conf", "[device uroce999]\naddress = 10.0.0.1\n");
    assert_false(named_addresses(FileTree(machine.root())).ok());
    const Variable variable("uroce0=nowhere");
    const auto named = named_addresses(FileTree(Machine().root()));
    assert_false(named.ok());
    assert_non_null(std::strstr(named.error().text(), "nowhere"));
}

TEST(resolve__name_with_another_address__that_and_no_other) {
    const Variable variable("uroce0=127.7.0.5");
    const auto moved = resolve("uroce0");
    assert_true(moved.ok());
    assert_string_equal(socket::to_text(moved->gid).data(), "127.7.0.5");
    // Each address has one name, however it is asked for.
    assert_string_equal(resolve("127.7.0.5")->name.c_str(), "uroce0");
    assert_string_equal(resolve("127.0.0.1")->name.c_str(), "uroce-127.0.0.1");
    assert_string_equal(resolve("uroce1")->name.c_str(), "uroce1");
    assert_string_equal(socket::to_text(resolve("uroce1")->gid).data(), "127.0.0.2");
}

TEST(resolve__nobody_says_anything__loopback_addresses) {
    assert_string_equal(resolve("127.0.0.8")->name.c_str(), "uroce7");
    assert_string_equal(resolve("127.0.1.8")->name.c_str(), "uroce-127.0.1.8");
    for (const char* const wrong : {"uroce254", "uroce07", "uroce", "uroce-1", "rxe0", ""}) {
        assert_false(resolve(wrong).ok());
    }
}

TEST(device_name__ours__and_no_others) {
    for (const char* const name : {"uroce0", "uroce253", "uroce-10.0.0.1"}) {
        assert_true(is_device_name(name));
    }
    for (const char* const name : {"uroce", "uroce254", "uroce00", "rxe0", ""}) {
        assert_false(is_device_name(name));
    }
}

} // namespace

int main() {
    unsetenv("SLUICE_UROCE");
    return sluice::test::run_all_tests("uroce.addresses");
}
