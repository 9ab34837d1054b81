// SPDX-License-Identifier: BSD-3-Clause
//
// A packet in words, field by field.
#pragma once

#include <array>
#include <cstdint>

#include "roce/wire/frame.hpp"

namespace sluice::roce::wire {

enum class FieldKind : std::uint8_t {
    kText,   // the text is enough; the number is the code that it stands for
    kNumber, // a count or a size
    kHex,    // a key, an address, a number of something
    kFlag,   // 0 or 1
};

struct Field {
    static constexpr std::size_t kMaxValueChars = 95;

    const char* name = ""; // the same in all versions
    std::array<char, kMaxValueChars + 1> value{};
    std::uint64_t number = 0;
    FieldKind kind = FieldKind::kText;
    bool brief = false; // belongs on a line that shows the packet at a glance
};

enum class Described : std::uint8_t { kField, kEnd, kNoPacket };

// The field at INDEX of the packet that DATAGRAM, which begins with the IP header, is. FIELD is written
// on kField only. A packet that parse() would refuse still has addresses, its refusal and its ICRC.
Described describe(ConstBytes datagram, unsigned index, Field& field) noexcept;

} // namespace sluice::roce::wire
