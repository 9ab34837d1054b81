// SPDX-License-Identifier: BSD-3-Clause
//
// Processes that share an address: which of them gets a message of rdma_cm's, and who answers for the dead.
#include "roce/wire/cm.hpp"
#include "tests/unit/roce/group_members.hpp"

using namespace sluice;
using namespace sluice::roce;
using namespace sluice::roce::test;

namespace {

constexpr std::uint64_t kService = wire::cm_service_id(wire::kPortSpaceTcp, 7174);

template<typename Message>
std::vector<std::uint8_t> mad_with(const Message& message) {
    std::vector<std::uint8_t> mad(wire::kMadBytes);
    const std::span<std::uint8_t, wire::kMadBytes> bytes(mad);
    wire::encode(wire::MadHeader{.attribute_id = Message::kAttributeId},
                 bytes.first<wire::MadHeader::kBytes>());
    wire::encode(message, bytes.subspan<wire::MadHeader::kBytes, wire::kCmBytes>());
    return mad;
}

// A datagram to queue pair 1 with its checksum.
std::vector<std::uint8_t> datagram_with(const std::vector<std::uint8_t>& mad, std::uint32_t psn,
                                        const engine::Address& from, const engine::Address& to,
                                        wire::Opcode opcode = wire::kUdSendOnly) {
    wire::Packet packet;
    packet.bth.opcode = opcode;
    packet.bth.dest_qpn = wire::kGsiQpn;
    packet.bth.psn = psn;
    packet.deth = {.qkey = wire::kGsiQkey, .src_qpn = wire::kGsiQpn};
    std::vector<std::uint8_t> bytes(wire::kMaxHeaderBytes);
    bytes.resize(wire::write_headers(packet, bytes));
    bytes.insert(bytes.end(), mad.begin(), mad.end());
    bytes.resize(bytes.size() + wire::kIcrcBytes);
    (void)socket::seal(bytes, from, to, 0);
    return bytes;
}

// Each kind of message that names what the receiver calls the connection.
std::vector<std::vector<std::uint8_t>> all_messages_about(std::uint32_t id) {
    return {mad_with(wire::CmMra{.remote_comm_id = id}),  mad_with(wire::CmRej{.remote_comm_id = id}),
            mad_with(wire::CmRep{.remote_comm_id = id}),  mad_with(wire::CmRtu{.remote_comm_id = id}),
            mad_with(wire::CmDreq{.remote_comm_id = id}), mad_with(wire::CmDrep{.remote_comm_id = id}),
            mad_with(wire::CmLap{.remote_comm_id = id}),  mad_with(wire::CmApr{.remote_comm_id = id}),
            mad_with(wire::CmSidrRep{.request_id = id})};
}

// By way of another member, a message could be overtaken by the next one.
TEST(message_of_a_connection__of_each_kind__waits_at_the_socket_of_its_member) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const Stranger stranger;
    std::vector<std::unique_ptr<Member>> running;
    for (int i = 0; i < 4; ++i) {
        running.push_back(std::make_unique<Member>(address));
    }
    Random random(kGroupSeed);
    for (int i = 0; i < 100; ++i) {
        const std::size_t to = random.next() % running.size();
        for (const auto& mad : all_messages_about(number_of(*running[to]->group, random))) {
            stranger.send(datagram_with(mad, 1, stranger.address, address), address);
            assert_true(arrives(running[to]->group->socket()));
            for (const auto& other : running) {
                assert_true(is_empty(other->group->socket()));
            }
        }
    }
}

TEST(request__for_a_port__reaches_the_member_that_has_it) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const Stranger stranger;
    std::vector<std::unique_ptr<Member>> running;
    for (int i = 0; i < 4; ++i) {
        running.push_back(std::make_unique<Member>(address));
    }
    Member& server = *running[2];
    assert_true(server.group->claim(kService, {}));
    stranger.send(datagram_with(mad_with(wire::CmReq{.service_id = kService}), 1, stranger.address, address),
                  address);
    assert_true(server.taken.wait_for(1));
    stranger.send(
        datagram_with(mad_with(wire::CmSidrReq{.service_id = kService}), 2, stranger.address, address),
        address);
    assert_true(server.taken.wait_for(2));
}

