// SPDX-License-Identifier: BSD-3-Clause
//
// The messages that a connection sends, made from what is known of it. Pure functions. Fields that
// RoCEv2 has no use for are as rdma_cm sends them.
#pragma once

#include "roce/cm/connection.hpp"

namespace sluice::roce::cm {

template<typename Message>
Mad to_mad(std::uint64_t transaction_id, const Message& message) noexcept {
    wire::MadHeader header;
    header.transaction_id = transaction_id;
    header.attribute_id = Message::kAttributeId;
    Mad mad{};
    const std::span<std::uint8_t, wire::kMadBytes> bytes(mad);
    wire::encode(header, bytes.first<wire::MadHeader::kBytes>());
    wire::encode(message, bytes.subspan<wire::MadHeader::kBytes, wire::kCmBytes>());
    return mad;
}

// Whether private data of requests to SERVICE_ID begins with rdma_cm's header.
constexpr bool carries_ip_header(std::uint64_t service_id) noexcept {
    const std::uint64_t space = service_id >> 16;
    return space == wire::kPortSpaceTcp || space == wire::kPortSpaceUdp || space == wire::kPortSpaceIb;
}

// How much of the program's data fits into a request.
constexpr std::size_t request_capacity(std::uint64_t service_id, bool datagram) noexcept {
    const std::size_t plain = datagram ? kSidrRequestData + wire::CmIpHeader::kBytes : kPlainRequestData;
    return carries_ip_header(service_id) ? plain - wire::CmIpHeader::kBytes : plain;
}

// The header as our requests carry it, and whether one says what its packet's addresses say.
wire::CmIpHeader ip_header(const Connection& c) noexcept;
bool ip_header_fits(const wire::CmIpHeader& header, const engine::Address& source,
                    const engine::Address& destination) noexcept;

// Data too long for its field doesn't come here.
Mad make_req(const Connection& c, const ManagerConfig& config, std::span<const std::uint8_t> data) noexcept;
Mad make_rep(const Connection& c, const ManagerConfig& config, std::span<const std::uint8_t> data) noexcept;
Mad make_rtu(const Connection& c) noexcept;
Mad make_mra(const Connection& c, Refused message, std::uint8_t service_timeout) noexcept;
Mad make_rej(const Connection& c, const ManagerConfig& config, Refused message, std::uint16_t why,
             std::span<const std::uint8_t> data) noexcept;
Mad make_dreq(const Connection& c, std::uint64_t transaction_id) noexcept;
// Asks for no path that is worth having.
Mad make_lap(const Connection& c, std::uint64_t transaction_id) noexcept;
Mad make_drep(const wire::CmDreq& dreq, std::uint64_t transaction_id) noexcept;
Mad make_sidr_req(const Connection& c, std::span<const std::uint8_t> data) noexcept;
Mad make_sidr_rep(const Connection& c, std::uint8_t status, std::uint32_t qkey,
                  std::span<const std::uint8_t> data) noexcept;

} // namespace sluice::roce::cm
