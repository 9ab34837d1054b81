// SPDX-License-Identifier: BSD-3-Clause
//
// Packets through real sockets of the loopback interface, and hostile bytes into one.
#include "roce/socket/udp_port.hpp"

#include <dlfcn.h>
#include <net/ethernet.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <tuple>
#include <vector>

#include "roce/socket/guarded_memory.hpp"
#include "tests/unit/roce/free_address.hpp"
#include "tests/unit/roce/random.hpp"

// Last: its macro fail() is also a name in <fstream>.
#include "tests/cmocka.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::socket;
using sluice::roce::socket::test::open_free_port;
using sluice::roce::test::Random;

namespace {

constexpr std::uint64_t kSeed = 20260511;

// The kernel at its worst: the next so many calls of sendmmsg() are refused.
int refusal_errno = 0;
int refusals_left = 0;

void refuse_next(int os_errno, int calls) {
    refusal_errno = os_errno;
    refusals_left = calls;
}

PlainMemory plain_memory;

// A port and its peer, which send to each other.
struct Pair {
    explicit Pair(PortConfig config = {}, Memory& memory = plain_memory)
        : a(open_free_port(memory, config)), b(open_free_port(memory, config)) {
        assert_true(a != nullptr);
        assert_true(b != nullptr);
    }
    std::unique_ptr<UdpPort> a;
    std::unique_ptr<UdpPort> b;
};

struct Message {
    std::uint8_t opcode = wire::kRcSendOnly;
    std::uint32_t psn = 0;
    std::vector<std::uint8_t> payload;
    bool operator==(const Message&) const = default;
};

OutPacket packet_of(const Message& message, const Address& from, const Address& to) {
    wire::Packet packet;
    packet.bth.opcode = message.opcode;
    packet.bth.dest_qpn = 17;
    packet.bth.psn = message.psn;
    packet.deth = {.qkey = 0x11111111, .src_qpn = 99};
    OutPacket out;
    out.begin();
    const std::size_t half = message.payload.size() / 2; // two pieces: one boundary more
    if (half != 0) {
        out.add_piece(reinterpret_cast<std::uintptr_t>(message.payload.data()),
                      static_cast<std::uint32_t>(half));
    }
    if (message.payload.size() != half) {
        out.add_piece(reinterpret_cast<std::uintptr_t>(message.payload.data() + half),
                      static_cast<std::uint32_t>(message.payload.size() - half));
    }
    out.packet = packet;
    out.finish();
    out.source = from;
    out.destination = to;
    return out;
}

std::vector<Message> messages_of_sizes(std::initializer_list<std::size_t> sizes) {
    Random random(kSeed);
    std::vector<Message> messages;
    for (const std::size_t size : sizes) {
        messages.push_back(
            {.psn = static_cast<std::uint32_t>(messages.size()), .payload = random.bytes(size)});
    }
    return messages;
}

void append_all(UdpPort& from, const UdpPort& to, const std::vector<Message>& messages) {
    for (const Message& message : messages) {
        assert_true(from.sender().append(packet_of(message, from.local(), to.local())));
    }
}

bool wait_readable(const UdpPort& port, int timeout_ms) {
    pollfd wanted = {.fd = port.descriptor(), .events = POLLIN, .revents = 0};
    return poll(&wanted, 1, timeout_ms) == 1;
}

// Everything that arrives until COUNT packets have, or none comes any more.
std::vector<Message> receive(UdpPort& port, std::size_t count) {
    std::vector<Message> messages;
    while (messages.size() < count && wait_readable(port, 5000)) {
        port.receiver().fetch(Receiver::kMaxMessages);
        port.receiver().deliver([&](const InPacket& in) {
            messages.push_back({.opcode = in.packet.bth.opcode,
                                .psn = in.packet.bth.psn,
                                .payload = {in.packet.payload.begin(), in.packet.payload.end()}});
        });
    }
    return messages;
}

// Fetches what has arrived; the loopback interface delivers before sendto() returns.
std::uint32_t valid_now(UdpPort& port) {
    std::uint32_t valid = 0;
    while (port.receiver().fetch(Receiver::kMaxMessages) != 0) {
        valid += port.receiver().deliver([](const InPacket&) {});
    }
    return valid;
}

void transfer(Pair& pair, const std::vector<Message>& messages) {
    append_all(*pair.a, *pair.b, messages);
    assert_true(pair.a->sender().flush());
    assert_true(receive(*pair.b, messages.size()) == messages);
    const ReceiveCounters& in = pair.b->receiver().counters();
    assert_int_equal(in.packets.get(), messages.size());
    assert_int_equal(in.solved.get(), 0); // all 32 bits of the checksum were right
    assert_int_equal(in.bad_icrc.get() + in.implausible.get() + in.malformed.get() + in.truncated.get(), 0);
    assert_int_equal(pair.a->sender().counters().packets.get(), messages.size());
}

TEST(send__each_length_and_padding__bytes_arrive) {
    Pair pair;
    transfer(pair, messages_of_sizes({0, 1, 2, 3, 4, 255, 256, 257, 1023, 1024, 4093, 4095, 4096}));
}

TEST(send__run_of_equal_packets__one_message_for_the_kernel) {
    Pair pair;
    // As a write of 12 packets: the last is shorter and ends the run.
    transfer(pair,
             messages_of_sizes({1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 200}));
    assert_int_equal(pair.a->sender().counters().gso_sends.get(), 1);
    assert_int_equal(pair.a->sender().counters().calls.get(), 1);
    assert_int_equal(pair.b->receiver().counters().gro_receives.get(), 1);
}

// Older kernels cut a message into 64 at most.
TEST(send__many_small_packets__runs_of_64) {
    Pair pair;
    Random random(kSeed);
    std::vector<Message> messages;
    for (std::uint32_t i = 0; i < 200; ++i) {
        messages.push_back({.psn = i, .payload = random.bytes(8)});
    }
    transfer(pair, messages);
    assert_int_equal(pair.a->sender().counters().gso_sends.get(), 4);
}

TEST(send__longer_than_its_predecessor__new_run) {
    Pair pair;
    transfer(pair, messages_of_sizes({100, 100, 200, 200, 60, 100}));
    assert_int_equal(pair.a->sender().counters().gso_sends.get(), 2);
    assert_int_equal(pair.a->sender().counters().calls.get(), 1);
}

TEST(send__without_segmentation__bytes_arrive) {
    Pair pair({.use_gso = false, .use_gro = false});
    transfer(pair, messages_of_sizes({1024, 1024, 1024, 1024, 8}));
    assert_int_equal(pair.a->sender().counters().gso_sends.get(), 0);
    assert_int_equal(pair.b->receiver().counters().gro_receives.get(), 0);
}

// The receiving kernel cuts the message, for a socket that wants single packets: segment k has
// identification k there, and the receiver only learns that it isn't the first.
TEST(send__segments_received_singly__identifications_solved) {
    PlainMemory memory;
    const auto from = open_free_port(memory);
    const auto to = open_free_port(memory, {.use_gro = false});
    const auto messages = messages_of_sizes({512, 512, 512, 512, 512, 512, 512, 512});
    append_all(*from, *to, messages);
    assert_true(from->sender().flush());
    assert_true(receive(*to, messages.size()) == messages);
    assert_int_equal(from->sender().counters().gso_sends.get(), 1);
    assert_int_equal(to->receiver().counters().gro_receives.get(), 0);
    assert_int_equal(to->receiver().counters().solved.get(), 7);
    assert_int_equal(to->receiver().counters().bad_icrc.get(), 0);
}

TEST(send__more_runs_than_fit_a_batch__sent_on_the_way) {
    Pair pair;
    Random random(kSeed);
    std::vector<Message> messages;
    for (std::uint32_t i = 0; i < 100; ++i) {
        messages.push_back(
            {.psn = i, .payload = random.bytes(std::size_t{4} * (i + 1))}); // each longer: each a run
    }
    append_all(*pair.a, *pair.b, messages);
    assert_true(pair.a->sender().counters().packets.get() >= 64);
    assert_true(pair.a->sender().flush());
    assert_true(receive(*pair.b, messages.size()) == messages);
}

TEST(send__two_destinations__each_gets_its_own) {
    PlainMemory memory;
    const auto from = open_free_port(memory);
    const auto first = open_free_port(memory);
    const auto second = open_free_port(memory);
    const auto messages = messages_of_sizes({64, 64, 64, 64});
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const UdpPort& to = i % 2 == 0 ? *first : *second;
        assert_true(from->sender().append(packet_of(messages[i], from->local(), to.local())));
    }
    assert_true(from->sender().flush());
    assert_true(receive(*first, 2) == (std::vector<Message>{messages[0], messages[2]}));
    assert_true(receive(*second, 2) == (std::vector<Message>{messages[1], messages[3]}));
}