// The kernel looks for the id where a plain send has it.
TEST(message_of_a_connection__with_an_immediate_value__is_handed_on_to_its_member) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const Stranger stranger;
    Member first(address), second(address);
    Random random(kGroupSeed);
    std::uint32_t psn = 0;
    for (Member* const to : {&first, &second}) {
        const std::vector<std::uint8_t> mad =
            mad_with(wire::CmDreq{.remote_comm_id = number_of(*to->group, random)});
        stranger.send(datagram_with(mad, ++psn, stranger.address, address, wire::kUdSendOnlyImm), address);
        assert_true(to->taken.wait_for(psn));
    }
}

// What the member that died would have got, at each address: a member answers, until somebody has the seat.
TEST(messages__for_the_dead__another_member_gets_them_until_the_seat_is_taken) {
    if (cannot_share()) {
        return;
    }
    constexpr std::uint32_t kMessages = 20;
    const engine::Address address = next_address(), further = next_address();
    const Stranger stranger;
    Random random(kGroupSeed);
    Member survivor(address);
    const Descriptor survivors = opened(survivor, further);
    auto dead = std::make_unique<Member>(address);
    const std::uint32_t seat = dead->group->share().which();
    const std::uint32_t id = number_of(*dead->group, random);
    const std::vector<std::uint8_t> mad = mad_with(wire::CmDreq{.remote_comm_id = id});
    stranger.send(datagram_with(mad, 1, stranger.address, address),
                  address); // which it doesn't read any more
    dead.reset();
    assert_true(survivor.taken.wait_for_end_of(seat));
    assert_true(survivor.taken.wait_for(1));
    stranger.send(datagram_with(mad, 2, stranger.address, address), address);
    assert_true(survivor.taken.wait_for(2));
    stranger.send(datagram_with(mad, 3, stranger.address, further), further);
    assert_true(survivor.taken.wait_for(3));
    assert_true(survivor.taken.destination() == further);

    Member late(address); // finds the seat of the dead, and a member that reads for it
    assert_int_equal(late.group->share().which(), seat);
    const Descriptor lates = opened(late, further);
    while (survivor.group->ask({.local = address, .qpn = 2, .remote = address, .peer_qpn = id}) ==
           engine::Peer::kUnknown) {
        sched_yield(); // it hasn't read yet that the seat is taken
    }
    const std::uint32_t survivors_id = number_of(*survivor.group, random);
    const auto is_left_to_late = [&](int socket_fd, std::uint32_t question) {
        // The survivor looks at its sockets in the order of arrival: its answer comes after the datagram.
        return waits(socket_fd) &&
               late.group->ask(
                   {.local = address, .qpn = question, .remote = address, .peer_qpn = survivors_id}) ==
                   engine::Peer::kLives &&
               late.taken.wait_for_answer(question) && arrives(socket_fd);
    };
    for (std::uint32_t i = 0; i < kMessages; ++i) {
        stranger.send(datagram_with(mad, 10 + i, stranger.address, address), address);
        assert_true(is_left_to_late(late.group->socket(), 2 * i));
        stranger.send(datagram_with(mad, 10 + i, stranger.address, further), further);
        assert_true(is_left_to_late(lates.get(), 2 * i + 1));
    }
}

// It has never had a line to the dead.
TEST(messages__for_the_dead__a_member_that_came_later_gets_them) {
    if (cannot_share()) {
        return;
    }
    const engine::Address address = next_address();
    const Stranger stranger;
    Random random(kGroupSeed);
    auto founder = std::make_unique<Member>(address);
    auto second = std::make_unique<Member>(address);
    auto third = std::make_unique<Member>(address);
    const std::uint32_t id = number_of(*third->group, random);
    third.reset();
    assert_true(founder->taken.wait_for_end_of(2));
    second.reset();
    assert_true(founder->taken.wait_for_end_of(1));
    Member late(address);
    assert_int_equal(late.group->share().which(), 1);
    founder.reset();
    assert_true(late.taken.wait_for_end_of(0));
    stranger.send(datagram_with(mad_with(wire::CmDreq{.remote_comm_id = id}), 1, stranger.address, address),
                  address);
    assert_true(late.taken.wait_for(1));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
