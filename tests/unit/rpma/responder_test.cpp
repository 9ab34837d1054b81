// SPDX-License-Identifier: BSD-3-Clause
//
// A responder as its peer sees it, over uroce and in ordinary memory.
#include <sluice/rpma.h>

#include "tests/unit/rpma/rpma.hpp"

using namespace sluice::rpma::test;

namespace {

#define refuses(call) assert_int_equal(call, RPMA_E_INVAL) // NOLINT: CMocka tells the line only of a macro

constexpr std::uint32_t kDepth = 4;
constexpr std::size_t kRequestBytes = 27;
constexpr std::size_t kAnswerBytes = 9;
constexpr std::size_t kAnswersAt = 4096; // in the client's block

void put_field(std::string& bytes, unsigned field, std::uint64_t value) {
    bytes += static_cast<char>(field << 3 | 1); // fixed64
    for (unsigned i = 0; i < 8; ++i) {
        bytes += static_cast<char>(value >> (8 * i));
    }
}

// As librpma's examples and fio send it.
std::string request_for(std::uint64_t offset, std::uint64_t length, std::uint64_t op_context) {
    std::string bytes;
    put_field(bytes, 1, offset);
    put_field(bytes, 2, length);
    put_field(bytes, 3, op_context);
    return bytes;
}

struct Configs {
    explicit Configs(std::uint32_t depth) {
        must(rpma_conn_cfg_set_cq_size(config.cfg, 4 * depth));
        must(rpma_conn_cfg_set_sq_size(config.cfg, 2 * depth));
        must(rpma_conn_cfg_set_rq_size(config.cfg, 2 * depth));
    }
    Config config;
};

rpma_responder* responder_of(const Host& host) {
    rpma_responder* responder = nullptr;
    must(rpma_responder_new(host.peer, host.mr, kDepth, RPMA_RESPONDER_ANY_MEMORY, &responder));
    return responder;
}

struct Deleter {
    void operator()(rpma_responder* responder) const {
        assert_int_equal(rpma_responder_delete(&responder), 0);
        assert_null(responder);
    }
};

// A client, and a server with a responder for its whole block. What the client sends has its place at the
// block's beginning.
struct Served {
    Served()
        : responder(responder_of(server)),
          conn(client, server, configs.config.cfg, configs.config.cfg, {},
               [&](rpma_conn_req* request) { must(rpma_responder_start(responder.get(), request)); }) {}

    void send(const std::string& message) {
        std::copy(message.begin(), message.end(), client.block.begin());
        must(rpma_send(conn.client, client.mr, 0, message.size(), RPMA_F_COMPLETION_ALWAYS, nullptr));
        must_complete(conn.client, nullptr, IBV_WC_SEND);
    }
    int handle(const ibv_wc& wc, rpma_responder_request* request = nullptr) {
        return rpma_responder_handle_wc(responder.get(), conn.server, &wc, request);
    }
    // What the responder answers to the message that comes next.
    int handle_next(rpma_responder_request* request = nullptr) {
        return handle(take(cq_of(conn.server)), request);
    }
    // Sends a request, has it answered, and takes the answer.
    void ask(std::uint64_t offset, std::uint64_t length, std::uint64_t op_context) {
        must(rpma_recv(conn.client, client.mr, kAnswersAt, 64, &answer_id));
        send(request_for(offset, length, op_context));
        rpma_responder_request request{};
        must(handle_next(&request));
        assert_true(request.answered);
        assert_true(request.offset == offset && request.len == length && request.op_context == op_context);
        assert_int_equal(must_complete(conn.client, &answer_id, IBV_WC_RECV).byte_len, kAnswerBytes);
        std::string answer;
        put_field(answer, 1, op_context);
        assert_memory_equal(client.block.data() + kAnswersAt, answer.data(), kAnswerBytes);
        must(handle_next(&request)); // the answer has left
        assert_false(request.answered);
    }