TEST(send__ipv6__bytes_arrive_and_checksum_is_exact) {
    PlainMemory memory;
    const auto loopback = *parse_address("::1");
    auto port = UdpPort::open({.local = loopback}, memory);
    if (!port && port.error().os_errno() != EADDRINUSE) {
        print_message("no IPv6 here: %s\n", port.error().text());
        skip();
    }
    assert_true(port.ok());
    const auto messages = messages_of_sizes({512, 512, 512, 3});
    append_all(**port, **port, messages);
    assert_true((*port)->sender().flush());
    assert_true(receive(**port, messages.size()) == messages);
}

// The header that the kernel really wrote: sockets show neither identification nor fragment bits.
TEST(send__single_packet__the_wire_has_what_the_checksum_covers) {
    const sluice::Descriptor tap(::socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP)));
    if (tap.get() < 0) {
        print_message("packet sockets need privileges: %s\n", std::strerror(errno));
        skip();
    }
    Pair pair;
    append_all(*pair.a, *pair.b, messages_of_sizes({100}));
    assert_true(pair.a->sender().flush());
    std::array<std::uint8_t, 65536> bytes{};
    pollfd wanted = {.fd = tap.get(), .events = POLLIN, .revents = 0};
    wire::Frame frame;
    while (poll(&wanted, 1, 5000) == 1) {
        const ssize_t len = recv(tap.get(), bytes.data(), bytes.size(), 0);
        assert_true(len >= 0);
        if (wire::parse_frame(wire::ConstBytes(bytes).first(static_cast<std::size_t>(len)), frame) ==
                wire::Refusal::kNone &&
            frame.ipv4.source == ipv4_bytes(pair.a->local())) {
            assert_int_equal(frame.ipv4.identification, 0);
            assert_int_equal(frame.ipv4.flags, 2);
            assert_int_equal(wire::expected_icrc(frame), frame.icrc);
            return;
        }
    }
    fail_msg("the packet didn't come by");
}

