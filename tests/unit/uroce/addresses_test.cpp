// SPDX-License-Identifier: BSD-3-Clause
//
// Which name is which address: by SLUICE_UROCE, by sluice.conf, and by nobody.
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "provider/uroce/device/addresses.hpp"
#include "provider/uroce/device/gid_table.hpp"
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
    assert_string_equal(one.name.c_str(), name);
    assert_string_equal(socket::to_text(one.address).data(), address);
    assert_string_equal(one.origin.c_str(), origin);
}

TEST(named__nobody_says_anything__uroce0_alone) {
    const Machine machine;
    const auto named = named_addresses(FileTree(machine.root()), {});
    assert_true(named.ok());
    assert_int_equal(named->size(), 1);
    assert_named(named->front(), "uroce0", "127.0.0.1", "default");
}

TEST(named__variable_and_file__the_variable_wins) {
    const Machine machine;
    machine.write("/etc/sluice/sluice.conf",
                  "[device uroce3]\naddress = 10.0.0.3\n[device uroce1]\naddress = 10.0.0.1\n");
    const Variable variable("uroce3=10.9.9.9,uroce0=fd00::1");
    const auto named = named_addresses(FileTree(machine.root()), {});
    assert_true(named.ok());
    assert_int_equal(named->size(), 3);
    assert_named((*named)[0], "uroce0", "fd00::1", "SLUICE_UROCE");
    assert_named((*named)[1], "uroce1", "10.0.0.1", "/etc/sluice/sluice.conf:4");
    assert_named((*named)[2], "uroce3", "10.9.9.9", "SLUICE_UROCE");
}

std::vector<Interface> two_interfaces() {
    return {{.name = "eth0", .index = 2, .addresses = {*socket::parse_address("10.0.0.1")}},
            {.name = "eth1", .index = 3, .addresses = {*socket::parse_address("fd00::7")}}};
}

TEST(named__interfaces__are_devices_unless_somebody_gave_an_address) {
    const Machine machine;
    const FileTree tree(machine.root());
    const auto by_default = named_addresses(tree, two_interfaces());
    assert_true(by_default.ok());
    assert_int_equal(by_default->size(), 3);
    assert_named((*by_default)[0], "uroce0", "127.0.0.1", "default");
    assert_named((*by_default)[1], "uroce_eth0", "10.0.0.1", "default");
    assert_named((*by_default)[2], "uroce_eth1", "fd00::7", "default");
    {
        const Variable variable("uroce2=127.9.9.9");
        assert_int_equal(named_addresses(tree, two_interfaces())->size(), 2);
    }
    machine.write("/etc/sluice/sluice.conf", "[device uroce3]\naddress = 10.0.0.3\n");
    const auto by_file = named_addresses(tree, two_interfaces());
    assert_int_equal(by_file->size(), 2);
    assert_named((*by_file)[1], "uroce3", "10.0.0.3", "/etc/sluice/sluice.conf:2");
}

TEST(named__variable_names_interfaces__these_in_its_order_and_nothing_else) {
    const Machine machine;
    machine.write("/etc/sluice/sluice.conf", "[device uroce0]\naddress = 10.0.0.3\n");
    const FileTree tree(machine.root());
    {
        const Variable variable("eth1,lo,eth0");
        const auto named = named_addresses(tree, two_interfaces());
        assert_true(named.ok());
        assert_int_equal(named->size(), 3);
        assert_named((*named)[0], "uroce_eth1", "fd00::7", "SLUICE_UROCE");
        assert_named((*named)[1], "uroce0", "127.0.0.1", "SLUICE_UROCE");
        assert_named((*named)[2], "uroce_eth0", "10.0.0.1", "SLUICE_UROCE");
    }
    const Variable variable("lo");
    const auto local = named_addresses(tree, two_interfaces());
    assert_int_equal(local->size(), 1);
    assert_named(local->front(), "uroce0", "127.0.0.1", "SLUICE_UROCE");
}

