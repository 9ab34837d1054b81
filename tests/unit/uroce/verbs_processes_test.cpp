// SPDX-License-Identifier: BSD-3-Clause
//
// Two processes, each with a device of its own or both at one address, and packets between them, as with
// peers on other machines. verbs_neighbours_test.cpp has those that reach each other's memory.
#include <csignal>
#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "provider/uroce/verbs/objects.hpp"
#include "roce/group/group.hpp"
#include "roce/socket/udp_port.hpp"
#include "tests/unit/roce/pcap.hpp"

// Last: its macros are common words.
#include "tests/unit/uroce/other_process.hpp"

namespace {

using namespace sluice::uroce::test;
using sluice::roce::test::read_pcap;

constexpr std::size_t kBlock = std::size_t{3} << 20;
constexpr std::size_t kSizes[] = {0, 1, 255, 4096, 4097, 65536, 1 << 20};

int post_to(End& end, ibv_wr_opcode opcode, std::size_t offset, std::size_t len, const Card& peer,
            std::size_t peer_offset) {
    ibv_sge list = end.sge(offset, len);
    ibv_send_wr wr{};
    wr.wr_id = len;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.imm_data = htobe32(static_cast<std::uint32_t>(len));
    wr.wr.rdma.remote_addr = peer.addr + peer_offset;
    wr.wr.rdma.rkey = peer.rkey;
    return end.post(wr);
}

using AddressText = std::array<char, 32>;

AddressText text_of(const std::string& address) {
    AddressText text{};
    address.copy(text.data(), text.size() - 1);
    return text;
}

// The peer: holds its memory still, receives what is sent, and says what it got.
void serve(const Talk& talk) {
    const OpenContext context(open_uroce(talk.hear<AddressText>().data()));
    End end(context.get(), {.block_bytes = kBlock});
    const std::vector<std::uint8_t> at_first = end.block;
    const Card client = talk.swap_cards(end);
    bring_up(end.qp, client.qpn, client.gid);
    for (std::size_t i = 0; i < std::size(kSizes); ++i) {
        assert_int_equal(end.receive(end.sge(2 << 20, 1 << 20)), 0);
    }
    talk.tell('r');
    for (const std::size_t len : kSizes) {
        const ibv_wc wc = end.wait();
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.byte_len, len);
        assert_int_equal(be32toh(wc.imm_data), len);
        // Equal seeds make equal blocks: what came is the start of the client's.
        assert_memory_equal(end.block.data() + (2 << 20), at_first.data(), len);
    }
    talk.tell('d');
    (void)talk.hear<char>();
}

std::string recording() {
    return std::filesystem::temp_directory_path() / ("sluice-here-" + std::to_string(getpid()) + ".pcap");
}

// One Write between two devices of one process: a packet there and a packet back, on no wire.
void write_and_record(const Talk& talk) {
    setenv("SLUICE_UROCE_PCAP", talk.hear<std::array<char, 256>>().data(), 1);
    {
        Connected pair(Where::kTwoDevices);
        assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 100), pair.right), 0);
        assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
        raise(SIGKILL);
    }
}

// First: a process decides once whether it records, and children inherit that.
TEST(record__packets_within_a_process_that_is_killed__once_each_as_on_a_wire) {
    const std::string path = recording();
    std::array<char, 256> text{};
    path.copy(text.data(), text.size() - 1);
    const OtherProcess writer(write_and_record);
    writer.talk().tell(text);
    assert_int_equal(WTERMSIG(writer.wait_for_end()), SIGKILL);
    const auto datagrams = read_pcap(path);
    std::filesystem::remove(path);
    constexpr std::size_t kBehindUdp = 28;
    assert_int_equal(datagrams.size(), 2);
    assert_int_equal(datagrams[0].size(), kBehindUdp + 12 + 16 + 100 + 4); // BTH, RETH, payload, ICRC
    assert_int_equal(datagrams[0][kBehindUdp], 0x0a);                      // a write of one packet
    assert_int_equal(datagrams[1][kBehindUdp], 0x11);                      // its acknowledgement
}

enum class ClientHas : bool { kItsOwn, kBoth };