TEST(send__payload_unmapped__this_packet_is_dropped_alone) {
    const auto memory = GuardedMemory::create(GuardMethod::kSignal);
    assert_true(memory.ok());
    Pair pair({}, **memory);
    void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto messages = messages_of_sizes({64, 64, 64});
    OutPacket gone;
    gone.begin();
    gone.add_piece(reinterpret_cast<std::uintptr_t>(page), 64);
    wire::Packet header;
    header.bth.opcode = wire::kRcSendOnly;
    gone.packet = header;
    gone.finish();
    gone.destination = pair.b->local();
    assert_false(pair.a->sender().append(gone)); // it would have begun a run
    append_all(*pair.a, *pair.b, {messages[0]});
    assert_false(pair.a->sender().append(gone)); // it would have followed
    append_all(*pair.a, *pair.b, {messages[1], messages[2]});
    assert_true(pair.a->sender().flush());
    assert_true(receive(*pair.b, 3) == messages);
    assert_int_equal(pair.a->sender().counters().page_gone.get(), 2);
    assert_int_equal(pair.a->sender().counters().packets.get(), 3);
    assert_int_equal(valid_now(*pair.b), 0);
    assert_int_equal(pair.b->receiver().counters().truncated.get(), 0);
    munmap(page, 4096);
}

// What the program writes between append() and flush() is either in the packet or not, but never
// makes it wrong.
TEST(send__payload_changed_before_flush__packet_is_as_it_was) {
    Pair pair;
    auto messages = messages_of_sizes({64});
    append_all(*pair.a, *pair.b, messages);
    const auto sent = messages;
    std::fill(messages[0].payload.begin(), messages[0].payload.end(), std::uint8_t{0});
    assert_true(pair.a->sender().flush());
    assert_true(receive(*pair.b, 1) == sent);
}

