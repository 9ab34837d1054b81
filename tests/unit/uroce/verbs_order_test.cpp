// SPDX-License-Identifier: BSD-3-Clause
//
// Two processes that answer each other. Each sees its message done before the answer to it comes, as with an
// adapter, whichever way packets take, and while that changes.
#include <cstdlib>

// Last: its macros are common words.
#include "tests/unit/uroce/other_process.hpp"

namespace {

using namespace sluice::uroce::test;

using AddressText = std::array<char, 32>;

struct Order {
    AddressText address{};
    bool is_near = true;
};

// A new connection finds another way than an old one.
constexpr int kConnections = 20;
constexpr int kMessages = 50;
constexpr std::size_t kLength = 64;

int post_message(End& end, unsigned flags) {
    ibv_sge list = end.sge(0, kLength);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    wr.sg_list = &list;
    wr.num_sge = 1;
    return end.post(wr);
}

OpenContext open_as_told(const Talk& talk) {
    const auto order = talk.hear<Order>();
    setenv("SLUICE_UROCE_NEIGHBOURS", order.is_near ? "memory" : "packets", 1);
    return OpenContext(open_uroce(order.address.data()));
}

// With a receive posted; both sides are at this point when it returns.
void connect_through(const Talk& talk, End& end) {
    const Card peer = talk.swap_cards(end);
    bring_up(end.qp, peer.qpn, peer.gid, {.timeout = 18});
    assert_int_equal(end.receive(end.sge(kLength, kLength)), 0);
    talk.tell('c');
    assert_int_equal(talk.hear<char>(), 'c');
}

void ask(const Talk& talk) {
    const OpenContext context = open_as_told(talk);
    for (int connection = 0; connection < kConnections; ++connection) {
        End end(context.get());
        connect_through(talk, end);
        for (int i = 0; i < kMessages; ++i) {
            assert_int_equal(post_message(end, IBV_SEND_SIGNALED), 0);
            for (const ibv_wc_opcode expected : {IBV_WC_SEND, IBV_WC_RECV}) {
                const ibv_wc wc = end.wait();
                assert_int_equal(wc.status, IBV_WC_SUCCESS);
                assert_int_equal(wc.opcode, expected);
            }
            assert_int_equal(end.receive(end.sge(kLength, kLength)), 0);
        }
        talk.tell('d');
        assert_int_equal(talk.hear<char>(), 'd');
    }
}

void answer(const Talk& talk) {
    const OpenContext context = open_as_told(talk);
    for (int connection = 0; connection < kConnections; ++connection) {
        End end(context.get());
        connect_through(talk, end);
        for (int i = 0; i < kMessages; ++i) {
            const ibv_wc wc = end.wait();
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            assert_int_equal(wc.opcode, IBV_WC_RECV);
            assert_int_equal(end.receive(end.sge(kLength, kLength)), 0);
            assert_int_equal(post_message(end, i % 16 == 15 ? IBV_SEND_SIGNALED : 0), 0);
            if (i % 16 == 15) {
                assert_int_equal(end.wait().opcode, IBV_WC_SEND);
            }
        }
        talk.tell('d');
        assert_int_equal(talk.hear<char>(), 'd');
    }
}

template<typename T>
void exchange(const OtherProcess& one, const OtherProcess& other) {
    const T of_one = one.talk().hear<T>();
    one.talk().tell(other.talk().hear<T>());
    other.talk().tell(of_one);
}

Order order_of(const std::string& address, bool is_near) {
    Order order{.is_near = is_near};
    address.copy(order.address.data(), order.address.size() - 1);
    return order;
}

void converse(const std::string& address, const std::string& other_address, bool is_near) {
    const OtherProcess asks(ask);
    const OtherProcess answers(answer);
    asks.talk().tell(order_of(address, is_near));
    answers.talk().tell(order_of(other_address, is_near));
    for (int connection = 0; connection < kConnections; ++connection) {
        exchange<Card>(asks, answers);
        exchange<char>(asks, answers);
        exchange<char>(asks, answers);
    }
    assert_int_equal(asks.wait_for_end(), 0);
    assert_int_equal(answers.wait_for_end(), 0);
}

TEST(message__over_udp__done_before_its_answer) {
    converse(own_address(0), own_address(1), false);
}

TEST(message__to_a_process_of_this_host__done_before_its_answer) {
    converse(own_address(0), own_address(1), true);
}

TEST(message__to_a_process_at_the_same_address__done_before_its_answer) {
    converse(own_address(2), own_address(2), true);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.verbs_order");
}
