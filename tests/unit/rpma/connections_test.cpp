// SPDX-License-Identifier: BSD-3-Clause
//
// Connections: how they come about, what the sides tell each other, how they end, and waiting for all that.
#include <fcntl.h>
#include <malloc.h>

#include <csignal>

#include "tests/unit/rpma/rpma.hpp"

using namespace sluice::rpma::test;

namespace {

rpma_conn_private_data data_of(const rpma_conn* conn) {
    rpma_conn_private_data data{};
    must(rpma_conn_get_private_data(conn, &data));
    return data;
}

void set_non_blocking(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    assert_int_equal(flags & O_NONBLOCK, 0); // a descriptor blocks until its program says otherwise
    assert_int_equal(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
}

int event_fd_of(const rpma_conn* conn) {
    int fd = -1;
    must(rpma_conn_get_event_fd(conn, &fd));
    return fd;
}

TEST(connect__accepted__both_sides_hear_and_get_private_data) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right, nullptr, nullptr, {"from the client", "from the server"});
    const rpma_conn_private_data at_server = data_of(pair.server);
    assert_int_equal(at_server.len, 56);
    assert_string_equal(at_server.ptr, "from the client");
    const rpma_conn_private_data at_client = data_of(pair.client);
    assert_int_equal(at_client.len, 196);
    assert_string_equal(at_client.ptr, "from the server");
}

// What the sides agree on lies behind the programs' bytes, and none of it is shown.
TEST(private_data__short__rest_is_zero) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right, nullptr, nullptr, {"c", "s"});
    const rpma_conn_private_data at_server = data_of(pair.server);
    const std::vector<char> bytes(static_cast<char*>(at_server.ptr),
                                  static_cast<char*>(at_server.ptr) + at_server.len);
    std::vector<char> expected(56);
    expected[0] = 'c';
    assert_true(bytes == expected);
}

TEST(private_data__as_long_as_it_may_be__all_of_it_arrives) {
    const Host left(0);
    const Host right(1);
    const Texts texts{std::string(56, 'c'), std::string(196, 's')};
    const Connected pair(left, right, nullptr, nullptr, texts);
    assert_memory_equal(data_of(pair.server).ptr, texts.from_client.data(), 56);
    assert_memory_equal(data_of(pair.client).ptr, texts.from_server.data(), 196);
}

TEST(private_data__too_long__provider_error_and_request_is_used_up) {
    const Host host;
    rpma_conn_req* request = nullptr;
    must(rpma_conn_req_new(host.peer, host.address.c_str(), "7", nullptr, &request));
    const std::string text(57, 'x');
    rpma_conn_private_data data{};
    rpma_conn* conn = nullptr;
    assert_int_equal(rpma_conn_req_connect(&request, as_data(text, data), &conn), RPMA_E_PROVIDER);
    assert_null(request);
    assert_null(conn);
}

TEST(private_data__of_a_request__is_shown_before_accepting) {
    const Host host;
    const Listening listening(host);
    rpma_conn_req* request = nullptr;
    must(rpma_conn_req_new(host.peer, host.address.c_str(), listening.port.c_str(), nullptr, &request));
    rpma_conn_private_data data{};
    must(rpma_conn_req_get_private_data(request, &data));
    assert_null(data.ptr); // one's own has none
    assert_int_equal(data.len, 0);
    rpma_conn* conn = nullptr;
    must(rpma_conn_req_connect(&request, as_data("may I?", data), &conn));
    request = listening.next();
    must(rpma_conn_req_get_private_data(request, &data));
    assert_int_equal(data.len, 56);
    assert_string_equal(data.ptr, "may I?");
    must(rpma_conn_req_delete(&request));
    assert_int_equal(next_event(conn), RPMA_CONN_REJECTED);
    must(rpma_conn_delete(&conn));
}

TEST(connect__nobody_listens__rejected) {
    const Host left(0);
    const Host right(1);
    rpma_conn_req* request = nullptr;
    must(rpma_conn_req_new(left.peer, right.address.c_str(), "4", nullptr, &request));
    rpma_conn* conn = nullptr;
    must(rpma_conn_req_connect(&request, nullptr, &conn));
    assert_int_equal(next_event(conn), RPMA_CONN_REJECTED);
    must(rpma_conn_delete(&conn));
}

TEST(request__deleted_before_connecting__nothing_is_left) {
    const Host host;
    rpma_conn_req* request = nullptr;
    must(rpma_conn_req_new(host.peer, host.address.c_str(), "7", nullptr, &request));
    must(rpma_conn_req_delete(&request));
    assert_null(request);
    must(rpma_conn_req_delete(&request));
}