TEST(send__nobody_there_or_no_route__others_still_sent) {
    Pair pair;
    const auto messages = messages_of_sizes({32, 32});
    const Address nowhere = *parse_address("240.0.0.1");
    append_all(*pair.a, *pair.b, {messages[0]});
    assert_true(pair.a->sender().append(packet_of(messages[0], pair.a->local(), nowhere)));
    append_all(*pair.a, *pair.b, {messages[1]});
    assert_true(pair.a->sender().flush());
    assert_true(receive(*pair.b, 2) == messages);
    assert_int_equal(pair.a->sender().counters().lost.get(), 1);
    assert_int_equal(pair.a->sender().counters().packets.get(), 2);
}

TEST(send__socket_full__kept_until_it_is_writable) {
    Pair pair;
    const auto messages = messages_of_sizes({64, 64, 128, 128, 16});
    append_all(*pair.a, *pair.b, messages);
    refuse_next(EAGAIN, 1);
    assert_false(pair.a->sender().flush());
    assert_false(pair.a->sender().empty());
    append_all(*pair.a, *pair.b, messages);
    assert_true(pair.a->sender().flush());
    assert_true(pair.a->sender().empty());
    auto both = messages;
    both.insert(both.end(), messages.begin(), messages.end());
    assert_true(receive(*pair.b, both.size()) == both);
    assert_int_equal(pair.a->sender().counters().lost.get(), 0);
}

TEST(send__socket_full_for_a_whole_batch__later_packets_lost_and_counted) {
    Pair pair;
    const auto message = messages_of_sizes({4096})[0];
    std::size_t taken = 0;
    refuse_next(EAGAIN, 1000);
    while (pair.a->sender().append(packet_of(message, pair.a->local(), pair.b->local()))) {
        ++taken;
        assert_true(taken < 1000);
    }
    assert_int_equal(pair.a->sender().counters().lost.get(), 1);
    refuse_next(0, 0);
    assert_true(pair.a->sender().flush());
    assert_int_equal(pair.a->sender().counters().packets.get(), taken);
    assert_true(pair.a->sender().append(packet_of(message, pair.a->local(), pair.b->local())));
}

TEST(send__kernel_cuts_no_packets__sent_singly_from_then_on) {
    for (const int refusal : {EINVAL, EIO, EOPNOTSUPP}) {
        Pair pair;
        const auto messages = messages_of_sizes({512, 512, 512, 100});
        refuse_next(refusal, 1);
        transfer(pair, messages);
        assert_int_equal(pair.a->sender().counters().no_segmentation.get(), 1);
        append_all(*pair.a, *pair.b, messages);
        assert_true(pair.a->sender().flush());
        assert_true(receive(*pair.b, messages.size()) == messages);
        assert_int_equal(pair.a->sender().counters().gso_sends.get(), 0);
    }
}

TEST(send__damaged_and_kernel_cuts_no_packets__still_damaged) {
    Pair pair;
    const auto messages = messages_of_sizes({64, 64, 64});
    append_all(*pair.a, *pair.b, {messages[0]});
    assert_true(pair.a->sender().append(packet_of(messages[1], pair.a->local(), pair.b->local()), true));
    append_all(*pair.a, *pair.b, {messages[2]});
    refuse_next(EINVAL, 1);
    assert_true(pair.a->sender().flush());
    // Two runs at most, of which the first was refused: nothing computed the wrong checksum anew.
    assert_int_equal(valid_now(*pair.b), pair.a->sender().counters().packets.get() - 1);
    assert_int_equal(pair.b->receiver().counters().bad_icrc.get(), 1);
}

TEST(send__kernel_without_memory__this_run_is_lost_and_the_next_sent) {
    Pair pair;
    const auto messages = messages_of_sizes({64, 64, 128, 128});
    append_all(*pair.a, *pair.b, messages);
    refuse_next(ENOBUFS, 1);
    assert_true(pair.a->sender().flush());
    assert_true(receive(*pair.b, 2) == (std::vector<Message>{messages[2], messages[3]}));
    assert_int_equal(pair.a->sender().counters().lost.get(), 2);
}

