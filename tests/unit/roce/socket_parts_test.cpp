// SPDX-License-Identifier: BSD-3-Clause
//
// The parts of a port that need no socket: addresses, who owns port 4791 of a recorded machine, and
// which IPv4 identifications are believed.
#include <sys/socket.h>

#include <cstring>

#include "roce/socket/address.hpp"
#include "roce/socket/address_list.hpp"
#include "roce/socket/address_state.hpp"
#include "roce/socket/identification_watch.hpp"
#include "roce/socket/port_owner.hpp"
#include "tests/machine.hpp"
#include "tests/unit/roce/random.hpp"

// Last: its macro fail() is also a name in <fstream>.
#include "tests/cmocka.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::socket;
using sluice::roce::test::Random;
using sluice::test::Machine;

namespace {

Address address(const char* text) {
    const auto parsed = parse_address(text);
    assert_true(parsed.ok());
    return *parsed;
}

TEST(address__text_and_socket_address__round_trip) {
    for (const char* text : {"127.0.0.1", "10.1.2.3", "2001:db8::5", "fe80::1"}) {
        const SocketAddress socket_address = to_socket_address(address(text), 4791, 7);
        assert_true(from_socket_address(socket_address.any) == address(text));
        assert_string_equal(to_text(address(text)).data(), text);
    }
    assert_true(address("::ffff:10.1.2.3") == address("10.1.2.3"));
    assert_int_equal(to_socket_address(address("10.1.2.3"), 4791, 7).bytes, sizeof(sockaddr_in));
    assert_int_equal(to_socket_address(address("fe80::1"), 4791, 7).v6.sin6_scope_id, 7);
    assert_int_equal(to_socket_address(address("2001:db8::5"), 4791, 7).v6.sin6_scope_id, 0);
}

TEST(address__no_address__refused_with_the_text) {
    for (const char* text :
         {"", "localhost", "10.0.0", "10.0.0.256", "10.0.0.1/24", "1::2::3",
          "11111111111111111111111111111111111111111111111111111111111111111111111111111111111"}) {
        assert_false(parse_address(text).ok());
    }
    assert_non_null(std::strstr(parse_address("localhost").error().text(), "'localhost'"));
    const sockaddr other = {.sa_family = AF_UNIX, .sa_data = {}};
    assert_true(from_socket_address(other) == Address{});
}

TEST(address__unicast__one_host_only) {
    for (const char* text : {"127.0.0.1", "10.0.0.1", "223.255.255.255", "::1", "fe80::1"}) {
        assert_true(is_unicast(address(text)));
    }
    for (const char* text :
         {"0.0.0.0", "0.1.2.3", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "ff02::1"}) {
        assert_false(is_unicast(address(text)));
    }
}

TEST(address_list__entries__in_their_order) {
    const auto list = parse_device_list("uroce1=10.0.0.1,uroce0=2001:db8::7,uroce253=127.0.0.9");
    assert_true(list.ok());
    assert_true(list->addresses == (std::vector<DeviceAddress>{{1, address("10.0.0.1")},
                                                               {0, address("2001:db8::7")},
                                                               {253, address("127.0.0.9")}}));
    assert_true(list->interfaces.empty());
    assert_true(parse_device_list(nullptr)->addresses.empty());
    assert_true(parse_device_list("")->interfaces.empty());
    const auto mixed = parse_device_list("eth1,uroce1=10.0.0.1,lo,br-0a1b.7");
    assert_true(mixed.ok());
    assert_int_equal(mixed->addresses.size(), 1);
    assert_true(mixed->interfaces == (std::vector<std::string>{"eth1", "lo", "br-0a1b.7"}));
}

TEST(address_list__wrong_entry__error_shows_it_and_says_why) {
    struct Case {
        const char* text;
        const char* why;
    };
    for (const Case& one :
         {Case{"uroce0", "uroceN=ADDRESS"}, Case{"=10.0.0.1", "uroceN=ADDRESS"},
          Case{"uroce=10.0.0.1", "uroceN=ADDRESS"}, Case{"uroce254=10.0.0.1", "uroceN=ADDRESS"},
          Case{"uroce01=10.0.0.1", "uroceN=ADDRESS"}, Case{"uroce-1=10.0.0.1", "uroceN=ADDRESS"},
          Case{"Uroce1=10.0.0.1", "uroceN=ADDRESS"}, Case{"uroce0=10.0.0.1,,", "uroceN=ADDRESS"},
          Case{" uroce0=10.0.0.1", "uroceN=ADDRESS"}, Case{"uroce0=host", "no IPv4 or IPv6 address"},
          Case{"uroce0=", "no IPv4 or IPv6 address"}, Case{"uroce0=0.0.0.0", "address of one host"},
          Case{"uroce0=ff02::1", "address of one host"}, Case{"uroce0=10.0.0.1,uroce0=10.0.0.2", "twice"},
          Case{"uroce0=10.0.0.1,uroce1=::ffff:10.0.0.1", "twice"}, Case{"eth0,lo,eth0", "twice"},
          Case{"lo,uroce0=10.0.0.1", "another address"}, Case{"a/b", "name of an interface"},
          Case{"an-interface-name", "name of an interface"}}) {
        const auto list = parse_device_list(one.text);
        assert_false(list.ok());
        assert_non_null(std::strstr(list.error().text(), "SLUICE_UROCE: '"));
        assert_non_null(std::strstr(list.error().text(), one.why));
    }
}

TEST(active_mtu__each_interface__largest_that_fits_with_headers) {
    assert_int_equal(active_mtu(65536), 4096);
    assert_int_equal(active_mtu(4176), 4096);
    assert_int_equal(active_mtu(4175), 2048);
    assert_int_equal(active_mtu(1500), 1024);
    assert_int_equal(active_mtu(336), 256);
    assert_int_equal(active_mtu(335), 0);
}

std::string owner_on(const Machine& machine, const char* text) {
    return describe_port_owner(sluice::FileTree(machine.root()), address(text));
}

constexpr const char* kTableHead =
    "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

// As the kernel prints 127.0.0.9, which is a number of this machine's byte order.
std::string row(const char* local, int user, int inode) {
    char line[200];
    std::snprintf(line, sizeof line,
                  "  123: %s:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000 %5d        0 %d 2 "
                  "0000000000000000 0\n",
                  local, user, inode);
    return line;
}

std::string local_9() {
    const std::array<std::uint8_t, 4> bytes = {127, 0, 0, 9};
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    char text[9];
    std::snprintf(text, sizeof text, "%08X", word);
    return text;
}

TEST(port_owner__process__named) {
    Machine machine;
    machine.write("/proc/net/udp", kTableHead + row("01020304", 0, 1) + row(local_9().c_str(), 1000, 4242));
    machine.write("/proc/77/comm", "other\n");
    machine.add("/proc/77/fd/3 -> socket:[4243]");
    machine.write("/proc/4711/comm", "pingpong\n");
    machine.add("/proc/4711/fd/0 -> /dev/null");
    machine.add("/proc/4711/fd/5 -> socket:[4242]");
    assert_string_equal(owner_on(machine, "127.0.0.9").c_str(), "process 4711 (pingpong)");
    assert_non_null(std::strstr(owner_on(machine, "127.0.0.8").c_str(), "ended meanwhile"));
}

TEST(port_owner__kernel_driver__told_from_an_invisible_process) {
    Machine machine;
    machine.write("/proc/net/udp", kTableHead + row("00000000", 0, 4242));
    assert_string_equal(owner_on(machine, "127.0.0.9").c_str(),
                        "a process of user 0 that /proc doesn't let us see");
    machine.write("/sys/module/rdma_rxe/refcnt", "1\n");
    assert_non_null(std::strstr(owner_on(machine, "127.0.0.9").c_str(), "rdma_rxe"));
    const sluice::FileTree tree(machine.root());
    assert_true(is_kernels_port(tree, address("127.0.0.9")));
    machine.write("/proc/4711/comm", "rxe-like\n");
    machine.add("/proc/4711/fd/5 -> socket:[4242]");
    assert_false(is_kernels_port(tree, address("127.0.0.9")));
    for (const int user : {0, 1000}) { // it never takes single addresses
        machine.write("/proc/net/udp", kTableHead + row(local_9().c_str(), user, 4243));
        assert_non_null(std::strstr(owner_on(machine, "127.0.0.9").c_str(), "a process of user"));
        assert_false(is_kernels_port(tree, address("127.0.0.9")));
    }
}

TEST(port_owner__socket_of_both_families__found) {
    Machine machine;
    machine.write("/proc/net/udp", kTableHead);
    machine.write("/proc/net/udp6", kTableHead + row("00000000000000000000000000000000", 5, 9));
    machine.write("/proc/12/comm", "dual\n");
    machine.add("/proc/12/fd/1 -> socket:[9]");
    assert_string_equal(owner_on(machine, "127.0.0.9").c_str(), "process 12 (dual)");
    assert_string_equal(owner_on(machine, "2001:db8::1").c_str(), "process 12 (dual)");
}

TEST(port_owner__table_of_garbage__no_answer_but_no_harm) {
    Machine machine;
    assert_non_null(std::strstr(owner_on(machine, "127.0.0.9").c_str(), "ended meanwhile"));
    Random random(1);
    const auto garbage = random.bytes(5000);
    machine.write("/proc/net/udp", std::string(garbage.begin(), garbage.end()));
    assert_non_null(std::strstr(owner_on(machine, "127.0.0.9").c_str(), "ended meanwhile"));
}

TEST(port__in_the_kernels_tables__free_if_they_are_whole_and_nobody_is_there) {
    Machine machine;
    const sluice::FileTree tree(machine.root());
    assert_false(is_port_free(tree, address("127.0.0.9"))); // the kernel shows nothing
    machine.write("/proc/net/udp", kTableHead + row("01020304", 0, 1));
    assert_true(is_port_free(tree, address("127.0.0.9")));
    for (const std::string& holder : {local_9(), std::string("00000000")}) {
        machine.write("/proc/net/udp", kTableHead + row(holder.c_str(), 0, 1));
        assert_false(is_port_free(tree, address("127.0.0.9")));
    }
    machine.write("/proc/net/udp", kTableHead);
    machine.write("/proc/net/udp6", kTableHead);
    assert_true(is_port_free(tree, address("127.0.0.9")));
    machine.write("/proc/net/udp6", std::string(2U << 20, ' ')); // more than is read
    assert_false(is_port_free(tree, address("127.0.0.9")));
}

std::string state_on(const Machine& machine, const char* text) {
    return why_unusable(sluice::FileTree(machine.root()), address(text)).value_or("usable");
}

TEST(address_state__of_ipv6__what_the_kernel_still_asks_is_told) {
    Machine machine;
    assert_string_equal(state_on(machine, "2001:db8::1").c_str(), "usable"); // a kernel without IPv6
    machine.write("/proc/net/if_inet6", "20010db8000000000000000000000001 02 40 00 80     eth0\n"
                                        "20010db8000000000000000000000002 02 40 00 c0     eth0\n"
                                        "20010db8000000000000000000000003 02 40 00 c8     eth0\n"
                                        "20010db8000000000000000000000004 02 40\n");
    assert_string_equal(state_on(machine, "2001:db8::1").c_str(), "usable");
    assert_non_null(std::strstr(state_on(machine, "2001:db8::2").c_str(), "'tentative'"));
    assert_non_null(std::strstr(state_on(machine, "2001:db8::3").c_str(), "'dadfailed'"));
    for (const char* const other : {"2001:db8::4", "2001:db8::5", "10.0.0.2"}) {
        assert_string_equal(state_on(machine, other).c_str(), "usable");
    }
}

const Address kPeer = from_ipv4({10, 0, 0, 2});
const Address kOther = from_ipv4({10, 0, 0, 3});

TEST(watch__nothing_damaged__everything_believed) {
    IdentificationWatch watch;
    Random random(2);
    for (int i = 0; i < 1000; ++i) {
        assert_true(watch.believes(kPeer, static_cast<std::uint16_t>(random.next())));
    }
}

TEST(watch__after_damage__what_follows_is_believed_and_what_jumps_is_not) {
    IdentificationWatch watch;
    assert_true(watch.believes(kPeer, 65000));
    watch.damaged(kPeer);
    for (const std::uint16_t next : {65001, 65010, 65005, 66 /* wrapped around */, 2000}) {
        assert_true(watch.believes(kPeer, next));
    }
    assert_false(watch.believes(kPeer, 40000));
    assert_true(watch.believes(kPeer, 2001));
    assert_true(watch.believes(kPeer, 63)); // counted from 0, as segments are
    assert_true(watch.believes(kOther, 12345));
}

TEST(watch__source_jumps__one_packet_lost_then_followed) {
    IdentificationWatch watch;
    assert_true(watch.believes(kPeer, 1000));
    watch.damaged(kPeer);
    assert_false(watch.believes(kPeer, 30000));
    assert_true(watch.believes(kPeer, 30001));
    assert_true(watch.believes(kPeer, 30002));
    assert_false(watch.believes(kPeer, 1001));
}

TEST(watch__random_identifications__one_in_three_at_least) {
    IdentificationWatch watch;
    watch.damaged(kPeer);
    int believed = 0;
    Random random(3);
    for (int i = 0; i < 3000; ++i) {
        believed += watch.believes(kPeer, static_cast<std::uint16_t>(random.next())) ? 1 : 0;
    }
    assert_in_range(believed, 1000, 1300);
}

TEST(watch__long_after_damage__everything_believed_again) {
    IdentificationWatch watch;
    watch.damaged(kPeer);
    for (std::uint32_t i = 0; i < IdentificationWatch::kWatchedPackets; ++i) {
        assert_true(watch.believes(kPeer, 5));
    }
    assert_true(watch.believes(kPeer, 30000));
    assert_true(watch.believes(kPeer, 50000));
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.socket_parts");
}
