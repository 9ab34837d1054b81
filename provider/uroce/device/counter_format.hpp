// SPDX-License-Identifier: BSD-3-Clause
//
// The file in which a process counts, which others read while it runs and afterwards (ADR 76). It says itself
// what its numbers are called, so that a reader of another version understands it: only what stands here must
// stay as it is, or get another magic word.
//
//     FileHeader, then `counters` names, up to kRoomsAt
//     room 0, room 1, ... each one device, with a number for each name, in the names' order
#pragma once

#include <array>
#include <cstdint>

#include "core/count.hpp"

namespace sluice::uroce::device {

inline constexpr std::array<char, 8> kCounterMagic{'S', 'L', 'U', 'C', 'N', 'T', '0', '1'};
inline constexpr std::size_t kMaxCounters = 192;
inline constexpr std::size_t kMaxCounterRooms = 256;
inline constexpr std::size_t kCounterNameBytes = 40; // with the zero behind it

using CounterName = std::array<char, kCounterNameBytes>;

struct FileHeader {
    std::array<char, 8> magic; // written last
    std::uint32_t counters;    // of each room
    std::int32_t pid;          // as the process sees itself
    std::uint64_t opened_ns;   // since 1970
    std::array<char, 64> command;
    std::array<CounterName, kMaxCounters> names; // empty: nothing is counted in this place
};

struct RoomName {
    std::array<char, 64> device; // empty: nobody's
    std::array<char, 64> address;
};

struct CounterRoom {
    RoomName name;
    std::array<Count, kMaxCounters> values;
};

inline constexpr std::size_t kRoomsAt = 8192;
inline constexpr std::size_t kRoomBytes = 2048;
inline constexpr std::size_t kCounterFileBytes = kRoomsAt + kMaxCounterRooms * kRoomBytes;
static_assert(sizeof(FileHeader) <= kRoomsAt && sizeof(CounterRoom) <= kRoomBytes);

inline constexpr const char* kCounterFilePrefix = "sluice-counters-";

} // namespace sluice::uroce::device