TEST(send__longer_than_the_path__counted_as_such) {
    Pair pair;
    append_all(*pair.a, *pair.b, messages_of_sizes({64}));
    refuse_next(EMSGSIZE, 1);
    assert_true(pair.a->sender().flush());
    assert_int_equal(pair.a->sender().counters().lost.get(), 1);
    assert_int_equal(pair.a->sender().counters().too_long.get(), 1);
}

TEST(send__interrupted__tried_again) {
    Pair pair;
    refuse_next(EINTR, 3);
    transfer(pair, messages_of_sizes({64, 64}));
}

TEST(receive__nobody_fetches__what_the_kernel_drops_is_counted) {
    Pair pair({.buffer_bytes = 0}); // the smallest that the kernel gives
    const auto messages = messages_of_sizes({4096});
    for (int i = 0; i < 200; ++i) {
        append_all(*pair.a, *pair.b, messages);
    }
    assert_true(pair.a->sender().flush());
    valid_now(*pair.b);
    // The kernel tells with the next packet that gets through.
    append_all(*pair.a, *pair.b, messages);
    assert_true(pair.a->sender().flush());
    assert_int_equal(receive(*pair.b, 1).size(), 1);
    assert_true(pair.b->receiver().counters().overflowed.get() > 0);
}

// For fault injection: wrong under any identification, whatever its length.
TEST(send__damaged_on_purpose__dropped_and_its_neighbours_arrive) {
    Pair pair;
    std::vector<Message> good;
    for (const std::size_t size : {0, 64, 100, 1024, 2048, 4096}) {
        const auto messages = messages_of_sizes({size, size, size});
        append_all(*pair.a, *pair.b, {messages[0]});
        assert_true(pair.a->sender().append(packet_of(messages[1], pair.a->local(), pair.b->local()), true));
        append_all(*pair.a, *pair.b, {messages[2]});
        good.push_back(messages[0]);
        good.push_back(messages[2]);
    }
    assert_true(pair.a->sender().flush());
    assert_true(receive(*pair.b, good.size()) == good);
    valid_now(*pair.b);
    assert_int_equal(pair.b->receiver().counters().bad_icrc.get(), 6);
}

TEST(receive__datagram__header_for_the_program_is_the_kernels) {
    Pair pair;
    const int hops = 33;
    const int traffic_class = 0x28;
    setsockopt(pair.a->descriptor(), IPPROTO_IP, IP_TTL, &hops, sizeof hops);
    setsockopt(pair.a->descriptor(), IPPROTO_IP, IP_TOS, &traffic_class, sizeof traffic_class);
    Message message = messages_of_sizes({40})[0];
    message.opcode = wire::kUdSendOnly;
    append_all(*pair.a, *pair.b, {message});
    assert_true(pair.a->sender().flush());
    assert_true(wait_readable(*pair.b, 5000));
    assert_int_equal(pair.b->receiver().fetch(16), 1);
    bool seen = false;
    pair.b->receiver().deliver([&](const InPacket& in) {
        seen = true;
        assert_true(in.source == pair.a->local() && in.destination == pair.b->local());
        const auto ip = wire::decode<wire::Ipv4Header>(std::span(in.grh).last<wire::Ipv4Header::kBytes>());
        assert_true(ip.source == ipv4_bytes(pair.a->local()));
        assert_true(ip.destination == ipv4_bytes(pair.b->local()));
        assert_int_equal(ip.version, 4);
        assert_int_equal(ip.ttl, hops);
        assert_int_equal(ip.tos, traffic_class);
        assert_int_equal(ip.checksum, wire::ipv4_checksum(ip));
        // 12 of BTH, 8 of DETH, 40, 4 of ICRC, 8 of UDP, 20 of IP.
        assert_int_equal(ip.total_bytes, 92);
    });
    assert_true(seen);
}

