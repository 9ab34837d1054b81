// SPDX-License-Identifier: BSD-3-Clause
//
// What Linux' rdma_rxe and rdma_cm really sent (tests/fixtures/rxe), taken apart and put together
// again: every byte must come back, the ICRC included, and in management datagrams each message.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "roce/wire/cm.hpp"
#include "roce/wire/frame.hpp"
#include "tests/unit/roce/pcap.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::roce::wire;
using sluice::roce::test::files_of;
using sluice::roce::test::read_pcap;

namespace {

struct Witness {
    std::string file;
    std::vector<std::uint8_t> datagram;
};

std::vector<Witness> witnesses;

int load_recordings(void**) {
    for (const std::string& path : files_of(SLUICE_RXE_FIXTURES, ".pcap")) {
        for (auto& datagram : read_pcap(path)) {
            witnesses.push_back({path, std::move(datagram)});
        }
    }
    std::printf("%zu packets of rdma_rxe\n", witnesses.size());
    return witnesses.size() > 100 ? 0 : -1;
}

Frame frame_of(const Witness& witness) {
    Frame frame;
    assert_true(parse_frame(witness.datagram, frame) == Refusal::kNone);
    return frame;
}

Packet packet_of(const Frame& frame) {
    Packet packet;
    assert_true(parse(frame.transport, packet) == Refusal::kNone);
    return packet;
}

TEST(recordings__decoded_and_encoded__same_bytes) {
    for (const Witness& witness : witnesses) {
        const Frame frame = frame_of(witness);
        const Packet packet = packet_of(frame);
        std::vector<std::uint8_t> again(witness.datagram.size());
        std::size_t at = write_ip_udp(frame, frame.transport.size(), again);
        assert_int_not_equal(at, 0);
        at += write_headers(packet, std::span(again).subspan(at));
        std::ranges::copy(packet.payload, again.begin() + static_cast<std::ptrdiff_t>(at));
        at += packet.payload.size() + packet.bth.pad;
        icrc_store(expected_icrc(frame), std::span(again).subspan(at).first<kIcrcBytes>());
        assert_int_equal(at + kIcrcBytes, again.size());
        assert_memory_equal(again.data(), witness.datagram.data(), again.size());
    }
}

// As a UDP socket would see them: identification unknown.
TEST(recordings__identification_unknown__solved) {
    for (const Witness& witness : witnesses) {
        Frame frame = frame_of(witness);
        const std::uint16_t truth = frame.ipv4.identification;
        frame.ipv4.identification = 0;
        assert_true(solve_identification(frame.icrc, expected_icrc(frame), frame.transport.size()) == truth);
    }
}

// A bit that somebody turned over is noticed, unless it is one of those that may change.
TEST(recordings__one_bit_flipped__wrong_icrc) {
    for (std::size_t i = 0; i < witnesses.size(); i += 7) {
        Witness damaged = witnesses[i];
        const std::size_t transport = Ipv4Header::kBytes + UdpHeader::kBytes;
        const std::size_t bit = (i * 131) % ((damaged.datagram.size() - transport) * 8);
        damaged.datagram[transport + bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
        const Frame frame = frame_of(damaged);
        assert_true((expected_icrc(frame) == frame.icrc) == (bit / 8 == 4));
    }
}

TEST(recordings__programs_of_the_field__used_every_kind_of_packet) {
    std::map<std::string_view, int> seen;
    for (const Witness& witness : witnesses) {
        ++seen[packet_of(frame_of(witness)).info().name];
    }
    for (const auto& [name, count] : seen) {
        std::printf("%5d %.*s\n", count, static_cast<int>(name.size()), name.data());
    }
    for (const char* name :
         {"RC send first", "RC send middle", "RC send last", "RC send only", "RC write first",
          "RC write last", "RC read request", "RC read response first", "RC read response middle",
          "RC read response last", "RC read response only", "RC acknowledge", "RC atomic acknowledge",
          "RC compare-swap", "RC fetch-add", "UC send first", "UC send last", "UD send only"}) {
        assert_true(seen[name] > 0);
    }
}

TEST(recordings__management_datagrams__same_bytes_again) {
    std::map<std::uint16_t, int> seen;
    for (const Witness& witness : witnesses) {
        const Frame frame = frame_of(witness);
        const Packet packet = packet_of(frame);
        if (packet.bth.dest_qpn != kGsiQpn) {
            continue;
        }
        assert_int_equal(packet.deth.qkey, kGsiQkey);
        assert_int_equal(packet.payload.size(), kMadBytes);
        const auto header_bytes = packet.payload.first<MadHeader::kBytes>();
        const auto header = decode<MadHeader>(header_bytes);
        assert_int_equal(header.management_class, MadHeader::kClassCm);
        assert_int_equal(header.method, MadHeader::kMethodSend);
        assert_true(std::ranges::equal(encoded(header), header_bytes));
        const auto message_bytes = packet.payload.subspan<MadHeader::kBytes, kCmBytes>();
        const bool known = visit_cm(header.attribute_id, message_bytes, [&](const auto& message) {
            assert_true(std::ranges::equal(encoded(message), message_bytes));
        });
        assert_true(known);
        ++seen[header.attribute_id];
    }
    for (const auto& [id, count] : seen) {
        std::printf("%5d CM attribute 0x%x\n", count, id);
    }
    for (const int id :
         {CmReq::kAttributeId, CmRep::kAttributeId, CmRtu::kAttributeId, CmDreq::kAttributeId,
          CmDrep::kAttributeId, CmRej::kAttributeId, CmSidrReq::kAttributeId, CmSidrRep::kAttributeId}) {
        assert_true(seen[static_cast<std::uint16_t>(id)] > 0);
    }
}

// The REQ of rdma_cm makes sense field by field, not only byte by byte.
TEST(recordings__connection_request__reads_as_rdma_cm_meant_it) {
    int requests = 0;
    for (const Witness& witness : witnesses) {
        const Frame frame = frame_of(witness);
        const Packet packet = packet_of(frame);
        if (packet.bth.dest_qpn != kGsiQpn || packet.payload[17] != CmReq::kAttributeId) {
            continue;
        }
        ++requests;
        const auto req = decode<CmReq>(packet.payload.subspan<MadHeader::kBytes, kCmBytes>());
        assert_int_equal(req.service_id >> 16, kPortSpaceTcp);
        assert_int_equal(req.pkey, 0xffff);
        assert_int_equal(req.transport_type, 0);
        assert_in_range(req.path_mtu, 1, 5);
        assert_int_equal(req.remote_cm_response_timeout, 20);
        assert_int_equal(req.max_cm_retries, 15);
        const auto path = decode<CmPath>(req.primary_path);
        assert_int_equal(path.local_lid, 0xffff);
        assert_memory_equal(path.local_gid.data() + 12, frame.ipv4.source.data(), 4);
        assert_memory_equal(path.remote_gid.data() + 12, frame.ipv4.destination.data(), 4);
        const auto ip = decode<CmIpHeader>(std::span(req.private_data).first<CmIpHeader::kBytes>());
        assert_int_equal(ip.ip_version, 4);
        assert_memory_equal(ip.source.data() + 12, frame.ipv4.source.data(), 4);
        assert_memory_equal(ip.destination.data() + 12, frame.ipv4.destination.data(), 4);
    }
    assert_true(requests > 0);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.capture", load_recordings);
}
