// SPDX-License-Identifier: BSD-3-Clause
//
// Two connection managers on a network that delivers when the test says so, whose events and messages are
// kept.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tests/unit/roce/cm/network.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace sluice::roce::cm::test {

inline constexpr std::uint64_t kService = wire::cm_service_id(wire::kPortSpaceTcp, 7174);
inline constexpr std::uint64_t kDatagramService = wire::cm_service_id(wire::kPortSpaceUdp, 7174);
inline constexpr std::uint32_t kLeftQpn = 0x111111, kRightQpn = 0x222222;
inline constexpr std::array<std::uint8_t, 5> kHello = {'h', 'e', 'l', 'l', 'o'};

// A network whose events and messages are kept.
struct Bench {
    explicit Bench(const CmFaults& faults = {}, const ManagerConfig& config = {}) : net(7, faults, config) {
        net.on_event = [this](Node& node, const Event& event) {
            (&node == &net.left ? left : right).push_back(event);
        };
        net.tap = [this](Node& from, const Mad& mad) {
            (&from == &net.left ? sent_left : sent_right).push_back(mad);
            return swallow != attribute_of(mad);
        };
        assert_true(net.right.manager.listen({.service_id = kService, .local = {}, .cookie = 77}).ok());
        assert_true(
            net.right.manager.listen({.service_id = kDatagramService, .local = {}, .cookie = 78}).ok());
    }

    ConnectParams request() const {
        return {.local = net.left.where,
                .remote = net.right.where,
                .service_id = kService,
                .local_port = 4321,
                .qpn = kLeftQpn,
                .responder_resources = 3,
                .initiator_depth = 5,
                .timing = timing,
                .private_data = kHello,
                .cookie = 5};
    }
    static AcceptParams acceptance() {
        return {.qpn = kRightQpn, .responder_resources = 255, .initiator_depth = 255, .private_data = kHello};
    }
    ConnectionId connect() { return *net.left.manager.connect(request(), net.now); }
    // Until the next event at that side.
    const Event& wait(std::vector<Event>& at) {
        const std::size_t seen = at.size();
        while (at.size() == seen) {
            assert_true(net.step());
        }
        return at.back();
    }
    // Both ends of a connection that is up.
    std::pair<ConnectionId, ConnectionId> establish() {
        const ConnectionId active = connect();
        const ConnectionId passive = wait(right).id;
        assert_true(net.right.manager.accept(passive, acceptance(), net.now).ok());
        assert_true(wait(left).type == EventType::kConnectResponse);
        assert_true(net.left.manager.ready(active).ok());
        assert_true(wait(right).type == EventType::kEstablished);
        return {active, passive};
    }
    // Hands MAD to the right side as if it came from SOURCE.
    void give_right(const Mad& mad, const Address& source) {
        net.right.manager.receive(source, net.right.where, mad, net.now);
        net.settle();
    }
    void give_left(const Mad& mad, const Address& source) {
        net.left.manager.receive(source, net.left.where, mad, net.now);
        net.settle();
    }
    void give_right(const Mad& mad) { give_right(mad, net.left.where); }
    void give_left(const Mad& mad) { give_left(mad, net.right.where); }
    std::size_t count(const std::vector<Mad>& sent, std::uint16_t attribute) const {
        return static_cast<std::size_t>(
            std::ranges::count_if(sent, [&](const Mad& mad) { return attribute_of(mad) == attribute; }));
    }
    const Mad& last(const std::vector<Mad>& sent, std::uint16_t attribute) const {
        for (std::size_t i = sent.size(); i-- > 0;) {
            if (attribute_of(sent[i]) == attribute) {
                return sent[i];
            }
        }
        fail();
        std::abort();
    }

    Network net;
    Timing timing = kFastTiming; // of the active side
    std::vector<Event> left, right;
    std::vector<Mad> sent_left, sent_right;
    std::uint16_t swallow = 0; // messages with this attribute are lost
};

inline wire::CmReq kept_req(Bench& bench) {
    return message_of<wire::CmReq>(bench.last(bench.sent_left, wire::CmReq::kAttributeId));
}

} // namespace sluice::roce::cm::test
