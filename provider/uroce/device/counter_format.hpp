// SPDX-License-Identifier: BSD-3-Clause
//
// The file in which a process counts, which others read while it runs and afterwards (ADR 76). It says itself
// what its numbers are called, so that a reader of another version understands it: only what stands here must
// stay as it is, or get another magic word.
//
//     FileHeader, then `counters` names, up to kRoomsAt
//     room 0, room 1, ... each one device, with a number for each name, in the names' order
//     from kRowsHeadAt: RowsHeader, then up to `used` rows, each a queue pair that exists, or nobody's. A
//     file of an older version ends before it.
#pragma once

#include <array>
#include <cstdint>

#include "core/count.hpp"
#include "roce/engine/queue_pair_row.hpp"

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

inline constexpr std::array<char, 8> kRowsMagic{'S', 'L', 'U', 'Q', 'P', 'S', '0', '1'};
inline constexpr std::size_t kMaxRows = 4096;
inline constexpr std::size_t kMaxRowCounters = 23;

struct RowsHeader {
    std::array<char, 8> magic; // written last
    std::uint32_t counters;    // of each row
    std::uint32_t reserved;
    Count used; // no row at or behind this was ever somebody's
    std::array<CounterName, kMaxRowCounters> names;
};

// The counters begin behind what a row says of its queue pair.
struct QueuePairInFile {
    Count room; // of its device
    roce::engine::QueuePairRow row;
};

inline constexpr std::size_t kRowsHeadAt = kCounterFileBytes;
inline constexpr std::size_t kRowsAt = kRowsHeadAt + 4096;
inline constexpr std::size_t kRowBytes = 256;
inline constexpr std::size_t kRowCountersAt =
    offsetof(QueuePairInFile, row) + offsetof(roce::engine::QueuePairRow, counters);
inline constexpr std::size_t kRowCounters = sizeof(roce::engine::QpCounters) / sizeof(Count);
inline constexpr std::size_t kWholeFileBytes = kRowsAt + kMaxRows * kRowBytes;
static_assert(sizeof(RowsHeader) <= kRowsAt - kRowsHeadAt && sizeof(QueuePairInFile) <= kRowBytes &&
              kRowCountersAt + kMaxRowCounters * sizeof(Count) <= kRowBytes);

inline constexpr const char* kCounterFilePrefix = "sluice-counters-";

} // namespace sluice::uroce::device
