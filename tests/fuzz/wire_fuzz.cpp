// SPDX-License-Identifier: BSD-3-Clause
//
// Hostile bytes for everything that parses: the first byte chooses the parser, the rest is its
// input. libFuzzer and AFL++ both call LLVMFuzzerTestOneInput (afl-clang-fast++ -fsanitize=fuzzer);
// replay.cpp calls it with the files of the corpus.
//
// Besides not crashing, what is accepted must mean something: encoded again it is the same bytes.
#include <algorithm>
#include <cstdlib>

#include "roce/wire/cm.hpp"
#include "roce/wire/frame.hpp"

using namespace sluice::roce::wire;

namespace {

void must(bool holds) {
    if (!holds) {
        std::abort();
    }
}

void check_transport(ConstBytes input) {
    Packet packet;
    if (parse(input, packet) != Refusal::kNone) {
        return;
    }
    std::array<std::uint8_t, kMaxHeaderBytes> again{};
    const std::size_t written = write_headers(packet, again);
    must(written == packet.info().header_bytes);
    must(written + packet.payload.size() + packet.bth.pad == input.size());
    must(std::equal(again.begin(), again.begin() + static_cast<std::ptrdiff_t>(written), input.begin()));
}

void check_frame(ConstBytes input) {
    Frame frame;
    if (parse_frame(input, frame) != Refusal::kNone) {
        return;
    }
    std::array<std::uint8_t, Ipv6Header::kBytes + UdpHeader::kBytes> again{};
    const std::size_t written = write_ip_udp(frame, frame.transport.size(), again);
    must(written == frame.ip_bytes() + UdpHeader::kBytes);
    must(frame.is_ipv6 || ipv4_checksum(frame.ipv4) == (again[10] << 8 | again[11]));
    if (!frame.is_ipv6) {
        const std::uint16_t truth = frame.ipv4.identification;
        const std::uint32_t icrc = expected_icrc(frame);
        frame.ipv4.identification = 0;
        must(solve_identification(icrc, expected_icrc(frame), frame.transport.size()) == truth);
    }
    check_transport(frame.transport);
}

// Reserved bits are ignored, so that only the second round must repeat the first.
void check_mad(ConstBytes input) {
    if (input.size() < kMadBytes) {
        return;
    }
    const auto header = decode<MadHeader>(input.first<MadHeader::kBytes>());
    must(std::ranges::equal(encoded(header), input.first<MadHeader::kBytes>()));
    const auto bytes = input.subspan<MadHeader::kBytes, kCmBytes>();
    visit_cm(header.attribute_id, bytes, [](const auto& message) {
        const auto once = encoded(message);
        const auto again = decode<std::remove_cvref_t<decltype(message)>>(once);
        must(again == message && encoded(again) == once);
    });
}

} // namespace

// The name is libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const ConstBytes input(data + 1, size - 1);
    switch (data[0] % 3) {
    case 0:
        check_transport(input);
        break;
    case 1:
        check_frame(input);
        break;
    default:
        check_mad(input);
    }
    return 0;
}
