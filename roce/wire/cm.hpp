// SPDX-License-Identifier: BSD-3-Clause
//
// The messages of the communication manager (IBTA vol 1, 12.6 to 12.11), each the 232 bytes that
// follow the MAD header, and the private data header by which rdma_cm carries IP addresses (annex
// A11). Fields have the standard's names; reserved ones are ignored and written as zero.
//
// A comment next to a starting PSN, because it is easily taken the other way round: it is the PSN
// from which the *receiver* of the message shall send, that is, what its sender expects first.
#pragma once

#include "roce/wire/mad.hpp"

namespace sluice::roce::wire {

inline constexpr std::size_t kCmBytes = kMadBytes - MadHeader::kBytes;

using Gid = std::array<std::uint8_t, 16>;

// A path of a REQ; byte offsets are relative to its LIDs and equal for both.
struct CmPath {
    static constexpr std::size_t kBytes = 44;
    std::uint16_t local_lid = 0xffff; // 0xffff when routed, as RoCEv2 always is
    std::uint16_t remote_lid = 0xffff;
    Gid local_gid{};
    Gid remote_gid{};
    std::uint32_t flow_label = 0;
    std::uint8_t packet_rate = 0;
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 0;
    std::uint8_t service_level = 0;
    bool subnet_local = false;
    std::uint8_t local_ack_timeout = 0;

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 16>(h.local_lid);
        io.template field<16, 16>(h.remote_lid);
        io.template bytes<4>(h.local_gid);
        io.template bytes<20>(h.remote_gid);
        io.template field<288, 20>(h.flow_label);
        io.template field<314, 6>(h.packet_rate);
        io.template field<320, 8>(h.traffic_class);
        io.template field<328, 8>(h.hop_limit);
        io.template field<336, 4>(h.service_level);
        io.template field<340, 1>(h.subnet_local);
        io.template field<344, 5>(h.local_ack_timeout);
    }
    bool operator==(const CmPath&) const = default;
};

struct CmReq {
    static constexpr std::size_t kBytes = kCmBytes;
    static constexpr std::uint16_t kAttributeId = 0x10;
    std::uint32_t local_comm_id = 0;
    std::uint64_t service_id = 0;
    std::uint64_t local_ca_guid = 0;
    std::uint32_t local_qkey = 0;
    std::uint32_t local_qpn = 0;
    std::uint8_t responder_resources = 0;
    std::uint32_t local_eecn = 0;
    std::uint8_t initiator_depth = 0;
    std::uint32_t remote_eecn = 0;
    std::uint8_t remote_cm_response_timeout = 0;
    std::uint8_t transport_type = 0; // 0 is RC
    bool flow_control = false;
    std::uint32_t starting_psn = 0; // what the receiver of this REQ shall start with
    std::uint8_t local_cm_response_timeout = 0;
    std::uint8_t retry_count = 0;
    std::uint16_t pkey = 0xffff;
    std::uint8_t path_mtu = 0; // 1 is 256, 5 is 4096
    bool rdc_exists = false;
    std::uint8_t rnr_retry_count = 0;
    std::uint8_t max_cm_retries = 0;
    bool srq = false;
    std::uint8_t extended_transport = 0;
    std::array<std::uint8_t, CmPath::kBytes> primary_path{}; // a CmPath
    std::array<std::uint8_t, CmPath::kBytes> alternate_path{};
    std::array<std::uint8_t, 92> private_data{};

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 32>(h.local_comm_id);
        io.template field<64, 64>(h.service_id);
        io.template field<128, 64>(h.local_ca_guid);
        io.template field<224, 32>(h.local_qkey);
        io.template field<256, 24>(h.local_qpn);
        io.template field<280, 8>(h.responder_resources);
        io.template field<288, 24>(h.local_eecn);
        io.template field<312, 8>(h.initiator_depth);
        io.template field<320, 24>(h.remote_eecn);
        io.template field<344, 5>(h.remote_cm_response_timeout);
        io.template field<349, 2>(h.transport_type);
        io.template field<351, 1>(h.flow_control);
        io.template field<352, 24>(h.starting_psn);
        io.template field<376, 5>(h.local_cm_response_timeout);
        io.template field<381, 3>(h.retry_count);
        io.template field<384, 16>(h.pkey);
        io.template field<400, 4>(h.path_mtu);
        io.template field<404, 1>(h.rdc_exists);
        io.template field<405, 3>(h.rnr_retry_count);
        io.template field<408, 4>(h.max_cm_retries);
        io.template field<412, 1>(h.srq);
        io.template field<413, 3>(h.extended_transport);
        io.template bytes<52>(h.primary_path);
        io.template bytes<96>(h.alternate_path);
        io.template bytes<140>(h.private_data);
    }
    bool operator==(const CmReq&) const = default;
};

