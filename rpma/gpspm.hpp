// SPDX-License-Identifier: BSD-3-Clause
//
// The messages of the general purpose server persistency method: a request to make a range persistent, and
// the answer. They are protobuf messages, as librpma's own examples and fio exchange them:
//
//   message GPSPM_flush_request {          message GPSPM_flush_response {
//     required fixed64 offset = 1;           required fixed64 op_context = 1;
//     required fixed64 length = 2;         }
//     required fixed64 op_context = 3;
//   }
//
// Pure functions. The request's bytes are the peer's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sluice::rpma {

struct FlushRequest {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint64_t op_context = 0; // the peer's, for the answer
};

// Nothing for what is no such message. As protobuf has it, fields come in any order, the last of several
// wins, and fields that nobody knows are skipped. Groups, which no version of the message has, are refused.
std::optional<FlushRequest> flush_request_from(std::span<const std::byte> bytes) noexcept;

constexpr std::size_t kFlushResponseBytes = 9;
std::array<std::byte, kFlushResponseBytes> flush_response_for(const FlushRequest& request) noexcept;

// Whether what REQUEST names is within SIZE bytes. There is no limit to its length beside that.
constexpr bool is_range_of(std::uint64_t size, const FlushRequest& request) noexcept {
    return request.offset <= size && request.length <= size - request.offset;
}

} // namespace sluice::rpma
