// SPDX-License-Identifier: BSD-3-Clause
//
// Two processes, each with a device of its own, and a connection between them: with data, and with a peer
// that is killed. Devices are what this process may open only after it has made the other.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <csignal>
#include <memory>

#include "tests/unit/rpma/rpma.hpp"

using namespace sluice::rpma::test;

namespace {

constexpr char kPort[] = "7000";

struct Greeting {
    std::array<char, 21> descriptor;
};

// The server: shows its memory, answers a message, and waits for the end.
void serve(const std::string& address, int ready) {
    ibv_context* const context = context_of(address);
    rpma_peer* peer = nullptr;
    must(rpma_peer_new(context, &peer));
    std::vector<char> block(1 << 20, 's');
    rpma_mr_local* mr = nullptr;
    must(rpma_mr_reg(peer, block.data(), block.size(), kAllUsages, &mr));
    rpma_ep* ep = nullptr;
    must(rpma_ep_listen(peer, address.c_str(), kPort, &ep));
    assert_int_equal(write(ready, "r", 1), 1);
    rpma_conn_req* request = nullptr;
    must(rpma_ep_next_conn_req(ep, nullptr, &request));
    must(rpma_conn_req_recv(request, mr, 0, 64, nullptr));
    Greeting greeting{};
    must(rpma_mr_get_descriptor(mr, greeting.descriptor.data()));
    rpma_conn_private_data data{&greeting, sizeof greeting};
    rpma_conn* conn = nullptr;
    must(rpma_conn_req_connect(&request, &data, &conn));
    assert_int_equal(next_event(conn), RPMA_CONN_ESTABLISHED);
    assert_int_equal(take(cq_of(conn)).opcode, IBV_WC_RECV);
    must(rpma_send(conn, mr, 0, 64, kAlways, nullptr)); // what was received
    assert_int_equal(take(cq_of(conn)).opcode, IBV_WC_SEND);
    assert_int_equal(next_event(conn), RPMA_CONN_CLOSED);
    must(rpma_conn_disconnect(conn));
    must(rpma_conn_delete(&conn));
    must(rpma_ep_shutdown(&ep));
    must(rpma_mr_dereg(&mr));
    must(rpma_peer_delete(&peer));
}

class Server {
  public:
    explicit Server(std::string address) : address_(std::move(address)) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_), 0);
        pid_ = fork();
        assert_true(pid_ >= 0);
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(fds_[0]);
            serve(address_, fds_[1]); // a failed assertion ends with another status
            _exit(0);
        }
        close(fds_[1]);
        char byte = 0;
        assert_int_equal(read(fds_[0], &byte, 1), 1);
    }
    ~Server() { close(fds_[0]); }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    const std::string& address() const { return address_; }
    void kill() const { assert_int_equal(::kill(pid_, SIGKILL), 0); }
    int wait_for_end() const {
        int status = -1;
        assert_int_equal(waitpid(pid_, &status, 0), pid_);
        return status;
    }

  private:
    const std::string address_;
    int fds_[2] = {-1, -1};
    pid_t pid_ = -1;
};

std::unique_ptr<Server> servers[3];

// A client that finds a device by the server's address, as programs do.
struct Client {
    explicit Client(const std::string& server) {
        context = context_of(server, RPMA_UTIL_IBV_CONTEXT_REMOTE);
        must(rpma_peer_new(context, &peer));
        must(rpma_mr_reg(peer, block.data(), block.size(), kAllUsages, &mr));
        rpma_conn_req* request = nullptr;
        must(rpma_conn_req_new(peer, server.c_str(), kPort, nullptr, &request));
        must(rpma_conn_req_connect(&request, nullptr, &conn));
        assert_int_equal(next_event(conn), RPMA_CONN_ESTABLISHED);
        rpma_conn_private_data data{};
        must(rpma_conn_get_private_data(conn, &data));
        must(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));
    }
    ~Client() {
        assert_int_equal(rpma_mr_remote_delete(&remote), 0);
        assert_int_equal(rpma_conn_delete(&conn), 0);
        assert_int_equal(rpma_mr_dereg(&mr), 0);
        assert_int_equal(rpma_peer_delete(&peer), 0);
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    ibv_context* context = nullptr;
    rpma_peer* peer = nullptr;
    std::vector<char> block = std::vector<char>(1 << 20, 'c');
    rpma_mr_local* mr = nullptr;
    rpma_conn* conn = nullptr;
    rpma_mr_remote* remote = nullptr;
};

TEST(processes__write_flush_read_send__every_byte_arrives) {
    const Server& server = *servers[0];
    {
        Client client(server.address());
        std::vector<char>& block = client.block;
        for (std::size_t i = 0; i < block.size(); ++i) {
            block[i] = static_cast<char>(i * 31 >> 3);
        }
        const std::vector<char> sent(block.begin(), block.begin() + 300'000);
        must(rpma_write(client.conn, client.remote, 5, client.mr, 0, sent.size(), RPMA_F_COMPLETION_ON_ERROR,
                        nullptr));
        must(rpma_flush(client.conn, client.remote, 5, sent.size(), RPMA_FLUSH_TYPE_VISIBILITY, kAlways,
                        nullptr));
        must_complete(client.conn, nullptr, kWcFlush);
        std::fill(block.begin(), block.end(), static_cast<char>(0));
        must(rpma_read(client.conn, client.mr, 0, client.remote, 4, sent.size() + 2, kAlways, nullptr));
        must_complete(client.conn, nullptr, IBV_WC_RDMA_READ);
        assert_int_equal(block.front(), 's');
        assert_true(std::equal(sent.begin(), sent.end(), block.begin() + 1));
        assert_int_equal(block[sent.size() + 1], 's');
        must(rpma_recv(client.conn, client.mr, 512, 64, nullptr));
        must(rpma_send(client.conn, client.mr, 0, 64, RPMA_F_COMPLETION_ON_ERROR, nullptr));
        must_complete(client.conn, nullptr, IBV_WC_RECV);
        assert_memory_equal(block.data() + 512, block.data(), 64);
        must(rpma_conn_disconnect(client.conn));
        assert_int_equal(next_event(client.conn), RPMA_CONN_CLOSED);
    }
    assert_int_equal(server.wait_for_end(), 0);
}

TEST(peer__killed__waits_end_with_an_error_and_lost) {
    const Server& server = *servers[1];
    const Client client(server.address());
    server.kill();
    (void)server.wait_for_end();
    must(rpma_write(client.conn, client.remote, 0, client.mr, 0, 64, kAlways, nullptr));
    assert_int_equal(take(cq_of(client.conn)).status, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(next_event(client.conn), RPMA_CONN_LOST);
}

TEST(peer__killed_when_it_is_lost__closed_and_not_lost_again) {
    const Server& server = *servers[2];
    const Client client(server.address());
    lose_peer(client.context, client.conn);
    assert_int_equal(next_event(client.conn), RPMA_CONN_LOST);
    server.kill();
    (void)server.wait_for_end();
    assert_int_equal(next_event(client.conn), RPMA_CONN_CLOSED);
}

} // namespace

int main() {
    for (unsigned i = 0; i < std::size(servers); ++i) {
        servers[i] = std::make_unique<Server>(own_address(i));
    }
    return sluice::test::run_all_tests();
}
