// SPDX-License-Identifier: BSD-3-Clause
//
// What librpma has beyond the original: what it moves and tells, and what it refuses.
#include <fcntl.h>
#include <sluice/rpma.h>

#include "tests/unit/rpma/rpma.hpp"

using namespace sluice::rpma::test;

namespace {

#define refuses(call) assert_int_equal(call, RPMA_E_INVAL) // NOLINT: CMocka tells the line only of a macro

int request_id = 0; // requests are known by addresses

// Two hosts, and a connection whose requests may have as many pieces as the configuration says.
struct Pair {
    explicit Pair(const rpma_conn_cfg* cfg = nullptr)
        : conn(client, server, cfg, cfg), remote(server.as_remote()) {
        for (std::size_t i = 0; i < client.block.size(); ++i) {
            client.block[i] = static_cast<char>(i * 7 + 1);
        }
    }
    ~Pair() { assert_int_equal(rpma_mr_remote_delete(&remote), 0); }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    int write(const std::vector<rpma_piece>& pieces, std::size_t to, int flags = kAlways) const {
        return rpma_write_pieces(conn.client, remote, to, pieces.data(), static_cast<int>(pieces.size()),
                                 flags, &request_id);
    }

    Host client{0};
    Host server{1};
    Connected conn;
    rpma_mr_remote* remote;
};

struct PiecesConfig : Config {
    explicit PiecesConfig(std::uint32_t max_pieces) { must(rpma_conn_cfg_set_max_pieces(cfg, max_pieces)); }
};

TEST(write_pieces__three__arrive_one_behind_the_other_and_alone) {
    const PiecesConfig config(3);
    const Pair pair(config.cfg);
    rpma_mr_local* const mr = pair.client.mr;
    must(pair.write({{mr, 10, 100}, {mr, 5000, 1}, {mr, 0, 3000}}, 64));
    must_complete(pair.conn.client, &request_id, IBV_WC_RDMA_WRITE);
    const char* const from = pair.client.block.data();
    const char* const at = pair.server.block.data();
    assert_memory_equal(at + 64, from + 10, 100);
    assert_int_equal(at[164], from[5000]);
    assert_memory_equal(at + 165, from, 3000);
    assert_int_equal(at[63], 0);
    assert_int_equal(at[3165], 0);
}

TEST(write_pieces__as_many_as_there_can_be__arrive) {
    const PiecesConfig config(RPMA_MAX_PIECES);
    const Pair pair(config.cfg);
    std::vector<rpma_piece> pieces;
    for (std::size_t i = 0; i < RPMA_MAX_PIECES; ++i) {
        pieces.push_back({pair.client.mr, i * 1000, 4});
    }
    must(pair.write(pieces, 0));
    must_complete(pair.conn.client, &request_id, IBV_WC_RDMA_WRITE);
    for (std::size_t i = 0; i < RPMA_MAX_PIECES; ++i) {
        assert_memory_equal(pair.server.block.data() + 4 * i, pair.client.block.data() + 1000 * i, 4);
    }
}

TEST(write_pieces__wrong__nothing_is_posted) {
    const PiecesConfig config(2);
    const Pair pair(config.cfg);
    rpma_mr_local* const mr = pair.client.mr;
    const std::size_t size = pair.client.block.size();
    const rpma_piece good{mr, 0, 8};
    refuses(pair.write({}, 0));
    refuses(pair.write({good, good, good}, 0));
    refuses(pair.write(std::vector<rpma_piece>(RPMA_MAX_PIECES + 1, good), 0));
    refuses(pair.write({good, good}, 0, 0));
    refuses(pair.write({good, {nullptr, 0, 8}}, 0));
    refuses(pair.write({good, {mr, 0, 0}}, 0));
    refuses(pair.write({good, {mr, size - 7, 8}}, 0));
    refuses(pair.write({good, {mr, 1, SIZE_MAX}}, 0));
    refuses(pair.write({good, good}, size - 15)); // each fits, both together don't
    refuses(pair.write({good}, SIZE_MAX));
    refuses(rpma_write_pieces(nullptr, pair.remote, 0, &good, 1, kAlways, nullptr));
    refuses(rpma_write_pieces(pair.conn.client, nullptr, 0, &good, 1, kAlways, nullptr));
    refuses(rpma_write_pieces(pair.conn.client, pair.remote, 0, nullptr, 1, kAlways, nullptr));
    refuses(rpma_write_pieces(pair.conn.client, pair.remote, 0, &good, -1, kAlways, nullptr));
    must(pair.write({good, good}, size - 16));
    must_complete(pair.conn.client, &request_id, IBV_WC_RDMA_WRITE);
    ibv_wc wc{};
    assert_int_equal(rpma_cq_get_wc(cq_of(pair.conn.client), 1, &wc, nullptr), RPMA_E_NO_COMPLETION);
}

TEST(max_pieces__set__is_told_and_bounded) {
    const Config config;
    std::uint32_t told = 0;
    must(rpma_conn_cfg_get_max_pieces(config.cfg, &told));
    assert_int_equal(told, 1);
    must(rpma_conn_cfg_set_max_pieces(config.cfg, RPMA_MAX_PIECES));
    refuses(rpma_conn_cfg_set_max_pieces(config.cfg, 0));
    refuses(rpma_conn_cfg_set_max_pieces(config.cfg, RPMA_MAX_PIECES + 1));
    refuses(rpma_conn_cfg_set_max_pieces(nullptr, 1));
    refuses(rpma_conn_cfg_get_max_pieces(nullptr, &told));
    refuses(rpma_conn_cfg_get_max_pieces(config.cfg, nullptr));
    must(rpma_conn_cfg_get_max_pieces(config.cfg, &told));
    assert_int_equal(told, RPMA_MAX_PIECES);
}

// A write of eight bytes of the client's at FROM to the server's at TO.
rpma_write_args args_of(const Pair& pair, std::size_t from, std::size_t to, int flags) {
    return {pair.remote, to, pair.client.mr, from, 8, flags, &request_id};
}

TEST(write_many__several__arrive_in_their_order) {
    const Pair pair;
    const std::vector<rpma_write_args> writes{args_of(pair, 100, 0, RPMA_F_COMPLETION_ON_ERROR),
                                              args_of(pair, 200, 64, RPMA_F_COMPLETION_ON_ERROR),
                                              args_of(pair, 300, 0, kAlways)};
    int posted = -1;
    must(rpma_write_many(pair.conn.client, writes.data(), 3, &posted));
    assert_int_equal(posted, 3);
    must_complete(pair.conn.client, &request_id, IBV_WC_RDMA_WRITE);
    assert_memory_equal(pair.server.block.data(), pair.client.block.data() + 300, 8); // the last of both
    assert_memory_equal(pair.server.block.data() + 64, pair.client.block.data() + 200, 8);
    ibv_wc wc{};
    assert_int_equal(rpma_cq_get_wc(cq_of(pair.conn.client), 1, &wc, nullptr), RPMA_E_NO_COMPLETION);
}

// Places of requests without a completion are free again only when one behind them has completed.
TEST(write_many__queue_has_less_room__tells_how_many_were_posted) {
    const Config config;
    must(rpma_conn_cfg_set_sq_size(config.cfg, 4));
    const Pair pair(config.cfg);
    const std::vector<rpma_write_args> writes(RPMA_MAX_WRITES,
                                              args_of(pair, 0, 0, RPMA_F_COMPLETION_ON_ERROR));
    int posted = -1;
    int all = 0;
    int code = 0;
    for (int i = 0; i < 64 && code == 0; ++i) {
        code = rpma_write_many(pair.conn.client, writes.data(), RPMA_MAX_WRITES, &posted);
        all += posted;
    }
    assert_int_equal(code, RPMA_E_PROVIDER);
    assert_in_range(posted, 0, RPMA_MAX_WRITES - 1);
    assert_true(all >= 4);
}

TEST(write_many__wrong__nothing_is_posted) {
    const Pair pair;
    rpma_conn* const conn = pair.conn.client;
    const rpma_write_args good = args_of(pair, 100, 0, kAlways);
    int posted = -1;
    for (const auto& spoil : std::vector<std::function<void(rpma_write_args&)>>{
             [](auto& args) { args.flags = 0; }, [](auto& args) { args.src = nullptr; },
             [](auto& args) { args.dst = nullptr; }, [](auto& args) { args.src_offset = 1 << 16; },
             [](auto& args) { args.dst_offset = SIZE_MAX; }, [](auto& args) { args.len = SIZE_MAX; }}) {
        std::array<rpma_write_args, 2> writes{good, good};
        spoil(writes[1]);
        refuses(rpma_write_many(conn, writes.data(), 2, &posted));
    }
    refuses(rpma_write_many(nullptr, &good, 1, &posted));
    refuses(rpma_write_many(conn, nullptr, 1, &posted));
    refuses(rpma_write_many(conn, &good, 0, &posted));
    const std::vector<rpma_write_args> too_many(RPMA_MAX_WRITES + 1, good);
    refuses(rpma_write_many(conn, too_many.data(), RPMA_MAX_WRITES + 1, &posted));
    assert_int_equal(posted, -1);
    assert_int_equal(pair.server.block[0], 0);
    must(rpma_write_many(conn, &good, 1, nullptr));
    must_complete(conn, &request_id, IBV_WC_RDMA_WRITE);
}

// The notification of a write whose completion was polled is left over.
TEST(cq_wait_wc__notification_is_left_over__waits_for_the_next_completion) {
    const Pair pair;
    rpma_cq* const cq = cq_of(pair.conn.client);
    const rpma_piece piece{pair.client.mr, 0, 8};
    must(pair.write({piece}, 0));
    ibv_wc wc{};
    int code = RPMA_E_NO_COMPLETION;
    while (code == RPMA_E_NO_COMPLETION) {
        code = rpma_cq_get_wc(cq, 1, &wc, nullptr);
    }
    must(code);
    must(rpma_recv(pair.conn.client, pair.client.mr, 64, 8, &wc));
    std::thread peer([&] { must(rpma_send(pair.conn.server, pair.server.mr, 0, 5, kAlways, nullptr)); });
    ibv_wc next{};
    code = rpma_cq_wait_wc(cq, 1, &next, nullptr);
    peer.join();
    must(code);
    assert_int_equal(next.wr_id, reinterpret_cast<std::uintptr_t>(&wc));
    assert_int_equal(next.opcode, IBV_WC_RECV);
    assert_int_equal(next.byte_len, 5);
}

TEST(cq_wait_wc__several_are_there__gives_them_at_once) {
    const Pair pair;
    rpma_cq* const cq = cq_of(pair.conn.client);
    const rpma_piece piece{pair.client.mr, 0, 8};
    for (int i = 0; i < 3; ++i) {
        must(pair.write({piece}, 0));
    }
    std::array<ibv_wc, 4> wc{};
    for (int taken = 0; taken < 3;) {
        int got = 0;
        must(rpma_cq_wait_wc(cq, 4, wc.data(), &got));
        assert_in_range(got, 1, 3 - taken);
        taken += got;
    }
}

TEST(cq_wait_wc__descriptor_does_not_block__no_completion) {
    const Pair pair;
    int fd = -1;
    must(rpma_cq_get_fd(cq_of(pair.conn.client), &fd));
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    ibv_wc wc{};
    int got = -1;
    assert_int_equal(rpma_cq_wait_wc(cq_of(pair.conn.client), 1, &wc, &got), RPMA_E_NO_COMPLETION);
    assert_int_equal(got, -1);
}

TEST(cq_wait_wc__shared_channel__gives_what_is_there_and_refuses_to_wait) {
    const Config config;
    must(rpma_conn_cfg_set_compl_channel(config.cfg, true));
    const Pair pair(config.cfg);
    rpma_cq* const cq = cq_of(pair.conn.client);
    ibv_wc wc{};
    assert_int_equal(rpma_cq_wait_wc(cq, 1, &wc, nullptr), RPMA_E_SHARED_CHANNEL);
    must(pair.write({{pair.client.mr, 0, 8}}, 0));
    int fd = -1;
    must(rpma_conn_get_compl_fd(pair.conn.client, &fd));
    wait_until_readable(fd);
    must(rpma_cq_wait_wc(cq, 1, &wc, nullptr));
    assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
}

TEST(cq_wait_wc__null_or_none__invalid) {
    const Pair pair;
    rpma_cq* const cq = cq_of(pair.conn.client);
    std::array<ibv_wc, 2> wc{};
    int got = -1;
    refuses(rpma_cq_wait_wc(nullptr, 1, wc.data(), &got));
    refuses(rpma_cq_wait_wc(cq, 1, nullptr, &got));
    refuses(rpma_cq_wait_wc(cq, 0, wc.data(), &got));
    refuses(rpma_cq_wait_wc(cq, 2, wc.data(), nullptr));
    assert_int_equal(got, -1);
}

// Posts a write and takes its notification, and its completion.
void write_and_take_notification(const Pair& pair) {
    rpma_cq* const cq = cq_of(pair.conn.client);
    must(pair.write({{pair.client.mr, 0, 8}}, 0));
    must(rpma_cq_next_event(cq));
    ibv_wc wc{};
    must(rpma_cq_get_wc(cq, 1, &wc, nullptr));
}

TEST(cq_events__armed_by_hand__one_for_each_arming) {
    const Pair pair;
    rpma_cq* const cq = cq_of(pair.conn.client);
    int fd = -1;
    must(rpma_cq_get_fd(cq, &fd));
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(rpma_cq_next_event(cq), RPMA_E_NO_COMPLETION);
    must(pair.write({{pair.client.mr, 0, 8}}, 0));
    wait_until_readable(fd);
    must(rpma_cq_next_event(cq)); // armed when it was made
    must_complete(pair.conn.client, &request_id, IBV_WC_RDMA_WRITE);
    must(pair.write({{pair.client.mr, 0, 8}}, 0));
    ibv_wc wc{};
    while (rpma_cq_get_wc(cq, 1, &wc, nullptr) == RPMA_E_NO_COMPLETION) {
    }
    assert_int_equal(rpma_cq_next_event(cq), RPMA_E_NO_COMPLETION); // nobody has armed it
    must(rpma_cq_arm(cq));
    must(pair.write({{pair.client.mr, 0, 8}}, 0));
    wait_until_readable(fd);
    must(rpma_cq_next_event(cq));
    must(rpma_cq_ack_events(cq, 2));
}

TEST(cq_ack_events__many_at_once__no_more_than_were_taken) {
    const Pair pair;
    rpma_cq* const cq = cq_of(pair.conn.client);
    refuses(rpma_cq_ack_events(cq, 1));
    for (int i = 0; i < 3; ++i) {
        write_and_take_notification(pair);
        must(rpma_cq_arm(cq));
    }
    refuses(rpma_cq_ack_events(cq, 0));
    refuses(rpma_cq_ack_events(cq, 4));
    must(rpma_cq_ack_events(cq, 2));
    refuses(rpma_cq_ack_events(cq, 2));
    must(rpma_cq_ack_events(cq, 1));
    refuses(rpma_cq_ack_events(cq, 1));
    refuses(rpma_cq_ack_events(cq, UINT32_MAX));
}

// Otherwise the queue would wait for the acknowledgement without an end.
TEST(conn_delete__notifications_are_not_acknowledged__done_for_the_program) {
    const Pair pair;
    write_and_take_notification(pair);
}

TEST(cq_events__null_or_shared__refused) {
    const Config config;
    must(rpma_conn_cfg_set_compl_channel(config.cfg, true));
    const Pair pair(config.cfg);
    assert_int_equal(rpma_cq_next_event(cq_of(pair.conn.client)), RPMA_E_SHARED_CHANNEL);
    must(rpma_cq_arm(cq_of(pair.conn.client)));
    refuses(rpma_cq_next_event(nullptr));
    refuses(rpma_cq_ack_events(nullptr, 1));
    refuses(rpma_cq_arm(nullptr));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