void exchange_at(const std::string& client_address, const std::string& server_address,
                 ClientHas devices = ClientHas::kItsOwn) {
    const OtherProcess server(serve);
    const Talk talk = server.talk();
    talk.tell(text_of(server_address));
    {
        const OpenContext also(devices == ClientHas::kBoth ? open_uroce(server_address) : nullptr);
        const OpenContext context(open_uroce(client_address));
        End end(context.get(), {.block_bytes = kBlock});
        const Card card = talk.swap_cards(end);
        bring_up(end.qp, card.qpn, card.gid);
        assert_int_equal(talk.hear<char>(), 'r');
        for (const std::size_t len : kSizes) {
            assert_int_equal(post_to(end, IBV_WR_SEND_WITH_IMM, 0, len, card, 0), 0);
            assert_int_equal(end.wait().status, IBV_WC_SUCCESS);
        }
        assert_int_equal(talk.hear<char>(), 'd');
        const std::vector<std::uint8_t> mine = end.block;
        for (const std::size_t len : kSizes) {
            assert_int_equal(post_to(end, IBV_WR_RDMA_WRITE, 7, len, card, 1 << 20), 0);
            assert_int_equal(end.wait().status, IBV_WC_SUCCESS);
            assert_int_equal(post_to(end, IBV_WR_RDMA_READ, 2 << 20, len, card, 1 << 20), 0);
            const ibv_wc wc = end.wait();
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            assert_int_equal(wc.byte_len, len);
            assert_memory_equal(end.block.data() + (2 << 20), mine.data() + 7, len);
        }
        talk.tell('e');
    }
    assert_int_equal(server.wait_for_end(), 0);
}

// Polls until the second message is there, which the client sends after the program has polled for a while,
// and ends without another call of verbs.
void end_at_second_message(const Talk& talk) {
    (void)talk.hear<char>();
    const OpenContext context(open_uroce(own_address(1)));
    End end(context.get());
    const Card client = talk.swap_cards(end);
    bring_up(end.qp, client.qpn, client.gid);
    assert_int_equal(end.receive(end.sge(0, 64)), 0);
    assert_int_equal(end.receive(end.sge(0, 64)), 0);
    talk.tell('r');
    (void)end.wait();
    for (int i = 0; i < 20000; ++i) {
        assert_true(end.idle());
    }
    talk.tell('p');
    (void)end.wait();
    std::exit(0);
}

// What it polled is acknowledged, though that waits for its next call. All servers are made before there is a
// device here, as one that ends by exit() is looked through for leaks.
TEST(process__that_ends_after_a_message__has_acknowledged_it) {
    std::array<std::unique_ptr<const OtherProcess>, 8> servers;
    for (auto& server : servers) {
        server = std::make_unique<const OtherProcess>(end_at_second_message);
    }
    const OpenContext context(open_uroce());
    for (const auto& server : servers) {
        server->talk().tell('o');
        End end(context.get());
        const Card card = server->talk().swap_cards(end);
        bring_up(end.qp, card.qpn, card.gid, {.timeout = 18});
        for (const char wanted : {'r', 'p'}) {
            assert_int_equal(server->talk().hear<char>(), wanted);
            assert_int_equal(post_to(end, IBV_WR_SEND, 0, 32, card, 0), 0);
            assert_int_equal(end.wait().status, IBV_WC_SUCCESS);
        }
        assert_int_equal(server->wait_for_end(), 0);
    }
    const sluice::uroce::device::Device::ProgressSession session(
        sluice::uroce::verbs::context_of(context.get()).device);
    assert_int_equal(session.engine().counters().timeouts, 0);
}

TEST(processes__send_write_read_at_all_sizes__every_byte_arrives) {
    exchange_at(own_address(0), own_address(1));
}

TEST(processes_at_one_address__send_write_read_at_all_sizes__every_byte_arrives) {
    exchange_at(own_address(0), own_address(0));
}

// A program that isn't ours, and shares nothing.
void hold_port(const Talk& talk) {
    const sluice::roce::engine::Address address =
        *sluice::roce::socket::parse_address(talk.hear<AddressText>().data());
    const auto held =
        sluice::roce::socket::make_socket({.local = address}, sluice::roce::socket::Sharing::kNone);
    assert_true(held.ok());
    assert_true(sluice::roce::socket::bind_socket(held->get(), address,
                                                  *sluice::roce::socket::find_network_device(address))
                    .ok());
    talk.tell('o');
    (void)talk.hear<char>();
}

// A device of this process has the address, and yet the packets are another process's.
TEST(processes_at_one_address__this_one_has_it_open_too__every_byte_arrives) {
    exchange_at(own_address(0), own_address(1), ClientHas::kBoth);
}

