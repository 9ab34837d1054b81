// SPDX-License-Identifier: BSD-3-Clause
//
// The seam between a device and the other devices of this process, which take its packets without a wire
// (ADR 63). A packet for which there is no neighbour goes to a process of this host through memory, or to the
// link.
//
// A device asks once per packet. So find() takes no lock and allocates nothing: the lock of the device that
// the caller holds anyway keeps the answer valid. The engine doesn't know of neighbours: order, completions
// and errors are the same on every path.
#pragma once

#include <cstddef>
#include <cstdint>

#include "provider/uroce/roce.hpp"
#include "roce/engine/types.hpp"

namespace sluice::uroce::device {

class Device;
class Pump; // device.cpp

// The most devices of a process, and so the most that a thread can hold.
inline constexpr std::size_t kMaxDevices = 256;

class Neighbour {
  public:
    enum class Taken : std::uint8_t {
        kNow,   // the neighbour's engine has seen the packet
        kLater, // the packet waits for the thread that holds the neighbour
        kLost,  // the neighbour has no room, as a full queue of a network
    };

    Neighbour() = default;
    Neighbour(const Neighbour&) = delete;
    Neighbour& operator=(const Neighbour&) = delete;

    // Whether the packet that FROM is sending is for this neighbour. If not, another process at the address
    // has its queue pair.
    virtual bool takes_from(Device& from) noexcept = 0;
    // Whether queue pair QPN of the neighbour's address belongs to this process, or would.
    virtual bool has_number(std::uint32_t qpn) const noexcept = 0;
    // Takes the packet that FROM is sending. PUMP is the calling thread's, which holds FROM. Never waits.
    virtual Taken take_from(Device& from, Pump& pump) noexcept = 0;

  protected:
    ~Neighbour() = default;
};

class Neighbours {
  public:
    Neighbours() = default;
    Neighbours(const Neighbours&) = delete;
    Neighbours& operator=(const Neighbours&) = delete;

    // The neighbour that takes packets for ADDRESS, or null. The calling thread holds a device of these
    // neighbours; the answer stays valid until it gives that device back.
    virtual Neighbour* find(const engine::Address& address) noexcept = 0;

  protected:
    ~Neighbours() = default;
};

} // namespace sluice::uroce::device
