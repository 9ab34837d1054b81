// SPDX-License-Identifier: BSD-3-Clause
//
// What a ladder has to know about a packet, out of its fields in words.
#pragma once

#include <sluice/sluice.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sluice::tools::ladder {

using Fields = std::span<const sluice_packet_field>;

// In the order of the names in kind_names().
enum class Kind : std::uint8_t {
    kRequest,
    kResponse, // of a Read or an atomic operation
    kAcknowledgement,
    kNak,
    kRnrNak,
    kConnection, // a message of the connection manager
    kCongestion,
    kRefused, // its headers make no sense
};
std::span<const char* const> kind_names();

// Views lead into the fields that it was made from.
struct Packet {
    Kind kind = Kind::kRefused;
    std::string_view source{};
    std::string_view destination{};
    std::string_view opcode{};
    std::optional<std::uint32_t> dest_qpn{};
    std::optional<std::uint32_t> src_qpn{}; // only datagrams tell it
    std::uint32_t psn = 0;
    // Of the connection manager's messages:
    std::uint64_t message = 0; // REQ, REP, ...
    std::uint64_t transaction = 0;
    std::optional<std::uint32_t> local_comm_id{};
    std::optional<std::uint32_t> remote_comm_id{};
    std::optional<std::uint32_t> local_qpn{};
};

Packet packet_of(Fields fields);

} // namespace sluice::tools::ladder
