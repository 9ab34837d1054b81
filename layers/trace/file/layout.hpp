// SPDX-License-Identifier: BSD-3-Clause
//
// The file that a traced process leaves, as libsluice-trace.so writes it and `sluice trace` reads it:
//
//     Header, one page | Thread[kMostThreads] | blocks of kBlockEvents events
//
// A thread takes one block after the other, so that no two threads write to one, and no event waits for a
// lock. A file of this form is whole at each moment: what a killed process has written is there. All numbers
// are in the host's order of bytes: nobody reads it on another one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::layers::trace::file {

inline constexpr std::array<char, 8> kMagic = {'S', 'L', 'T', 'R', 'A', 'C', 'E', '1'};
inline constexpr std::uint32_t kMostThreads = 4096; // that are known by name
inline constexpr std::uint32_t kBlockEvents = 1024; // the first place is the block's head
inline constexpr std::uint32_t kLeastEvents = kBlockEvents;
inline constexpr std::uint32_t kMostEvents = 100'000'000; // of a process

enum class Kind : std::uint8_t {
    kNothing = 0, // never written, or not to its end
    kHead,        // of a block
    kPost,        // code: ibv_wr_opcode
    kReceive,
    kSharedReceive, // queue_pair: the shared receive queue's tag
    kRefused,       // the last ID posts of this thread to that queue; kAllSince: since one with kFirst
    kCompletion,    // code: ibv_wc_opcode, if status is 0
    kRegister,      // a call begins; id: the address
    kRegistered,    // and ends; id: bytes, queue_pair: the local key, status: whether it failed
    kDeregister,    // id: the address
    kDeregistered,  // id: bytes
    kSync,          // code: a Sync; id: the address
    kSynced,        // id: bytes, status: whether it failed
    kConnection,    // code: rdma_cm_event_type; bytes: the status
    kQueuePair,     // code: ibv_qp_type; bytes: the tag of its shared receive queue
    kQueuePairEnded,
    kDevice, // its name in id, bytes and queue_pair
    kUnseen, // an object; its requests can't be recorded
    kLast = kUnseen
};

// What kRefused and the parts of a post are about.
inline constexpr std::uint64_t kAllSince = ~std::uint64_t{0};

// Flags.
inline constexpr std::uint8_t kSignaled = 1;     // a post; of kQueuePair: all of its
inline constexpr std::uint8_t kInline = 2;       // a post
inline constexpr std::uint8_t kFirst = 4;        // a post behind ibv_wr_start()
inline constexpr std::uint8_t kOfReceives = 8;   // kRefused
inline constexpr std::uint8_t kOfShared = 16;    // kRefused
inline constexpr std::uint8_t kNoQueuePair = 32; // a completion of a queue that doesn't name queue pairs

enum class Sync : std::uint8_t {
    kClean,
    kInvalidate,
    kCleanInvalidate,
    kPersist,
    kCopy,
    kLmrRead,
    kLmrWrite,
    kLast = kLmrWrite
};

struct Header {
    std::array<char, 8> magic;
    std::uint32_t block_count;
    std::int32_t pid;
    std::int32_t parent;
    std::uint32_t blocks_taken; // more are asked for than there are
    std::uint32_t threads;      // likewise
    std::uint32_t reserved;
    std::uint64_t lost; // events of threads beyond kMostThreads
    std::array<char, 256> program;
};

struct Thread {
    std::int32_t tid;
    std::uint32_t reserved;
    std::uint64_t lost; // events that found no place
    std::array<char, 16> name;
};

// Whole once KIND is there, which is written last.
struct Event {
    std::uint64_t time_ns; // CLOCK_MONOTONIC; of a head: the index of its thread
    std::uint64_t id;      // the program's wr_id
    std::uint32_t bytes;
    std::uint32_t queue_pair;
    std::uint32_t device; // a context's tag: an address, shortened
    Kind kind;
    std::uint8_t code;
    std::uint8_t status; // ibv_wc_status
    std::uint8_t flags;
};
static_assert(sizeof(Event) == 32 && sizeof(Thread) == 32);

inline constexpr std::uint64_t kThreadsAt = 4096;
inline constexpr std::uint64_t kBlocksAt = kThreadsAt + kMostThreads * sizeof(Thread);
inline constexpr std::uint64_t kBlockBytes = kBlockEvents * sizeof(Event);
static_assert(sizeof(Header) <= kThreadsAt && kBlocksAt % 4096 == 0 && kBlockBytes % 4096 == 0);

constexpr std::uint32_t blocks_for(std::uint64_t events) {
    return static_cast<std::uint32_t>((events + kBlockEvents - 2) / (kBlockEvents - 1));
}

} // namespace sluice::layers::trace::file
