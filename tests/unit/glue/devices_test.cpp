// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/devices.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/cmocka.hpp"
#include "tests/loopback.hpp"

using sluice::glue::Address;
using sluice::glue::Device;
using sluice::glue::find_device;

namespace {

Address ipv4(const char* text) {
    in_addr bytes{};
    assert_int_equal(inet_pton(AF_INET, text, &bytes), 1);
    return Address::ipv4(&bytes);
}

Address ipv6(const char* text) {
    in6_addr bytes{};
    assert_int_equal(inet_pton(AF_INET6, text, &bytes), 1);
    return Address::ipv6(&bytes);
}

// The second has the first's interface as its name, and the third the second's address.
const std::vector<Device>& devices() {
    static const std::vector<Device> all{{"rxe0", "eth0", {ipv4("192.0.2.1"), ipv4("192.0.2.2")}},
                                         {"eth0", "eth1", {ipv4("192.0.2.3")}},
                                         {"uroce0", "", {ipv4("127.0.0.1"), ipv6("fe80::1")}},
                                         {"uroce1", "eth2", {ipv6("fe80::2")}},
                                         {"bare", "", {}}};
    return all;
}

void assert_found(const char* name, const char* device) {
    const Device* found = find_device(devices(), name);
    assert_non_null(found);
    assert_string_equal(found->name.c_str(), device);
}

TEST(find__by_name_interface_or_address) {
    assert_found("rxe0", "rxe0");
    assert_found("eth1", "eth0");
    assert_found("192.0.2.2", "rxe0");
    assert_found("127.0.0.1", "uroce0");
    assert_found("bare", "bare");
}

TEST(find__two_could_be_meant__its_own_name_wins) {
    assert_found("eth0", "eth0");
}

// Without its interface it may be another device's, too.
TEST(find__link_local_address__where_the_device_has_no_other_alone) {
    assert_null(find_device(devices(), "fe80::1"));
    assert_found("fe80::2", "uroce1");
}

TEST(find__nobody_s_name__null) {
    assert_null(find_device(devices(), "rxe1"));
    assert_null(find_device(devices(), "192.0.2.9"));
    assert_null(find_device(devices(), ""));
    assert_null(find_device({}, "rxe0"));
}

// Whose an address is, is asked by binding its port: a list that opens devices would take them from others.
TEST(list__uroce_of_somebody_else__there_and_not_opened) {
    const std::string text = sluice::test::own_address();
    const Address address = ipv4(text.c_str());
    const Address port = address.with_port(4791);
    const int owner = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(owner, port.get(), port.size()), 0);
    assert_int_equal(setenv("SLUICE_UROCE", ("uroce7=" + text).c_str(), 1), 0);
    const sluice::Result<std::vector<Device>> listed = sluice::glue::list_devices();
    assert_int_equal(unsetenv("SLUICE_UROCE"), 0);
    close(owner);
    assert_true(static_cast<bool>(listed));
    const Device* found = find_device(*listed, text);
    assert_non_null(found);
    assert_string_equal(found->name.c_str(), "uroce7");
    assert_true(found->addresses.at(0).is_same_host(address));
    assert_string_equal(found->netdev.c_str(), "lo");
    assert_non_null(find_device(*listed, "lo"));
    assert_non_null(find_device(*listed, "uroce0"));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
