// SPDX-License-Identifier: BSD-3-Clause
#include "roce/wire/opcode.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "roce/wire/headers.hpp"

namespace sluice::roce::wire {
namespace {

using Table = std::array<OpcodeInfo, 256>;

constexpr std::uint8_t kOnly = kStarts | kEnds;

// Send and write look alike in RC and UC.
constexpr void add_send_and_write(Table& table, std::size_t base, Transport transport) {
    using enum Operation;
    constexpr std::uint16_t kWithReth = kHasPayload | kHasReth;
    const bool rc = transport == Transport::kRc;
    table[base + 0x00] = {rc ? "RC send first" : "UC send first", transport, kSend, kStarts, kHasPayload};
    table[base + 0x01] = {rc ? "RC send middle" : "UC send middle", transport, kSend, 0, kHasPayload};
    table[base + 0x02] = {rc ? "RC send last" : "UC send last", transport, kSend, kEnds, kHasPayload};
    table[base + 0x03] = {rc ? "RC send last imm" : "UC send last imm", transport, kSend, kEnds,
                          kHasPayload | kHasImmDt};
    table[base + 0x04] = {rc ? "RC send only" : "UC send only", transport, kSend, kOnly, kHasPayload};
    table[base + 0x05] = {rc ? "RC send only imm" : "UC send only imm", transport, kSend, kOnly,
                          kHasPayload | kHasImmDt};
    table[base + 0x06] = {rc ? "RC write first" : "UC write first", transport, kWrite, kStarts, kWithReth};
    table[base + 0x07] = {rc ? "RC write middle" : "UC write middle", transport, kWrite, 0, kHasPayload};
    table[base + 0x08] = {rc ? "RC write last" : "UC write last", transport, kWrite, kEnds, kHasPayload};
    table[base + 0x09] = {rc ? "RC write last imm" : "UC write last imm", transport, kWrite, kEnds,
                          kHasPayload | kHasImmDt};
    table[base + 0x0a] = {rc ? "RC write only" : "UC write only", transport, kWrite, kOnly, kWithReth};
    table[base + 0x0b] = {rc ? "RC write only imm" : "UC write only imm", transport, kWrite, kOnly,
                          kWithReth | kHasImmDt};
}

constexpr Table make_table() {
    using enum Operation;
    constexpr Transport kRc = Transport::kRc;
    Table table{};
    add_send_and_write(table, 0x00, kRc);
    add_send_and_write(table, 0x20, Transport::kUc);
    table[kRcReadRequest] = {"RC read request", kRc, kReadRequest, kOnly, kHasReth};
    table[kRcReadResponseFirst] = {"RC read response first", kRc, kReadResponse, kStarts,
                                   kHasAeth | kHasPayload};
    table[kRcReadResponseMiddle] = {"RC read response middle", kRc, kReadResponse, 0, kHasPayload};
    table[kRcReadResponseLast] = {"RC read response last", kRc, kReadResponse, kEnds, kHasAeth | kHasPayload};
    table[kRcReadResponseOnly] = {"RC read response only", kRc, kReadResponse, kOnly, kHasAeth | kHasPayload};
    table[kRcAcknowledge] = {"RC acknowledge", kRc, kAcknowledge, kOnly, kHasAeth};
    table[kRcAtomicAcknowledge] = {"RC atomic acknowledge", kRc, kAtomicAcknowledge, kOnly,
                                   kHasAeth | kHasAtomicAckEth};
    table[kRcCompareSwap] = {"RC compare-swap", kRc, kCompareSwap, kOnly, kHasAtomicEth};
    table[kRcFetchAdd] = {"RC fetch-add", kRc, kFetchAdd, kOnly, kHasAtomicEth};
    table[kRcSendLastInv] = {"RC send last invalidate", kRc, kSend, kEnds, kHasPayload | kHasIeth};
    table[kRcSendOnlyInv] = {"RC send only invalidate", kRc, kSend, kOnly, kHasPayload | kHasIeth};
    table[kRcFlush] = {"RC flush", kRc, kFlush, kOnly, kHasFeth | kHasReth};
    table[kRcAtomicWrite] = {"RC atomic write", kRc, kAtomicWrite, kOnly, kHasReth | kHasPayload};
    table[kUdSendOnly] = {"UD send only", Transport::kUd, kSend, kOnly, kHasDeth | kHasPayload};
    table[kUdSendOnlyImm] = {"UD send only imm", Transport::kUd, kSend, kOnly,
                             kHasDeth | kHasImmDt | kHasPayload};
    table[kCnp] = {"CNP", Transport::kCnp, kCongestion, kOnly, kHasPayload};
    return table;
}

constexpr std::size_t count_header_bytes(const OpcodeInfo& info) {
    return Bth::kBytes + (info.has(kHasDeth) ? Deth::kBytes : 0) + (info.has(kHasFeth) ? Feth::kBytes : 0) +
           (info.has(kHasReth) ? Reth::kBytes : 0) + (info.has(kHasAtomicEth) ? AtomicEth::kBytes : 0) +
           (info.has(kHasAeth) ? Aeth::kBytes : 0) + (info.has(kHasAtomicAckEth) ? AtomicAckEth::kBytes : 0) +
           (info.has(kHasImmDt) ? ImmDt::kBytes : 0) + (info.has(kHasIeth) ? Ieth::kBytes : 0);
}

constexpr Table kTable = make_table();

constexpr std::size_t longest() {
    std::size_t most = 0;
    for (const OpcodeInfo& info : kTable) {
        most = std::max(most, count_header_bytes(info));
    }
    return most;
}
static_assert(longest() == kMaxHeaderBytes);

} // namespace

const OpcodeInfo& opcode_info(std::uint8_t opcode) noexcept {
    return kTable[opcode];
}

std::size_t header_bytes(const OpcodeInfo& info) noexcept {
    return count_header_bytes(info);
}

} // namespace sluice::roce::wire
