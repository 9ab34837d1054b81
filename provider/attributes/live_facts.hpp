// SPDX-License-Identifier: BSD-3-Clause
//
// What only an open device can tell. The one part of provider/attributes that knows libibverbs;
// everything else is computed from these facts and from files. Libibverbs is not linked but
// looked up: a program may load libsluice without it, and a plugin must not bring another copy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

struct ibv_context;
struct ibv_device;

namespace sluice::attributes {

struct LiveFacts {
    std::string provider_path; // the file whose code serves the device's data path here
    // device_cap_flags_ex and the general on-demand paging bits, as the kernel gave them.
    std::optional<std::uint64_t> capabilities{};
    std::uint64_t paging = 0;
    std::uint64_t atomics = 0; // enum sluice_atomics
    std::uint64_t max_sge = 0; // 0 when it isn't known
    std::string firmware{};
    std::optional<std::uint64_t> max_inline{};
    std::optional<bool> in_order{}; // of RDMA Writes
    std::string netdev{};           // of a device that this library makes; the kernel has files for others
    // Whether the kernel registered a page for the device; empty when it wasn't asked to.
    std::optional<bool> registered{};
};

// The bits of PAGING; libibverbs 44 has no names for them.
constexpr std::uint64_t kPagingExplicit = 1ULL << 0;
constexpr std::uint64_t kPagingImplicit = 1ULL << 1;

// What is made on the device for a moment, because nothing else shows it.
struct Trials {
    bool registration = false; // of a page
    bool queue_pair = false;
};

// Asks the open device.
LiveFacts ask_context(ibv_context& context, Trials trials);

// Opens a device for a moment and asks it; nothing when it can't be opened.
std::optional<LiveFacts> ask_device(ibv_device& device, Trials trials);

// The same for the device of that name; nothing when libibverbs has none.
std::optional<LiveFacts> ask_by_name(const std::string& name, Trials trials);

// What holds for a device that this library makes itself, but for what only its maker knows.
LiveFacts facts_of_own_device();

// The name that the kernel knows the device by.
std::string kernel_name(const ibv_device& device);
std::string kernel_name(const ibv_context& context);

} // namespace sluice::attributes