    static inline int answer_id = 0;
    Host client{0};
    Host server{1};
    Configs configs{kDepth};
    std::unique_ptr<rpma_responder, Deleter> responder; // goes after its connection
    Connected conn;
};

TEST(responder__requests__answered_with_their_context) {
    Served served;
    for (std::uint64_t i = 0; i < std::uint64_t{3} * kDepth; ++i) { // each slot several times
        served.ask(i * 64, 1000 + i, 0xfedcba9876543210 + i);
    }
    served.ask(0, served.server.block.size(), 1); // all of it
    served.ask(served.server.block.size(), 0, 2); // nothing, behind the end
    served.ask(0, 0, 3);                          // fio's last message
}

TEST(responder__as_many_as_its_depth_at_once__all_are_answered) {
    Served served;
    for (std::uint32_t i = 0; i < kDepth; ++i) {
        must(rpma_recv(served.conn.client, served.client.mr, kAnswersAt + std::size_t{i} * 64, 64, nullptr));
        served.send(request_for(0, 8, i));
    }
    std::uint32_t answered = 0;
    for (std::uint32_t i = 0; i < 2 * kDepth; ++i) { // each request's and each answer's completion
        rpma_responder_request request{};
        must(served.handle_next(&request));
        answered += request.answered ? 1 : 0;
    }
    assert_int_equal(answered, kDepth);
    for (std::uint32_t i = 0; i < kDepth; ++i) {
        must_complete(served.conn.client, nullptr, IBV_WC_RECV);
        assert_int_equal(served.client.block[kAnswersAt + std::size_t{i} * 64 + 1], i);
    }
}

TEST(responder__beyond_the_region__invalid_and_not_answered) {
    const std::uint64_t size = 1 << 16;
    for (const auto& message : {request_for(0, size + 1, 0), request_for(size, 1, 0), request_for(1, size, 0),
                                request_for(UINT64_MAX, 1, 0), request_for(1, UINT64_MAX, 0),
                                request_for(UINT64_MAX, UINT64_MAX, 0), request_for(size + 1, 0, 0)}) {
        Served served;
        assert_int_equal(served.server.block.size(), size);
        served.send(message);
        rpma_responder_request request{true, 1, 2, 3};
        refuses(served.handle_next(&request));
        assert_int_equal(request.op_context, 3); // not written
        ibv_wc wc{};
        assert_int_equal(rpma_cq_get_wc(cq_of(served.conn.server), 1, &wc, nullptr), RPMA_E_NO_COMPLETION);
    }
}

TEST(responder__not_the_message__invalid) {
    const std::string good = request_for(0, 8, 1);
    for (const auto& message : {good.substr(0, kRequestBytes - 1), good.substr(0, 18), std::string("hello"),
                                std::string(1, '\0'), good + '\x1b', std::string(128, '\xff')}) {
        Served served;
        served.send(message);
        refuses(served.handle_next());
    }
}

TEST(responder__given_twice_or_to_another__refused) {
    Served served;
    Served other;
    served.send(request_for(0, 8, 1));
    const ibv_wc wc = take(cq_of(served.conn.server));
    assert_int_equal(rpma_responder_handle_wc(other.responder.get(), other.conn.server, &wc, nullptr),
                     RPMA_E_NO_COMPLETION);
    refuses(rpma_responder_handle_wc(served.responder.get(), other.conn.server, &wc, nullptr));
    must(rpma_recv(served.conn.client, served.client.mr, kAnswersAt, 64, nullptr));
    must(served.handle(wc));
    refuses(served.handle(wc));
}

// Slots have numbers: that of another connection's answer is one of ours, too.
TEST(responder__answer_of_another_connection__refused) {
    Served served;
    Served other;
    const auto answer = [](Served& each) {
        must(rpma_recv(each.conn.client, each.client.mr, kAnswersAt, 64, nullptr));
        each.send(request_for(0, 8, 1));
        must(each.handle_next());
    };
    answer(served);
    answer(other);
    ibv_wc of_other = take(cq_of(other.conn.server));
    ibv_wc own = take(cq_of(served.conn.server));
    std::swap(of_other.wr_id, own.wr_id);
    refuses(served.handle(of_other));
    std::swap(of_other.wr_id, own.wr_id);
    must(served.handle(own));
    must(other.handle(of_other));
}

// A program's own requests may complete in the same queue.
TEST(responder__not_its_completion__told_so) {
    Served served;
    must(rpma_write(served.conn.server, nullptr, 0, nullptr, 0, 0, kAlways, &served));
    assert_int_equal(served.handle_next(), RPMA_E_NO_COMPLETION);
}

TEST(responder__connection_ends__its_receives_fail) {
    Served served;
    must(rpma_conn_disconnect(served.conn.client));
    assert_int_equal(next_event(served.conn.server), RPMA_CONN_CLOSED);
    for (std::uint32_t i = 0; i < kDepth; ++i) {
        assert_int_equal(served.handle_next(), RPMA_E_PROVIDER);
    }
}

TEST(responder_new__memory_is_not_persistent__not_supported) {
    const Host host(0);
    rpma_responder* responder = nullptr;
    assert_int_equal(rpma_responder_new(host.peer, host.mr, kDepth, 0, &responder), RPMA_E_NOSUPP);
    assert_null(responder);
}

TEST(responder_handle_wc__null__invalid) {
    Served served;
    const ibv_wc wc{};
    refuses(rpma_responder_handle_wc(nullptr, served.conn.server, &wc, nullptr));
    refuses(rpma_responder_handle_wc(served.responder.get(), nullptr, &wc, nullptr));
    refuses(rpma_responder_handle_wc(served.responder.get(), served.conn.server, nullptr, nullptr));
}

TEST(responder_new__wrong__invalid) {
    const Host host(0);
    rpma_responder* responder = nullptr;
    constexpr int kAny = RPMA_RESPONDER_ANY_MEMORY;
    refuses(rpma_responder_new(nullptr, host.mr, 1, kAny, &responder));
    refuses(rpma_responder_new(host.peer, nullptr, 1, kAny, &responder));
    refuses(rpma_responder_new(host.peer, host.mr, 0, kAny, &responder));
    refuses(rpma_responder_new(host.peer, host.mr, RPMA_RESPONDER_MAX_DEPTH + 1, kAny, &responder));
    refuses(rpma_responder_new(host.peer, host.mr, 1, 2, &responder));
    refuses(rpma_responder_new(host.peer, host.mr, 1, kAny, nullptr));
    refuses(rpma_responder_delete(nullptr));
    assert_int_equal(rpma_responder_delete(&responder), 0); // there is none
}

TEST(responder_start__wrong_or_no_room__refused) {
    const Host host(0);
    rpma_responder* responder = responder_of(host);
    rpma_conn_req* request = nullptr;
    refuses(rpma_responder_start(nullptr, request));
    refuses(rpma_responder_start(responder, nullptr));
    const Config small;
    must(rpma_conn_cfg_set_cq_size(small.cfg, kDepth - 1));
    must(rpma_conn_cfg_set_cq_credits(small.cfg, true));
    must(rpma_conn_req_new(host.peer, host.address.c_str(), "7000", small.cfg, &request));
    assert_int_equal(rpma_responder_start(responder, request), RPMA_E_AGAIN);
    refuses(rpma_responder_start(responder, request)); // only once
    must(rpma_conn_req_delete(&request));
    must(rpma_responder_delete(&responder));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
