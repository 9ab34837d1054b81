// SPDX-License-Identifier: BSD-3-Clause
//
// What happens when this library is loaded: libibverbs is looked for and measured, and if it
// fits, our providers are registered with it. Nothing here may be noticed by a program that
// doesn't use us, so every way out but one is silent unless SLUICE_LOG asks.
#include <dlfcn.h>

#include <cstring>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "provider/claim.hpp"
#include "provider/common/context.hpp"
#include "provider/common/context_memory.hpp"
#include "provider/rxe/context.hpp"
#include "provider/siw/verbs.hpp"

namespace sluice::provider {

namespace {

constexpr abi::VerbsMatchEntry kRxeMatch[] = {
    {.driver_data = nullptr,
     .driver_id = static_cast<std::uint64_t>(abi::Driver::kRxe),
     .vendor = 0,
     .device = 0,
     .kind = abi::kMatchDriverId},
    {.driver_data = nullptr, .driver_id = 0, .vendor = 0, .device = 0, .kind = abi::kMatchEnd},
};
constexpr std::uint32_t kRxeAbiVersion = 2;

constexpr abi::VerbsMatchEntry kSiwMatch[] = {
    {.driver_data = nullptr,
     .driver_id = static_cast<std::uint64_t>(abi::Driver::kSiw),
     .vendor = 0,
     .device = 0,
     .kind = abi::kMatchDriverId},
    {.driver_data = nullptr, .driver_id = 0, .vendor = 0, .device = 0, .kind = abi::kMatchEnd},
};

// libibverbs would print a warning about a version that it is told not to match, so it is told
// to match every one, and here is decided.
bool matches(const abi::VerbsSysfsDevice& device, abi::Driver driver, std::uint32_t abi_version) noexcept {
    const std::uint32_t version = abi::device_abi_version(device, current_abi().layout);
    if (version != abi_version) {
        SLUICE_LOG(kInfo, "provider", "%s has kernel ABI %u and not %u; left to others", device.ibdev_name,
                   version, abi_version);
        return false;
    }
    const Claim claim = claim_of(driver);
    SLUICE_LOG(kInfo, "provider", "%s is %s: %s", device.ibdev_name,
               claim == Claim::kNone ? "left to others" : "taken", to_string(claim));
    return claim != Claim::kNone;
}

bool match_rxe(abi::VerbsSysfsDevice* device) noexcept {
    return matches(*device, abi::Driver::kRxe, kRxeAbiVersion);
}

bool match_siw(abi::VerbsSysfsDevice* device) noexcept {
    return matches(*device, abi::Driver::kSiw, SIW_ABI_VERSION);
}

abi::VerbsDevice* alloc_device(abi::VerbsSysfsDevice* /*sysfs_device*/) noexcept {
    return new (std::nothrow) abi::VerbsDevice{};
}

void uninit_device(abi::VerbsDevice* device) noexcept {
    delete device;
}

constexpr abi::VerbsDeviceOps kRxeOps{
    .name = "sluice-rxe",
    .match_min_abi_version = 0,
    .match_max_abi_version = UINT32_MAX,
    .match_table = kRxeMatch,
    .static_providers = nullptr,
    .match_device = match_rxe,
    .alloc_context = rxe::open,
    .import_context = rxe::import,
    .alloc_device = alloc_device,
    .uninit_device = uninit_device,
};

constexpr abi::VerbsDeviceOps kSiwOps{
    .name = "sluice-siw",
    .match_min_abi_version = 0,
    .match_max_abi_version = UINT32_MAX,
    .match_table = kSiwMatch,
    .static_providers = nullptr,
    .match_device = match_siw,
    .alloc_context = siw::open,
    .import_context = siw::import,
    .alloc_device = alloc_device,
    .uninit_device = uninit_device,
};

void register_providers() {
    // A process that loaded us as a provider has it; a program without RDMA has not.
    void* library = dlopen(abi::kLibrary, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) {
        return;
    }
    const Result<abi::Abi> found = abi::find_abi(library);
    if (!found) {
        SLUICE_LOG(kInfo, "provider", "no device is taken: %s", found.error().text());
        return;
    }
    set_current_abi(*found);
    SLUICE_LOG(kInfo, "provider",
               "libibverbs speaks provider interface %d: %zu operations and %zu unknown ones behind them, "
               "context of "
               "%zu bytes, queue pair mask at %zu",
               found->symbols.version, found->layout.slot_count, found->layout.appended,
               found->layout.verbs_context_bytes, found->layout.qp_mask_offset);
    found->symbols.register_driver(&kRxeOps);
    found->symbols.register_driver(&kSiwOps);
}

[[gnu::constructor]] void on_load() noexcept {
    const Result<void> done = at_boundary("registering", []() -> Result<void> {
        register_providers();
        return {};
    });
    if (!done) {
        SLUICE_LOG(kInfo, "provider", "no device is taken: %s", done.error().text());
    }
}

} // namespace

} // namespace sluice::provider
