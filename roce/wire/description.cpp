// SPDX-License-Identifier: BSD-3-Clause
#include "roce/wire/description.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "roce/wire/cm.hpp"
#include "roce/wire/syndrome.hpp"

namespace sluice::roce::wire {
namespace {

// Takes all fields in turn and keeps the one that was asked for.
class Fields {
  public:
    Fields(unsigned wanted, Field& out) noexcept : left_(wanted), out_(out) {}

    bool found() const noexcept { return found_; }

    void text(const char* name, std::string_view value, std::uint64_t number = 0,
              bool brief = true) noexcept {
        if (take(name, FieldKind::kText, number, brief)) {
            value.copy(out_.value.data(), Field::kMaxValueChars);
        }
    }
    void number(const char* name, std::uint64_t value, bool brief = true) noexcept {
        if (take(name, FieldKind::kNumber, value, brief)) {
            std::snprintf(out_.value.data(), out_.value.size(), "%" PRIu64, value);
        }
    }
    void hex(const char* name, std::uint64_t value, bool brief = true) noexcept {
        if (take(name, FieldKind::kHex, value, brief)) {
            std::snprintf(out_.value.data(), out_.value.size(), "0x%" PRIx64, value);
        }
    }
    // Worth a place on the line only where it is set.
    void flag(const char* name, bool value) noexcept {
        if (take(name, FieldKind::kFlag, value ? 1 : 0, value)) {
            std::string_view(value ? "yes" : "no").copy(out_.value.data(), Field::kMaxValueChars);
        }
    }
    template<std::size_t kBytes>
    void address(const char* name, const std::array<std::uint8_t, kBytes>& bytes,
                 bool brief = true) noexcept {
        static_assert(kBytes == 4 || kBytes == 16);
        std::array<char, INET6_ADDRSTRLEN> value{};
        (void)inet_ntop(kBytes == 4 ? AF_INET : AF_INET6, bytes.data(), value.data(), value.size());
        text(name, value.data(), 0, brief);
    }

  private:
    bool take(const char* name, FieldKind kind, std::uint64_t number, bool brief) noexcept {
        if (found_ || left_-- != 0) {
            return false;
        }
        out_ = {};
        out_.name = name;
        out_.number = number;
        out_.kind = kind;
        out_.brief = brief;
        return found_ = true;
    }

