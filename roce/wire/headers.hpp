// SPDX-License-Identifier: BSD-3-Clause
//
// The transport headers of InfiniBand as RoCEv2 carries them (IBTA vol 1, 9.2 to 9.4; XRCETH from annex A14;
// FETH and atomic write from annex A19): one struct each, with the field names of the standard.
//
// Reserved bits of BTH, DETH and XRCETH are kept in the structs, because the ICRC covers most of them: what
// was decoded can be encoded again bit for bit whoever sent it.
#pragma once

#include "roce/wire/bytes.hpp"

namespace sluice::roce::wire {

// Base transport header, first in each packet.
struct Bth {
    static constexpr std::size_t kBytes = 12;
    std::uint8_t opcode = 0;
    bool solicited = false;
    bool migrated = false; // MigReq; rxe sends 0, hardware 1, nobody looks
    std::uint8_t pad = 0;  // bytes between payload and ICRC
    std::uint8_t version = 0;
    std::uint16_t pkey = 0xffff;
    bool fecn = false;
    bool becn = false;
    std::uint8_t reserved6 = 0;
    std::uint32_t dest_qpn = 0;
    bool ack_request = false;
    std::uint8_t reserved7 = 0;
    std::uint32_t psn = 0;

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 8>(h.opcode);
        io.template field<8, 1>(h.solicited);
        io.template field<9, 1>(h.migrated);
        io.template field<10, 2>(h.pad);
        io.template field<12, 4>(h.version);
        io.template field<16, 16>(h.pkey);
        io.template field<32, 1>(h.fecn);
        io.template field<33, 1>(h.becn);
        io.template field<34, 6>(h.reserved6);
        io.template field<40, 24>(h.dest_qpn);
        io.template field<64, 1>(h.ack_request);
        io.template field<65, 7>(h.reserved7);
        io.template field<72, 24>(h.psn);
    }
    bool operator==(const Bth&) const = default;
};

// XRC, in each request: the shared receive queue of the peer that it is for.
struct XrcEth {
    static constexpr std::size_t kBytes = 4;
    std::uint8_t reserved8 = 0;
    std::uint32_t srqn = 0;

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 8>(h.reserved8);
        io.template field<8, 24>(h.srqn);
    }
    bool operator==(const XrcEth&) const = default;
};

// RDMA: where to in the peer's memory.
struct Reth {
    static constexpr std::size_t kBytes = 16;
    std::uint64_t remote_addr = 0;
    std::uint32_t rkey = 0;
    std::uint32_t len_bytes = 0;

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 64>(h.remote_addr);
        io.template field<64, 32>(h.rkey);
        io.template field<96, 32>(h.len_bytes);
    }
    bool operator==(const Reth&) const = default;
};

struct AtomicEth {
    static constexpr std::size_t kBytes = 28;
    std::uint64_t remote_addr = 0;
    std::uint32_t rkey = 0;
    std::uint64_t swap_or_add = 0;
    std::uint64_t compare = 0;

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 64>(h.remote_addr);
        io.template field<64, 32>(h.rkey);
        io.template field<96, 64>(h.swap_or_add);
        io.template field<160, 64>(h.compare);
    }
    bool operator==(const AtomicEth&) const = default;
};

// Acknowledge. The syndromes are in syndrome.hpp.
struct Aeth {
    static constexpr std::size_t kBytes = 4;
    std::uint8_t syndrome = 0;
    std::uint32_t msn = 0;

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 8>(h.syndrome);
        io.template field<8, 24>(h.msn);
    }
    bool operator==(const Aeth&) const = default;
};

struct AtomicAckEth {
    static constexpr std::size_t kBytes = 8;
    std::uint64_t original = 0;

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 64>(h.original);
    }
    bool operator==(const AtomicAckEth&) const = default;
};

// Immediate data: 32 bits whose order is the programs' business; as a number, network order.
struct ImmDt {
    static constexpr std::size_t kBytes = 4;
    std::uint32_t data = 0;

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 32>(h.data);
    }
    bool operator==(const ImmDt&) const = default;
};

// The rkey that a send with invalidate takes away.
struct Ieth {
    static constexpr std::size_t kBytes = 4;
    std::uint32_t rkey = 0;

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 32>(h.rkey);
    }
    bool operator==(const Ieth&) const = default;
};

// Datagram.
struct Deth {
    static constexpr std::size_t kBytes = 8;
    std::uint32_t qkey = 0;
    std::uint8_t reserved8 = 0;
    std::uint32_t src_qpn = 0;

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 32>(h.qkey);
        io.template field<32, 8>(h.reserved8);
        io.template field<40, 24>(h.src_qpn);
    }
    bool operator==(const Deth&) const = default;
};

// Flush: what must have happened to the data, and to which of it.
struct Feth {
    static constexpr std::size_t kBytes = 4;
    static constexpr std::uint8_t kGlobalVisibility = 1;
    static constexpr std::uint8_t kPersistence = 2;
    static constexpr std::uint8_t kRange = 0;
    static constexpr std::uint8_t kWholeRegion = 1;
    std::uint32_t reserved26 = 0;
    std::uint8_t selectivity = kRange;
    std::uint8_t placement = 0; // kGlobalVisibility, kPersistence or both

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 26>(h.reserved26);
        io.template field<26, 2>(h.selectivity);
        io.template field<28, 4>(h.placement);
    }
    bool operator==(const Feth&) const = default;
};

} // namespace sluice::roce::wire
