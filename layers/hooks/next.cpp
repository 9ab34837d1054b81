// SPDX-License-Identifier: BSD-3-Clause
#include "layers/hooks/next.hpp"

#include <dlfcn.h>

#include <array>

namespace sluice::layers::hooks {

namespace {

// Libraries that a program may load later, and for itself, and a function of each that no layer stands
// before: by its name we may get a drop-in, in which our own functions are found first.
struct Loaded {
    const char* library;
    const char* witness;
};
constexpr std::array kLoaded = {
    Loaded{"libibverbs.so.1", "ibv_get_device_name"}, Loaded{"libsluice.so.1", "sluice_version"},
    Loaded{"librdmacm.so.1", "rdma_event_str"}, Loaded{"libsluice-sync.so.1", "sluice_sync_version"},
    Loaded{"libdat.so.1", "dat_strerror"}};

const void* base_of(const void* address) noexcept {
    Dl_info info{};
    return address != nullptr && dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

bool is_ours(const void* address) noexcept {
    return base_of(address) == base_of(reinterpret_cast<const void*>(&is_ours));
}

void* find_in(const Loaded& loaded, const char* name) noexcept {
    using Open = void*(const char*, int) noexcept;
    auto* const open = reinterpret_cast<Open*>(dlsym(RTLD_NEXT, "dlopen")); // a layer may stand before it
    void* const handle = open != nullptr ? open(loaded.library, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    void* const witness = handle != nullptr ? dlsym(handle, loaded.witness) : nullptr;
    Dl_info its{};
    void* const real = witness != nullptr && dladdr(witness, &its) != 0
                           ? open(its.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                           : nullptr;
    return real != nullptr ? dlsym(real, name)
                           : nullptr; // never closed: what it gave is called until the end
}

} // namespace

void* find_next(const char* name) noexcept {
    void* address = dlsym(RTLD_NEXT, name);
    if (address == nullptr) { // a drop-in brought the layer, behind the library that has it
        address = dlsym(RTLD_DEFAULT, name);
    }
    for (const Loaded& loaded : kLoaded) {
        if (address == nullptr || is_ours(address)) {
            address = find_in(loaded, name);
        }
    }
    return address != nullptr && is_ours(address) ? nullptr : address;
}

} // namespace sluice::layers::hooks
