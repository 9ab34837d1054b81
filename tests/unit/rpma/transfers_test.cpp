// SPDX-License-Identifier: BSD-3-Clause
//
// Reads, writes, messages, flushes and atomic writes: what they move, how they complete, and what they
// refuse.
#include <fcntl.h>

#include "tests/unit/rpma/rpma.hpp"

using namespace sluice::rpma::test;

namespace {

// Private data that fills the messages leaves no room for offers: so it is with peers that make none.
const Texts kNoRoom{std::string(56, 'c'), std::string(196, 's')};

// Two hosts and a connection between them, seen from the client.
struct Pair {
    explicit Pair(const rpma_conn_cfg* cfg = nullptr, const Texts& texts = {}, int usage = kAllUsages)
        : server(1, usage), conn(client, server, cfg, cfg, texts), remote(server.as_remote()) {
        for (std::size_t i = 0; i < client.block.size(); ++i) {
            client.block[i] = static_cast<char>(i * 7 + 1);
            server.block[i] = static_cast<char>(i * 5 + 2);
        }
        rpma_peer_cfg* trusted = nullptr;
        must(rpma_peer_cfg_new(&trusted));
        must(rpma_peer_cfg_set_direct_write_to_pmem(trusted, true));
        must(rpma_conn_apply_remote_peer_cfg(conn.client, trusted));
        must(rpma_peer_cfg_delete(&trusted));
    }
    ~Pair() { assert_int_equal(rpma_mr_remote_delete(&remote), 0); }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    rpma_conn* at_client() const { return conn.client; }
    rpma_conn* at_server() const { return conn.server; }

