// SPDX-License-Identifier: BSD-3-Clause
//
// The block of memory that a side registers, and what lies where: for each connection a target that the peer
// writes to and reads from, places for requests that are under way, and rooms for receives.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/soak/failure.hpp"
#include "tests/soak/step.hpp"

namespace sluice::test::soak {

inline constexpr std::size_t kTargetBytes = 32768;
inline constexpr std::size_t kMaxBytes = 8192; // of an operation
inline constexpr unsigned kUnderWay = 8;       // requests of a connection
inline constexpr unsigned kReceives = 16;      // of a connection
inline constexpr std::size_t kDatagramBytes = 1024;
inline constexpr std::size_t kGrhBytes = 40;
inline constexpr unsigned kDatagramReceives = 64;
inline constexpr std::size_t kDatagramRoom = kDatagramBytes + 64;

inline constexpr std::size_t kPlacesAt = kMaxConnections * kTargetBytes;
inline constexpr std::size_t kRoomsAt = kPlacesAt + std::size_t{kMaxConnections} * kUnderWay * kMaxBytes;
inline constexpr std::size_t kDatagramPlacesAt =
    kRoomsAt + std::size_t{kMaxConnections} * kReceives * kMaxBytes;
inline constexpr std::size_t kDatagramRoomsAt = kDatagramPlacesAt + kUnderWay * kDatagramRoom;
inline constexpr std::size_t kBlockBytes = kDatagramRoomsAt + kDatagramReceives * kDatagramRoom;

class Block {
  public:
    explicit Block(bool in_shared_file) {
        int file = -1;
        if (in_shared_file) {
            file = memfd_create("soak", MFD_CLOEXEC);
            must_be_zero(ftruncate(file, kBlockBytes), "ftruncate");
        }
        void* const mapped = mmap(nullptr, kBlockBytes, PROT_READ | PROT_WRITE,
                                  file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
        if (mapped == MAP_FAILED) {
            fail_with_errno("mmap");
        }
        if (file >= 0) {
            close(file);
        }
        bytes_ = static_cast<std::uint8_t*>(mapped);
    }
    ~Block() { munmap(bytes_, kBlockBytes); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    std::uint8_t* at(std::size_t offset) const { return bytes_ + offset; }
    std::uint64_t address(std::size_t offset = 0) const {
        return reinterpret_cast<std::uintptr_t>(bytes_ + offset);
    }

  private:
    std::uint8_t* bytes_ = nullptr;
};

constexpr std::size_t target_at(unsigned connection) {
    return connection * kTargetBytes;
}
constexpr std::size_t place_at(unsigned connection, std::uint64_t number) {
    return kPlacesAt + (std::size_t{connection} * kUnderWay + number % kUnderWay) * kMaxBytes;
}
constexpr std::size_t room_at(std::size_t slot) {
    return kRoomsAt + slot * kMaxBytes;
}

// The bytes that follow from SEED.
inline void fill(std::uint8_t* to, std::size_t len, std::uint64_t seed) {
    for (std::size_t i = 0; i < len; i += sizeof seed) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        const std::uint64_t word = seed ^ seed >> 29;
        std::memcpy(to + i, &word, std::min(sizeof word, len - i));
    }
}

inline std::uint64_t hash(const std::uint8_t* bytes, std::size_t len) {
    std::uint64_t sum = len;
    for (std::size_t i = 0; i + sizeof sum <= len; i += sizeof sum) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes + i, sizeof word);
        sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
        sum ^= sum >> 31;
    }
    return sum;
}

} // namespace sluice::test::soak