TEST(open__address_of_another_program__the_error_names_it) {
    const OtherProcess holder(hold_port);
    const AddressText address = text_of(own_address(2));
    holder.talk().tell(address);
    assert_int_equal(holder.talk().hear<char>(), 'o');
    const auto refused = sluice::uroce::verbs::open_context(address.data());
    assert_false(refused.ok());
    assert_int_equal(refused.error().to_errno(), EADDRINUSE);
    assert_non_null(std::strstr(refused.error().text(), std::to_string(holder.pid()).c_str()));
    holder.talk().tell('e');
    assert_int_equal(holder.wait_for_end(), 0);
    // The address is free again.
    const OpenContext mine(open_uroce(address.data()));
}

void leave_a_child(const Talk& talk) {
    const OpenContext context(open_uroce(talk.hear<AddressText>().data()));
    if (fork() == 0) {
        talk.tell('f');      // the handlers of fork() are done here
        talk.wait_for_end(); // the test's
        _exit(0);
    }
    (void)talk.hear<char>(); // is killed here
}

// A child has copies of its parent's sockets for a moment only, or the parent would seem to live.
TEST(member__killed_after_a_fork__its_seat_is_free) {
    const std::string address = own_address(3);
    const OtherProcess second(leave_a_child); // before there are threads here
    const OpenContext first(open_uroce(address));
    second.talk().tell(text_of(address));
    assert_int_equal(second.talk().hear<char>(), 'f');
    assert_int_equal(kill(second.pid(), SIGKILL), 0);
    assert_int_equal(WTERMSIG(second.wait_for_end()), SIGKILL);
    const auto third =
        sluice::roce::group::Group::join({.local = *sluice::roce::socket::parse_address(address.c_str())});
    assert_true(third.ok());
    assert_int_equal((*third)->share().which(), 1); // of the second
}

void die_after_hello(const Talk& talk) {
    const OpenContext context(open_uroce(talk.hear<AddressText>().data()));
    End end(context.get());
    const Card client = talk.swap_cards(end);
    bring_up(end.qp, client.qpn, client.gid);
    talk.tell('r');
    (void)talk.hear<char>(); // is killed here
}

TEST(peer__killed__the_request_fails_after_its_retries) {
    const OtherProcess server(die_after_hello);
    server.talk().tell(text_of(own_address()));
    const OpenContext context(open_uroce());
    End end(context.get());
    const Card card = server.talk().swap_cards(end);
    bring_up(end.qp, card.qpn, card.gid, {.timeout = 8, .retries = 2});
    assert_int_equal(server.talk().hear<char>(), 'r');
    assert_int_equal(kill(server.pid(), SIGKILL), 0);
    assert_int_equal(WTERMSIG(server.wait_for_end()), SIGKILL);
    const auto began = std::chrono::steady_clock::now();
    assert_int_equal(post_to(end, IBV_WR_RDMA_WRITE, 0, 64, card, 0), 0);
    assert_int_equal(post_to(end, IBV_WR_RDMA_WRITE, 0, 64, card, 0), 0);
    assert_int_equal(end.wait().status, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(end.wait().status, IBV_WC_WR_FLUSH_ERR);
    assert_true(std::chrono::steady_clock::now() - began < std::chrono::seconds(5)); // a stranger has eight
    assert_int_equal(end.state(), IBV_QPS_ERR);
}

// Has a connection, and does with it what the client says.
void do_as_told(const Talk& talk) {
    const OpenContext context(open_uroce(talk.hear<AddressText>().data()));
    End end(context.get());
    const Card client = talk.swap_cards(end);
    bring_up(end.qp, client.qpn, client.gid);
    talk.tell('r');
    if (talk.hear<char>() == 'd') {
        assert_int_equal(ibv_destroy_qp(std::exchange(end.qp, nullptr)), 0);
        talk.tell('d');
        (void)talk.hear<char>();
    }
}

// Until a peer that doesn't answer is lost.
constexpr Timers kThreeMilliseconds{.timeout = 8, .retries = 2};
constexpr Timers kFourTenthsOfASecond{.timeout = 14, .retries = 5};

struct Told {
    explicit Told(std::string address = own_address(), const Timers& timers = kThreeMilliseconds)
        : server_address(std::move(address)), server(do_as_told), context(open_here()), end(context.get()),
          card(server.talk().swap_cards(end)) {
        bring_up(end.qp, card.qpn, card.gid, timers);
        assert_int_equal(server.talk().hear<char>(), 'r');
    }
    ibv_context* open_here() const {
        server.talk().tell(text_of(server_address));
        return open_uroce();
    }
    const std::string server_address;
    const OtherProcess server;
    const OpenContext context;
    End end;
    const Card card;
};

// As with a debugger, or a processor that others have.
void stop_for(std::chrono::milliseconds time, Told& peer) {
    peer.server.stop();
    assert_int_equal(post_to(peer.end, IBV_WR_RDMA_WRITE, 0, 64, peer.card, 0), 0);
    const auto began = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - began < time) {
        assert_true(peer.end.idle());
    }
    assert_int_equal(kill(peer.server.pid(), SIGCONT), 0);
    assert_int_equal(peer.end.wait().status, IBV_WC_SUCCESS);
    peer.server.talk().tell('e');
    assert_int_equal(peer.server.wait_for_end(), 0);
}

