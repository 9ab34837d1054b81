// SPDX-License-Identifier: BSD-3-Clause
//
// The standard is the oracle, rxe a witness: requests that rdma_rxe really got (tests/fixtures/rxe)
// are put into our responder, whose answers must be those that rxe gave: the same packets with the
// same numbers, syndromes and lengths, in the same order. Memory contents aren't recorded, hence
// not compared; nor are the keys and numbers of queue pairs, which each side chooses.
#include <cstdio>
#include <string>
#include <vector>

#include "roce/wire/frame.hpp"
#include "tests/unit/roce/pcap.hpp"
#include "tests/unit/roce/simulation.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::test;

namespace {

struct Recorded {
    Address source;
    Address destination;
    std::vector<std::uint8_t> transport;

    wire::Packet packet() const {
        wire::Packet parsed;
        assert_true(wire::parse(transport, parsed) == wire::Refusal::kNone);
        return parsed;
    }
};

Address mapped(const std::array<std::uint8_t, 4>& ip) {
    Address made;
    made.gid[10] = made.gid[11] = 0xff;
    std::copy(ip.begin(), ip.end(), made.gid.begin() + 12);
    return made;
}

// The packets of reliable connections in one recording.
std::vector<Recorded> load(const std::string& name) {
    std::vector<Recorded> all;
    for (const auto& datagram : read_pcap(std::string(SLUICE_RXE_FIXTURES) + "/" + name + ".pcap")) {
        wire::Frame frame;
        assert_true(wire::parse_frame(datagram, frame) == wire::Refusal::kNone);
        Recorded one = {mapped(frame.ipv4.source),
                        mapped(frame.ipv4.destination),
                        {frame.transport.begin(), frame.transport.end()}};
        if (one.packet().info().transport == wire::Transport::kRc) {
            all.push_back(std::move(one));
        }
    }
    return all;
}

// What is compared of an answer.
std::string gist(const wire::Packet& packet) {
    char text[120];
    const wire::OpcodeInfo& info = packet.info();
    std::snprintf(text, sizeof text, "%.*s psn %06x syndrome %02x %zu bytes",
                  static_cast<int>(info.name.size()), info.name.data(), packet.bth.psn,
                  info.has(wire::kHasAeth) ? packet.aeth.syndrome : 0, packet.payload.size());
    return text;
}

// One of rxe's ends, played by us.
class Stand {
  public:
    Stand(const std::vector<Recorded>& recording, const Address& here)
        : host_(1, 77, nullptr), memory_(1 << 20) {
        QpAttributes attributes = usual_attributes();
        attributes.path_mtu = 1024;
        attributes.max_dest_rd_atomic = 16;
        attributes.local = here;
        bool found = false;
        for (const Recorded& one : recording) {
            const wire::Packet packet = one.packet();
            if (one.destination != here || packet.info().is_response()) {
                continue;
            }
            const std::uint64_t addr = packet.info().has(wire::kHasReth)        ? packet.reth.remote_addr
                                       : packet.info().has(wire::kHasAtomicEth) ? packet.atomic.remote_addr
                                                                                : lowest_;
            lowest_ = std::min(lowest_, addr);
            if (!found) {
                attributes.recv_psn = packet.bth.psn;
                attributes.remote = one.source;
                found = true;
            }
        }
        key_ = *host_.engine.regions().add_region(Host::kPd, reinterpret_cast<std::uintptr_t>(memory_.data()),
                                                  lowest_ == ~std::uint64_t{0} ? 0 : lowest_, memory_.size(),
                                                  kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic);
        local_key_ = host_.add(memory_, kLocalWrite);
        qp_ = *host_.engine.create_queue_pair(usual_config(host_));
        assert_true(bring_up(*qp_, attributes));
    }

    void request(const Recorded& one) {
        const Sge sge = {reinterpret_cast<std::uintptr_t>(memory_.data()), 4096, local_key_};
        qp_->post_receive({1, {&sge, 1}});
        wire::Packet packet = one.packet();
        packet.bth.dest_qpn = qp_->qpn();
        packet.reth.rkey = packet.atomic.rkey = key_;
        const wire::Grh grh{};
        host_.engine.receive({packet, one.source, one.destination, grh}, 1);
        OutPacket out;
        while (host_.engine.transmit(out, 1)) {
            wire::Packet answer;
            const auto bytes = to_bytes(out);
            assert_true(wire::parse(bytes, answer) == wire::Refusal::kNone);
            answers.push_back(gist(answer));
        }
    }

    std::vector<std::string> answers;

  private:
    Host host_;
    std::vector<std::uint8_t> memory_;
    std::uint64_t lowest_ = ~std::uint64_t{0};
    std::uint32_t key_ = 0;
    std::uint32_t local_key_ = 0;
    QueuePair* qp_ = nullptr;
};

void answers_of_one_end(const std::string& name, const std::vector<Recorded>& recording,
                        const Address& here) {
    Stand stand(recording, here);
    std::vector<std::string> rxes;
    for (const Recorded& one : recording) {
        const wire::Packet packet = one.packet();
        if (one.destination == here && !packet.info().is_response()) {
            stand.request(one);
        } else if (one.source == here && packet.info().is_response()) {
            rxes.push_back(gist(packet));
        }
    }
    std::printf("%s: %zu answers\n", name.c_str(), rxes.size());
    for (std::size_t i = 0; i < std::max(rxes.size(), stand.answers.size()); ++i) {
        const std::string ours = i < stand.answers.size() ? stand.answers[i] : "nothing";
        const std::string theirs = i < rxes.size() ? rxes[i] : "nothing";
        if (ours != theirs) {
            fail_msg("%s, answer %zu: rxe gave '%s', we '%s'", name.c_str(), i, theirs.c_str(), ours.c_str());
        }
    }
}

TEST(requests_of_rxe__put_into_our_responder__answered_as_by_rxe) {
    for (const char* name :
         {"write", "read", "compare_swap", "fetch_add", "rc_pingpong", "rping", "ucmatose"}) {
        const std::vector<Recorded> recording = load(name);
        assert_false(recording.empty());
        answers_of_one_end(name, recording, recording.front().source);
        answers_of_one_end(name, recording, recording.front().destination);
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.witness");
}
