// SPDX-License-Identifier: BSD-3-Clause
//
// sluice_describe_packet(): recordings of the kernel's driver field by field, every kind of packet,
// and bytes that are none.
#include <sluice/sluice.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>

#include "roce/wire/cm.hpp"
#include "roce/wire/frame.hpp"
#include "roce/wire/syndrome.hpp"
#include "tests/unit/roce/pcap.hpp"
#include "tests/unit/roce/random.hpp"

// Last: its macro fail() is also a name in <fstream>.
#include "tests/cmocka.hpp"

using namespace sluice::roce::wire;
using sluice::roce::test::files_of;
using sluice::roce::test::Random;
using sluice::roce::test::read_pcap;

namespace {

using Bytes = std::vector<std::uint8_t>;

std::vector<sluice_packet_field> fields_of(const Bytes& datagram) {
    std::vector<sluice_packet_field> fields;
    sluice_packet_field field{};
    int error = 0;
    for (unsigned i = 0;
         (error = sluice_describe_packet(datagram.data(), datagram.size(), i, &field, sizeof field)) == 0;
         ++i) {
        fields.push_back(field);
        assert_true(i < 100);
    }
    assert_int_equal(error, ENOENT);
    return fields;
}

std::optional<sluice_packet_field> find(const std::vector<sluice_packet_field>& fields, const char* name) {
    for (const sluice_packet_field& field : fields) {
        if (std::strcmp(field.name, name) == 0) {
            return field;
        }
    }
    return std::nullopt;
}

void assert_text(const Bytes& datagram, const char* name, const char* value) {
    const auto field = find(fields_of(datagram), name);
    assert_true(field.has_value());
    assert_string_equal(field->value, value);
}

// PACKET with headers, payload and a valid ICRC, from 10.0.0.1 or fe80::1.
Bytes datagram_of(const Packet& packet, const Bytes& payload = {}, bool ipv6 = false) {
    Bytes transport(kMaxHeaderBytes);
    transport.resize(write_headers(packet, transport));
    transport.insert(transport.end(), payload.begin(), payload.end());
    Frame frame;
    frame.is_ipv6 = ipv6;
    frame.ipv4.source = {10, 0, 0, 1};
    frame.ipv4.destination = {10, 0, 0, 2};
    frame.ipv6.source = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    frame.transport = transport;
    Bytes datagram(Ipv6Header::kBytes + UdpHeader::kBytes);
    datagram.resize(write_ip_udp(frame, transport.size(), datagram));
    datagram.insert(datagram.end(), transport.begin(), transport.end());
    datagram.resize(datagram.size() + kIcrcBytes);
    assert_true(parse_frame(datagram, frame) == Refusal::kNone);
    icrc_store(expected_icrc(frame), std::span(datagram).last<kIcrcBytes>());
    return datagram;
}

Packet packet(std::uint8_t opcode) {
    Packet made;
    made.bth.opcode = opcode;
    made.bth.dest_qpn = 0xabcdef;
    made.bth.psn = 77;
    return made;
}

TEST(describe__recordings__names_are_unique_and_checksums_ok) {
    for (const std::string& path : files_of(SLUICE_RXE_FIXTURES, ".pcap")) {
        for (const Bytes& datagram : read_pcap(path)) {
            const auto fields = fields_of(datagram);
            std::map<std::string, int> names;
            for (const sluice_packet_field& field : fields) {
                assert_int_equal(++names[field.name], 1);
                assert_true(std::strlen(field.value) > 0 && field.brief <= 1 &&
                            field.kind <= SLUICE_FIELD_FLAG);
            }
            assert_string_equal(fields.front().name, "source");
            assert_string_equal(fields.back().name, "icrc");
            assert_string_equal(fields.back().value, "ok");
        }
    }
}

TEST(describe__request_over_xrc__the_queue_it_is_for) {
    Packet send = packet(over_xrc(kRcSendOnly));
    send.xrc.srqn = 0x70;
    assert_text(datagram_of(send), "opcode", "XRC send only");
    assert_text(datagram_of(send), "srqn", "0x70");
    assert_false(find(fields_of(datagram_of(packet(over_xrc(kRcAcknowledge)))), "srqn").has_value());
}

TEST(describe__each_header__its_fields) {
    Packet write = packet(kRcWriteOnlyImm);
    write.reth = {.remote_addr = 0x123456789a, .rkey = 0xbeef, .len_bytes = 0};
    write.imm.data = 0x55;
    write.bth.solicited = true;
    const Bytes datagram = datagram_of(write);
    assert_text(datagram, "opcode", "RC write only imm");
    assert_text(datagram, "dest-qpn", "0xabcdef");
    assert_text(datagram, "psn", "77");
    assert_text(datagram, "solicited", "yes");
    assert_text(datagram, "ack-request", "no");
    assert_text(datagram, "remote-addr", "0x123456789a");
    assert_text(datagram, "rkey", "0xbeef");
    assert_text(datagram, "message-bytes", "0");
    assert_text(datagram, "immediate", "0x55");
    assert_int_equal(find(fields_of(datagram), "remote-addr")->number, 0x123456789a);
    assert_int_equal(find(fields_of(datagram), "opcode")->number, kRcWriteOnlyImm);
    assert_int_equal(find(fields_of(datagram), "solicited")->brief, 1);
    assert_int_equal(find(fields_of(datagram), "ack-request")->brief, 0);
    Packet swap = packet(kRcCompareSwap);
    swap.atomic = {.remote_addr = 8, .rkey = 1, .swap_or_add = 2, .compare = 3};
    assert_text(datagram_of(swap), "compare", "0x3");
    Packet invalidate = packet(kRcSendOnlyInv);
    invalidate.ieth.rkey = 0x99;
    assert_text(datagram_of(invalidate), "invalidated-rkey", "0x99");
    Packet flush = packet(kRcFlush);
    flush.feth.placement = Feth::kPersistence;
    assert_text(datagram_of(flush), "placement", "0x2");
    Packet answer = packet(kRcAtomicAcknowledge);
    answer.atomic_ack.original = 4;
    assert_text(datagram_of(answer), "original", "0x4");
    assert_text(datagram_of(packet(kRcSendOnly), {1, 2, 3, 4}, true), "source", "fe80::1");
}

TEST(describe__each_syndrome__in_words) {
    const auto with = [](std::uint8_t syndrome) {
        Packet made = packet(kRcAcknowledge);
        made.aeth.syndrome = syndrome;
        return datagram_of(made);
    };
    assert_text(with(kAckNoCredits), "syndrome", "ack");
    assert_text(with(rnr_syndrome(14)), "syndrome", "receiver not ready, 1280 us");
    assert_text(with(nak_syndrome(NakCode::kSequence)), "syndrome", "nak: sequence");
    assert_text(with(nak_syndrome(NakCode::kRemoteAccess)), "syndrome", "nak: remote access");
    assert_text(with(0x7f), "syndrome", "nak: reserved");
    assert_text(with(0x40), "syndrome", "reserved");
}

template<typename Message>
Bytes management(const Message& message) {
    Packet made = packet(kUdSendOnly);
    made.bth.dest_qpn = kGsiQpn;
    Bytes payload;
    for (const std::uint8_t byte : encoded(MadHeader{.attribute_id = Message::kAttributeId})) {
        payload.push_back(byte);
    }
    for (const std::uint8_t byte : encoded(message)) {
        payload.push_back(byte);
    }
    return datagram_of(made, payload);
}

TEST(describe__each_message_of_the_connection_manager__named_with_its_fields) {
    const Bytes req =
        management(CmReq{.service_id = cm_service_id(kPortSpaceTcp, 7174), .local_qpn = 5, .path_mtu = 3});
    assert_text(req, "cm", "REQ");
    assert_text(req, "port", "7174");
    assert_text(req, "path-mtu", "1024");
    assert_text(req, "local-qpn", "0x5");
    assert_false(find(fields_of(req), "remote-comm-id").has_value());
    assert_false(find(fields_of(management(CmReq{.service_id = 0x1234567890})), "port").has_value());
    assert_text(management(CmReq{.path_mtu = 9}), "path-mtu", "0");
    assert_text(management(CmRep{.starting_psn = 6}), "starting-psn", "6");
    assert_text(management(CmRej{.reason = CmRej::kConsumer}), "reason", "by the program");
    assert_text(management(CmRej{.reason = 999}), "reason", "other");
    assert_text(management(CmMra{.service_timeout = 24}), "service-timeout", "24");
    assert_text(management(CmRtu{}), "cm", "RTU");
    assert_text(management(CmDreq{.remote_qpn = 9}), "remote-qpn", "0x9");
    assert_text(management(CmDrep{}), "cm", "DREP");
    assert_text(management(CmSidrReq{.service_id = cm_service_id(kPortSpaceUdp, 1)}), "port", "1");
    assert_text(management(CmSidrRep{.qpn = 3}), "local-qpn", "0x3");
    assert_text(management(CmLap{}), "cm", "LAP");
    assert_text(management(CmApr{}), "cm", "APR");
}

TEST(describe__private_data__text_with_dots_as_far_as_it_fits) {
    CmRep rep;
    assert_false(find(fields_of(management(rep)), "private-data").has_value());
    rep.private_data = {'h', 'i', '\n', 0, '<', 0x7f, 0xff, '~'};
    const Bytes datagram = management(rep);
    assert_text(datagram, "private-data", "hi..<..~");
    assert_int_equal(find(fields_of(datagram), "private-data")->brief, 0);
    assert_int_equal(find(fields_of(datagram), "private-data")->number, 8);
    rep.private_data.fill('x');
    assert_text(management(rep), "private-data", std::string(95, 'x').c_str());
}

TEST(describe__transport_that_makes_no_sense__refusal_and_checksum) {
    Bytes datagram = datagram_of(packet(kRcAcknowledge));
    datagram[Ipv4Header::kBytes + UdpHeader::kBytes] = 0x1f;
    assert_text(datagram, "refusal", "unknown opcode");
    assert_text(datagram, "icrc", "bad");
    assert_text(datagram, "source", "10.0.0.1");
    assert_false(find(fields_of(datagram), "opcode").has_value());
}

TEST(describe__no_packet_or_wrong_arguments__errno_and_field_untouched) {
    const Bytes good = datagram_of(packet(kRcAcknowledge));
    sluice_packet_field field;
    std::memset(&field, 0x5a, sizeof field);
    const sluice_packet_field before = field;
    Bytes other_port = good;
    other_port[22] ^= 1;
    assert_int_equal(sluice_describe_packet(other_port.data(), other_port.size(), 0, &field, sizeof field),
                     EPROTO);
    assert_int_equal(sluice_describe_packet(good.data(), 10, 0, &field, sizeof field), EPROTO);
    assert_int_equal(sluice_describe_packet(good.data(), 0, 0, &field, sizeof field), EPROTO);
    assert_int_equal(sluice_describe_packet(good.data(), good.size(), 1000, &field, sizeof field), ENOENT);
    assert_int_equal(sluice_describe_packet(good.data(), good.size(), ~0U, &field, sizeof field), ENOENT);
    assert_int_equal(sluice_describe_packet(nullptr, good.size(), 0, &field, sizeof field), EINVAL);
    assert_int_equal(sluice_describe_packet(good.data(), good.size(), 0, nullptr, sizeof field), EINVAL);
    assert_int_equal(sluice_describe_packet(good.data(), good.size(), 0, &field, sizeof field - 1), EINVAL);
    assert_memory_equal(&field, &before, sizeof field);
}

TEST(describe__random_bytes_behind_valid_ip__always_ends) {
    constexpr std::uint64_t kSeed = 20260530;
    std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
    Random random(kSeed);
    for (int i = 0; i < 3000; ++i) {
        Bytes datagram = datagram_of(packet(kUdSendOnly), random.bytes(std::size_t{4} * random.below(70)));
        for (std::size_t at = 28; at < datagram.size(); ++at) {
            datagram[at] = static_cast<std::uint8_t>(random.chance(0.3) ? 1 : random.next());
        }
        assert_string_equal(fields_of(datagram).back().name, "icrc");
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.description");
}
