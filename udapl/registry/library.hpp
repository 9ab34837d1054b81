// SPDX-License-Identifier: BSD-3-Clause
//
// A provider's library, loaded.
#pragma once

#include <dat/dat_registry.h>

#include <memory>
#include <string>

#include "core/result.hpp"
#include "udapl/registry/provider_v1.h"

namespace sluice::dat {

class Library {
  public:
    // NAME is a path, or a name that the loader looks up. kNotFound when it can't be loaded or isn't
    // a provider's; the text tells why.
    static Result<Library> load(const std::string& name);
    // Our own provider's: the one beside this library, otherwise the loader's.
    static Result<Library> load_own();
    // Our own provider's where CODE is in it, because the program has loaded it by itself; kNotFound
    // otherwise.
    static Result<Library> find_own(const void* code);

    void init(const DAT_PROVIDER_INFO& info, const char* instance_data) const { init_(&info, instance_data); }
    void fini(const DAT_PROVIDER_INFO& info) const { fini_(&info); }

    // Null for a foreign provider. Ours is never unloaded: its handles are answered for good.
    const dapl_sluice_v1* own() const noexcept { return own_; }

    // In the child of a fork: nobody else is loading or unloading one there.
    static void renew_turn();

    // Never unloads it.
    void keep() noexcept { (void)handle_.release(); }

  private:
    struct Unload {
        void operator()(void* handle) const noexcept;
    };

    Library() = default;

    std::unique_ptr<void, Unload> handle_;
    void (*init_)(const DAT_PROVIDER_INFO*, const char*) = nullptr;
    void (*fini_)(const DAT_PROVIDER_INFO*) = nullptr;
    const dapl_sluice_v1* own_ = nullptr;
};

} // namespace sluice::dat
