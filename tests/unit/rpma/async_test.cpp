// SPDX-License-Identifier: BSD-3-Clause
//
// Requests that find their way to the peer without blocking. uroce has no way to find, so that both steps are
// there at once; tests/lab takes them on the kernel's devices (glue).
#include <fcntl.h>
#include <sluice/rpma.h>

#include "tests/unit/rpma/rpma.hpp"

using namespace sluice::rpma::test;

namespace {

#define refuses(call) assert_int_equal(call, RPMA_E_INVAL) // NOLINT: CMocka tells the line only of a macro

// A client that has begun to connect, and a server that listens.
struct Started {
    explicit Started(const rpma_conn_cfg* cfg = nullptr) {
        must(rpma_conn_req_new_async(client.peer, server.address.c_str(), listening.port.c_str(), cfg,
                                     &request));
    }
    ~Started() { assert_int_equal(rpma_conn_req_delete(&request), 0); }
    Started(const Started&) = delete;
    Started& operator=(const Started&) = delete;

    int fd() const {
        int fd = -1;
        must(rpma_conn_req_get_event_fd(request, &fd));
        return fd;
    }
    void must_step(rpma_conn_req_step wanted) const {
        wait_until_readable(fd());
        auto step = static_cast<rpma_conn_req_step>(-1);
        must(rpma_conn_req_next_step(request, &step));
        assert_int_equal(step, wanted);
    }
    void find_way() const {
        must_step(RPMA_CONN_REQ_ADDRESS_FOUND);
        must_step(RPMA_CONN_REQ_PATH_FOUND);
    }

    Host client{0};
    Host server{1};
    Listening listening{server};
    rpma_conn_req* request = nullptr;
};

TEST(conn_req_new_async__both_steps_taken__connects_as_any_other) {
    Started started;
    must(rpma_conn_req_recv(started.request, started.client.mr, 0, 64, &started));
    started.find_way();
    rpma_conn* client = nullptr;
    must(rpma_conn_req_connect(&started.request, nullptr, &client));
    assert_null(started.request);
    rpma_conn_req* request = started.listening.next();
    rpma_conn* server = nullptr;
    must(rpma_conn_req_connect(&request, nullptr, &server));
    assert_int_equal(next_event(client), RPMA_CONN_ESTABLISHED);
    assert_int_equal(next_event(server), RPMA_CONN_ESTABLISHED);
    must(rpma_send(server, started.server.mr, 0, 5, RPMA_F_COMPLETION_ON_ERROR, nullptr));
    must_complete(client, &started, IBV_WC_RECV);
    must(rpma_conn_delete(&client));
    must(rpma_conn_delete(&server));
}

TEST(conn_req_next_step__way_is_found__no_step_is_left) {
    const Started started;
    started.find_way();
    pollfd wanted{started.fd(), POLLIN, 0};
    assert_int_equal(poll(&wanted, 1, 0), 0);
    rpma_conn_req_step step{};
    refuses(rpma_conn_req_next_step(started.request, &step));
}

TEST(conn_req_connect__way_is_not_found_yet__request_is_used_up) {
    for (const int steps : {0, 1}) {
        Started started;
        if (steps == 1) {
            started.must_step(RPMA_CONN_REQ_ADDRESS_FOUND);
        }
        rpma_conn* conn = nullptr;
        refuses(rpma_conn_req_connect(&started.request, nullptr, &conn));
        assert_null(started.request);
        assert_null(conn);
    }
}

TEST(conn_req_delete__steps_are_left__nothing_is_left) {
    const Host client(0);
    const Host server(1);
    const std::size_t before = open_descriptors();
    for (int steps = 0; steps < 3; ++steps) {
        rpma_conn_req* request = nullptr;
        must(rpma_conn_req_new_async(client.peer, server.address.c_str(), "7000", nullptr, &request));
        for (int i = 0; i < steps; ++i) {
            rpma_conn_req_step step{};
            must(rpma_conn_req_next_step(request, &step));
        }
        must(rpma_conn_req_delete(&request));
    }
    assert_int_equal(open_descriptors(), before);
}

TEST(conn_req_connect__way_was_found__its_descriptor_is_gone) {
    Started started;
    started.find_way();
    const int fd = started.fd();
    rpma_conn* conn = nullptr;
    must(rpma_conn_req_connect(&started.request, nullptr, &conn));
    int event_fd = -1;
    must(rpma_conn_get_event_fd(conn, &event_fd));
    assert_true(event_fd == fd || fcntl(fd, F_GETFD) == -1);
    must(rpma_conn_delete(&conn));
}

TEST(conn_req_new_async__nobody_listens__rejected_after_both_steps) {
    const Host client(0);
    const Host server(1);
    rpma_conn_req* request = nullptr;
    must(rpma_conn_req_new_async(client.peer, server.address.c_str(), "4", nullptr, &request));
    rpma_conn_req_step step{};
    must(rpma_conn_req_next_step(request, &step));
    must(rpma_conn_req_next_step(request, &step));
    rpma_conn* conn = nullptr;
    must(rpma_conn_req_connect(&request, nullptr, &conn));
    assert_int_equal(next_event(conn), RPMA_CONN_REJECTED);
    must(rpma_conn_delete(&conn));
}

TEST(conn_req_new_async__wrong__invalid) {
    const Host host(0);
    const char* const address = host.address.c_str();
    rpma_conn_req* request = nullptr;
    refuses(rpma_conn_req_new_async(nullptr, address, "7000", nullptr, &request));
    refuses(rpma_conn_req_new_async(host.peer, nullptr, "7000", nullptr, &request));
    refuses(rpma_conn_req_new_async(host.peer, address, nullptr, nullptr, &request));
    refuses(rpma_conn_req_new_async(host.peer, address, "7000", nullptr, nullptr));
    refuses(rpma_conn_req_new_async(host.peer, "localhost", "7000", nullptr, &request)); // a name
    refuses(rpma_conn_req_new_async(host.peer, address, "http", nullptr, &request));
    for (const char* const port : {"65536", " 65537", "+65537", "-1", "99999999999999999999999"}) {
        refuses(rpma_conn_req_new_async(host.peer, address, port, nullptr, &request));
    }
    assert_null(request);
    int fd = -1;
    rpma_conn_req_step step{};
    refuses(rpma_conn_req_get_event_fd(nullptr, &fd));
    refuses(rpma_conn_req_next_step(nullptr, &step));
    must(rpma_conn_req_new_async(host.peer, address, "7000", nullptr, &request));
    refuses(rpma_conn_req_get_event_fd(request, nullptr));
    refuses(rpma_conn_req_next_step(request, nullptr));
    must(rpma_conn_req_delete(&request));
    must(rpma_conn_req_new(host.peer, address, "7000", nullptr, &request)); // has no steps
    refuses(rpma_conn_req_get_event_fd(request, &fd));
    refuses(rpma_conn_req_next_step(request, &step));
    assert_int_equal(fd, -1);
    must(rpma_conn_req_delete(&request));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