// A socket that isn't ours, and its bytes.
class Stranger {
  public:
    explicit Stranger(const UdpPort& to) : to_(to_socket_address(to.local(), wire::kRocePort, 0)) {
        const SocketAddress local = to_socket_address(*parse_address("127.0.0.1"), 0, 0);
        assert_int_equal(bind(socket_.get(), &local.any, local.bytes), 0);
        SocketAddress bound;
        bound.bytes = sizeof bound.v4;
        getsockname(socket_.get(), &bound.any, &bound.bytes);
        port_ = ntohs(bound.v4.sin_port);
    }
    void send(wire::ConstBytes bytes) const {
        assert_int_equal(sendto(socket_.get(), bytes.data(), bytes.size(), 0, &to_.any, to_.bytes),
                         bytes.size());
    }
    // Valid, for any port and identification.
    std::vector<std::uint8_t> packet(const UdpPort& to, std::uint16_t identification) const {
        const Message message = {.payload = std::vector<std::uint8_t>(32, 0x77)};
        const OutPacket out = packet_of(message, *parse_address("127.0.0.1"), to.local());
        std::vector<std::uint8_t> bytes(out.header.begin(), out.header.begin() + out.header_bytes);
        bytes.insert(bytes.end(), message.payload.begin(), message.payload.end());
        wire::Frame frame = frame_between(*parse_address("127.0.0.1"), to.local(), port_, bytes);
        frame.ipv4.identification = identification;
        std::array<std::uint8_t, 4> icrc{};
        wire::icrc_store(wire::expected_icrc(frame), icrc);
        bytes.insert(bytes.end(), icrc.begin(), icrc.end());
        return bytes;
    }

  private:
    sluice::Descriptor socket_{::socket(AF_INET, SOCK_DGRAM, 0)};
    SocketAddress to_;
    std::uint16_t port_ = 0;
};

TEST(receive__identification_of_another_kernel__solved) {
    const auto port = open_free_port(plain_memory);
    const Stranger stranger(*port);
    for (const std::uint16_t identification : {0, 1, 77, 4711, 65535}) {
        stranger.send(stranger.packet(*port, identification));
    }
    assert_int_equal(valid_now(*port), 5);
    assert_int_equal(port->receiver().counters().solved.get(), 4);
}

TEST(receive__one_bit_wrong__dropped_and_counted) {
    const auto port = open_free_port(plain_memory);
    const Stranger stranger(*port);
    const auto good = stranger.packet(*port, 0);
    std::uint64_t sent = 0;
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
        auto damaged = good;
        damaged[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
        if (bit / 8 == 4) {
            continue; // the congestion bits, which aren't covered
        }
        stranger.send(damaged);
        ++sent;
        if (sent % 64 == 0) {
            assert_int_equal(valid_now(*port), 0);
        }
    }
    assert_int_equal(valid_now(*port), 0);
    const ReceiveCounters& counters = port->receiver().counters();
    assert_int_equal(counters.bad_icrc.get() + counters.implausible.get(), sent);
    assert_int_equal(counters.packets.get(), 0);
}

// Damage that happens to look like an identification is told from one by what came before.
TEST(receive__identification_that_jumps_after_damage__dropped_once) {
    const auto port = open_free_port(plain_memory);
    const Stranger stranger(*port);
    stranger.send(stranger.packet(*port, 1000));
    auto damaged = stranger.packet(*port, 1001);
    damaged.back() ^= 1;
    stranger.send(damaged);
    stranger.send(stranger.packet(*port, 1002));
    stranger.send(stranger.packet(*port, 40000));
    stranger.send(stranger.packet(*port, 1003));
    assert_int_equal(valid_now(*port), 3);
    assert_int_equal(port->receiver().counters().bad_icrc.get(), 1);
    assert_int_equal(port->receiver().counters().implausible.get(), 1);
}

TEST(receive__random_bytes_of_each_length__counted_one_by_one) {
    const auto port = open_free_port(plain_memory);
    const Stranger stranger(*port);
    Random random(kSeed);
    for (std::size_t len = 0; len < 2000; ++len) {
        stranger.send(random.bytes(len < 200 ? len : 200 + random.below(8000)));
        valid_now(*port);
    }
    const ReceiveCounters& counters = port->receiver().counters();
    assert_int_equal(counters.truncated.get(), 16); // 0 to 15
    assert_int_equal(counters.truncated.get() + counters.bad_icrc.get() + counters.implausible.get() +
                         counters.malformed.get() + counters.packets.get(),
                     2000);
}

