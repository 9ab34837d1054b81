// SPDX-License-Identifier: BSD-3-Clause
//
// Headers, management datagrams and packets: fixed bytes against the standard's drawings, and for
// random contents that what is written can be read again and written again the same.
#include "roce/wire/headers.hpp"

#include <algorithm>
#include <cstdio>

#include "roce/wire/cm.hpp"
#include "roce/wire/ip.hpp"
#include "roce/wire/packet.hpp"
#include "roce/wire/syndrome.hpp"
#include "tests/cmocka.hpp"
#include "tests/unit/roce/random.hpp"

using namespace sluice::roce::wire;
using sluice::roce::test::Random;
using sluice::roce::test::random_header;

namespace {

constexpr std::uint64_t kSeed = 20260101;

template<typename Header>
void encode__random__decodes_to_itself_and_back(void**) {
    Random random(kSeed);
    for (int i = 0; i < 200; ++i) {
        const auto header = random_header<Header>(random);
        const auto bytes = encoded(header);
        const auto again = decode<Header>(bytes);
        assert_true(again == header);
        assert_true(encoded(again) == bytes);
    }
}

// Headers without ignored bits: every byte pattern comes back.
template<typename Header>
void decode__any_bytes__encodes_to_the_same(void**) {
    Random random(kSeed);
    for (int i = 0; i < 200; ++i) {
        std::array<std::uint8_t, Header::kBytes> bytes{};
        std::ranges::generate(bytes, [&random] { return static_cast<std::uint8_t>(random.next()); });
        assert_true(encoded(decode<Header>(bytes)) == bytes);
    }
}

void bth__known_bytes__fields_as_drawn(void**) {
    constexpr std::array<std::uint8_t, 12> kBytes = {0x0a, 0xe0, 0x7f, 0xff, 0xc1, 0x01,
                                                     0x02, 0x03, 0x85, 0xfe, 0xdc, 0xba};
    const Bth bth = decode<Bth>(kBytes);
    assert_int_equal(bth.opcode, kRcWriteOnly);
    assert_true(bth.solicited && bth.migrated && bth.fecn && bth.becn && bth.ack_request);
    assert_int_equal(bth.pad, 2);
    assert_int_equal(bth.version, 0);
    assert_int_equal(bth.pkey, 0x7fff);
    assert_int_equal(bth.reserved6, 1);
    assert_int_equal(bth.dest_qpn, 0x010203);
    assert_int_equal(bth.reserved7, 5);
    assert_int_equal(bth.psn, 0xfedcba);
}

void atomic_eth__known_fields__bytes_in_order(void**) {
    const auto bytes = encoded(AtomicEth{.remote_addr = 0x0102030405060708,
                                         .rkey = 0x090a0b0c,
                                         .swap_or_add = 0x0d0e0f1011121314,
                                         .compare = 0x15161718191a1b1c});
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        assert_int_equal(bytes[i], i + 1);
    }
}

void feth__persistence_of_a_range__low_bits(void**) {
    const auto bytes = encoded(Feth{.selectivity = Feth::kWholeRegion, .placement = Feth::kPersistence});
    assert_int_equal(bytes[3], 0x12);
    assert_int_equal(bytes[0] | bytes[1] | bytes[2], 0);
}

// Offsets that the standard gives in 12.6.5, at the MAD's data.
void cm_req__fields__at_the_standards_offsets(void**) {
    CmReq req;
    req.local_comm_id = 0x01020304;
    req.service_id = cm_service_id(kPortSpaceTcp, 7174);
    req.local_qpn = 0x111213;
    req.responder_resources = 0x14;
    req.initiator_depth = 0x15;
    req.remote_cm_response_timeout = 20;
    req.flow_control = true;
    req.starting_psn = 0x212223;
    req.local_cm_response_timeout = 20;
    req.retry_count = 7;
    req.path_mtu = 5;
    req.rnr_retry_count = 7;
    req.max_cm_retries = 15;
    req.srq = true;
    req.private_data[0] = 0xee;
    const auto bytes = encoded(req);
    assert_int_equal(bytes[3], 4);
    constexpr std::array<std::uint8_t, 8> kRpingsService = {0, 0, 0, 0, 0x01, 0x06, 0x1c, 0x06};
    assert_true(std::ranges::equal(std::span(bytes).subspan(8, 8), kRpingsService));
    assert_int_equal(bytes[32], 0x11);
    assert_int_equal(bytes[35], 0x14);
    assert_int_equal(bytes[39], 0x15);
    assert_int_equal(bytes[43], 20 << 3 | 1);
    assert_int_equal(bytes[44], 0x21);
    assert_int_equal(bytes[47], 20 << 3 | 7);
    assert_int_equal(bytes[50], 5 << 4 | 7);
    assert_int_equal(bytes[51], 15 << 4 | 8);
    assert_int_equal(bytes[140], 0xee);
}

void ipv4_checksum__known_header__rfc_value(void**) {
    constexpr std::array<std::uint8_t, 20> kBytes = {0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40,
                                                     0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8,
                                                     0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7};
    const auto header = decode<Ipv4Header>(kBytes);
    assert_int_equal(ipv4_checksum(header), 0xb861);
    const Grh grh = make_grh(header);
    assert_true(std::ranges::equal(std::span(grh).last<20>(), kBytes));
}

