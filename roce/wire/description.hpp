// SPDX-License-Identifier: BSD-3-Clause
//
// A packet in words, field by field: what sluice_describe_packet() gives out.
#pragma once

#include <sluice/sluice.h>

#include "roce/wire/frame.hpp"

namespace sluice::uroce::wire {

enum class Described : std::uint8_t { kField, kEnd, kNoPacket };

// The field at INDEX of the packet that DATAGRAM, which begins with the IP header, is. FIELD is written
// on kField only. A packet that parse() would refuse still has addresses, its refusal and its ICRC.
Described describe(ConstBytes datagram, unsigned index, sluice_packet_field& field) noexcept;

} // namespace sluice::uroce::wire