struct CmMra {
    static constexpr std::size_t kBytes = kCmBytes;
    static constexpr std::uint16_t kAttributeId = 0x11;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint8_t message = 0; // 0 REQ, 1 REP, 2 LAP
    std::uint8_t service_timeout = 0;
    std::array<std::uint8_t, 222> private_data{};

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 32>(h.local_comm_id);
        io.template field<32, 32>(h.remote_comm_id);
        io.template field<64, 2>(h.message);
        io.template field<72, 5>(h.service_timeout);
        io.template bytes<10>(h.private_data);
    }
    bool operator==(const CmMra&) const = default;
};

struct CmRej {
    static constexpr std::size_t kBytes = kCmBytes;
    static constexpr std::uint16_t kAttributeId = 0x12;
    static constexpr std::uint16_t kTimeout = 4, kInvalidServiceId = 8, kStaleConnection = 10, kConsumer = 28;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint8_t message = 0; // 0 REQ, 1 REP, 2 something else
    std::uint8_t info_bytes = 0;
    std::uint16_t reason = 0;
    std::array<std::uint8_t, 72> info{};
    std::array<std::uint8_t, 148> private_data{};

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 32>(h.local_comm_id);
        io.template field<32, 32>(h.remote_comm_id);
        io.template field<64, 2>(h.message);
        io.template field<72, 7>(h.info_bytes);
        io.template field<80, 16>(h.reason);
        io.template bytes<12>(h.info);
        io.template bytes<84>(h.private_data);
    }
    bool operator==(const CmRej&) const = default;
};

struct CmRep {
    static constexpr std::size_t kBytes = kCmBytes;
    static constexpr std::uint16_t kAttributeId = 0x13;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint32_t local_qkey = 0;
    std::uint32_t local_qpn = 0;
    std::uint32_t local_eecn = 0;
    std::uint32_t starting_psn = 0; // what the receiver of this REP shall start with
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
    std::uint8_t target_ack_delay = 0;
    std::uint8_t failover_accepted = 0;
    bool flow_control = false;
    std::uint8_t rnr_retry_count = 0;
    bool srq = false;
    std::uint64_t local_ca_guid = 0;
    std::array<std::uint8_t, 196> private_data{};

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 32>(h.local_comm_id);
        io.template field<32, 32>(h.remote_comm_id);
        io.template field<64, 32>(h.local_qkey);
        io.template field<96, 24>(h.local_qpn);
        io.template field<128, 24>(h.local_eecn);
        io.template field<160, 24>(h.starting_psn);
        io.template field<192, 8>(h.responder_resources);
        io.template field<200, 8>(h.initiator_depth);
        io.template field<208, 5>(h.target_ack_delay);
        io.template field<213, 2>(h.failover_accepted);
        io.template field<215, 1>(h.flow_control);
        io.template field<216, 3>(h.rnr_retry_count);
        io.template field<219, 1>(h.srq);
        io.template field<224, 64>(h.local_ca_guid);
        io.template bytes<36>(h.private_data);
    }
    bool operator==(const CmRep&) const = default;
};

// RTU and DREP have the same form.
template<std::uint16_t kId>
struct CmTwoIds {
    static constexpr std::size_t kBytes = kCmBytes;
    static constexpr std::uint16_t kAttributeId = kId;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::array<std::uint8_t, 224> private_data{};

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 32>(h.local_comm_id);
        io.template field<32, 32>(h.remote_comm_id);
        io.template bytes<8>(h.private_data);
    }
    bool operator==(const CmTwoIds&) const = default;
};
using CmRtu = CmTwoIds<0x14>;
using CmDrep = CmTwoIds<0x16>;

struct CmDreq {
    static constexpr std::size_t kBytes = kCmBytes;
    static constexpr std::uint16_t kAttributeId = 0x15;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint32_t remote_qpn = 0;
    std::array<std::uint8_t, 220> private_data{};

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 32>(h.local_comm_id);
        io.template field<32, 32>(h.remote_comm_id);
        io.template field<64, 24>(h.remote_qpn);
        io.template bytes<12>(h.private_data);
    }
    bool operator==(const CmDreq&) const = default;
};

struct CmSidrReq {
    static constexpr std::size_t kBytes = kCmBytes;
    static constexpr std::uint16_t kAttributeId = 0x17;
    std::uint32_t request_id = 0;
    std::uint16_t pkey = 0xffff;
    std::uint64_t service_id = 0;
    std::array<std::uint8_t, 216> private_data{};

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 32>(h.request_id);
        io.template field<32, 16>(h.pkey);
        io.template field<64, 64>(h.service_id);
        io.template bytes<16>(h.private_data);
    }
    bool operator==(const CmSidrReq&) const = default;
};