void syndrome__kinds_and_timers__as_in_the_tables(void**) {
    assert_true(ack_kind(kAckNoCredits) == AckKind::kAck);
    assert_true(ack_kind(rnr_syndrome(12)) == AckKind::kRnrNak && ack_value(rnr_syndrome(12)) == 12);
    assert_int_equal(nak_syndrome(NakCode::kRemoteAccess), 0x62);
    assert_int_equal(rnr_timer_ns(0), 655360000);
    assert_int_equal(rnr_timer_ns(25), 61440000);
    assert_int_equal(ack_timeout_ns(0), 0);
    assert_int_equal(ack_timeout_ns(14), 67108864);
}

// Every opcode with random headers and payloads of all paddings.
void packet__every_opcode__parses_to_itself(void**) {
    Random random(kSeed);
    int known = 0;
    for (int opcode = 0; opcode < 256; ++opcode) {
        const OpcodeInfo& info = opcode_info(static_cast<std::uint8_t>(opcode));
        known += info.known() ? 1 : 0;
        for (std::size_t len = 0; info.known() && len < 9; ++len) {
            Packet packet;
            packet.bth = random_header<Bth>(random);
            packet.bth.opcode = static_cast<std::uint8_t>(opcode);
            packet.bth.version = 0;
            packet.xrc = random_header<XrcEth>(random);
            packet.deth = random_header<Deth>(random);
            packet.feth = random_header<Feth>(random);
            packet.reth = random_header<Reth>(random);
            packet.atomic = random_header<AtomicEth>(random);
            packet.aeth = random_header<Aeth>(random);
            packet.atomic_ack = random_header<AtomicAckEth>(random);
            packet.imm = random_header<ImmDt>(random);
            packet.ieth = random_header<Ieth>(random);
            const std::size_t payload = info.has(kHasPayload) ? len : 0;
            packet.bth.pad = padding(payload);
            std::array<std::uint8_t, 64> bytes{};
            const std::size_t headers = write_headers(packet, bytes);
            assert_int_equal(headers, info.header_bytes);
            Packet again;
            const ConstBytes whole(bytes.data(), headers + payload + packet.bth.pad);
            assert_true(parse(whole, again) == Refusal::kNone);
            assert_int_equal(again.payload.size(), payload);
            std::array<std::uint8_t, 64> rewritten{};
            assert_int_equal(write_headers(again, rewritten), headers);
            assert_memory_equal(rewritten.data(), bytes.data(), headers);
        }
    }
    assert_int_equal(known, 25 + 12 + 2 + 25 + 1);
}

// Annex A14's figures: prefix 101, and the queue's number right behind the BTH, in requests alone.
void packet__over_xrc__number_behind_the_bth(void**) {
    Packet packet;
    packet.bth.opcode = over_xrc(kRcWriteOnly);
    packet.xrc = {.reserved8 = 0xee, .srqn = 0x010203};
    packet.reth.remote_addr = 0x1122334455667788;
    std::array<std::uint8_t, kMaxHeaderBytes> bytes{};
    assert_int_equal(write_headers(packet, bytes), Bth::kBytes + XrcEth::kBytes + Reth::kBytes);
    constexpr std::array<std::uint8_t, 8> kBehindBth = {0xee, 0x01, 0x02, 0x03, 0x11, 0x22, 0x33, 0x44};
    assert_int_equal(bytes[0], 0xaa);
    assert_true(std::ranges::equal(std::span(bytes).subspan<Bth::kBytes, 8>(), kBehindBth));
    for (int opcode = kXrcOpcodes; opcode < kXrcOpcodes + 0x20; ++opcode) {
        const OpcodeInfo& over_xrc = opcode_info(static_cast<std::uint8_t>(opcode));
        const OpcodeInfo& over_rc = opcode_info(static_cast<std::uint8_t>(opcode - kXrcOpcodes));
        assert_int_equal(over_xrc.known(), over_rc.known());
        assert_true(over_xrc.operation == over_rc.operation && over_xrc.place == over_rc.place);
        const bool has_number = over_rc.known() && !over_rc.is_response();
        assert_int_equal(over_xrc.headers, over_rc.headers | (has_number ? kHasXrcEth : 0));
    }
}

void packet__every_truncation__is_refused_not_read(void**) {
    constexpr std::uint8_t kOpcodes[] = {
        kRcSendOnly,    kRcWriteFirst,  kRcCompareSwap,           kRcAtomicAcknowledge,    kRcFlush,
        kUdSendOnlyImm, kRcSendOnlyInv, over_xrc(kRcCompareSwap), over_xrc(kRcAcknowledge)};
    for (const std::uint8_t opcode : kOpcodes) {
        const std::size_t headers = opcode_info(opcode).header_bytes;
        for (std::size_t len = 0; len < headers; ++len) {
            std::vector<std::uint8_t> bytes(len); // exactly, so that a sanitizer sees one byte more
            if (len > 0) {
                bytes[0] = opcode;
            }
            Packet packet;
            assert_true(parse(bytes, packet) == Refusal::kTruncated);
        }
    }
}

