// SPDX-License-Identifier: BSD-3-Clause
//
// The memory of another process, as far as this one may touch it. Addresses are the other's.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>

namespace sluice::roce::near {

class PeerMemory {
  public:
    PeerMemory() = default;
    PeerMemory(const PeerMemory&) = delete;
    PeerMemory& operator=(const PeerMemory&) = delete;
    virtual ~PeerMemory() = default;

    // LEN bytes, which are those of the pieces. False: not all of them were copied, since a page isn't there
    // on either side, or this process may not touch the other's memory. Bytes that become visible out of
    // order don't do so behind those of a later call.
    virtual bool write(std::uint64_t to, std::span<const iovec> from, std::size_t len_bytes) noexcept = 0;
    virtual bool read(std::span<const iovec> to, std::uint64_t from, std::size_t len_bytes) noexcept = 0;
    // FIRST bytes and then LAST bytes, which don't become visible before the others. Here by two calls.
    virtual bool write_in_order(std::uint64_t to, std::span<const iovec> from, std::size_t first,
                                std::size_t last) noexcept;
    // AT is a multiple of eight. False: nothing has happened.
    virtual bool fetch_add(std::uint64_t /*at*/, std::uint64_t /*add*/,
                           std::uint64_t& /*original*/) noexcept {
        return false;
    }
    virtual bool compare_swap(std::uint64_t /*at*/, std::uint64_t /*compare*/, std::uint64_t /*swap*/,
                              std::uint64_t& /*original*/) noexcept {
        return false;
    }
};

} // namespace sluice::roce::near
