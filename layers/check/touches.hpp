// SPDX-License-Identifier: BSD-3-Clause
//
// Accesses to memory that a device uses, as the protected pages have caught them, and what they mean. They
// are found in a fault's handler, and told later: before completions are polled, and when the process ends.
//
// A receive that failed keeps its pages until something is stored there, they are posted again, or their
// region ends: what a program reads there is what was in it before.
//
// Thread safety: all of it, from any thread; tell_all() with no lock of an object held.
#pragma once

#include "layers/check/objects.hpp"
#include "layers/check/pages/touch.hpp"

namespace sluice::layers::check::touches {

std::uint64_t next_tag() noexcept;

// Those of REQUEST, which is about to end.
void take(const QueuePair& pair, Request& request) noexcept;
// All that are left. One load where there is none.
void tell_all() noexcept;

// Of pages that are no request's. TELL says whether a touch is one of these.
void set_teller(bool (*tell)(const pages::Touch& touch) noexcept) noexcept;

void keep_failed(const QueuePair& pair, const Request& request, Place polled) noexcept;
// Those whose memory REQUEST has a part of.
void forget_failed(const Request& request) noexcept;
void forget_failed(const Region& region) noexcept;

// While one lives, this thread's accesses are the device's.
class ForDevice {
  public:
    ForDevice() noexcept;
    ~ForDevice();
    ForDevice(const ForDevice&) = delete;
    ForDevice& operator=(const ForDevice&) = delete;
};

} // namespace sluice::layers::check::touches