Refusal parse_altered(std::size_t len, std::uint8_t opcode, std::uint8_t second) {
    std::vector<std::uint8_t> bytes(len);
    bytes[0] = opcode;
    bytes[1] = second;
    Packet packet;
    return parse(bytes, packet);
}

void packet__wrong_version_opcode_padding__is_refused(void**) {
    assert_true(parse_altered(16, kRcSendOnly, 0x01) == Refusal::kVersion);
    assert_true(parse_altered(16, 0x15, 0) == Refusal::kOpcode);
    assert_true(parse_altered(16, 0xff, 0) == Refusal::kOpcode);
    assert_true(parse_altered(20, 0xb5, 0) == Refusal::kOpcode);
    assert_true(parse_altered(12, kRcSendOnly, 0x30) == Refusal::kTruncated);
    assert_true(parse_altered(14, kRcSendOnly, 0) == Refusal::kAlignment);
    assert_true(parse_altered(20, kRcAcknowledge, 0) == Refusal::kUnexpected);
}

void write_headers__short_buffer__writes_nothing(void**) {
    Packet packet;
    packet.bth.opcode = kRcWriteOnly;
    std::array<std::uint8_t, 27> bytes{};
    assert_int_equal(write_headers(packet, bytes), 0);
    assert_true(std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; }));
}

void visit_cm__unknown_attribute__false(void**) {
    const std::array<std::uint8_t, kCmBytes> bytes{};
    assert_false(visit_cm(0x0f, bytes, [](const auto&) {}));
    assert_true(visit_cm(0x1a, bytes, [](const auto& message) {
        assert_int_equal(std::remove_cvref_t<decltype(message)>::kAttributeId, 0x1a);
    }));
}

#define BOTH_WAYS(header)                                                                                    \
    {                                                                                                        \
        "encode__random__decodes_to_itself_and_back: " #header,                                              \
            encode__random__decodes_to_itself_and_back<header>, nullptr, nullptr, nullptr                    \
    }
#define ANY_BYTES(header)                                                                                    \
    {                                                                                                        \
        "decode__any_bytes__encodes_to_the_same: " #header, decode__any_bytes__encodes_to_the_same<header>,  \
            nullptr, nullptr, nullptr                                                                        \
    }

} // namespace

int main() {
    std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
    const CMUnitTest tests[] = {
        BOTH_WAYS(Bth),
        BOTH_WAYS(Reth),
        BOTH_WAYS(AtomicEth),
        BOTH_WAYS(Aeth),
        BOTH_WAYS(AtomicAckEth),
        BOTH_WAYS(ImmDt),
        BOTH_WAYS(Ieth),
        BOTH_WAYS(XrcEth),
        BOTH_WAYS(Deth),
        BOTH_WAYS(Feth),
        BOTH_WAYS(MadHeader),
        BOTH_WAYS(CmReq),
        BOTH_WAYS(CmPath),
        BOTH_WAYS(CmMra),
        BOTH_WAYS(CmRej),
        BOTH_WAYS(CmRep),
        BOTH_WAYS(CmRtu),
        BOTH_WAYS(CmDreq),
        BOTH_WAYS(CmDrep),
        BOTH_WAYS(CmSidrReq),
        BOTH_WAYS(CmSidrRep),
        BOTH_WAYS(CmLap),
        BOTH_WAYS(CmApr),
        BOTH_WAYS(CmIpHeader),
        BOTH_WAYS(Ipv4Header),
        BOTH_WAYS(Ipv6Header),
        BOTH_WAYS(UdpHeader),
        ANY_BYTES(Bth),
        ANY_BYTES(Reth),
        ANY_BYTES(AtomicEth),
        ANY_BYTES(Aeth),
        ANY_BYTES(XrcEth),
        ANY_BYTES(Deth),
        ANY_BYTES(Feth),
        ANY_BYTES(MadHeader),
        ANY_BYTES(CmRtu),
        ANY_BYTES(Ipv4Header),
        ANY_BYTES(Ipv6Header),
        cmocka_unit_test(bth__known_bytes__fields_as_drawn),
        cmocka_unit_test(atomic_eth__known_fields__bytes_in_order),
        cmocka_unit_test(feth__persistence_of_a_range__low_bits),
        cmocka_unit_test(cm_req__fields__at_the_standards_offsets),
        cmocka_unit_test(ipv4_checksum__known_header__rfc_value),
        cmocka_unit_test(syndrome__kinds_and_timers__as_in_the_tables),
        cmocka_unit_test(packet__every_opcode__parses_to_itself),
        cmocka_unit_test(packet__over_xrc__number_behind_the_bth),
        cmocka_unit_test(packet__every_truncation__is_refused_not_read),
        cmocka_unit_test(packet__wrong_version_opcode_padding__is_refused),
        cmocka_unit_test(write_headers__short_buffer__writes_nothing),
        cmocka_unit_test(visit_cm__unknown_attribute__false),
    };
    return cmocka_run_group_tests_name("roce.headers", tests, nullptr, nullptr);
}
