// SPDX-License-Identifier: BSD-3-Clause
//
// A connection in the place of one that has ended or failed.
#include <sluice/rpma.h>

#include <optional>

#include "tests/unit/rpma/rpma.hpp"

using namespace sluice::rpma::test;

namespace {

// A client and a server that listens all the time.
struct Place {
    rpma_conn* connect(const std::string& text = {}, const rpma_conn_cfg* cfg = nullptr) const {
        rpma_conn_req* request = nullptr;
        must(rpma_conn_req_new(client.peer, server.address.c_str(), listening.port.c_str(), cfg, &request));
        rpma_conn_private_data data{};
        rpma_conn* conn = nullptr;
        must(rpma_conn_req_connect(&request, as_data(text, data), &conn));
        return conn;
    }
    // The other end of what is under way; what the client has sent along begins with TEXT.
    rpma_conn* accept(const std::string& text = {}) const {
        rpma_conn_req* request = listening.next();
        rpma_conn_private_data data{};
        must(rpma_conn_req_get_private_data(request, &data));
        assert_true(data.len >= text.size());
        assert_memory_equal(data.ptr, text.data(), text.size());
        rpma_conn* conn = nullptr;
        must(rpma_conn_req_connect(&request, nullptr, &conn));
        return conn;
    }

    Host client{0};
    Host server{1};
    Listening listening{server};
};

// Both ends of one of these.
struct Ends {
    Ends(const Place& place, rpma_conn* from, const std::string& text = {})
        : client(from), server(place.accept(text)) {
        assert_int_equal(next_event(client), RPMA_CONN_ESTABLISHED);
        assert_int_equal(next_event(server), RPMA_CONN_ESTABLISHED);
    }
    ~Ends() {
        assert_int_equal(rpma_conn_delete(&client), 0);
        assert_int_equal(rpma_conn_delete(&server), 0);
    }
    Ends(const Ends&) = delete;
    Ends& operator=(const Ends&) = delete;

    void end_by_server() const {
        must(rpma_conn_disconnect(server));
        assert_int_equal(next_event(client), RPMA_CONN_CLOSED);
    }

    rpma_conn* client;
    rpma_conn* server;
};

rpma_conn* again(const rpma_conn* conn) {
    rpma_conn* next = nullptr;
    must(rpma_conn_reconnect(conn, &next));
    assert_non_null(next);
    return next;
}

void must_transfer(const Place& place, const Ends& ends) {
    static char id;
    rpma_mr_remote* remote = place.server.as_remote();
    must(rpma_write(ends.client, remote, 0, place.client.mr, 0, 64, kAlways, &id));
    must_complete(ends.client, &id, IBV_WC_RDMA_WRITE);
    must(rpma_mr_remote_delete(&remote));
}

TEST(reconnect__peer_has_ended_it__a_new_one_with_the_same_private_data) {
    const Place place;
    std::optional<Ends> first(std::in_place, place, place.connect("a client"), "a client");
    first->end_by_server();
    rpma_conn* const next = again(first->client);
    first.reset(); // nothing is taken over
    const Ends second(place, next, "a client");
    must_transfer(place, second);
    second.end_by_server();
    const Ends third(place, again(second.client), "a client");
    must_transfer(place, third);
}

// It counts completions, which shows.
TEST(reconnect__configuration_is_gone__its_values_are_used) {
    const Place place;
    std::optional<Config> config(std::in_place);
    must(rpma_conn_cfg_set_cq_size(config->cfg, 1));
    must(rpma_conn_cfg_set_cq_credits(config->cfg, true));
    const Ends first(place, place.connect({}, config->cfg));
    must(rpma_conn_cfg_set_cq_credits(config->cfg, false));
    config.reset();
    first.end_by_server();
    const Ends second(place, again(first.client));
    must(rpma_recv(second.client, place.client.mr, 0, 8, nullptr));
    assert_int_equal(rpma_recv(second.client, place.client.mr, 0, 8, nullptr), RPMA_E_AGAIN);
}

TEST(reconnect__rejected__asks_once_more) {
    const Place place;
    rpma_conn* conn = place.connect();
    rpma_conn_req* request = place.listening.next();
    must(rpma_conn_req_delete(&request));
    assert_int_equal(next_event(conn), RPMA_CONN_REJECTED);
    const Ends ends(place, again(conn));
    must_transfer(place, ends);
    must(rpma_conn_delete(&conn));
}

TEST(reconnect__this_side_has_left__need_not_wait_for_the_end) {
    const Place place;
    const Ends first(place, place.connect());
    must(rpma_conn_disconnect(first.client));
    const Ends second(place, again(first.client));
    must_transfer(place, second);
}

TEST(reconnect__nobody_listens_any_more__told_by_an_event) {
    const Host client(0);
    const Host server(1);
    rpma_conn* conn = nullptr;
    {
        const Listening listening(server);
        rpma_conn_req* request = nullptr;
        must(rpma_conn_req_new(client.peer, server.address.c_str(), listening.port.c_str(), nullptr,
                               &request));
        must(rpma_conn_req_connect(&request, nullptr, &conn));
        request = listening.next();
        must(rpma_conn_req_delete(&request));
    }
    assert_int_equal(next_event(conn), RPMA_CONN_REJECTED);
    rpma_conn* next = again(conn);
    assert_int_equal(next_event(next), RPMA_CONN_REJECTED);
    must(rpma_conn_delete(&next));
    must(rpma_conn_delete(&conn));
}

// The peer's host is gone: nobody says goodbye, requests aren't answered.
int tell_of_no_answer(ibv_cq*, int, ibv_wc* wc) {
    *wc = {};
    wc->status = IBV_WC_RETRY_EXC_ERR;
    return 1;
}

TEST(reconnect__lost__a_new_one) {
    const Place place;
    const Ends first(place, place.connect());
    ibv_context_ops& ops = place.client.context->ops;
    const auto before = ops.poll_cq;
    ops.poll_cq = tell_of_no_answer;
    ibv_wc wc{};
    must(rpma_cq_get_wc(cq_of(first.client), 1, &wc, nullptr));
    ops.poll_cq = before;
    rpma_conn* next = nullptr;
    assert_int_equal(rpma_conn_reconnect(first.client, &next), RPMA_E_INVAL); // no event has been taken yet
    assert_int_equal(next_event(first.client), RPMA_CONN_LOST);
    const Ends second(place, again(first.client));
    must_transfer(place, second);
}

TEST(reconnect__still_in_use_or_the_peers__refused) {
    const Place place;
    rpma_conn* next = nullptr;
    rpma_conn* asking = place.connect();
    assert_int_equal(rpma_conn_reconnect(asking, &next), RPMA_E_INVAL); // nobody has answered yet
    const Ends ends(place, asking);
    assert_int_equal(rpma_conn_reconnect(ends.client, &next), RPMA_E_INVAL);
    ends.end_by_server();
    assert_int_equal(rpma_conn_reconnect(ends.server, &next), RPMA_E_NOSUPP);
    assert_int_equal(rpma_conn_reconnect(nullptr, &next), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_reconnect(ends.client, nullptr), RPMA_E_INVAL);
    assert_null(next);
}

TEST(reconnect__over_and_over__no_descriptor_is_left) {
    const Place place;
    std::optional<Ends> ends(std::in_place, place, place.connect());
    ends->end_by_server();
    const std::size_t before = open_descriptors();
    for (int i = 0; i < 10; ++i) {
        rpma_conn* const next = again(ends->client);
        ends.reset();
        ends.emplace(place, next);
        ends->end_by_server();
    }
    assert_int_equal(open_descriptors(), before);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
