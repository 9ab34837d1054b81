// SPDX-License-Identifier: BSD-3-Clause
//
// Copies for a device in this process to and from pages that are protected from the program, which stay so.
//
// The kernel lets a process store to its own private memory through /proc/self/mem whatever the rights of its
// pages are, as debuggers need it. Shared memory isn't among that: there a device has the page opened
// (fault.hpp).
//
// Thread safety: may be called in any thread at any time, but not in a signal's handler.
#pragma once

#include <cstddef>

namespace sluice::layers::check::pages {

// How many bytes were copied: up to the first page of TO that isn't protected from stores. None as well where
// the kernel refuses, which may be after some.
std::size_t store_for_device(void* to, const void* from, std::size_t bytes) noexcept;
// The same for pages of FROM, and loads.
std::size_t load_for_device(void* to, const void* from, std::size_t bytes) noexcept;

} // namespace sluice::layers::check::pages
