// SPDX-License-Identifier: BSD-3-Clause
//
// What two sides do with each other. Both call the same case; the one that is `first` begins, then they
// change places.
#pragma once

#include "end.hpp"

namespace reach {

struct Pair {
    const Device& device;
    const Talk& talk;
    bool first; // of the two sides
};

// Each operation at each size, over both path MTUs. Returns how many.
unsigned run_rc(const Pair& pair);
// Atomic write, for devices that have it. Not flush: rxe covers no flush packet by a checksum that others
// would compute.
unsigned run_atomic_write(const Pair& pair);
// Datagrams of all sizes up to the port's MTU and one byte beyond.
unsigned run_ud(const Pair& pair);
// A shared receive queue under two connections, and a receiver that is late.
unsigned run_receive(const Pair& pair);
// What isn't allowed, and what becomes of the connection.
unsigned run_errors(const Pair& pair);
// Many operations at once in both directions, every byte accounted for.
unsigned run_mixed(const Pair& pair);
// The same, but what rxe can't do when packets are lost or overtake each other.
unsigned run_mixed_on_bad_link(const Pair& pair);

// Ratios of speed need the same program on both kinds of devices: RDMA Writes of 64 KiB, and 64-byte
// Writes to and fro. Prints the figures.
unsigned run_speed(const Pair& pair);

} // namespace reach