// The original's programs disconnect at both sides: one by itself, the other as an answer.
TEST(disconnect__by_one_side__both_hear_closed_once) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    must(rpma_conn_disconnect(pair.client));
    assert_int_equal(next_event(pair.client), RPMA_CONN_CLOSED);
    assert_int_equal(next_event(pair.server), RPMA_CONN_CLOSED);
    must(rpma_conn_disconnect(pair.server));
    set_non_blocking(event_fd_of(pair.server));
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    assert_int_equal(rpma_conn_next_event(pair.server, &event), RPMA_E_NO_EVENT);
    assert_int_equal(event, RPMA_CONN_UNDEFINED);
}

// Seconds later the network has forgotten the connection, which is an event for us and none for programs.
TEST(disconnect__time_wait_over__not_closed_again) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    must(rpma_conn_disconnect(pair.client));
    assert_int_equal(next_event(pair.client), RPMA_CONN_CLOSED);
    set_non_blocking(event_fd_of(pair.client));
    wait_until_readable(event_fd_of(pair.client));
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    assert_int_equal(rpma_conn_next_event(pair.client, &event), RPMA_E_NO_EVENT);
}

TEST(disconnect__by_both_sides_at_once__no_error) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    must(rpma_conn_disconnect(pair.client));
    must(rpma_conn_disconnect(pair.server));
    assert_int_equal(next_event(pair.client), RPMA_CONN_CLOSED);
    assert_int_equal(next_event(pair.server), RPMA_CONN_CLOSED);
}

TEST(disconnect__never_established__provider_error) {
    const Host left(0);
    const Host right(1);
    rpma_conn_req* request = nullptr;
    must(rpma_conn_req_new(left.peer, right.address.c_str(), "4", nullptr, &request));
    rpma_conn* conn = nullptr;
    must(rpma_conn_req_connect(&request, nullptr, &conn));
    assert_int_equal(next_event(conn), RPMA_CONN_REJECTED);
    assert_int_equal(rpma_conn_disconnect(conn), RPMA_E_PROVIDER);
    must(rpma_conn_delete(&conn));
}

TEST(delete__established__the_other_side_hears_closed) {
    const Host left(0);
    const Host right(1);
    Connected pair(left, right);
    must(rpma_conn_delete(&pair.server));
    assert_null(pair.server);
    assert_int_equal(next_event(pair.client), RPMA_CONN_CLOSED);
}

TEST(delete__with_a_receive_posted__dead_peer_ends_the_wait) {
    const Host left(0);
    const Host right(1);
    Connected pair(left, right);
    must(rpma_recv(pair.client, left.mr, 0, 8, nullptr));
    must(rpma_conn_delete(&pair.server));
    assert_int_equal(next_event(pair.client), RPMA_CONN_CLOSED);
    assert_int_equal(take(cq_of(pair.client)).status, IBV_WC_WR_FLUSH_ERR);
}

TEST(next_event__non_blocking_and_none_there__no_event) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    set_non_blocking(event_fd_of(pair.client));
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    assert_int_equal(rpma_conn_next_event(pair.client, &event), RPMA_E_NO_EVENT);
    const Listening listening(left);
    int fd = -1;
    must(rpma_ep_get_fd(listening.ep, &fd));
    set_non_blocking(fd);
    rpma_conn_req* request = nullptr;
    assert_int_equal(rpma_ep_next_conn_req(listening.ep, nullptr, &request), RPMA_E_NO_EVENT);
    assert_null(request);
}

TEST(next_event__none_there__waits_for_it) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    int code = -1;
    std::thread waiter([&] { code = rpma_conn_next_event(pair.client, &event); });
    must(rpma_conn_disconnect(pair.server));
    waiter.join();
    assert_int_equal(code, 0);
    assert_int_equal(event, RPMA_CONN_CLOSED);
}

void ignore(int) {}

// Signals as long as the wait lasts: which of them finds it waiting nobody can tell.
TEST(next_event__signal__ends_the_wait) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    struct sigaction action {};
    action.sa_handler = ignore;
    assert_int_equal(sigaction(SIGUSR1, &action, nullptr), 0);
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    std::atomic<int> code = 1;
    std::thread waiter([&] { code = rpma_conn_next_event(pair.client, &event); });
    while (code == 1) {
        assert_int_equal(pthread_kill(waiter.native_handle(), SIGUSR1), 0);
        std::this_thread::yield();
    }
    waiter.join();
    assert_int_equal(code, RPMA_E_NO_EVENT);
}