TEST(receive__valid_checksum_but_no_packet__malformed) {
    const auto port = open_free_port(plain_memory);
    const Stranger stranger(*port);
    auto bytes = stranger.packet(*port, 0);
    bytes[0] = 0x1f; // a reserved opcode
    const auto body = wire::ConstBytes(bytes).first(bytes.size() - 4);
    // The checksum again, over what it is now; the solver finds the rest.
    const auto good = stranger.packet(*port, 0);
    const std::uint32_t change =
        wire::crc32_update(0, body) ^ wire::crc32_update(0, wire::ConstBytes(good).first(good.size() - 4));
    const auto icrc = std::span(bytes).last<4>();
    wire::icrc_store(wire::icrc_load(icrc) ^ change, icrc);
    stranger.send(bytes);
    assert_int_equal(valid_now(*port), 0);
    assert_int_equal(port->receiver().counters().malformed.get(), 1);
}

TEST(open__port_taken_by_a_process__error_names_it) {
    const auto port = open_free_port(plain_memory);
    const auto again = UdpPort::open({.local = port->local()}, plain_memory);
    assert_false(again.ok());
    assert_int_equal(again.error().os_errno(), EADDRINUSE);
    assert_non_null(std::strstr(again.error().text(), "this very process"));
    assert_non_null(std::strstr(again.error().text(), "SLUICE_UROCE"));
    // Seen from another process.
    int answer[2];
    assert_int_equal(pipe(answer), 0);
    const pid_t child = fork();
    if (child == 0) {
        const auto taken = UdpPort::open({.local = port->local()}, plain_memory);
        const char* const text = taken.ok() ? "" : taken.error().text();
        (void)!write(answer[1], text, std::strlen(text));
        _exit(0);
    }
    close(answer[1]);
    std::array<char, 500> text{};
    assert_true(read(answer[0], text.data(), text.size() - 1) > 0);
    close(answer[0]);
    waitpid(child, nullptr, 0);
    // The child has the socket, too, and comes later in the list: either may be named.
    const std::string name = program_invocation_short_name;
    const std::string parent = "process " + std::to_string(getpid()) + " (" + name.substr(0, 15) + ")";
    assert_true(std::strstr(text.data(), parent.c_str()) != nullptr ||
                std::strstr(text.data(), "this very process") != nullptr);
}

TEST(open__address_that_cant_be__clear_error) {
    for (const char* text : {"0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1"}) {
        const auto port = UdpPort::open({.local = *parse_address(text)}, plain_memory);
        assert_false(port.ok());
        assert_non_null(std::strstr(port.error().text(), "no address of one host"));
    }
    const auto foreign = UdpPort::open({.local = *parse_address("192.0.2.1")}, plain_memory);
    assert_false(foreign.ok());
    assert_int_equal(foreign.error().os_errno(), EADDRNOTAVAIL);
    assert_non_null(std::strstr(foreign.error().text(), "192.0.2.1"));
}

TEST(open__loopback__knows_its_interface) {
    const auto port = open_free_port(plain_memory);
    assert_string_equal(port->network_device().name.data(), "lo");
    assert_int_equal(port->active_mtu(), 4096);
    assert_true(port->receive_buffer_bytes() > 0);
}

} // namespace

// In front of the C library's: the outer seam, where the kernel can be played.
extern "C" long syscall(long number, ...) noexcept {
    if (number == SYS_sendmmsg && refusals_left > 0) {
        --refusals_left;
        errno = refusal_errno;
        return -1;
    }
    static const auto real = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
    std::va_list list;
    va_start(list, number);
    std::array<long, 6> arguments{};
    for (long& argument : arguments) {
        argument = va_arg(list, long);
    }
    va_end(list);
    return std::apply([&](auto... each) { return real(number, each...); }, arguments);
}

int main() {
    std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
#ifdef TEST_EMULATED
    // User-mode emulation hands control messages through in part only.
    std::puts("skipped: sockets of an emulated program");
    return 0;
#else
    return sluice::test::run_all_tests("roce.udp_port");
#endif
}
