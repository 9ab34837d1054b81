// SPDX-License-Identifier: BSD-3-Clause
#include "roce/cm/messages.hpp"

namespace sluice::roce::cm {
namespace {

// As the header writes it: an IPv4 address alone in the last four bytes.
wire::Gid in_header(const engine::Address& address) noexcept {
    wire::Gid bare = address.gid;
    if (engine::is_ipv4(address)) {
        std::fill_n(bare.begin(), engine::kMappedPrefix.size(), std::uint8_t{0});
    }
    return bare;
}

template<std::size_t kSize>
void put_private(std::array<std::uint8_t, kSize>& field, std::size_t at,
                 std::span<const std::uint8_t> data) noexcept {
    std::copy_n(data.begin(), std::min(data.size(), kSize - at),
                field.begin() + static_cast<std::ptrdiff_t>(at));
}

// Behind rdma_cm's header, if SERVICE_ID has one.
template<std::size_t kSize>
void put_request_data(std::array<std::uint8_t, kSize>& field, const Connection& c,
                      std::span<const std::uint8_t> data) noexcept {
    std::size_t at = 0;
    if (carries_ip_header(c.service_id)) {
        wire::encode(ip_header(c), std::span(field).template first<wire::CmIpHeader::kBytes>());
        at = wire::CmIpHeader::kBytes;
    }
    put_private(field, at, data);
}

} // namespace

wire::CmIpHeader ip_header(const Connection& c) noexcept {
    wire::CmIpHeader header;
    header.ip_version = engine::is_ipv4(c.peer) ? 4 : 6;
    header.source_port = c.local_port;
    header.source = in_header(c.local);
    header.destination = in_header(c.peer);
    return header;
}

bool ip_header_fits(const wire::CmIpHeader& header, const engine::Address& source,
                    const engine::Address& destination) noexcept {
    const std::uint8_t version = engine::is_ipv4(source) ? 4 : 6;
    if (header.version != 0 || header.ip_version != version) {
        return false;
    }
    if (version == 6) {
        return header.source == source.gid && header.destination == destination.gid;
    }
    // What stands before an IPv4 address isn't specified.
    const auto same = [](const wire::Gid& a, const engine::Address& b) {
        return std::equal(a.begin() + engine::kMappedPrefix.size(), a.end(),
                          b.gid.begin() + engine::kMappedPrefix.size());
    };
    return same(header.source, source) && same(header.destination, destination);
}

Mad make_req(const Connection& c, const ManagerConfig& config, std::span<const std::uint8_t> data) noexcept {
    wire::CmReq req;
    req.local_comm_id = c.comm_id;
    req.service_id = c.service_id;
    req.local_ca_guid = config.guid;
    req.local_qpn = c.qpn;
    req.responder_resources = c.responder_resources;
    req.initiator_depth = c.initiator_depth;
    req.remote_cm_response_timeout = req.local_cm_response_timeout = c.timing.response_timeout;
    req.flow_control = c.flow_control;
    req.starting_psn = c.recv_psn;
    req.retry_count = c.retry_count;
    req.path_mtu = c.path_mtu;
    req.rnr_retry_count = c.rnr_retry_for_peer;
    req.max_cm_retries = c.timing.max_retries;
    req.srq = c.srq;
    wire::CmPath path;
    path.local_gid = c.local.gid;
    path.remote_gid = c.peer.gid;
    path.flow_label = c.flow_label;
    path.traffic_class = c.traffic_class;
    path.hop_limit = c.hop_limit;
    path.local_ack_timeout = ack_timeout_code(config.ack_delay, c.timing.packet_lifetime);
    wire::encode(path, std::span<std::uint8_t, wire::CmPath::kBytes>(req.primary_path));
    put_request_data(req.private_data, c, data);
    return to_mad(c.tid, req);
}

Mad make_rep(const Connection& c, const ManagerConfig& config, std::span<const std::uint8_t> data) noexcept {
    constexpr std::uint8_t kFailoverNotSupported = 1;
    wire::CmRep rep;
    rep.local_comm_id = c.comm_id;
    rep.remote_comm_id = c.remote_comm_id;
    rep.local_qpn = c.qpn;
    rep.starting_psn = c.recv_psn;
    rep.responder_resources = c.responder_resources;
    rep.initiator_depth = c.initiator_depth;
    rep.target_ack_delay = config.ack_delay;
    rep.failover_accepted = c.alternate_path ? kFailoverNotSupported : 0;
    rep.flow_control = c.flow_control;
    rep.rnr_retry_count = c.rnr_retry_for_peer;
    rep.srq = c.srq;
    rep.local_ca_guid = config.guid;
    put_private(rep.private_data, 0, data);
    return to_mad(c.tid, rep);
}

Mad make_rtu(const Connection& c) noexcept {
    wire::CmRtu rtu;
    rtu.local_comm_id = c.comm_id;
    rtu.remote_comm_id = c.remote_comm_id;
    return to_mad(c.tid, rtu);
}

Mad make_mra(const Connection& c, Refused message, std::uint8_t service_timeout) noexcept {
    wire::CmMra mra;
    mra.local_comm_id = c.comm_id;
    mra.remote_comm_id = c.remote_comm_id;
    mra.message = static_cast<std::uint8_t>(message);
    mra.service_timeout = service_timeout;
    return to_mad(c.tid, mra);
}

Mad make_rej(const Connection& c, const ManagerConfig& config, Refused message, std::uint16_t why,
             std::span<const std::uint8_t> data) noexcept {
    wire::CmRej rej;
    rej.local_comm_id = c.comm_id;
    rej.remote_comm_id = c.remote_comm_id;
    rej.message = static_cast<std::uint8_t>(message);
    rej.reason = why;
    if (why == reason::kTimeout) {
        // A peer that never answered has told us no id: it knows us by device and id.
        for (std::size_t i = 0; i < sizeof config.guid; ++i) {
            rej.info[i] = static_cast<std::uint8_t>(config.guid >> (56 - 8 * i));
        }
        rej.info_bytes = sizeof config.guid;
    }
    put_private(rej.private_data, 0, data);
    return to_mad(c.tid, rej);
}

Mad make_dreq(const Connection& c, std::uint64_t transaction_id) noexcept {
    wire::CmDreq dreq;
    dreq.local_comm_id = c.comm_id;
    dreq.remote_comm_id = c.remote_comm_id;
    dreq.remote_qpn = c.peer_qpn;
    return to_mad(transaction_id, dreq);
}

Mad make_lap(const Connection& c, std::uint64_t transaction_id) noexcept {
    wire::CmLap lap;
    lap.local_comm_id = c.comm_id;
    lap.remote_comm_id = c.remote_comm_id;
    lap.remote_qpn = c.peer_qpn;
    lap.remote_cm_response_timeout = c.timing.response_timeout;
    lap.alternate_local_gid = c.local.gid;
    lap.alternate_remote_gid = c.peer.gid;
    lap.hop_limit = c.hop_limit;
    lap.local_ack_timeout = c.ack_timeout;
    return to_mad(transaction_id, lap);
}

Mad make_drep(const wire::CmDreq& dreq, std::uint64_t transaction_id) noexcept {
    wire::CmDrep drep;
    drep.local_comm_id = dreq.remote_comm_id;
    drep.remote_comm_id = dreq.local_comm_id;
    return to_mad(transaction_id, drep);
}

Mad make_sidr_req(const Connection& c, std::span<const std::uint8_t> data) noexcept {
    wire::CmSidrReq req;
    req.request_id = c.comm_id;
    req.service_id = c.service_id;
    put_request_data(req.private_data, c, data);
    return to_mad(c.tid, req);
}

Mad make_sidr_rep(const Connection& c, std::uint8_t status, std::uint32_t qkey,
                  std::span<const std::uint8_t> data) noexcept {
    wire::CmSidrRep rep;
    rep.request_id = c.remote_comm_id;
    rep.status = status;
    rep.qpn = status == kSidrValid ? c.qpn : 0;
    rep.service_id = c.service_id;
    rep.qkey = status == kSidrValid ? qkey : 0;
    put_private(rep.private_data, 0, data);
    return to_mad(c.tid, rep);
}

} // namespace sluice::roce::cm
