// SPDX-License-Identifier: BSD-3-Clause
//
// Records one packet of several kinds to the file that is named on the command line, for dissectors
// that aren't ours to look at.
#include <cstdio>

#include "roce/socket/address.hpp"
#include "roce/socket/pcap_recorder.hpp"
#include "roce/wire/cm.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;

namespace {

void record(socket::PcapRecorder& recorder, const wire::Packet& packet, std::span<const std::uint8_t> payload,
            const char* address) {
    PlainMemory memory;
    OutPacket out;
    out.begin() = packet;
    if (!payload.empty()) {
        out.add_piece(reinterpret_cast<std::uintptr_t>(payload.data()),
                      static_cast<std::uint32_t>(payload.size()));
    }
    out.finish();
    out.source = out.destination = socket::parse_address(address).value();
    recorder.record(out, memory);
}

wire::Packet packet(std::uint8_t opcode, std::uint32_t psn) {
    wire::Packet made;
    made.bth.opcode = opcode;
    made.bth.dest_qpn = 0x123456;
    made.bth.psn = psn;
    made.reth = {.remote_addr = 0x7f0012345678, .rkey = 0xcafe, .len_bytes = 5};
    made.aeth = {.syndrome = 0x1f, .msn = 9};
    return made;
}

} // namespace

int main(int argc, char** argv) {
    auto recorder = socket::PcapRecorder::open(argc == 2 ? argv[1] : "");
    if (!recorder) {
        std::fprintf(stderr, "%s\n", recorder.error().text());
        return 1;
    }
    const std::vector<std::uint8_t> five(5, 0x33);
    record(**recorder, packet(wire::kRcWriteOnly, 1), five, "127.0.0.1");
    record(**recorder, packet(wire::kRcAcknowledge, 1), {}, "127.0.0.1");
    record(**recorder, packet(wire::kRcReadRequest, 2), {}, "2001:db8::1");
    std::vector<std::uint8_t> mad;
    const auto header = wire::encoded(wire::MadHeader{.attribute_id = wire::CmReq::kAttributeId});
    const auto request = wire::encoded(
        wire::CmReq{.service_id = wire::cm_service_id(wire::kPortSpaceTcp, 7174), .local_qpn = 0x77});
    mad.insert(mad.end(), header.begin(), header.end());
    mad.insert(mad.end(), request.begin(), request.end());
    wire::Packet management = packet(wire::kUdSendOnly, 3);
    management.bth.dest_qpn = wire::kGsiQpn;
    management.deth = {.qkey = wire::kGsiQkey, .src_qpn = wire::kGsiQpn};
    record(**recorder, management, mad, "127.0.0.1");
    return 0;
}
