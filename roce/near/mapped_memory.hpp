// SPDX-License-Identifier: BSD-3-Clause
//
// Another process's memory that is mapped here, too: its addresses are those of this process.
#pragma once

#include <atomic>

#include "roce/engine/memory.hpp"
#include "roce/near/peer_memory.hpp"

namespace sluice::roce::near {

class MappedMemory final : public PeerMemory {
  public:
    explicit MappedMemory(engine::Memory& memory) noexcept : memory_(memory) {}

    // A whole word in one store: its reader sees all of it or nothing.
    bool write(std::uint64_t to, std::span<const iovec> from, std::size_t len_bytes) noexcept override {
        if (len_bytes == sizeof(std::uint64_t) && to % sizeof(std::uint64_t) == 0) {
            std::uint64_t word = 0;
            return gather(&word, from) && memory_.store(to, word);
        }
        // Partner: the program's acquire load of what is written last.
        std::atomic_thread_fence(std::memory_order_release);
        for (const iovec& piece : from) {
            if (!memory_.copy_in(to, piece.iov_base, piece.iov_len)) {
                return false;
            }
            to += piece.iov_len;
        }
        return true;
    }
    bool read(std::span<const iovec> to, std::uint64_t from, std::size_t /*len_bytes*/) noexcept override {
        for (const iovec& piece : to) {
            if (!memory_.copy_in(reinterpret_cast<std::uintptr_t>(piece.iov_base),
                                 reinterpret_cast<const void*>(static_cast<std::uintptr_t>(from)),
                                 piece.iov_len)) {
                return false;
            }
            from += piece.iov_len;
        }
        return true;
    }
    bool fetch_add(std::uint64_t at, std::uint64_t add, std::uint64_t& original) noexcept override {
        return memory_.fetch_add(at, add, original);
    }
    bool compare_swap(std::uint64_t at, std::uint64_t compare, std::uint64_t swap,
                      std::uint64_t& original) noexcept override {
        return memory_.compare_swap(at, compare, swap, original);
    }

  private:
    bool gather(void* to, std::span<const iovec> from) noexcept {
        auto* at = static_cast<std::uint8_t*>(to);
        for (const iovec& piece : from) {
            if (!memory_.copy_out(at, reinterpret_cast<std::uintptr_t>(piece.iov_base), piece.iov_len)) {
                return false;
            }
            at += piece.iov_len;
        }
        return true;
    }

    engine::Memory& memory_;
};

} // namespace sluice::roce::near
