// SPDX-License-Identifier: BSD-3-Clause
//
// Two processes of one machine that reach each other's memory: what is executed directly, what stays a
// packet, and what becomes of it when one of them ends, stops or forks.
#include <csignal>
#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "provider/uroce/verbs/objects.hpp"

// Last: its macros are common words.
#include "tests/unit/uroce/other_process.hpp"

namespace {

using namespace sluice::uroce::test;

constexpr std::size_t kBlock = std::size_t{3} << 20;
constexpr const char* kSetting = "SLUICE_UROCE_NEIGHBOURS";

using AddressText = std::array<char, 64>;

AddressText text_of(const std::string& address) {
    AddressText text{};
    address.copy(text.data(), text.size() - 1);
    return text;
}

bool kernel_lets_us() {
    char byte = 1;
    char copy = 0;
    const iovec here{.iov_base = &copy, .iov_len = 1};
    const iovec there{.iov_base = &byte, .iov_len = 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

// For each 'r', and each 'w', in the middle of the block.
constexpr std::uint64_t kReceives = 32;
constexpr std::size_t kReceivesAt = std::size_t{2} << 20;
constexpr std::size_t kMessage = std::size_t{1} << 17;

// What the peer is to do, and where it is.
struct Order {
    AddressText address{};
    bool is_near = true;
    ibv_qp_type type = IBV_QPT_RC;
};

// Has a connection, and does letter by letter what the client says.
void obey(const Talk& talk) {
    const auto order = talk.hear<Order>();
    if (!order.is_near) {
        setenv(kSetting, "packets", 1);
    }
    const OpenContext context(open_uroce(order.address.data()));
    End end(context.get(), {.type = order.type, .block_bytes = kBlock});
    const Card client = talk.swap_cards(end);
    bring_up(end.qp, client.qpn, client.gid);
    talk.tell('r');
    for (char said = talk.hear<char>(); said != 'e'; said = talk.hear<char>()) {
        switch (said) {
        case 'd': // its memory is private again
            end.renew_region(IBV_ACCESS_LOCAL_WRITE);
            break;
        case 'u':
            assert_int_equal(munmap(reinterpret_cast<void*>((end.addr(1 << 20) + 4095) & ~4095ULL), 4096), 0);
            break;
        case 'r':
            for (std::uint64_t i = 0; i < kReceives; ++i) {
                assert_int_equal(end.receive(end.sge(kReceivesAt, kMessage), i), 0);
            }
            break;
        case 'w':
            for (std::uint64_t i = 0; i < kReceives; ++i) {
                const ibv_wc wc = end.wait();
                assert_int_equal(wc.status, IBV_WC_SUCCESS);
                assert_int_equal(wc.wr_id, i);
            }
            break;
        case 'q':
            assert_int_equal(ibv_destroy_qp(std::exchange(end.qp, nullptr)), 0);
            break;
        case 's': {
            std::uint64_t sum = 0;
            for (const std::uint8_t byte : end.block) {
                sum = sum * 31 + byte;
            }
            talk.tell(sum);
            continue;
        }
        case 'f':
            if (fork() == 0) {
                _exit(0);
            }
            break;
        default:
            fail();
        }
        talk.tell('k');
    }
}

struct Client {
    explicit Client(const std::string& address, bool is_near = true, void (*peer)(const Talk&) = obey,
                    ibv_qp_type type = IBV_QPT_RC)
        : server(peer), context(open_here(address, is_near, type)),
          end(context.get(), {.type = type, .block_bytes = kBlock}), card(server.talk().swap_cards(end)) {
        bring_up(end.qp, card.qpn, card.gid, {.timeout = 10, .retries = 2});
        assert_int_equal(server.talk().hear<char>(), 'r');
    }
    ibv_context* open_here(const std::string& address, bool is_near, ibv_qp_type type) const {
        server.talk().tell(Order{text_of(address), is_near, type});
        return open_uroce();
    }
    void order(char what) const {
        server.talk().tell(what);
        assert_int_equal(server.talk().hear<char>(), 'k');
    }
    void finish() const {
        server.talk().tell('e');
        assert_int_equal(server.wait_for_end(), 0);
    }
    ibv_wc_status run(ibv_wr_opcode opcode, std::size_t offset, std::size_t len, std::size_t peer_offset) {
        post(opcode, offset, len, peer_offset);
        return end.wait().status;
    }
    void post(ibv_wr_opcode opcode, std::size_t offset, std::size_t len, std::size_t peer_offset) {
        ibv_sge list = end.sge(offset, len);
        ibv_send_wr wr{};
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.sg_list = &list;
        wr.num_sge = 1;
        wr.wr.rdma.remote_addr = card.addr + peer_offset;
        wr.wr.rdma.rkey = card.rkey;
        assert_int_equal(end.post(wr), 0);
    }
    // Until the two know each other; the test's time is limited.
    void wait_until_near() {
        while (direct() == 0) {
            assert_int_equal(run(IBV_WR_RDMA_WRITE, 0, 1, 0), IBV_WC_SUCCESS);
        }
    }
    sluice::uroce::device::DeviceCounters& counters() const {
        return sluice::uroce::verbs::context_of(context.get()).device.counters();
    }
    // Messages go through memory; the first of them may not. Nobody answers those of an unreliable
    // connection.
    void wait_until_rings() {
        const auto& memory = counters().memory;
        const auto& packets = end.qp->qp_type == IBV_QPT_UC ? memory.packets_sent : memory.packets_received;
        while (packets == 0) {
            order('r');
            server.talk().tell('w');
            for (std::uint64_t i = 0; i < kReceives; ++i) {
                assert_int_equal(run(IBV_WR_SEND, 0, 8, 0), IBV_WC_SUCCESS);
            }
            assert_int_equal(server.talk().hear<char>(), 'k');
        }
    }
    std::uint64_t direct() const { return counters().direct.requests; }
    std::uint64_t packets() const { return counters().udp.packets_sent; }

    const OtherProcess server;
    const OpenContext context;
    End end;
    const Card card;
};

void write_and_read_all(const std::string& address) {
    Client client(address);
    client.wait_until_near();
    const std::uint64_t packets = client.packets();
    const std::vector<std::uint8_t> mine = client.end.block;
    for (const std::size_t len : {1, 8, 255, 4096, 4097, 65536, 1 << 20}) {
        assert_int_equal(client.run(IBV_WR_RDMA_WRITE, 7, len, (1 << 20) + 3), IBV_WC_SUCCESS);
        assert_int_equal(client.run(IBV_WR_RDMA_READ, 2 << 20, len, (1 << 20) + 3), IBV_WC_SUCCESS);
        assert_memory_equal(client.end.block.data() + (2 << 20), mine.data() + 7, len);
    }
    assert_int_equal(client.packets(), packets);
    client.finish();
}

TEST(processes_at_one_address__write_and_read__without_a_packet) {
    if (!kernel_lets_us()) {
        skip();
    }
    write_and_read_all(own_address(0));
}

TEST(processes_at_two_addresses__write_and_read__without_a_packet) {
    if (!kernel_lets_us()) {
        skip();
    }
    write_and_read_all(own_address(1));
}

void send_all(const std::string& address) {
    Client client(address);
    client.wait_until_rings();
    const std::uint64_t packets = client.packets();
    const std::uint64_t through_memory = client.counters().memory.packets_sent;
    for (const std::size_t len : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, kMessage}) {
        client.order('r');
        client.server.talk().tell('w');
        for (std::uint64_t i = 0; i < kReceives; ++i) {
            client.post(IBV_WR_SEND, i, len, 0);
        }
        for (std::uint64_t i = 0; i < kReceives; ++i) {
            assert_int_equal(client.end.wait().status, IBV_WC_SUCCESS);
        }
        assert_int_equal(client.server.talk().hear<char>(), 'k');
        assert_int_equal(client.run(IBV_WR_RDMA_READ, 1 << 20, len, kReceivesAt), IBV_WC_SUCCESS);
        assert_memory_equal(client.end.block.data() + (1 << 20), client.end.block.data() + kReceives - 1,
                            len);
    }
    assert_int_equal(client.packets(), packets);
    assert_true(client.counters().memory.packets_sent >= through_memory + kReceives * (1 + 1 + 2 + 32));
    client.finish();
}

TEST(processes_at_one_address__send__without_udp) {
    send_all(own_address(0));
}

TEST(processes_at_two_addresses__send__without_udp) {
    send_all(own_address(1));
}

// A ring's worth of packets waits for it, and then the connection ends as over UDP.
TEST(peer__killed_while_packets_wait_for_it__requests_fail) {
    Client client(own_address(0));
    client.wait_until_rings();
    client.order('r');
    client.server.stop();
    for (std::uint64_t i = 0; i < kReceives; ++i) {
        client.post(IBV_WR_SEND, 0, kMessage, 0);
    }
    assert_int_equal(kill(client.server.pid(), SIGKILL), 0);
    assert_int_equal(WTERMSIG(client.server.wait_for_end()), SIGKILL);
    const auto began = std::chrono::steady_clock::now();
    ibv_wc_status status = IBV_WC_SUCCESS;
    for (std::uint64_t i = 0; i < kReceives && status == IBV_WC_SUCCESS; ++i) {
        status = client.end.wait().status; // some may arrive before the peer has stopped
    }
    assert_int_equal(status, IBV_WC_RETRY_EXC_ERR);
    assert_true(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
    assert_int_equal(client.end.state(), IBV_QPS_ERR);
}

TEST(unreliable_connection__sends__without_udp) {
    Client client(own_address(0), true, obey, IBV_QPT_UC);
    client.wait_until_rings();
    const std::uint64_t packets = client.packets();
    client.order('r');
    client.server.talk().tell('w');
    for (std::uint64_t i = 0; i < kReceives; ++i) {
        client.post(IBV_WR_SEND, 0, kMessage, 0);
    }
    for (std::uint64_t i = 0; i < kReceives; ++i) {
        assert_int_equal(client.end.wait().status, IBV_WC_SUCCESS);
    }
    assert_int_equal(client.server.talk().hear<char>(), 'k');
    assert_int_equal(client.packets(), packets);
    client.finish();
}

// As on an adapter: nobody waits for a receiver.
TEST(unreliable_connection__to_a_stopped_peer__its_sends_complete) {
    Client client(own_address(0), true, obey, IBV_QPT_UC);
    client.wait_until_rings();
    const std::uint64_t packets = client.packets();
    client.server.stop();
    for (std::uint64_t i = 0; i < kReceives; ++i) {
        client.post(IBV_WR_SEND, 0, kMessage, 0);
    }
    for (std::uint64_t i = 0; i < kReceives; ++i) {
        assert_int_equal(client.end.wait().status, IBV_WC_SUCCESS);
    }
    assert_true(client.packets() > packets);
    assert_int_equal(kill(client.server.pid(), SIGCONT), 0);
    client.finish();
}

// What it sent before it ended is all there.
void send_and_end(const Talk& talk) {
    const OpenContext context(open_uroce(talk.hear<Order>().address.data()));
    End end(context.get());
    const Card client = talk.swap_cards(end);
    bring_up(end.qp, client.qpn, client.gid);
    talk.tell('r');
    (void)talk.hear<char>();
    for (std::uint64_t i = 0; i < kReceives; ++i) {
        ibv_sge list = end.sge(0, 64);
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_SEND;
        wr.sg_list = &list;
        wr.num_sge = 1;
        assert_int_equal(end.post(wr), 0);
    }
    _exit(0);
}

TEST(peer__that_ends_after_it_has_sent__all_arrives) {
    Client client(own_address(0), true, send_and_end);
    for (std::uint64_t i = 0; i < kReceives; ++i) {
        assert_int_equal(client.end.receive(client.end.sge(0, 64), i), 0);
    }
    client.server.talk().tell('g');
    assert_int_equal(client.server.wait_for_end(), 0);
    for (std::uint64_t i = 0; i < kReceives; ++i) {
        const ibv_wc wc = client.end.wait();
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, i);
    }
}

TEST(peer__that_wants_packets__gets_them) {
    Client client(own_address(0), false);
    for (int i = 0; i < 100; ++i) {
        assert_int_equal(client.run(IBV_WR_RDMA_WRITE, 0, 4096, 0), IBV_WC_SUCCESS);
    }
    assert_int_equal(client.direct(), 0);
    client.finish();
}

TEST(region__deregistered__the_next_write_is_refused) {
    if (!kernel_lets_us()) {
        skip();
    }
    Client client(own_address(0));
    client.wait_until_near();
    client.order('d');
    assert_int_equal(client.run(IBV_WR_RDMA_WRITE, 0, 64, 0), IBV_WC_REM_ACCESS_ERR);
    client.finish();
}

TEST(page__unmapped__operational_error) {
    if (!kernel_lets_us()) {
        skip();
    }
    Client client(own_address(0));
    client.wait_until_near();
    client.order('u');
    assert_int_equal(client.run(IBV_WR_RDMA_WRITE, 0, 16384, 1 << 20), IBV_WC_REM_OP_ERR);
    client.finish();
}

TEST(queue_pair__destroyed__nothing_is_written_any_more) {
    if (!kernel_lets_us()) {
        skip();
    }
    Client client(own_address(0));
    client.wait_until_near();
    client.order('q');
    client.server.talk().tell('s');
    const auto before = client.server.talk().hear<std::uint64_t>();
    assert_int_equal(client.run(IBV_WR_RDMA_WRITE, 5, 4096, 0), IBV_WC_RETRY_EXC_ERR);
    client.server.talk().tell('s');
    assert_int_equal(client.server.talk().hear<std::uint64_t>(), before);
    client.finish();
}

TEST(peer__killed__requests_fail_and_the_next_process_is_reached) {
    if (!kernel_lets_us()) {
        skip();
    }
    Client client(own_address(0));
    client.wait_until_near();
    assert_int_equal(kill(client.server.pid(), SIGKILL), 0);
    assert_int_equal(WTERMSIG(client.server.wait_for_end()), SIGKILL);
    const auto began = std::chrono::steady_clock::now();
    assert_int_equal(client.run(IBV_WR_RDMA_WRITE, 0, 64, 0), IBV_WC_RETRY_EXC_ERR);
    assert_true(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
    assert_int_equal(client.end.state(), IBV_QPS_ERR);
}

// As an adapter would: the peer's processor isn't needed.
TEST(peer__stopped__its_memory_is_written) {
    if (!kernel_lets_us()) {
        skip();
    }
    Client client(own_address(0));
    client.wait_until_near();
    client.server.stop();
    assert_int_equal(client.run(IBV_WR_RDMA_WRITE, 0, 4096, 4096), IBV_WC_SUCCESS);
    assert_int_equal(client.run(IBV_WR_RDMA_READ, 65536, 4096, 4096), IBV_WC_SUCCESS);
    assert_memory_equal(client.end.block.data() + 65536, client.end.block.data(), 4096);
    assert_int_equal(kill(client.server.pid(), SIGCONT), 0);
    client.finish();
}

TEST(peer__that_forks__is_still_reached) {
    if (!kernel_lets_us()) {
        skip();
    }
    Client client(own_address(0));
    client.wait_until_near();
    client.order('f');
    const std::uint64_t direct = client.direct();
    assert_int_equal(client.run(IBV_WR_RDMA_WRITE, 0, 4096, 4096), IBV_WC_SUCCESS);
    assert_int_equal(client.direct(), direct + 1);
    client.finish();
}

// Registers a page of a file that it has mapped, and does with it what the client says.
void share_a_file(const Talk& talk) {
    const OpenContext context(open_uroce(talk.hear<Order>().address.data()));
    End end(context.get());
    const int file = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, 4096), 0);
    void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(page != MAP_FAILED);
    ibv_mr* const region = ibv_reg_mr(end.pd, page, 4096, kAllAccess);
    assert_non_null(region);
    talk.tell(Card{end.gid, reinterpret_cast<std::uintptr_t>(page), end.qp->qp_num, region->rkey});
    const Card client = talk.hear<Card>();
    bring_up(end.qp, client.qpn, client.gid);
    talk.tell('r');
    for (char said = talk.hear<char>(); said != 'e'; said = talk.hear<char>()) {
        if (said == 't') {
            assert_int_equal(ftruncate(file, 0), 0);
            talk.tell('k');
        } else {
            talk.tell(std::atomic_ref(*static_cast<std::uint64_t*>(page)).load());
        }
    }
    assert_int_equal(ibv_dereg_mr(region), 0);
}

ibv_wc_status fetch_add(Client& client, std::size_t offset, std::uint64_t add) {
    ibv_sge list = client.end.sge(offset, 8);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.wr.atomic.remote_addr = client.card.addr;
    wr.wr.atomic.rkey = client.card.rkey;
    wr.wr.atomic.compare_add = add;
    assert_int_equal(client.end.post(wr), 0);
    return client.end.wait().status;
}

TEST(region_in_a_shared_file__written_read_and_added_to__without_a_packet) {
    if (!kernel_lets_us()) {
        skip();
    }
    Client client(own_address(0), true, share_a_file);
    client.wait_until_near();
    const std::uint64_t packets = client.packets();
    const std::uint64_t first = 0x1122334455667788;
    std::memcpy(client.end.block.data(), &first, sizeof first);
    for (int i = 0; i < 100; ++i) {
        assert_int_equal(client.run(IBV_WR_RDMA_WRITE, 0, 8, 0), IBV_WC_SUCCESS);
    }
    for (std::uint64_t i = 0; i < 100; ++i) {
        std::uint64_t before = 0;
        assert_int_equal(fetch_add(client, 64, 3), IBV_WC_SUCCESS);
        std::memcpy(&before, client.end.block.data() + 64, sizeof before);
        assert_int_equal(before, first + 3 * i);
    }
    client.server.talk().tell('?');
    assert_int_equal(client.server.talk().hear<std::uint64_t>(), first + 300);
    assert_int_equal(client.run(IBV_WR_RDMA_READ, 128, 4096, 0), IBV_WC_SUCCESS);
    const std::uint64_t last = first + 300;
    assert_memory_equal(client.end.block.data() + 128, &last, sizeof last);
    assert_int_equal(client.packets(), packets);
    client.finish();
}

// The mapping here has lost its page, too.
TEST(region_in_a_shared_file__truncated__operational_error) {
    if (!kernel_lets_us()) {
        skip();
    }
    Client client(own_address(0), true, share_a_file);
    client.wait_until_near();
    for (int i = 0; i < 100; ++i) {
        assert_int_equal(client.run(IBV_WR_RDMA_WRITE, 0, 64, 0), IBV_WC_SUCCESS);
    }
    client.order('t');
    assert_int_equal(client.run(IBV_WR_RDMA_WRITE, 0, 64, 0), IBV_WC_REM_OP_ERR);
    client.finish();
}

TEST(setting__that_is_none__open_says_so) {
    setenv(kSetting, "telepathy", 1);
    const auto refused = sluice::uroce::verbs::open_context(own_address(0).c_str());
    unsetenv(kSetting);
    assert_false(refused.ok());
    assert_non_null(std::strstr(refused.error().text(), "telepathy"));
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.verbs_neighbours");
}