    Host client{0};
    Host server;
    Connected conn;
    rpma_mr_remote* remote;
};

int request_id = 0; // requests are known by addresses

TEST(read__range__arrives_whole_and_alone) {
    Pair pair;
    const auto before = pair.client.block;
    must(rpma_read(pair.at_client(), pair.client.mr, 100, pair.remote, 200, 5000, kAlways, &request_id));
    assert_int_equal(must_complete(pair.at_client(), &request_id, IBV_WC_RDMA_READ).byte_len, 5000);
    assert_memory_equal(pair.client.block.data() + 100, pair.server.block.data() + 200, 5000);
    assert_int_equal(pair.client.block[99], before[99]);
    assert_int_equal(pair.client.block[5100], before[5100]);
}

TEST(write__range__arrives_whole_and_alone) {
    Pair pair;
    const auto before = pair.server.block;
    must(rpma_write(pair.at_client(), pair.remote, 300, pair.client.mr, 400, 5000, kAlways, &request_id));
    must_complete(pair.at_client(), &request_id, IBV_WC_RDMA_WRITE);
    assert_memory_equal(pair.server.block.data() + 300, pair.client.block.data() + 400, 5000);
    assert_int_equal(pair.server.block[299], before[299]);
    assert_int_equal(pair.server.block[5300], before[5300]);
}

TEST(write_with_imm__posted__peer_gets_the_number_in_network_order) {
    if (is_over_iwarp()) {
        skip();
    }
    Pair pair;
    must(rpma_recv(pair.at_server(), nullptr, 0, 0, &request_id));
    must(rpma_write_with_imm(pair.at_client(), pair.remote, 0, pair.client.mr, 0, 64, kAlways, 0x12345678,
                             &request_id));
    must_complete(pair.at_client(), &request_id, IBV_WC_RDMA_WRITE);
    const ibv_wc wc = must_complete(pair.at_server(), &request_id, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_true((wc.wc_flags & IBV_WC_WITH_IMM) != 0);
    assert_int_equal(be32toh(wc.imm_data), 0x12345678);
    assert_memory_equal(pair.server.block.data(), pair.client.block.data(), 64);
}

TEST(send__posted__is_received) {
    Pair pair;
    must(rpma_recv(pair.at_server(), pair.server.mr, 64, 100, &request_id));
    must(rpma_send(pair.at_client(), pair.client.mr, 10, 40, kAlways, &request_id));
    must_complete(pair.at_client(), &request_id, IBV_WC_SEND);
    assert_int_equal(must_complete(pair.at_server(), &request_id, IBV_WC_RECV).byte_len, 40);
    assert_memory_equal(pair.server.block.data() + 64, pair.client.block.data() + 10, 40);
}

TEST(send_with_imm__of_no_bytes__number_is_received) {
    if (is_over_iwarp()) {
        skip();
    }
    Pair pair;
    must(rpma_recv(pair.at_server(), nullptr, 0, 0, &request_id));
    must(rpma_send_with_imm(pair.at_client(), nullptr, 0, 0, kAlways, 77, &request_id));
    must_complete(pair.at_client(), &request_id, IBV_WC_SEND);
    const ibv_wc wc = must_complete(pair.at_server(), &request_id, IBV_WC_RECV);
    assert_int_equal(be32toh(wc.imm_data), 77);
    assert_int_equal(wc.byte_len, 0);
}

TEST(no_bytes__each_operation__completes) {
    Pair pair;
    must(rpma_read(pair.at_client(), nullptr, 0, nullptr, 0, 0, kAlways, &request_id));
    must_complete(pair.at_client(), &request_id, IBV_WC_RDMA_READ);
    must(rpma_write(pair.at_client(), nullptr, 0, nullptr, 0, 0, kAlways, &request_id));
    must_complete(pair.at_client(), &request_id, IBV_WC_RDMA_WRITE);
    must(rpma_recv(pair.at_server(), nullptr, 0, 0, &request_id));
    must(rpma_send(pair.at_client(), nullptr, 0, 0, kAlways, &request_id));
    must_complete(pair.at_client(), &request_id, IBV_WC_SEND);
    must_complete(pair.at_server(), &request_id, IBV_WC_RECV);
}

TEST(on_error__request_succeeds__no_completion) {
    Pair pair;
    must(rpma_write(pair.at_client(), pair.remote, 0, pair.client.mr, 0, 8, RPMA_F_COMPLETION_ON_ERROR,
                    &request_id));
    int other = 0;
    must(rpma_read(pair.at_client(), pair.client.mr, 0, pair.remote, 0, 8, kAlways, &other));
    must_complete(pair.at_client(), &other, IBV_WC_RDMA_READ);
    ibv_wc wc{};
    assert_int_equal(rpma_cq_get_wc(cq_of(pair.at_client()), 1, &wc, nullptr), RPMA_E_NO_COMPLETION);
}

TEST(on_error__request_fails__completion) {
    if (is_over_iwarp()) {
        skip();
    }
    Pair pair;
    rpma_mr_local* gone = nullptr;
    must(rpma_mr_reg(pair.server.peer, pair.server.block.data(), 64, kAllUsages, &gone));
    std::array<char, 21> descriptor{};
    must(rpma_mr_get_descriptor(gone, descriptor.data()));
    must(rpma_mr_dereg(&gone));
    rpma_mr_remote* remote = nullptr;
    must(rpma_mr_remote_from_descriptor(descriptor.data(), descriptor.size(), &remote));
    must(rpma_write(pair.at_client(), remote, 0, pair.client.mr, 0, 8, RPMA_F_COMPLETION_ON_ERROR,
                    &request_id));
    const ibv_wc wc = take(cq_of(pair.at_client()));
    assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(wc.wr_id, reinterpret_cast<std::uintptr_t>(&request_id));
    must(rpma_mr_remote_delete(&remote));
}

TEST(flush__both_can__is_native) {
    Pair pair;
    const Natively natively(pair.client);
    assert_int_equal(natively.flush, !is_emulated_in_lab());
    assert_int_equal(natively.persistent_flush, lab_address() == nullptr);
    for (const rpma_flush_type type : {RPMA_FLUSH_TYPE_VISIBILITY, RPMA_FLUSH_TYPE_PERSISTENT}) {
        const bool is_native =
            type == RPMA_FLUSH_TYPE_VISIBILITY ? natively.flush : natively.persistent_flush;
        must(rpma_flush(pair.at_client(), pair.remote, 8, 100, type, kAlways, &request_id));
        must_complete(pair.at_client(), &request_id, is_native ? kWcFlush : int{IBV_WC_RDMA_READ});
    }
}

TEST(flush__peer_offers_nothing__is_a_read) {
    Pair pair(nullptr, kNoRoom);
    const auto before = pair.client.block;
    for (const rpma_flush_type type : {RPMA_FLUSH_TYPE_VISIBILITY, RPMA_FLUSH_TYPE_PERSISTENT}) {
        must(rpma_flush(pair.at_client(), pair.remote, 8, 100, type, kAlways, &request_id));
        must_complete(pair.at_client(), &request_id, IBV_WC_RDMA_READ);
    }
    assert_true(before == pair.client.block); // what it reads goes elsewhere
}

// The first librpma killed the connection by reading beyond the region.
TEST(flush__last_bytes_of_the_region__succeeds) {
    for (const Texts& texts : {Texts{}, kNoRoom}) {
        Pair pair(nullptr, texts);
        const std::size_t end = pair.server.block.size();
        for (std::size_t tail = 0; tail <= 9; ++tail) {
            must(rpma_flush(pair.at_client(), pair.remote, end - tail, tail, RPMA_FLUSH_TYPE_VISIBILITY,
                            kAlways, &request_id));
            assert_int_equal(take(cq_of(pair.at_client())).status, IBV_WC_SUCCESS);
        }
    }
}

TEST(flush__region_of_one_byte__succeeds) {
    for (const Texts& texts : {Texts{}, kNoRoom}) {
        Pair pair(nullptr, texts);
        rpma_mr_local* tiny = nullptr;
        must(rpma_mr_reg(pair.server.peer, pair.server.block.data() + 4095, 1, kAllUsages, &tiny));
        std::array<char, 21> descriptor{};
        must(rpma_mr_get_descriptor(tiny, descriptor.data()));
        rpma_mr_remote* remote = nullptr;
        must(rpma_mr_remote_from_descriptor(descriptor.data(), descriptor.size(), &remote));
        must(rpma_flush(pair.at_client(), remote, 0, 1, RPMA_FLUSH_TYPE_VISIBILITY, kAlways, &request_id));
        assert_int_equal(take(cq_of(pair.at_client())).status, IBV_WC_SUCCESS);
        must(rpma_mr_remote_delete(&remote));
        must(rpma_mr_dereg(&tiny));
    }
}

TEST(flush__what_it_cannot_do__is_refused) {
    const Pair pair;
    const auto flush = [&](rpma_mr_remote* range, int type, int flags) {
        return rpma_flush(pair.at_client(), range, 0, 8, static_cast<rpma_flush_type>(type), flags, nullptr);
    };
    assert_int_equal(flush(pair.remote, 7, kAlways), RPMA_E_INVAL);
    assert_int_equal(flush(pair.remote, -1, kAlways), RPMA_E_INVAL);
    assert_int_equal(flush(pair.remote, RPMA_FLUSH_TYPE_VISIBILITY, 0), RPMA_E_INVAL);
    rpma_peer_cfg* untrusted = nullptr;
    must(rpma_peer_cfg_new(&untrusted));
    must(rpma_conn_apply_remote_peer_cfg(pair.at_client(), untrusted));
    assert_int_equal(flush(pair.remote, RPMA_FLUSH_TYPE_PERSISTENT, kAlways), RPMA_E_NOSUPP);
    must(rpma_peer_cfg_delete(&untrusted));
    std::array<char, 21> descriptor{};
    must(rpma_mr_get_descriptor(pair.server.mr, descriptor.data()));
    descriptor[20] = RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
    rpma_mr_remote* remote = nullptr;
    must(rpma_mr_remote_from_descriptor(descriptor.data(), descriptor.size(), &remote));
    assert_int_equal(flush(remote, RPMA_FLUSH_TYPE_VISIBILITY, kAlways), RPMA_E_NOSUPP);
    must(rpma_mr_remote_delete(&remote));
}

TEST(flush__after_a_write__data_is_there_when_it_completes) {
    for (const Texts& texts : {Texts{}, kNoRoom}) {
        Pair pair(nullptr, texts);
        must(rpma_write(pair.at_client(), pair.remote, 0, pair.client.mr, 0, 4096, RPMA_F_COMPLETION_ON_ERROR,
                        nullptr));
        must(rpma_flush(pair.at_client(), pair.remote, 0, 4096, RPMA_FLUSH_TYPE_VISIBILITY, kAlways,
                        &request_id));
        assert_int_equal(take(cq_of(pair.at_client())).status, IBV_WC_SUCCESS);
        assert_memory_equal(pair.server.block.data(), pair.client.block.data(), 4096);
    }
}

TEST(atomic_write__native_or_not__eight_bytes_taken_at_the_call) {
    for (const bool is_native : {true, false}) {
        Pair pair(nullptr, is_native ? Texts{} : kNoRoom);
        const bool can_be = Natively(pair.client).atomic_write;
        assert_int_equal(can_be, !is_emulated_in_lab());
        const auto before = pair.server.block;
        std::array<char, 8> value{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'};
        must(rpma_flush(pair.at_client(), pair.remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY,
                        RPMA_F_COMPLETION_ON_ERROR, nullptr));
        must(rpma_atomic_write(pair.at_client(), pair.remote, 64, value.data(), kAlways, &request_id));
        value.fill('x');
        must_complete(pair.at_client(), &request_id,
                      is_native && can_be ? IBV_WC_ATOMIC_WRITE : IBV_WC_RDMA_WRITE);
        must(rpma_flush(pair.at_client(), pair.remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, kAlways, nullptr));
        assert_int_equal(take(cq_of(pair.at_client())).status, IBV_WC_SUCCESS);
        assert_memory_equal(pair.server.block.data() + 64, "abcdefgh", 8);
        assert_int_equal(pair.server.block[63], before[63]);
        assert_int_equal(pair.server.block[72], before[72]);
    }
}

TEST(atomic_write__not_aligned_or_outside__invalid) {
    const Pair pair;
    const char value[8] = {};
    const auto at = [&](rpma_mr_remote* to, std::size_t offset, int flags = kAlways) {
        return rpma_atomic_write(pair.at_client(), to, offset, value, flags, nullptr);
    };
    for (std::size_t offset = 1; offset < 8; ++offset) {
        assert_int_equal(at(pair.remote, offset), RPMA_E_INVAL);
    }
    assert_int_equal(at(pair.remote, 0, 0), RPMA_E_INVAL);
    assert_int_equal(at(pair.remote, pair.server.block.size()), RPMA_E_INVAL);
    assert_int_equal(at(pair.remote, ~std::size_t{7}), RPMA_E_INVAL);
    // The first librpma looks at the offset only: a region need not begin at an aligned place.
    std::array<unsigned char, 21> descriptor{};
    must(rpma_mr_get_descriptor(pair.server.mr, descriptor.data()));
    descriptor[0] += 4;
    descriptor[9] = 1; // 256 bytes
    descriptor[10] = 0;
    rpma_mr_remote* odd = nullptr;
    must(rpma_mr_remote_from_descriptor(descriptor.data(), descriptor.size(), &odd));
    assert_int_equal(at(odd, 8), RPMA_E_INVAL);
    must(at(odd, 4));
    must(rpma_mr_remote_delete(&odd));
}

TEST(ranges__outside_of_their_regions__invalid) {
    const Pair pair;
    const std::size_t size = pair.client.block.size();
    rpma_conn* const conn = pair.at_client();
    struct {
        std::size_t offset;
        std::size_t length;
    } const wrong[] = {{0, size + 1}, {1, size}, {size + 1, 0}, {~std::size_t{0}, 1}, {1, ~std::size_t{0}}};
    for (const auto& [offset, length] : wrong) {
        assert_int_equal(rpma_read(conn, pair.client.mr, offset, pair.remote, 0, length, kAlways, nullptr),
                         RPMA_E_INVAL);
        assert_int_equal(rpma_write(conn, pair.remote, 0, pair.client.mr, offset, length, kAlways, nullptr),
                         RPMA_E_INVAL);
        assert_int_equal(rpma_write(conn, pair.remote, offset, pair.client.mr, 0, length, kAlways, nullptr),
                         RPMA_E_INVAL);
        assert_int_equal(
            rpma_write_with_imm(conn, pair.remote, offset, pair.client.mr, 0, length, kAlways, 1, nullptr),
            RPMA_E_INVAL);
        assert_int_equal(rpma_send(conn, pair.client.mr, offset, length, kAlways, nullptr), RPMA_E_INVAL);
        assert_int_equal(rpma_send_with_imm(conn, pair.client.mr, offset, length, kAlways, 1, nullptr),
                         RPMA_E_INVAL);
        assert_int_equal(rpma_recv(conn, pair.client.mr, offset, length, nullptr), RPMA_E_INVAL);
        assert_int_equal(
            rpma_flush(conn, pair.remote, offset, length, RPMA_FLUSH_TYPE_VISIBILITY, kAlways, nullptr),
            RPMA_E_INVAL);
    }
}

// The first librpma cuts the length to 32 bits without a word.
TEST(lengths__of_four_gibibytes__invalid) {
    const Pair pair;
    std::array<unsigned char, 21> descriptor{};
    must(rpma_mr_get_descriptor(pair.server.mr, descriptor.data()));
    descriptor[13] = 1; // a TiB more
    rpma_mr_remote* huge = nullptr;
    must(rpma_mr_remote_from_descriptor(descriptor.data(), descriptor.size(), &huge));
    constexpr std::size_t kTooLong = std::size_t{1} << 32;
    assert_int_equal(
        rpma_flush(pair.at_client(), huge, 0, kTooLong, RPMA_FLUSH_TYPE_VISIBILITY, kAlways, nullptr),
        RPMA_E_INVAL);
    must(rpma_mr_remote_delete(&huge));
}

TEST(regions__only_one_given__invalid) {
    const Pair pair;
    rpma_conn* const conn = pair.at_client();
    assert_int_equal(rpma_read(conn, nullptr, 0, pair.remote, 0, 0, kAlways, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_read(conn, pair.client.mr, 0, nullptr, 0, 0, kAlways, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_read(conn, nullptr, 1, nullptr, 0, 0, kAlways, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_read(conn, nullptr, 0, nullptr, 1, 0, kAlways, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_read(conn, nullptr, 0, nullptr, 0, 1, kAlways, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_write(conn, pair.remote, 0, nullptr, 0, 0, kAlways, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_write(conn, nullptr, 0, pair.client.mr, 0, 0, kAlways, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_write(conn, nullptr, 1, nullptr, 0, 0, kAlways, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_write_with_imm(conn, pair.remote, 0, nullptr, 0, 0, kAlways, 1, nullptr),
                     RPMA_E_INVAL);
    assert_int_equal(rpma_send(conn, nullptr, 1, 0, kAlways, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_send(conn, nullptr, 0, 1, kAlways, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_send_with_imm(conn, nullptr, 1, 0, kAlways, 1, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_recv(conn, nullptr, 1, 0, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_recv(conn, nullptr, 0, 1, nullptr), RPMA_E_INVAL);
}

TEST(flags__zero__invalid) {
    const Pair pair;
    rpma_conn* const conn = pair.at_client();
    assert_int_equal(rpma_read(conn, pair.client.mr, 0, pair.remote, 0, 8, 0, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_write(conn, pair.remote, 0, pair.client.mr, 0, 8, 0, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_write_with_imm(conn, pair.remote, 0, pair.client.mr, 0, 8, 0, 1, nullptr),
                     RPMA_E_INVAL);
    assert_int_equal(rpma_send(conn, pair.client.mr, 0, 8, 0, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_send_with_imm(conn, pair.client.mr, 0, 8, 0, 1, nullptr), RPMA_E_INVAL);
}

// Every operation's RPMA_E_PROVIDER: a connection that was never established.
TEST(posting__not_connected__provider_error) {
    if (is_over_iwarp()) {
        skip();
    }
    const Host left(0);
    const Host right(1);
    rpma_conn_req* request = nullptr;
    must(rpma_conn_req_new(left.peer, right.address.c_str(), "4", nullptr, &request));
    rpma_conn* conn = nullptr;
    must(rpma_conn_req_connect(&request, nullptr, &conn));
    rpma_mr_remote* remote = right.as_remote();
    const char value[8] = {};
    assert_int_equal(rpma_read(conn, left.mr, 0, remote, 0, 8, kAlways, nullptr), RPMA_E_PROVIDER);
    assert_int_equal(rpma_write(conn, remote, 0, left.mr, 0, 8, kAlways, nullptr), RPMA_E_PROVIDER);
    assert_int_equal(rpma_write_with_imm(conn, remote, 0, left.mr, 0, 8, kAlways, 1, nullptr),
                     RPMA_E_PROVIDER);
    assert_int_equal(rpma_atomic_write(conn, remote, 0, value, kAlways, nullptr), RPMA_E_PROVIDER);
    assert_int_equal(rpma_flush(conn, remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, kAlways, nullptr),
                     RPMA_E_PROVIDER);
    assert_int_equal(rpma_send(conn, left.mr, 0, 8, kAlways, nullptr), RPMA_E_PROVIDER);
    assert_int_equal(rpma_send_with_imm(conn, left.mr, 0, 8, kAlways, 1, nullptr), RPMA_E_PROVIDER);
    must(rpma_mr_remote_delete(&remote));
    must(rpma_conn_delete(&conn));
}

TEST(recv__queue_is_full__provider_error) {
    const Config config;
    must(rpma_conn_cfg_set_rq_size(config.cfg, 2));
    const Pair pair(config.cfg);
    int code = 0;
    for (int posted = 0; code == 0 && posted < 64; ++posted) {
        code = rpma_recv(pair.at_client(), pair.client.mr, 0, 8, nullptr);
    }
    assert_int_equal(code, RPMA_E_PROVIDER);
}

TEST(req_recv__posted_before_accepting__takes_the_first_message) {
    Host left(0);
    Host right(1);
    const Connected pair(left, right, nullptr, nullptr, {}, [&](rpma_conn_req* request) {
        must(rpma_conn_req_recv(request, right.mr, 0, 64, &request_id));
        assert_int_equal(rpma_conn_req_recv(request, right.mr, right.block.size(), 1, nullptr), RPMA_E_INVAL);
        assert_int_equal(rpma_conn_req_recv(request, nullptr, 0, 0, nullptr), RPMA_E_INVAL);
    });
    left.block.fill('m');
    must(rpma_send(pair.client, left.mr, 0, 64, kAlways, nullptr));
    assert_int_equal(must_complete(pair.server, &request_id, IBV_WC_RECV).byte_len, 64);
    assert_memory_equal(right.block.data(), left.block.data(), 64);
}

TEST(peer__reads_what_it_may_not__remote_access_error) {
    if (is_over_iwarp()) {
        skip();
    }
    Pair pair(nullptr, {}, RPMA_MR_USAGE_WRITE_DST);
    must(rpma_read(pair.at_client(), pair.client.mr, 0, pair.remote, 0, 8, kAlways, &request_id));
    assert_int_equal(take(cq_of(pair.at_client())).status, IBV_WC_REM_ACCESS_ERR);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
