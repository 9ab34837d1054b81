// SPDX-License-Identifier: BSD-3-Clause
#include "roce/wire/opcode.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "roce/wire/headers.hpp"

namespace sluice::roce::wire {
namespace {

using Table = std::array<OpcodeInfo, 256>;

constexpr std::uint8_t kOnly = kStarts | kEnds;

struct Row {
    std::uint8_t opcode;
    std::string_view name;
    Operation operation;
    std::uint8_t place;
    std::uint16_t headers;
};

constexpr std::size_t bytes_of(std::uint16_t headers) {
    const auto bytes = [&](Header header, std::size_t of_it) { return (headers & header) != 0 ? of_it : 0; };
    return Bth::kBytes + bytes(kHasXrcEth, XrcEth::kBytes) + bytes(kHasDeth, Deth::kBytes) +
           bytes(kHasFeth, Feth::kBytes) + bytes(kHasReth, Reth::kBytes) +
           bytes(kHasAtomicEth, AtomicEth::kBytes) + bytes(kHasAeth, Aeth::kBytes) +
           bytes(kHasAtomicAckEth, AtomicAckEth::kBytes) + bytes(kHasImmDt, ImmDt::kBytes) +
           bytes(kHasIeth, Ieth::kBytes);
}

constexpr void add_all(Table& table, Transport transport, std::span<const Row> rows) {
    for (const Row& row : rows) {
        table[row.opcode] = {
            row.name,   transport, row.operation, row.place, static_cast<std::uint8_t>(bytes_of(row.headers)),
            row.headers};
    }
}

using enum Operation;

constexpr Row kReliable[] = {
    {kRcSendFirst, "RC send first", kSend, kStarts, kHasPayload},
    {kRcSendMiddle, "RC send middle", kSend, 0, kHasPayload},
    {kRcSendLast, "RC send last", kSend, kEnds, kHasPayload},
    {kRcSendLastImm, "RC send last imm", kSend, kEnds, kHasPayload | kHasImmDt},
    {kRcSendOnly, "RC send only", kSend, kOnly, kHasPayload},
    {kRcSendOnlyImm, "RC send only imm", kSend, kOnly, kHasPayload | kHasImmDt},
    {kRcWriteFirst, "RC write first", kWrite, kStarts, kHasReth | kHasPayload},
    {kRcWriteMiddle, "RC write middle", kWrite, 0, kHasPayload},
    {kRcWriteLast, "RC write last", kWrite, kEnds, kHasPayload},
    {kRcWriteLastImm, "RC write last imm", kWrite, kEnds, kHasPayload | kHasImmDt},
    {kRcWriteOnly, "RC write only", kWrite, kOnly, kHasReth | kHasPayload},
    {kRcWriteOnlyImm, "RC write only imm", kWrite, kOnly, kHasReth | kHasPayload | kHasImmDt},
    {kRcReadRequest, "RC read request", kReadRequest, kOnly, kHasReth},
    {kRcReadResponseFirst, "RC read response first", kReadResponse, kStarts, kHasAeth | kHasPayload},
    {kRcReadResponseMiddle, "RC read response middle", kReadResponse, 0, kHasPayload},
    {kRcReadResponseLast, "RC read response last", kReadResponse, kEnds, kHasAeth | kHasPayload},
    {kRcReadResponseOnly, "RC read response only", kReadResponse, kOnly, kHasAeth | kHasPayload},
    {kRcAcknowledge, "RC acknowledge", kAcknowledge, kOnly, kHasAeth},
    {kRcAtomicAcknowledge, "RC atomic acknowledge", kAtomicAcknowledge, kOnly, kHasAeth | kHasAtomicAckEth},
    {kRcCompareSwap, "RC compare-swap", kCompareSwap, kOnly, kHasAtomicEth},
    {kRcFetchAdd, "RC fetch-add", kFetchAdd, kOnly, kHasAtomicEth},
    {kRcSendLastInv, "RC send last invalidate", kSend, kEnds, kHasPayload | kHasIeth},
    {kRcSendOnlyInv, "RC send only invalidate", kSend, kOnly, kHasPayload | kHasIeth},
    {kRcFlush, "RC flush", kFlush, kOnly, kHasFeth | kHasReth},
    {kRcAtomicWrite, "RC atomic write", kAtomicWrite, kOnly, kHasReth | kHasPayload},
};

// RC's, with the number of a shared receive queue in each request (A14); FLUSH and atomic write by A19.
constexpr Row kExtended[] = {
    {over_xrc(kRcSendFirst), "XRC send first", kSend, kStarts, kHasXrcEth | kHasPayload},
    {over_xrc(kRcSendMiddle), "XRC send middle", kSend, 0, kHasXrcEth | kHasPayload},
    {over_xrc(kRcSendLast), "XRC send last", kSend, kEnds, kHasXrcEth | kHasPayload},
    {over_xrc(kRcSendLastImm), "XRC send last imm", kSend, kEnds, kHasXrcEth | kHasPayload | kHasImmDt},
    {over_xrc(kRcSendOnly), "XRC send only", kSend, kOnly, kHasXrcEth | kHasPayload},
    {over_xrc(kRcSendOnlyImm), "XRC send only imm", kSend, kOnly, kHasXrcEth | kHasPayload | kHasImmDt},
    {over_xrc(kRcWriteFirst), "XRC write first", kWrite, kStarts, kHasXrcEth | kHasReth | kHasPayload},
    {over_xrc(kRcWriteMiddle), "XRC write middle", kWrite, 0, kHasXrcEth | kHasPayload},
    {over_xrc(kRcWriteLast), "XRC write last", kWrite, kEnds, kHasXrcEth | kHasPayload},
    {over_xrc(kRcWriteLastImm), "XRC write last imm", kWrite, kEnds, kHasXrcEth | kHasPayload | kHasImmDt},
    {over_xrc(kRcWriteOnly), "XRC write only", kWrite, kOnly, kHasXrcEth | kHasReth | kHasPayload},
    {over_xrc(kRcWriteOnlyImm), "XRC write only imm", kWrite, kOnly,
     kHasXrcEth | kHasReth | kHasPayload | kHasImmDt},
    {over_xrc(kRcReadRequest), "XRC read request", kReadRequest, kOnly, kHasXrcEth | kHasReth},
    {over_xrc(kRcReadResponseFirst), "XRC read response first", kReadResponse, kStarts,
     kHasAeth | kHasPayload},
    {over_xrc(kRcReadResponseMiddle), "XRC read response middle", kReadResponse, 0, kHasPayload},
    {over_xrc(kRcReadResponseLast), "XRC read response last", kReadResponse, kEnds, kHasAeth | kHasPayload},
    {over_xrc(kRcReadResponseOnly), "XRC read response only", kReadResponse, kOnly, kHasAeth | kHasPayload},
    {over_xrc(kRcAcknowledge), "XRC acknowledge", kAcknowledge, kOnly, kHasAeth},
    {over_xrc(kRcAtomicAcknowledge), "XRC atomic acknowledge", kAtomicAcknowledge, kOnly,
     kHasAeth | kHasAtomicAckEth},
    {over_xrc(kRcCompareSwap), "XRC compare-swap", kCompareSwap, kOnly, kHasXrcEth | kHasAtomicEth},
    {over_xrc(kRcFetchAdd), "XRC fetch-add", kFetchAdd, kOnly, kHasXrcEth | kHasAtomicEth},
    {over_xrc(kRcSendLastInv), "XRC send last invalidate", kSend, kEnds, kHasXrcEth | kHasPayload | kHasIeth},
    {over_xrc(kRcSendOnlyInv), "XRC send only invalidate", kSend, kOnly, kHasXrcEth | kHasPayload | kHasIeth},
    {over_xrc(kRcFlush), "XRC flush", kFlush, kOnly, kHasXrcEth | kHasFeth | kHasReth},
    {over_xrc(kRcAtomicWrite), "XRC atomic write", kAtomicWrite, kOnly, kHasXrcEth | kHasReth | kHasPayload},
};

constexpr Row kUnreliable[] = {
    {kUcSendFirst, "UC send first", kSend, kStarts, kHasPayload},
    {kUcSendMiddle, "UC send middle", kSend, 0, kHasPayload},
    {kUcSendLast, "UC send last", kSend, kEnds, kHasPayload},
    {kUcSendLastImm, "UC send last imm", kSend, kEnds, kHasPayload | kHasImmDt},
    {kUcSendOnly, "UC send only", kSend, kOnly, kHasPayload},
    {kUcSendOnlyImm, "UC send only imm", kSend, kOnly, kHasPayload | kHasImmDt},
    {kUcWriteFirst, "UC write first", kWrite, kStarts, kHasReth | kHasPayload},
    {kUcWriteMiddle, "UC write middle", kWrite, 0, kHasPayload},
    {kUcWriteLast, "UC write last", kWrite, kEnds, kHasPayload},
    {kUcWriteLastImm, "UC write last imm", kWrite, kEnds, kHasPayload | kHasImmDt},
    {kUcWriteOnly, "UC write only", kWrite, kOnly, kHasReth | kHasPayload},
    {kUcWriteOnlyImm, "UC write only imm", kWrite, kOnly, kHasReth | kHasPayload | kHasImmDt},
};

constexpr Row kDatagram[] = {
    {kUdSendOnly, "UD send only", kSend, kOnly, kHasDeth | kHasPayload},
    {kUdSendOnlyImm, "UD send only imm", kSend, kOnly, kHasDeth | kHasImmDt | kHasPayload},
};

constexpr Row kNotification[] = {{kCnp, "CNP", kCongestion, kOnly, kHasPayload}};

constexpr Table make_table() {
    Table table{};
    add_all(table, Transport::kRc, kReliable);
    add_all(table, Transport::kUc, kUnreliable);
    add_all(table, Transport::kUd, kDatagram);
    add_all(table, Transport::kXrc, kExtended);
    add_all(table, Transport::kCnp, kNotification);
    return table;
}

constexpr std::size_t longest(const Table& table) {
    std::size_t most = 0;
    for (const OpcodeInfo& info : table) {
        most = std::max<std::size_t>(most, info.header_bytes);
    }
    return most;
}
static_assert(longest(make_table()) == kMaxHeaderBytes);

} // namespace

constexpr Table kOpcodes = make_table();

} // namespace sluice::roce::wire
