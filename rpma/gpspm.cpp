// SPDX-License-Identifier: BSD-3-Clause
//
// The clauses are those of protobuf's encoding: a record is a tag (field number and wire type) and its
// payload.
#include "rpma/gpspm.hpp"

#include "rpma/little_endian.hpp"

namespace sluice::rpma {

namespace {

enum WireType : unsigned { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

constexpr unsigned kWireTypeBits = 3;
constexpr unsigned kVarintBits = 7;
constexpr unsigned kLastVarintShift = 63; // of the tenth byte, which has one bit
constexpr std::uint64_t kFields = 3;
constexpr std::byte kOpContextOfResponse{1 << kWireTypeBits | kFixed64};

using Bytes = std::span<const std::byte>;

// Takes COUNT bytes off.
bool skip(Bytes& bytes, std::uint64_t count) noexcept {
    if (count > bytes.size()) {
        return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    return true;
}

std::optional<std::uint64_t> take_varint(Bytes& bytes) noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift <= kLastVarintShift && !bytes.empty(); shift += kVarintBits) {
        const auto byte = std::to_integer<std::uint64_t>(bytes.front());
        bytes = bytes.subspan(1);
        const std::uint64_t bits = byte & 0x7f;
        if (shift == kLastVarintShift && bits > 1) {
            return std::nullopt; // beyond 64 bits
        }
        value |= bits << shift;
        if (byte == bits) {
            return value;
        }
    }
    return std::nullopt;
}

bool skip_payload(Bytes& bytes, unsigned wire_type) noexcept {
    switch (wire_type) {
    case kVarint:
        return take_varint(bytes).has_value();
    case kFixed64:
        return skip(bytes, sizeof(std::uint64_t));
    case kFixed32:
        return skip(bytes, sizeof(std::uint32_t));
    case kLengthDelimited: {
        const std::optional<std::uint64_t> length = take_varint(bytes);
        return length && skip(bytes, *length);
    }
    default:
        return false;
    }
}

// A record off the beginning of BYTES, into VALUES where it is one of ours; MET gets its bit.
bool take_record(Bytes& bytes, std::array<std::uint64_t, kFields>& values, unsigned& met) noexcept {
    const std::optional<std::uint64_t> tag = take_varint(bytes);
    if (!tag) {
        return false;
    }
    const std::uint64_t field = *tag >> kWireTypeBits;
    const auto wire_type = static_cast<unsigned>(*tag & ((1U << kWireTypeBits) - 1));
    if (field == 0 || field > kFields) {
        return field != 0 && skip_payload(bytes, wire_type);
    }
    if (wire_type != kFixed64 || bytes.size() < sizeof(std::uint64_t)) {
        return false;
    }
    values[field - 1] = get_little_endian<std::uint64_t>(bytes.data());
    met |= 1U << (field - 1);
    return skip(bytes, sizeof(std::uint64_t));
}

} // namespace

std::optional<FlushRequest> flush_request_from(std::span<const std::byte> bytes) noexcept {
    std::array<std::uint64_t, kFields> values{};
    unsigned met = 0;
    while (!bytes.empty()) {
        if (!take_record(bytes, values, met)) {
            return std::nullopt;
        }
    }
    if (met != (1U << kFields) - 1) {
        return std::nullopt; // all are required
    }
    return FlushRequest{values[0], values[1], values[2]};
}

std::array<std::byte, kFlushResponseBytes> flush_response_for(const FlushRequest& request) noexcept {
    std::array<std::byte, kFlushResponseBytes> bytes{kOpContextOfResponse};
    put_little_endian(request.op_context, bytes.data() + 1);
    return bytes;
}

} // namespace sluice::rpma
