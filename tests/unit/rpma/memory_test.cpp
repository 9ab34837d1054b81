// SPDX-License-Identifier: BSD-3-Clause
//
// No memory: each allocation of a call fails once, the first, the second and so on, until the call succeeds.
// It answers with a code, gives nothing, and can be made again. Allocations of this thread alone, librpma's
// and those below.
#include <fcntl.h>

#include <memory>

#include "tests/unit/rpma/rpma.hpp"
#include "tests/unit/shortage.hpp"

using namespace sluice::rpma::test;
using sluice::test::until_failure;

namespace {

// CALL gives 0 in the end; before that RPMA_E_NOMEM, at least once, or what the layers below make of it.
void fails_until_it_succeeds(const std::function<int()>& call) {
    constexpr int kMostAllocations = 500;
    bool has_told = false;
    int code = -1;
    for (int number = 0; code != 0 && number < kMostAllocations; ++number) {
        until_failure = number;
        code = call();
        until_failure = -1;
        assert_true(code == 0 || code == RPMA_E_NOMEM || code == RPMA_E_PROVIDER);
        has_told = has_told || code == RPMA_E_NOMEM;
    }
    assert_int_equal(code, 0);
    assert_true(has_told);
}

template<typename Handle>
void makes_it_in_the_end(int (*make)(Handle**), int (*destroy)(Handle**)) {
    Handle* made = nullptr;
    fails_until_it_succeeds([&] {
        const int code = make(&made);
        assert_int_equal(code == 0, made != nullptr);
        return code;
    });
    must(destroy(&made));
}

TEST(configurations__no_memory__told) {
    makes_it_in_the_end(rpma_peer_cfg_new, rpma_peer_cfg_delete);
    makes_it_in_the_end(rpma_conn_cfg_new, rpma_conn_cfg_delete);
    makes_it_in_the_end(rpma_srq_cfg_new, rpma_srq_cfg_delete);
    const char byte = 1;
    rpma_peer_cfg* cfg = nullptr;
    fails_until_it_succeeds([&] { return rpma_peer_cfg_from_descriptor(&byte, 1, &cfg); });
    must(rpma_peer_cfg_delete(&cfg));
}

TEST(devices_and_regions__no_memory__told) {
    Host host;
    (void)context_of(own_address(3)); // what is made once for all devices is there
    ibv_context* context = nullptr;
    fails_until_it_succeeds([&] {
        return rpma_utils_get_ibv_context(own_address(2).c_str(), RPMA_UTIL_IBV_CONTEXT_LOCAL, &context);
    });
    assert_non_null(context);
    rpma_peer* peer = nullptr;
    fails_until_it_succeeds([&] { return rpma_peer_new(host.context, &peer); });
    rpma_mr_local* mr = nullptr;
    fails_until_it_succeeds([&] { return rpma_mr_reg(peer, host.block.data(), 64, kAllUsages, &mr); });
    std::array<char, 21> descriptor{};
    must(rpma_mr_get_descriptor(mr, descriptor.data()));
    rpma_mr_remote* remote = nullptr;
    fails_until_it_succeeds(
        [&] { return rpma_mr_remote_from_descriptor(descriptor.data(), descriptor.size(), &remote); });
    must(rpma_mr_remote_delete(&remote));
    must(rpma_mr_dereg(&mr));
    rpma_srq* srq = nullptr;
    fails_until_it_succeeds([&] { return rpma_srq_new(peer, nullptr, &srq); });
    must(rpma_srq_delete(&srq));
    must(rpma_peer_delete(&peer)); // nothing of what has failed is left
}

TEST(requests__no_memory__told) {
    const Host left(0);
    const Host right(1);
    rpma_ep* ep = nullptr;
    const std::string port = next_port();
    fails_until_it_succeeds(
        [&] { return rpma_ep_listen(right.peer, right.address.c_str(), port.c_str(), &ep); });
    rpma_conn_req* request = nullptr;
    fails_until_it_succeeds(
        [&] { return rpma_conn_req_new(left.peer, right.address.c_str(), port.c_str(), nullptr, &request); });
    must(rpma_conn_req_delete(&request));
    rpma_conn* conn = nullptr;
    fails_until_it_succeeds([&] { // which uses the request up
        const int failure = std::exchange(until_failure, -1);
        must(rpma_conn_req_new(left.peer, right.address.c_str(), port.c_str(), nullptr, &request));
        until_failure = failure;
        const int code = rpma_conn_req_connect(&request, nullptr, &conn);
        assert_null(request);
        return code;
    });
    must(rpma_conn_delete(&conn));
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
    fails_until_it_succeeds([&] {
        const int failure = std::exchange(until_failure, -1);
        must(rpma_conn_delete(&client));
        turn_all_down(listening.ep);
        rpma_conn_req* request = nullptr;
        must(rpma_conn_req_new(left.peer, right.address.c_str(), listening.port.c_str(), nullptr, &request));
        must(rpma_conn_req_connect(&request, nullptr, &client));
        int fd = -1;
        must(rpma_ep_get_fd(listening.ep, &fd));
        wait_until_readable(fd);
        until_failure = failure;
        return rpma_ep_next_conn_req(listening.ep, nullptr, &accepted);
    });
    rpma_conn* server = nullptr;
    must(rpma_conn_req_connect(&accepted, nullptr, &server));
    assert_int_equal(next_event(client), RPMA_CONN_ESTABLISHED);
    assert_int_equal(next_event(server), RPMA_CONN_ESTABLISHED);
    must(rpma_conn_delete(&client));
    must(rpma_conn_delete(&server));
}

TEST(events__no_memory__told) {
    const Host left(0);
    const Host right(1);
    std::unique_ptr<Connected> pair;
    fails_until_it_succeeds([&] {
        const int failure = std::exchange(until_failure, -1);
        pair = std::make_unique<Connected>(left, right);
        must(rpma_conn_disconnect(pair->server));
        int fd = -1;
        must(rpma_conn_get_event_fd(pair->client, &fd));
        wait_until_readable(fd);
        until_failure = failure;
        rpma_conn_event event = RPMA_CONN_UNDEFINED;
        const int code = rpma_conn_next_event(pair->client, &event);
        assert_int_equal(event, code == 0 ? RPMA_CONN_CLOSED : RPMA_CONN_UNDEFINED);
        return code;
    });
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
