// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/address.hpp"

#include <arpa/inet.h>

#include <cerrno>

#include "tests/cmocka.hpp"

using sluice::glue::Address;

namespace {

Address ipv4(const char* text, std::uint16_t port = 0) {
    in_addr bytes{};
    assert_int_equal(inet_pton(AF_INET, text, &bytes), 1);
    return Address::ipv4(&bytes, port);
}

Address ipv6(const char* text, std::uint32_t scope = 0) {
    in6_addr bytes{};
    assert_int_equal(inet_pton(AF_INET6, text, &bytes), 1);
    return Address::ipv6(&bytes, scope);
}

TEST(from__each_family__is_copied_and_others_refused) {
    const Address four = ipv4("192.0.2.1", 7);
    const auto copy = Address::from(four.get());
    assert_true(copy.ok() && copy->is_same_host(four));
    assert_int_equal(copy->port(), 7);
    assert_int_equal(copy->size(), sizeof(sockaddr_in));
    const auto six = Address::from(ipv6("2001:db8::1").get());
    assert_true(six.ok());
    assert_int_equal(six->size(), sizeof(sockaddr_in6));
    sockaddr other{};
    other.sa_family = AF_UNIX;
    assert_int_equal(Address::from(&other).error().os_errno(), EAFNOSUPPORT);
    assert_int_equal(Address::from(nullptr).error().os_errno(), EAFNOSUPPORT);
}

TEST(port__is_in_the_host_s_order_and_changes_a_copy) {
    const Address address = ipv4("192.0.2.1", 0x1234);
    assert_int_equal(address.port(), 0x1234);
    assert_int_equal(address.with_port(80).port(), 80);
    assert_int_equal(address.port(), 0x1234);
    assert_int_equal(ipv6("::1").with_port(443).port(), 443);
    assert_int_equal(Address().with_port(5).port(), 0);
    assert_false(Address().is_set());
}

TEST(same_host__compares_address_and_scope_but_no_port) {
    assert_true(ipv4("192.0.2.1", 1).is_same_host(ipv4("192.0.2.1", 2)));
    assert_false(ipv4("192.0.2.1").is_same_host(ipv4("192.0.2.2")));
    assert_false(ipv4("192.0.2.1").is_same_host(ipv6("::ffff:192.0.2.1")));
    assert_true(ipv6("fe80::1", 2).is_same_host(ipv6("fe80::1", 2)));
    assert_false(ipv6("fe80::1", 2).is_same_host(ipv6("fe80::1", 3)));
}

TEST(text__is_as_people_write_it) {
    assert_string_equal(ipv4("192.0.2.1", 9).to_string().c_str(), "192.0.2.1");
    assert_string_equal(ipv6("2001:db8:0:0::1").to_string().c_str(), "2001:db8::1");
    assert_string_equal(Address().to_string().c_str(), "");
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
