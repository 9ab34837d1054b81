// SPDX-License-Identifier: BSD-3-Clause
//
// Nothing to be had: each allocation, mapping, descriptor and thread that a call asks for fails once. The
// call answers with a code or does without, leaves nothing behind, and can be made again. Requests of this
// thread alone, librpma's and those below.
#include <fcntl.h>

#include <memory>

#include "tests/unit/rpma/rpma.hpp"
#include "tests/unit/shortage.hpp"
#include "tests/unit/shortage_sweep.hpp"

using namespace sluice::rpma::test;
using sluice::test::after;
using sluice::test::Sweep;
using sluice::test::until_failure;

namespace {

bool is_shortage(int code) {
    return code == RPMA_E_NOMEM || code == RPMA_E_PROVIDER; // or what the layers below make of it
}

void sweep(const char* what, const std::function<int()>& make, const std::function<void()>& undo) {
    Sweep{.what = what, .make = make, .undo = undo, .is_shortage = is_shortage}.run();
}

void sweep_of_connections(const char* what, const std::function<int()>& make,
                          const std::function<void()>& undo) {
    Sweep{.what = what, .make = make, .undo = undo, .is_shortage = is_shortage, .keeps_memory = true}.run();
}

template<typename Handle, typename Make>
void makes_it_in_the_end(const char* what, const Make& make, int (*destroy)(Handle**)) {
    Handle* made = nullptr;
    const auto make_it = [&] {
        const int code = make(&made);
        assert_int_equal(code == 0, made != nullptr);
        return code;
    };
    sweep(what, make_it, [&] { must(destroy(&made)); });
}

TEST(configurations__no_memory__told) {
    makes_it_in_the_end("rpma_peer_cfg_new", rpma_peer_cfg_new, rpma_peer_cfg_delete);
    makes_it_in_the_end("rpma_conn_cfg_new", rpma_conn_cfg_new, rpma_conn_cfg_delete);
    makes_it_in_the_end("rpma_srq_cfg_new", rpma_srq_cfg_new, rpma_srq_cfg_delete);
    const char byte = 1;
    makes_it_in_the_end(
        "rpma_peer_cfg_from_descriptor",
        [&](rpma_peer_cfg** made) { return rpma_peer_cfg_from_descriptor(&byte, 1, made); },
        rpma_peer_cfg_delete);
}

TEST(devices_and_regions__no_memory__told) {
    Host host;
    (void)context_of(own_address(3)); // what is made once for all devices is there
    rpma_peer* peer = nullptr;
    makes_it_in_the_end(
        "rpma_peer_new", [&](rpma_peer** made) { return rpma_peer_new(host.context, made); },
        rpma_peer_delete);
    must(rpma_peer_new(host.context, &peer));
    rpma_mr_local* mr = nullptr;
    const auto register_it = [&](rpma_mr_local** made) {
        return rpma_mr_reg(peer, host.block.data(), 64, kAllUsages, made);
    };
    makes_it_in_the_end("rpma_mr_reg", register_it, rpma_mr_dereg);
    must(register_it(&mr));
    std::array<char, 21> descriptor{};
    must(rpma_mr_get_descriptor(mr, descriptor.data()));
    makes_it_in_the_end(
        "rpma_mr_remote_from_descriptor",
        [&](rpma_mr_remote** made) {
            return rpma_mr_remote_from_descriptor(descriptor.data(), descriptor.size(), made);
        },
        rpma_mr_remote_delete);
    must(rpma_mr_dereg(&mr));
    makes_it_in_the_end(
        "rpma_srq_new", [&](rpma_srq** made) { return rpma_srq_new(peer, nullptr, made); }, rpma_srq_delete);
    must(rpma_peer_delete(&peer)); // nothing of what has failed is left
}

// A context stays for as long as the process does, so that each round has another one.
TEST(contexts__no_memory__told) {
    (void)context_of(own_address(3));
    for (int number = 0, is_over = 0; is_over == 0; ++number) {
        const std::string address = own_address(4 + static_cast<unsigned>(number));
        ibv_context* context = nullptr;
        until_failure = number * 7;
        const int code = rpma_utils_get_ibv_context(address.c_str(), RPMA_UTIL_IBV_CONTEXT_LOCAL, &context);
        is_over = until_failure >= 0 ? 1 : 0;
        until_failure = -1;
        assert_true(code == 0 || (is_over == 0 && is_shortage(code)));
        (void)context_of(address);
    }
}

TEST(requests__no_memory__told) {
    const Host left(0);
    const Host right(1);
    rpma_ep* ep = nullptr;
    const std::string port = next_port();
    const auto listen = [&](rpma_ep** made) {
        return rpma_ep_listen(right.peer, right.address.c_str(), port.c_str(), made);
    };
    makes_it_in_the_end("rpma_ep_listen", listen, rpma_ep_shutdown);
    must(listen(&ep));
    rpma_conn_req* request = nullptr;
    const auto ask = [&](rpma_conn_req** made) {
        return rpma_conn_req_new(left.peer, right.address.c_str(), port.c_str(), nullptr, made);
    };
    makes_it_in_the_end("rpma_conn_req_new", ask, rpma_conn_req_delete);
    rpma_conn* conn = nullptr;
    sweep_of_connections(
        "rpma_conn_req_connect",
        [&] {
            const int code = after([&] { must(ask(&request)); },
                                   [&] { return rpma_conn_req_connect(&request, nullptr, &conn); });
            assert_null(request); // which is used up
            return code;
        },
        [&] { must(rpma_conn_delete(&conn)); });
    must(rpma_ep_shutdown(&ep));
}

void turn_all_down(rpma_ep* ep) {
    int fd = -1;
    must(rpma_ep_get_fd(ep, &fd));
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    rpma_conn_req* request = nullptr;
    while (rpma_ep_next_conn_req(ep, nullptr, &request) == 0) {
        (void)rpma_conn_req_delete(&request); // who asked may have gone
    }
}

// What comes while there is no memory is turned down, or waits: the peer may try again.
TEST(peers__no_memory__told_and_rejected) {
    const Host left(0);
    const Host right(1);
    const Listening listening(right);
    rpma_conn_req* accepted = nullptr;
    rpma_conn* client = nullptr;
    const auto ask = [&] {
        must(rpma_conn_delete(&client));
        turn_all_down(listening.ep);
        rpma_conn_req* request = nullptr;
        must(rpma_conn_req_new(left.peer, right.address.c_str(), listening.port.c_str(), nullptr, &request));
        must(rpma_conn_req_connect(&request, nullptr, &client));
        int fd = -1;
        must(rpma_ep_get_fd(listening.ep, &fd));
        wait_until_readable(fd);
    };
    const auto take = [&] {
        rpma_conn* server = nullptr;
        must(rpma_conn_req_connect(&accepted, nullptr, &server));
        assert_int_equal(next_event(client), RPMA_CONN_ESTABLISHED);
        assert_int_equal(next_event(server), RPMA_CONN_ESTABLISHED);
        must(rpma_conn_delete(&client));
        must(rpma_conn_delete(&server));
    };
    sweep_of_connections(
        "rpma_ep_next_conn_req",
        [&] { return after(ask, [&] { return rpma_ep_next_conn_req(listening.ep, nullptr, &accepted); }); },
        take);
    must(rpma_conn_delete(&client));
}

TEST(events__no_memory__told) {
    const Host left(0);
    const Host right(1);
    std::unique_ptr<Connected> pair;
    const auto disconnect = [&] {
        pair = std::make_unique<Connected>(left, right);
        must(rpma_conn_disconnect(pair->server));
        int fd = -1;
        must(rpma_conn_get_event_fd(pair->client, &fd));
        wait_until_readable(fd);
    };
    const auto take_event = [&] {
        rpma_conn_event event = RPMA_CONN_UNDEFINED;
        const int code = rpma_conn_next_event(pair->client, &event);
        assert_int_equal(event, code == 0 ? RPMA_CONN_CLOSED : RPMA_CONN_UNDEFINED);
        return code;
    };
    sweep_of_connections(
        "rpma_conn_next_event", [&] { return after(disconnect, take_event); }, [&] { pair.reset(); });
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