TEST(kernel_device__on_an_interface__found_by_what_belongs_to_the_namespace) {
    const Machine machine;
    const FileTree tree(machine.root());
    machine.write("/sys/class/net/eth0/address", "02:fc:00:00:00:01\n");
    machine.write("/sys/class/net/eth0/device/infiniband/mlx5_0/node_type", "1: CA\n");
    machine.write("/sys/class/net/bond0/lower_eth0/device/infiniband/mlx5_0/node_type", "1: CA\n");
    machine.write("/sys/class/net/eth1/address", "a2:df:26:e5:dd:1e\n");
    machine.write("/sys/class/net/eth2/address", "a2:df:26:e5:dd:1f\n");
    machine.write("/sys/class/infiniband/siw0/ports/1/gids/0", "a2df:26e5:dd1e:0000:0000:0000:0000:0000\n");
    // The name of another namespace's interface.
    machine.write("/sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0", "eth2\n");
    assert_true(has_kernel_device(tree, "eth0"));
    assert_true(has_kernel_device(tree, "bond0"));
    assert_true(has_kernel_device(tree, "eth1"));
    assert_false(has_kernel_device(tree, "eth2"));
    assert_false(has_kernel_device(tree, "eth3"));
}

// QEMU's adapter is another function of its slot than its network card. The card's hardware address is in the
// adapter's first GID.
TEST(kernel_device__beside_its_network_card__found_by_the_hardware_address) {
    const Machine machine;
    const FileTree tree(machine.root());
    machine.write("/sys/class/net/eth0/address", "52:54:00:12:34:00\n");
    machine.write("/sys/class/net/eth0/device/vendor", "0x15ad\n");
    machine.write("/sys/class/net/eth1/address", "52:54:00:12:34:01\n");
    machine.write("/sys/class/net/veth0/address", "52:54:00:12:34:02\n");
    machine.write("/sys/class/infiniband/vmw_pvrdma0/device/vendor", "0x15ad\n");
    machine.write("/sys/class/infiniband/vmw_pvrdma0/ports/1/gids/0",
                  "fe80:0000:0000:0000:5054:00ff:fe12:3400\n");
    // Without a parent it is rdma_rxe, which is where its UDP port is.
    machine.write("/sys/class/infiniband/rxe0/ports/1/gids/0", "fe80:0000:0000:0000:5054:00ff:fe12:3402\n");
    assert_true(has_kernel_device(tree, "eth0"));
    assert_false(has_kernel_device(tree, "eth1"));
    assert_false(has_kernel_device(tree, "veth0"));
}

TEST(resolve__interface__without_an_address_or_unknown__says_so) {
    const auto unknown = resolve("uroce_nowhere7");
    assert_false(unknown.ok());
    assert_int_equal(unknown.error().os_errno(), ENODEV);
    assert_non_null(std::strstr(unknown.error().text(), "nowhere7"));
}

TEST(named__what_is_wrong__refused_with_the_place) {
    const Machine machine;
    machine.write("/etc/sluice/sluice.conf", "[device uroce1]\naddress = 224.0.0.1\n");
    const auto multicast = named_addresses(FileTree(machine.root()), {});
    assert_false(multicast.ok());
    assert_non_null(std::strstr(multicast.error().text(), "sluice.conf:2"));
    machine.write("/etc/sluice/sluice.conf", "[device uroce999]\naddress = 10.0.0.1\n");
    assert_false(named_addresses(FileTree(machine.root()), {}).ok());
    const Variable variable("uroce0=nowhere");
    const auto named = named_addresses(FileTree(Machine().root()), {});
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
    const auto by_name = resolve("uroce-127.0.1.8");
    assert_true(by_name.ok());
    assert_string_equal(socket::to_text(by_name->gid).data(), "127.0.1.8");
    for (const char* const wrong : {"uroce254", "uroce07", "uroce", "uroce-1", "rxe0", ""}) {
        assert_false(resolve(wrong).ok());
    }
}

TEST(resolve__loopback_device__has_the_address_of_ipv6_unless_somebody_gave_another) {
    const engine::Address loopback6 = *socket::parse_address("::1");
    const bool is_there = socket::find_network_device(loopback6).ok();
    const auto where = resolve("uroce0");
    assert_true(where->further ==
                (is_there ? std::vector<engine::Address>{loopback6} : std::vector<engine::Address>{}));
    assert_true(resolve("uroce1")->further.empty());
    const Variable variable("uroce0=127.7.0.5");
    assert_true(resolve("uroce0")->further.empty());
}