    unsigned left_;
    Field& out_;
    bool found_ = false;
};

const char* refusal_text(Refusal refusal) noexcept {
    switch (refusal) {
    case Refusal::kNone:
        break;
    case Refusal::kTruncated:
        return "shorter than its headers";
    case Refusal::kVersion:
        return "transport version is not 0";
    case Refusal::kOpcode:
        return "unknown opcode";
    case Refusal::kAlignment:
        return "length is no multiple of four";
    case Refusal::kUnexpected:
        return "payload where the opcode has none";
    case Refusal::kNotRoce:
        return "not RoCEv2";
    case Refusal::kIcrc:
        return "wrong checksum";
    }
    return "";
}

void syndrome(Fields& fields, std::uint8_t value) noexcept {
    constexpr std::array kNaks = {"nak: sequence", "nak: invalid request", "nak: remote access",
                                  "nak: remote operational", "nak: invalid RD"};
    std::array<char, 32> text{};
    switch (ack_kind(value)) {
    case AckKind::kAck:
        fields.text("syndrome", "ack", value);
        return;
    case AckKind::kRnrNak:
        std::snprintf(text.data(), text.size(), "receiver not ready, %" PRIu32 " us",
                      kRnrTimerUs[ack_value(value)]);
        fields.text("syndrome", text.data(), value);
        return;
    case AckKind::kNak:
        fields.text("syndrome", ack_value(value) < kNaks.size() ? kNaks[ack_value(value)] : "nak: reserved",
                    value);
        return;
    case AckKind::kReserved:
        fields.text("syndrome", "reserved", value);
    }
}

void bth(Fields& fields, const Bth& header, const OpcodeInfo& info) noexcept {
    fields.text("opcode", info.name, header.opcode);
    fields.hex("dest-qpn", header.dest_qpn);
    fields.number("psn", header.psn);
    fields.flag("ack-request", header.ack_request);
    fields.flag("solicited", header.solicited);
    fields.flag("fecn", header.fecn);
    fields.flag("becn", header.becn);
    fields.flag("migrated", header.migrated);
    fields.hex("pkey", header.pkey, header.pkey != 0xffff);
    fields.number("pad-bytes", header.pad, false);
}

void extensions(Fields& fields, const Packet& packet, const OpcodeInfo& info) noexcept {
    if (info.has(kHasXrcEth)) {
        fields.hex("srqn", packet.xrc.srqn);
    }
    if (info.has(kHasDeth)) {
        fields.hex("src-qpn", packet.deth.src_qpn);
        fields.hex("qkey", packet.deth.qkey);
    }
    if (info.has(kHasFeth)) {
        fields.hex("placement", packet.feth.placement);
        fields.number("selectivity", packet.feth.selectivity);
    }
    if (info.has(kHasReth)) {
        fields.hex("remote-addr", packet.reth.remote_addr);
        fields.hex("rkey", packet.reth.rkey);
        fields.number("message-bytes", packet.reth.len_bytes);
    }
    if (info.has(kHasAtomicEth)) {
        fields.hex("remote-addr", packet.atomic.remote_addr);
        fields.hex("rkey", packet.atomic.rkey);
        fields.hex("swap-or-add", packet.atomic.swap_or_add);
        fields.hex("compare", packet.atomic.compare);
    }
    if (info.has(kHasAeth)) {
        syndrome(fields, packet.aeth.syndrome);
        fields.number("msn", packet.aeth.msn);
    }
    if (info.has(kHasAtomicAckEth)) {
        fields.hex("original", packet.atomic_ack.original);
    }
    if (info.has(kHasImmDt)) {
        fields.hex("immediate", packet.imm.data);
    }
    if (info.has(kHasIeth)) {
        fields.hex("invalidated-rkey", packet.ieth.rkey);
    }
    if (info.has(kHasPayload)) {
        fields.number("payload-bytes", packet.payload.size());
    }
}

const char* rejection(std::uint16_t reason) noexcept {
    switch (reason) {
    case 1:
        return "no queue pair";
    case 3:
        return "no resources";
    case CmRej::kTimeout:
        return "timeout";
    case 5:
        return "unsupported request";
    case 6:
        return "invalid communication id";
    case CmRej::kInvalidServiceId:
        return "nobody listens";
    case 9:
        return "invalid transport";
    case CmRej::kStaleConnection:
        return "stale connection";
    case 24:
    case 25:
        return "redirected";
    case 26:
        return "invalid path MTU";
    case 27:
        return "too few responder resources";
    case CmRej::kConsumer:
        return "by the program";
    case 30:
        return "duplicate communication id";
    default:
        return "other";
    }
}

void service(Fields& fields, std::uint64_t id) noexcept {
    fields.hex("service-id", id);
    const std::uint64_t space = id >> 16;
    if (space == kPortSpaceTcp || space == kPortSpaceUdp || space == kPortSpaceIb) {
        fields.number("port", id & 0xffff);
    }
}

// Programs write names and versions there. What is no text is a dot; what doesn't fit is left out.
void private_data(Fields& fields, ConstBytes bytes) noexcept {
    const auto last = std::find_if(bytes.rbegin(), bytes.rend(), [](std::uint8_t byte) { return byte != 0; });
    const std::size_t used = static_cast<std::size_t>(bytes.rend() - last);
    if (used == 0) {
        return;
    }
    std::array<char, Field::kMaxValueChars> text{};
    const std::size_t len = std::min(used, text.size());
    std::transform(
        bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(len), text.begin(),
        [](std::uint8_t byte) { return byte >= ' ' && byte <= '~' ? static_cast<char>(byte) : '.'; });
    fields.text("private-data", {text.data(), len}, used, false);
}

// What is not spelled out here (paths, capabilities) a dissector shows.
template<typename Message>
void connection(Fields& fields, const Message& message) noexcept {
    constexpr auto kIs = []<typename Other>(std::type_identity<Other>) {
        return std::is_same_v<Message, Other>;
    };
    if constexpr (kIs(std::type_identity<CmSidrReq>{}) || kIs(std::type_identity<CmSidrRep>{})) {
        fields.hex("request-id", message.request_id);
        service(fields, message.service_id);
    } else {
        fields.hex("local-comm-id", message.local_comm_id);
        if constexpr (!kIs(std::type_identity<CmReq>{})) {
            fields.hex("remote-comm-id", message.remote_comm_id);
        }
    }
    if constexpr (kIs(std::type_identity<CmReq>{})) {
        service(fields, message.service_id);
        fields.number("path-mtu",
                      message.path_mtu >= 1 && message.path_mtu <= 5 ? 128U << message.path_mtu : 0);
        fields.number("retry-count", message.retry_count, false);
    }
    if constexpr (kIs(std::type_identity<CmReq>{}) || kIs(std::type_identity<CmRep>{})) {
        fields.hex("local-qpn", message.local_qpn);
        fields.number("starting-psn", message.starting_psn);
        fields.number("responder-resources", message.responder_resources, false);
        fields.number("initiator-depth", message.initiator_depth, false);
        fields.number("rnr-retry-count", message.rnr_retry_count, false);
    }
    if constexpr (kIs(std::type_identity<CmRej>{})) {
        fields.text("reason", rejection(message.reason), message.reason);
    }
    if constexpr (kIs(std::type_identity<CmDreq>{})) {
        fields.hex("remote-qpn", message.remote_qpn);
    }
    if constexpr (kIs(std::type_identity<CmMra>{})) {
        fields.number("service-timeout", message.service_timeout);
    }
    if constexpr (kIs(std::type_identity<CmSidrRep>{})) {
        fields.number("status", message.status);
        fields.hex("local-qpn", message.qpn);
        fields.hex("local-qkey", message.qkey);
    }
    private_data(fields, message.private_data);
}

const char* connection_name(std::uint16_t attribute_id) noexcept {
    constexpr std::array kNames = {"REQ",  "MRA",      "REJ",      "REP", "RTU", "DREQ",
                                   "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};
    const std::size_t index = std::size_t{attribute_id} - CmReq::kAttributeId;
    return attribute_id >= CmReq::kAttributeId && index < kNames.size() ? kNames[index] : "unknown";
}

void management(Fields& fields, ConstBytes payload) noexcept {
    const auto header = decode<MadHeader>(payload.first<MadHeader::kBytes>());
    if (header.management_class != MadHeader::kClassCm) {
        fields.hex("management-class", header.management_class);
        return;
    }
    fields.text("cm", connection_name(header.attribute_id), header.attribute_id);
    fields.hex("transaction", header.transaction_id, false);
    visit_cm(header.attribute_id, payload.subspan<MadHeader::kBytes, kCmBytes>(),
             [&](const auto& message) { connection(fields, message); });
}

void transport(Fields& fields, ConstBytes bytes) noexcept {
    Packet packet;
    const Refusal refusal = parse(bytes, packet);
    if (refusal != Refusal::kNone) {
        fields.text("refusal", refusal_text(refusal), static_cast<std::uint64_t>(refusal));
        return;
    }
    const OpcodeInfo& info = packet.info();
    bth(fields, packet.bth, info);
    extensions(fields, packet, info);
    if (packet.bth.dest_qpn == kGsiQpn && packet.payload.size() == kMadBytes) {
        management(fields, packet.payload);
    }
}

} // namespace

Described describe(ConstBytes datagram, unsigned index, Field& field) noexcept {
    Frame frame;
    if (parse_frame(datagram, frame) != Refusal::kNone) {
        return Described::kNoPacket;
    }
    Fields fields(index, field);
    if (frame.is_ipv6) {
        fields.address("source", frame.ipv6.source);
        fields.address("destination", frame.ipv6.destination);
    } else {
        fields.address("source", frame.ipv4.source);
        fields.address("destination", frame.ipv4.destination);
        fields.number("identification", frame.ipv4.identification, false);
    }
    fields.number("source-port", frame.udp.source_port, false);
    transport(fields, frame.transport);
    const bool valid = expected_icrc(frame) == frame.icrc;
    fields.text("icrc", valid ? "ok" : "bad", frame.icrc);
    return fields.found() ? Described::kField : Described::kEnd;
}

} // namespace sluice::roce::wire