struct CmSidrRep {
    static constexpr std::size_t kBytes = kCmBytes;
    static constexpr std::uint16_t kAttributeId = 0x18;
    std::uint32_t request_id = 0;
    std::uint8_t status = 0; // 0: the QPN and Q_Key are valid
    std::uint8_t info_bytes = 0;
    std::uint32_t qpn = 0;
    std::uint64_t service_id = 0;
    std::uint32_t qkey = 0;
    std::array<std::uint8_t, 72> info{};
    std::array<std::uint8_t, 136> private_data{};

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 32>(h.request_id);
        io.template field<32, 8>(h.status);
        io.template field<40, 8>(h.info_bytes);
        io.template field<64, 24>(h.qpn);
        io.template field<96, 64>(h.service_id);
        io.template field<160, 32>(h.qkey);
        io.template bytes<24>(h.info);
        io.template bytes<96>(h.private_data);
    }
    bool operator==(const CmSidrRep&) const = default;
};

struct CmLap {
    static constexpr std::size_t kBytes = kCmBytes;
    static constexpr std::uint16_t kAttributeId = 0x19;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint32_t remote_qpn = 0;
    std::uint8_t remote_cm_response_timeout = 0;
    std::uint16_t alternate_local_lid = 0xffff;
    std::uint16_t alternate_remote_lid = 0xffff;
    Gid alternate_local_gid{};
    Gid alternate_remote_gid{};
    std::uint32_t flow_label = 0;
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 0;
    std::uint8_t packet_rate = 0;
    std::uint8_t service_level = 0;
    bool subnet_local = false;
    std::uint8_t local_ack_timeout = 0;
    std::array<std::uint8_t, 168> private_data{};

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 32>(h.local_comm_id);
        io.template field<32, 32>(h.remote_comm_id);
        io.template field<96, 24>(h.remote_qpn);
        io.template field<120, 5>(h.remote_cm_response_timeout);
        io.template field<160, 16>(h.alternate_local_lid);
        io.template field<176, 16>(h.alternate_remote_lid);
        io.template bytes<24>(h.alternate_local_gid);
        io.template bytes<40>(h.alternate_remote_gid);
        io.template field<448, 20>(h.flow_label);
        io.template field<472, 8>(h.traffic_class);
        io.template field<480, 8>(h.hop_limit);
        io.template field<490, 6>(h.packet_rate);
        io.template field<496, 4>(h.service_level);
        io.template field<500, 1>(h.subnet_local);
        io.template field<504, 5>(h.local_ack_timeout);
        io.template bytes<64>(h.private_data);
    }
    bool operator==(const CmLap&) const = default;
};

struct CmApr {
    static constexpr std::size_t kBytes = kCmBytes;
    static constexpr std::uint16_t kAttributeId = 0x1a;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint8_t info_bytes = 0;
    std::uint8_t status = 0;
    std::array<std::uint8_t, 72> info{};
    std::array<std::uint8_t, 148> private_data{};

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 32>(h.local_comm_id);
        io.template field<32, 32>(h.remote_comm_id);
        io.template field<64, 8>(h.info_bytes);
        io.template field<72, 8>(h.status);
        io.template bytes<12>(h.info);
        io.template bytes<84>(h.private_data);
    }
    bool operator==(const CmApr&) const = default;
};

// First in the private data of REQ and SIDR_REQ when the service is of the IP address space.
struct CmIpHeader {
    static constexpr std::size_t kBytes = 36;
    std::uint8_t version = 0;
    std::uint8_t ip_version = 4;
    std::uint16_t source_port = 0;
    Gid source{}; // an IPv4 address is in the last four bytes
    Gid destination{};

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 8>(h.version);
        io.template field<8, 4>(h.ip_version);
        io.template field<16, 16>(h.source_port);
        io.template bytes<4>(h.source);
        io.template bytes<20>(h.destination);
    }
    bool operator==(const CmIpHeader&) const = default;
};

// The service id of an rdma_cm port: its port space, then the port.
constexpr std::uint64_t cm_service_id(std::uint16_t port_space, std::uint16_t port) noexcept {
    return std::uint64_t{port_space} << 16 | port;
}
inline constexpr std::uint16_t kPortSpaceTcp = 0x0106, kPortSpaceUdp = 0x0111, kPortSpaceIb = 0x013f;

// Decodes the message that ATTRIBUTE_ID names and calls VISIT with it; false when there is no such.
template<typename Visitor>
constexpr bool visit_cm(std::uint16_t attribute_id, std::span<const std::uint8_t, kCmBytes> bytes,
                        Visitor&& visit) {
    const auto try_one = [&]<typename Message>(std::type_identity<Message>) {
        if (attribute_id != Message::kAttributeId) {
            return false;
        }
        visit(decode<Message>(bytes));
        return true;
    };
    const auto try_all = [&]<typename... Messages>(std::type_identity<Messages>... one) {
        return (try_one(one) || ...);
    };
    return try_all(std::type_identity<CmReq>{}, std::type_identity<CmMra>{}, std::type_identity<CmRej>{},
                   std::type_identity<CmRep>{}, std::type_identity<CmRtu>{}, std::type_identity<CmDreq>{},
                   std::type_identity<CmDrep>{}, std::type_identity<CmSidrReq>{},
                   std::type_identity<CmSidrRep>{}, std::type_identity<CmLap>{}, std::type_identity<CmApr>{});
}

} // namespace sluice::roce::wire