TEST(endpoint__shut_down__requests_and_connections_stay) {
    const Host left(0);
    const Host right(1);
    rpma_conn_req* request = nullptr;
    rpma_conn* client = nullptr;
    rpma_conn* server = nullptr;
    {
        const Listening listening(right);
        must(rpma_conn_req_new(left.peer, right.address.c_str(), listening.port.c_str(), nullptr, &request));
        must(rpma_conn_req_connect(&request, nullptr, &client));
        request = listening.next();
    }
    must(rpma_conn_req_connect(&request, nullptr, &server));
    assert_int_equal(next_event(client), RPMA_CONN_ESTABLISHED);
    assert_int_equal(next_event(server), RPMA_CONN_ESTABLISHED);
    must(rpma_conn_delete(&client));
    must(rpma_conn_delete(&server));
}

TEST(connect__client_gave_up__accepting_fails_or_is_rejected) {
    const Host left(0);
    const Host right(1);
    const Listening listening(right);
    rpma_conn_req* request = nullptr;
    rpma_conn* client = nullptr;
    must(rpma_conn_req_new(left.peer, right.address.c_str(), listening.port.c_str(), nullptr, &request));
    must(rpma_conn_req_connect(&request, nullptr, &client));
    request = listening.next();
    must(rpma_conn_delete(&client));
    rpma_conn* server = nullptr;
    const int code = rpma_conn_req_connect(&request, nullptr, &server);
    assert_null(request);
    if (code == 0) {
        assert_int_not_equal(next_event(server), RPMA_CONN_ESTABLISHED);
        must(rpma_conn_delete(&server));
    } else {
        assert_int_equal(code, RPMA_E_PROVIDER);
    }
}

TEST(qp_num__of_a_connection__is_that_of_its_completions) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    std::uint32_t number = 0;
    must(rpma_conn_get_qp_num(pair.client, &number));
    must(rpma_write(pair.client, nullptr, 0, nullptr, 0, 0, kAlways, nullptr));
    assert_int_equal(take(cq_of(pair.client)).qp_num, number);
}

TEST(peer__answers_no_more__lost) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    int code = -1;
    std::thread waiter([&] { code = rpma_conn_next_event(pair.client, &event); });
    lose_peer(left.context, pair.client);
    waiter.join();
    must(code);
    assert_int_equal(event, RPMA_CONN_LOST);
    must(rpma_conn_disconnect(pair.client));
    assert_int_equal(next_event(pair.client), RPMA_CONN_CLOSED);
}

// Who has left waits for the end of it, and for nothing else.
TEST(peer__answers_no_more_after_disconnecting__closed_only) {
    const Host left(0);
    const Host right(1);
    const Connected pair(left, right);
    must(rpma_conn_disconnect(pair.client));
    lose_peer(left.context, pair.client);
    assert_int_equal(next_event(pair.client), RPMA_CONN_CLOSED);
}

#ifdef SLUICE_UNDER_SANITIZER // which looks at what is left by itself
constexpr int kCycles = 200;
#else
constexpr int kCycles = 5000;
#endif

// What a cycle leaves behind adds up over many. Connections that have ended are remembered for seconds, in
// little memory each.
TEST(cycles__many__leave_nothing_behind) {
    const Host left(0);
    const Host right(1);
    const auto cycle = [&] {
        const Connected pair(left, right, nullptr, nullptr, {"a", "b"});
        const Listening listening(right); // and a request that is turned down
        rpma_conn_req* request = nullptr;
        rpma_conn* conn = nullptr;
        must(rpma_conn_req_new(left.peer, right.address.c_str(), listening.port.c_str(), nullptr, &request));
        must(rpma_conn_req_connect(&request, nullptr, &conn));
        request = listening.next();
        must(rpma_conn_req_delete(&request));
        assert_int_equal(next_event(conn), RPMA_CONN_REJECTED);
        must(rpma_conn_delete(&conn));
    };
    for (int i = 0; i < kCycles / 2; ++i) {
        cycle();
    }
    const std::size_t descriptors = open_descriptors();
    const std::size_t bytes = mallinfo2().uordblks;
    for (int i = 0; i < kCycles / 2; ++i) {
        cycle();
    }
    assert_int_equal(open_descriptors(), descriptors);
    const std::size_t now = mallinfo2().uordblks;
    const std::size_t grown = now > bytes ? now - bytes : 0;
    print_message("%zu bytes more after %d cycles\n", grown, kCycles / 2);
    assert_true(grown < 2048U * kCycles / 2); // a queue pair alone is more
}

TEST(context__of_an_address__is_the_same_each_time) {
    ibv_context* const here = context_of(own_address(0));
    assert_ptr_equal(context_of(own_address(0)), here);
    assert_ptr_not_equal(context_of(own_address(1)), here);
    // From this process its own devices can be reached with any of them.
    assert_non_null(context_of(own_address(1), RPMA_UTIL_IBV_CONTEXT_REMOTE));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
