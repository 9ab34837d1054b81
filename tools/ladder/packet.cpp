// SPDX-License-Identifier: BSD-3-Clause
#include "tools/ladder/packet.hpp"

#include <algorithm>
#include <array>

namespace sluice::tools::ladder {

namespace {

// IBTA vol 1, 9.2: the upper three bits of an opcode are the transport, the others the operation.
constexpr std::uint64_t kCongestionNotification = 0x81, kOperation = 0x1f, kTransport = 0xe0;
constexpr std::uint64_t kReliable = 0x00, kExtendedReliable = 0xa0;
constexpr std::uint64_t kReadResponseFirst = 0x0d, kAcknowledge = 0x11, kAtomicAcknowledge = 0x12;

const sluice_packet_field* find(Fields fields, std::string_view name) {
    const auto found =
        std::ranges::find_if(fields, [&](const sluice_packet_field& field) { return name == field.name; });
    return found == fields.end() ? nullptr : &*found;
}

std::string_view text(Fields fields, std::string_view name) {
    const sluice_packet_field* const field = find(fields, name);
    return field == nullptr ? std::string_view() : field->value;
}

std::uint64_t number(Fields fields, std::string_view name) {
    const sluice_packet_field* const field = find(fields, name);
    return field == nullptr ? 0 : field->number;
}

std::optional<std::uint32_t> optional_number(Fields fields, std::string_view name) {
    const sluice_packet_field* const field = find(fields, name);
    return field == nullptr ? std::nullopt
                            : std::optional<std::uint32_t>(static_cast<std::uint32_t>(field->number));
}

// Bits 5 and 6 of a syndrome (IBTA vol 1, 9.7.5.2.1): 0 acknowledges, 1 says that no receive is there.
Kind answer(std::uint64_t syndrome) {
    const std::uint64_t kind = syndrome >> 5 & 3;
    return kind == 0 ? Kind::kAcknowledgement : kind == 1 ? Kind::kRnrNak : Kind::kNak;
}

Kind reliable(Fields fields, std::uint64_t operation) {
    if (operation == kAcknowledge) {
        return answer(number(fields, "syndrome"));
    }
    return operation >= kReadResponseFirst && operation <= kAtomicAcknowledge ? Kind::kResponse
                                                                              : Kind::kRequest;
}

Kind kind_of(Fields fields) {
    if (find(fields, "opcode") == nullptr) {
        return Kind::kRefused;
    }
    if (find(fields, "cm") != nullptr) {
        return Kind::kConnection;
    }
    const std::uint64_t opcode = number(fields, "opcode");
    if (opcode == kCongestionNotification) {
        return Kind::kCongestion;
    }
    const std::uint64_t transport = opcode & kTransport;
    return transport == kReliable || transport == kExtendedReliable ? reliable(fields, opcode & kOperation)
                                                                    : Kind::kRequest;
}

} // namespace

std::span<const char* const> kind_names() {
    static constexpr std::array kNames{"request", "response",   "acknowledgement", "nak",
                                       "rnr-nak", "connection", "congestion",      "refused"};
    return kNames;
}

Packet packet_of(Fields fields) {
    return {.kind = kind_of(fields),
            .source = text(fields, "source"),
            .destination = text(fields, "destination"),
            .opcode = text(fields, "opcode"),
            .dest_qpn = optional_number(fields, "dest-qpn"),
            .src_qpn = optional_number(fields, "src-qpn"),
            .psn = static_cast<std::uint32_t>(number(fields, "psn")),
            .message = number(fields, "cm"),
            .transaction = number(fields, "transaction"),
            .local_comm_id = optional_number(fields, "local-comm-id"),
            .remote_comm_id = optional_number(fields, "remote-comm-id"),
            .local_qpn = optional_number(fields, "local-qpn")};
}

} // namespace sluice::tools::ladder
