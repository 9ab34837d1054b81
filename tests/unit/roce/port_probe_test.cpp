// SPDX-License-Identifier: BSD-3-Clause
//
// Whether a port is there, by what this machine's kernel says of its own.
#include "roce/socket/port_probe.hpp"

#include <array>

#include "tests/unit/roce/free_address.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::roce;
using namespace sluice::roce::socket;
using engine::Port;

namespace {

engine::Address next_address() {
    return *parse_address(sluice::test::Loopback::instance().next_address().c_str());
}

// A probe whose looks are as far apart as those of a queue pair whose peer is silent.
struct Looks {
    Port next() {
        now += 1'100'000'000;
        return probe.look(local, peer, now);
    }
    const engine::Address local = next_address(), peer = next_address();
    PortProbe probe{0};
    engine::Nanoseconds now = 1;
};

TEST(port__of_nobody__refused_from_the_second_look_on) {
    Looks looks;
    assert_true(looks.next() == Port::kSilent); // asked, and nothing is known yet
    assert_true(looks.next() == Port::kRefused);
    assert_true(looks.next() == Port::kRefused);
}

TEST(port__that_is_there__silent) {
    engine::PlainMemory memory;
    const auto port = socket::test::open_free_port(memory);
    assert_true(port != nullptr);
    const engine::Address local = next_address();
    PortProbe probe(0);
    for (engine::Nanoseconds now = 1; now < 5'000'000'000; now += 1'100'000'000) {
        assert_true(probe.look(local, port->local(), now) == Port::kSilent);
    }
}

// An end of a request takes two.
TEST(refusal__told_once__counts_at_one_look) {
    Looks looks;
    (void)looks.next();
    const auto opened = make_socket({.local = looks.peer}, Sharing::kNone);
    assert_true(opened.ok());
    assert_true(bind_socket(opened->get(), looks.peer, *find_network_device(looks.peer)).ok());
    assert_true(looks.next() == Port::kRefused); // of the first question
    assert_true(looks.next() == Port::kSilent);
}

// Each of several queue pairs, whose looks share the questions.
TEST(refusal__looked_at_by_two__known_to_both) {
    Looks looks;
    (void)looks.next();
    assert_true(looks.next() == Port::kRefused);
    assert_true(looks.probe.look(looks.local, looks.peer, looks.now + 50'000'000) == Port::kRefused);
}

// Each of so many gets its answer, although another peer is looked for in between.
TEST(probes__all_in_use__are_kept_until_their_next_look) {
    constexpr std::size_t kProbes = 16;
    PortProbe probe(0);
    const engine::Address local = next_address(), another = next_address();
    std::array<engine::Address, kProbes> peers;
    engine::Nanoseconds now = 1;
    for (engine::Address& peer : peers) {
        peer = next_address();
        assert_true(probe.look(local, peer, now) == Port::kSilent);
    }
    assert_true(probe.look(local, another, now + 1'099'000'000) == Port::kNotAsked);
    now += 1'100'000'000;
    for (const engine::Address& peer : peers) {
        assert_true(probe.look(local, peer, now) == Port::kRefused);
    }
    assert_true(probe.look(local, another, now + 2'000'000'000) == Port::kSilent);
}

} // namespace

int main() {
#ifdef TEST_EMULATED
    std::puts("skipped: sockets of an emulated program");
    return 0;
#else
    return sluice::test::run_all_tests("roce.port_probe");
#endif
}