TEST(peer__stopped_for_longer_than_all_retries__goes_on) {
    Told peer;
    stop_for(std::chrono::milliseconds(1500), peer);
}

// It is stopped before, so that it answers nothing of what was sent.
TEST(peer_at_another_address_of_ours__killed__the_request_fails_soon) {
    Told peer(own_address(5));
    peer.server.stop();
    assert_int_equal(post_to(peer.end, IBV_WR_RDMA_WRITE, 0, 64, peer.card, 0), 0);
    const auto began = std::chrono::steady_clock::now();
    assert_int_equal(kill(peer.server.pid(), SIGKILL), 0);
    assert_int_equal(peer.end.wait().status, IBV_WC_RETRY_EXC_ERR);
    // Tenths of a second on a machine of its own. A stranger has eight.
    assert_true(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
    assert_int_equal(peer.end.state(), IBV_QPS_ERR);
    assert_int_equal(WTERMSIG(peer.server.wait_for_end()), SIGKILL);
}

// No more silence is granted to a peer of which nothing is known than the program's retries: in that time its
// process is found.
TEST(peer_at_another_address_of_ours__stopped_for_longer_than_all_retries__goes_on) {
    setenv("SLUICE_UROCE_SILENCE", "0", 1);
    {
        Told peer(own_address(4), kFourTenthsOfASecond);
        stop_for(std::chrono::milliseconds(1500), peer);
    }
    unsetenv("SLUICE_UROCE_SILENCE");
}

TEST(peer__that_lives_and_has_destroyed_its_queue_pair__the_request_fails_after_its_retries) {
    Told peer;
    peer.server.talk().tell('d');
    assert_int_equal(peer.server.talk().hear<char>(), 'd');
    const auto began = std::chrono::steady_clock::now();
    assert_int_equal(post_to(peer.end, IBV_WR_RDMA_WRITE, 0, 64, peer.card, 0), 0);
    assert_int_equal(peer.end.wait().status, IBV_WC_RETRY_EXC_ERR);
    assert_true(std::chrono::steady_clock::now() - began < std::chrono::seconds(5)); // a stranger has eight
    peer.server.talk().tell('e');
    assert_int_equal(peer.server.wait_for_end(), 0);
}

// Registers a page, takes it away, and waits: what arrives meets the progress thread.
void unmap_what_is_registered(const Talk& talk) {
    const OpenContext context(open_uroce());
    End end(context.get());
    void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    ibv_mr* const region = ibv_reg_mr(end.pd, page, 4096, kAllAccess);
    assert_non_null(region);
    // Gone, but nothing else comes to lie there: a thread's stack would be as good as the page was.
    assert_true(mmap(page, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
    talk.tell(Card{end.gid, reinterpret_cast<std::uintptr_t>(page), end.qp->qp_num, region->rkey});
    const Card client = talk.hear<Card>();
    bring_up(end.qp, client.qpn, client.gid);
    talk.tell('r');
    assert_int_equal(talk.hear<char>(), 'e');
    assert_int_equal(ibv_dereg_mr(region), 0);
    assert_int_equal(munmap(page, 4096), 0);
}

TEST(peer__has_unmapped_its_region__operational_error_and_it_lives_on) {
    const OtherProcess server(unmap_what_is_registered);
    const OpenContext context(open_uroce());
    End end(context.get());
    const Card card = server.talk().swap_cards(end);
    // Its patience is for a machine so busy that the other side's thread gets no turn.
    bring_up(end.qp, card.qpn, card.gid, {.timeout = 18});
    assert_int_equal(server.talk().hear<char>(), 'r');
    assert_int_equal(post_to(end, IBV_WR_RDMA_WRITE, 0, 64, card, 0), 0);
    assert_int_equal(end.wait().status, IBV_WC_REM_OP_ERR);
    server.talk().tell('e');
    assert_int_equal(server.wait_for_end(), 0);
}

} // namespace

int main() {
    setenv("SLUICE_UROCE_NEIGHBOURS", "packets", 1);
    return sluice::test::run_all_tests("uroce.verbs_processes");
}
