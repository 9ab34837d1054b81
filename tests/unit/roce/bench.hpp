// SPDX-License-Identifier: BSD-3-Clause
//
// Two connected hosts with a block of memory each, for tests of single cases: post, let time pass,
// look at what came out; or put packets in by hand and look at the answers.
#pragma once

#include <optional>
#include <vector>

#include "roce/wire/syndrome.hpp"
#include "tests/unit/roce/simulation.hpp"

namespace sluice::roce::test {

using namespace engine;

inline constexpr std::uint32_t kEverything = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic |
                                             kMwBindAllowed | kFlushGlobal | kFlushPersistent;

struct Bench {
    explicit Bench(const QpAttributes& attributes = usual_attributes(), std::size_t block_bytes = 65536,
                   std::array<Neighbourhood*, 2> neighbourhoods = {})
        : net(1, Faults{}, neighbourhoods), left(block_bytes), right(block_bytes),
          pair(connect(net, attributes)), left_key(net.left.add(left, kEverything)),
          right_key(net.right.add(right, kEverything)) {
        Random random(block_bytes);
        left = random.bytes(block_bytes);
        right = random.bytes(block_bytes);
        // Assignment moved the blocks: register where they are now.
        left_key = net.left.add(left, kEverything);
        right_key = net.right.add(right, kEverything);
    }

    Simulation net;
    std::vector<std::uint8_t> left;
    std::vector<std::uint8_t> right;
    Pair pair;
    std::uint32_t left_key;
    std::uint32_t right_key;
    std::vector<std::vector<std::uint8_t>> answers; // of the last ask()
    std::uint16_t port = 0;                         // from which ask() sends

    static std::uint64_t addr(const std::vector<std::uint8_t>& block, std::size_t offset = 0) {
        return reinterpret_cast<std::uintptr_t>(block.data()) + offset;
    }
    Sge at_left(std::size_t offset, std::uint32_t len) const { return {addr(left, offset), len, left_key}; }
    Sge at_right(std::size_t offset, std::uint32_t len) const {
        return {addr(right, offset), len, right_key};
    }

    // From left to right, all of SGE, to OFFSET of the right block.
    SendWr wr(WrOpcode opcode, const Sge& sge, std::size_t offset = 0, std::uint64_t id = 1) {
        sges_.push_back(std::make_unique<Sge>(sge));
        SendWr made;
        made.wr_id = id;
        made.opcode = opcode;
        made.flags = kSignaled;
        made.remote_addr = addr(right, offset);
        made.rkey = right_key;
        made.sges = {sges_.back().get(), 1};
        return made;
    }
    Post post(const SendWr& request) {
        const Post posted = pair.left->post_send(request);
        net.left.engine.posted(*pair.left);
        return posted;
    }
    Post post_receive(std::size_t offset, std::uint32_t len, std::uint64_t id = 100) {
        const Sge sge = at_right(offset, len);
        return pair.right->post_receive({id, {&sge, 1}});
    }
    std::optional<Completion> sent() { return poll(net.left.send_cq); }
    std::optional<Completion> received() { return poll(net.right.recv_cq); }
    static std::optional<Completion> poll(CompletionQueue& cq) {
        Completion completion;
        if (!cq.poll(completion)) {
            return std::nullopt;
        }
        return completion;
    }

    // Puts a request into the right engine as if left had sent it, and collects what it answers.
    void ask(wire::Packet packet, std::size_t payload_bytes = 0) {
        packet.bth.dest_qpn = pair.right->qpn();
        packet.bth.pad = wire::padding(payload_bytes);
        std::vector<std::uint8_t> bytes(wire::kMaxHeaderBytes);
        bytes.resize(wire::write_headers(packet, bytes));
        bytes.resize(bytes.size() + payload_bytes + packet.bth.pad, 0x5a);
        net.inject(net.right, net.left.where, bytes, port);
        collect();
    }
    void collect() {
        answers.clear();
        OutPacket out;
        while (net.right.engine.transmit(out, net.now)) {
            answers.push_back(to_bytes(out));
        }
    }
    wire::Packet answer(std::size_t index) const {
        wire::Packet packet;
        if (index >= answers.size() || wire::parse(answers[index], packet) != wire::Refusal::kNone) {
            packet.bth.opcode = 0xff;
        }
        return packet;
    }
    // The syndrome of the only answer; 0xff when there is none, 0xfe when there are several.
    std::uint8_t verdict() const {
        if (answers.size() != 1) {
            return answers.empty() ? 0xff : 0xfe;
        }
        return answer(0).aeth.syndrome;
    }
    wire::Packet request(std::uint8_t opcode, std::uint32_t psn, std::uint32_t len = 0,
                         std::size_t offset = 0) const {
        wire::Packet packet;
        packet.bth.opcode = opcode;
        packet.bth.psn = psn;
        packet.bth.ack_request = true;
        packet.reth = {addr(right, offset), right_key, len};
        packet.atomic = {addr(right, offset), right_key, 5, 0};
        packet.feth.placement = wire::Feth::kGlobalVisibility;
        return packet;
    }

  private:
    std::vector<std::unique_ptr<Sge>> sges_;
};

} // namespace sluice::roce::test