// Without one that somebody gave, and no other device has it.
TEST(has_on_demand__loopback_network__of_the_loopback_device_alone) {
    const engine::Address inside = socket::from_ipv4({127, 77, 1, 2});
    const LocalAddress loopback = *resolve("uroce0");
    assert_true(loopback.has_on_demand(inside));
    assert_false(loopback.has_on_demand(socket::from_ipv4({126, 0, 0, 1})));
    assert_false(loopback.has_on_demand(*socket::parse_address("::1")));
    assert_false(loopback.has_on_demand(*socket::parse_address("7f00::1")));
    assert_false(resolve("uroce1")->has_on_demand(inside));
    const Variable lo("lo");
    assert_true(resolve("uroce0")->has_on_demand(inside));
    const Variable variable("uroce0=127.0.0.1");
    assert_false(resolve("uroce0")->has_on_demand(inside));
}

TEST(gid_table__address_taken__in_the_first_empty_place_until_there_is_none) {
    const auto address = [](std::uint8_t host) { return socket::from_ipv4({127, 0, 0, host}); };
    GidTable gids(address(1), {});
    for (std::uint8_t host = 2; host <= GidTable::kMostEntries; ++host) {
        assert_true(gids.has_room());
        gids.take(address(host));
        gids.take(address(host));
        assert_int_equal(gids.length(), host);
        assert_true(*gids.at(host - 1U) == address(host));
    }
    assert_false(gids.has_room());
    gids.take(address(99));
    assert_null(gids.find(address(99)));
    assert_true(gids.follow(std::vector{address(1), address(3)}));
    assert_true(gids.has_room());
    gids.take(address(99));
    assert_ptr_equal(gids.find(address(99)), gids.at(1));
}

TEST(gid_table__home_and_further_addresses__in_their_order_as_far_as_there_is_room) {
    std::vector<engine::Address> further;
    for (std::uint8_t i = 0; i < 20; ++i) {
        further.push_back(socket::from_ipv4({10, 0, 0, i}));
    }
    const engine::Address home = socket::from_ipv4({10, 0, 1, 1});
    const GidTable few(home, std::span(further).first(2));
    assert_int_equal(few.length(), 3);
    assert_true(*few.at(0) == home && *few.at(2) == further[1]);
    assert_null(few.at(3));
    assert_ptr_equal(few.find(further[0]), few.at(1));
    assert_null(few.find(further[2]));
    const GidTable many(home, further);
    assert_int_equal(many.length(), GidTable::kMostEntries);
    assert_null(many.find(further.back()));
}

TEST(gid_table__addresses_go_and_come__no_other_entry_moves) {
    const auto address = [](std::uint8_t host) { return socket::from_ipv4({10, 0, 0, host}); };
    const std::vector<engine::Address> further = {address(2), address(3)};
    GidTable gids(address(1), further);
    const engine::Address* const second = gids.at(1);
    assert_false(gids.follow(std::vector{address(3), address(2), address(1)}));
    // The home and another one go.
    assert_true(gids.follow(std::vector{address(3)}));
    assert_int_equal(gids.length(), 3);
    assert_null(gids.at(0));
    assert_null(gids.at(1));
    assert_true(*gids.at(2) == address(3));
    assert_null(gids.find(address(2)));
    assert_true(*second == address(2)); // a thread that holds it still reads it
    // A new one takes the empty place, but not the home's.
    assert_true(gids.follow(std::vector{address(4), address(3)}));
    assert_null(gids.at(0));
    assert_true(*gids.at(1) == address(4));
    assert_true(gids.follow(std::vector{address(1), address(2), address(3), address(4)}));
    assert_true(*gids.at(0) == address(1));
    assert_true(*gids.at(3) == address(2));
    assert_int_equal(gids.length(), 4);
}

TEST(device_name__ours__and_no_others) {
    for (const char* const name : {"uroce0", "uroce253", "uroce-10.0.0.1", "uroce_eth0"}) {
        assert_true(is_device_name(name));
    }
    for (const char* const name : {"uroce", "uroce254", "uroce00", "uroce_", "rxe0", ""}) {
        assert_false(is_device_name(name));
    }
}

} // namespace

int main() {
    unsetenv("SLUICE_UROCE");
    return sluice::test::run_all_tests("uroce.addresses");
}
