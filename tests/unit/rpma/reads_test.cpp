// SPDX-License-Identifier: BSD-3-Clause
//
// Four threads read from another process, each by a connection of its own, and wait for the notification of
// their completion before they look for it. TEST_READS=10000 makes as many rounds of new connections.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <barrier>
#include <csignal>

#include "tests/unit/rpma/rpma.hpp"

using namespace sluice::rpma::test;

namespace {

constexpr int kThreads = 4;
constexpr std::size_t kBytes = 4096;
constexpr char kPort[] = "7000";

int rounds() {
    const char* const wanted = std::getenv("TEST_READS");
    return wanted != nullptr ? std::atoi(wanted) : 100; // NOLINT(cert-err34-c): a test's own
}

struct Connection {
    rpma_conn* conn = nullptr;
    rpma_mr_remote* remote = nullptr;
};

// Connects all, then waits for their ends, as many rounds as the client wants.
void serve(const std::string& address, int ready, int count) {
    rpma_peer* peer = nullptr;
    must(rpma_peer_new(context_of(address), &peer));
    std::vector<char> block(kBytes, 's');
    rpma_mr_local* mr = nullptr;
    must(rpma_mr_reg(peer, block.data(), block.size(), kAllUsages, &mr));
    rpma_ep* ep = nullptr;
    must(rpma_ep_listen(peer, address.c_str(), kPort, &ep));
    std::array<char, 21> descriptor{};
    must(rpma_mr_get_descriptor(mr, descriptor.data()));
    rpma_conn_private_data data{descriptor.data(), descriptor.size()};
    assert_int_equal(write(ready, "r", 1), 1);
    for (int round = 0; round < count; ++round) {
        std::array<rpma_conn*, kThreads> connections{};
        for (rpma_conn*& conn : connections) {
            rpma_conn_req* request = nullptr;
            must(rpma_ep_next_conn_req(ep, nullptr, &request));
            must(rpma_conn_req_connect(&request, &data, &conn));
            assert_int_equal(next_event(conn), RPMA_CONN_ESTABLISHED);
        }
        for (rpma_conn*& conn : connections) {
            assert_int_equal(next_event(conn), RPMA_CONN_CLOSED);
            must(rpma_conn_disconnect(conn));
            must(rpma_conn_delete(&conn));
        }
    }
    must(rpma_ep_shutdown(&ep));
    must(rpma_mr_dereg(&mr));
    must(rpma_peer_delete(&peer));
}

Connection connect(rpma_peer* peer, const std::string& server) {
    Connection made;
    rpma_conn_req* request = nullptr;
    must(rpma_conn_req_new(peer, server.c_str(), kPort, nullptr, &request));
    must(rpma_conn_req_connect(&request, nullptr, &made.conn));
    assert_int_equal(next_event(made.conn), RPMA_CONN_ESTABLISHED);
    rpma_conn_private_data data{};
    must(rpma_conn_get_private_data(made.conn, &data));
    must(rpma_mr_remote_from_descriptor(data.ptr, data.len, &made.remote));
    return made;
}

// A wait that never ends ends here, by the test's patience.
void read_and_wait(const Connection& connection, rpma_mr_local* mr, std::size_t offset) {
    must(rpma_read(connection.conn, mr, offset, connection.remote, 0, kBytes, kAlways, nullptr));
    rpma_cq* const cq = cq_of(connection.conn);
    int fd = -1;
    must(rpma_cq_get_fd(cq, &fd));
    wait_until_readable(fd);
    must(rpma_cq_wait(cq));
    ibv_wc wc{};
    must(rpma_cq_get_wc(cq, 1, &wc, nullptr));
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
}

void end(Connection& connection) {
    must(rpma_mr_remote_delete(&connection.remote));
    must(rpma_conn_disconnect(connection.conn));
    assert_int_equal(next_event(connection.conn), RPMA_CONN_CLOSED);
    must(rpma_conn_delete(&connection.conn));
}

// The server, which is made before this process has a device.
pid_t server = -1;
std::string server_address;

TEST(reads__by_a_connection_of_each_thread__every_wait_ends) {
    rpma_peer* peer = nullptr;
    must(rpma_peer_new(context_of(server_address, RPMA_UTIL_IBV_CONTEXT_REMOTE), &peer));
    std::vector<char> block(kThreads * kBytes);
    rpma_mr_local* mr = nullptr;
    must(rpma_mr_reg(peer, block.data(), block.size(), kAllUsages, &mr));
    std::array<Connection, kThreads> connections;
    std::barrier together(kThreads + 1);
    std::vector<std::thread> threads;
    const int count = rounds();
    for (std::size_t i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
            for (int round = 0; round < count; ++round) {
                together.arrive_and_wait();
                read_and_wait(connections[i], mr, i * kBytes);
                together.arrive_and_wait();
            }
        });
    }
    for (int round = 0; round < count; ++round) {
        std::fill(block.begin(), block.end(), '\0');
        for (Connection& connection : connections) {
            connection = connect(peer, server_address);
        }
        together.arrive_and_wait();
        together.arrive_and_wait();
        assert_true(std::all_of(block.begin(), block.end(), [](char byte) { return byte == 's'; }));
        for (Connection& connection : connections) {
            end(connection);
        }
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    must(rpma_mr_dereg(&mr));
    must(rpma_peer_delete(&peer));
    int status = -1;
    assert_int_equal(waitpid(server, &status, 0), server);
    assert_int_equal(status, 0);
}

void start_server() {
    server_address = own_address(1);
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    server = fork();
    assert_true(server >= 0);
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(server_address, fds[1], rounds()); // a failed assertion ends with another status
        _exit(0);
    }
    close(fds[1]);
    char byte = 0;
    assert_int_equal(read(fds[0], &byte, 1), 1);
    close(fds[0]);
}

} // namespace

int main() {
    start_server();
    return sluice::test::run_all_tests();
}
