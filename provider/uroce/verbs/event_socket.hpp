// SPDX-License-Identifier: BSD-3-Clause
//
// The descriptors from which libibverbs reads events of completion and asynchronous ones. It reads a
// record of fixed size, that begins with the object's address, and takes the kernel to be the writer.
//
// Ours is a datagram socket that is connected to itself: one descriptor, because libibverbs closes
// only one; whole records; and we can write and take back without waiting whatever mode the program
// has set for itself, which a pipe can't do. It holds some 270 records.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/result.hpp"

namespace sluice::uroce::verbs {

Result<int> make_event_socket();

// False: it is full.
bool send_event(int fd, const void* record, std::size_t len_bytes) noexcept;

// Takes back the events of ELEMENT that nobody has read, and tells how many they were. The others
// keep their order.
std::uint32_t take_back_events(int fd, const void* element) noexcept;

} // namespace sluice::uroce::verbs
