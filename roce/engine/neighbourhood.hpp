// SPDX-License-Identifier: BSD-3-Clause
//
// What the engine has to do with other processes of its host, without knowing how they are reached (ADR 77).
//
// An engine publishes which memory its peers may touch, and through which connections. With that, a peer on
// the same host can execute a request itself, on this process's memory, and this engine hears nothing of it:
// as with an adapter that writes to memory. The other way round, an engine asks for its own requests to be
// executed so, and sends those as packets that can't be.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "roce/engine/types.hpp"

namespace sluice::roce::engine {

// The bits of a key above which it has its slot.
inline constexpr std::uint32_t kKeyVariantBits = 8;

struct PublishedRegion {
    std::uint32_t key = 0;
    std::uint32_t pd = 0;
    std::uint32_t qpn = 0; // the only queue pair that it is for; 0: all of the domain
    std::uint32_t access = 0;
    std::uint64_t iova = 0;
    std::uint64_t host_addr = 0;
    std::uint64_t len_bytes = 0;
};

struct PublishedConnection {
    Ends ends;
    std::uint32_t pd = 0;
    std::uint32_t access = 0;
};

// A request of a reliable connection that this process would execute itself.
struct DirectRequest {
    WrOpcode opcode = WrOpcode::kWrite; // or kRead, kCompareSwap, kFetchAdd
    Ends ends;
    std::uint64_t remote_addr = 0;
    std::uint32_t rkey = 0;
    std::uint32_t len_bytes = 0;   // never 0
    std::span<const iovec> pieces; // of this process's memory, with checked keys; none for atomics
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
};

class Neighbourhood {
  public:
    Neighbourhood() = default;
    Neighbourhood(const Neighbourhood&) = delete;
    Neighbourhood& operator=(const Neighbourhood&) = delete;

    // SLOT is the key's index in the table of regions, SEAT the queue pair number's among the queue pairs.
    // Replaces what is published there.
    virtual void publish(std::uint32_t slot, const PublishedRegion& region) noexcept = 0;
    virtual void publish(std::uint32_t seat, const PublishedConnection& connection) noexcept = 0;
    // Return when no other process goes by it any more. One that is stopped is waited for, but not for long.
    virtual void withdraw_region(std::uint32_t slot) noexcept = 0;
    virtual void withdraw_connection(std::uint32_t seat) noexcept = 0;

    // False: it isn't executed, and goes as packets. A Write or Read may be done in part then, as one that is
    // repeated; an atomic operation isn't. ORIGINAL is an atomic operation's result.
    virtual bool execute(const DirectRequest& request, std::uint64_t& original) noexcept = 0;

    // Whether Writes and Reads on this connection are likely to be executed.
    virtual bool reaches(const Ends& ends) noexcept = 0;
    // Whether the peer is a living process of this host, which is a device like us then.
    virtual bool knows(const Ends& ends) noexcept = 0;

    // Whether packets to the peer go through memory, and whether there is room for one now.
    enum class Room : std::uint8_t { kNoWay, kFull, kFree };
    // kFull: somebody calls Engine::room_again() when there is some.
    virtual Room room(const Ends& ends) noexcept = 0;

  protected:
    ~Neighbourhood() = default;
};

} // namespace sluice::roce::engine
