// SPDX-License-Identifier: BSD-3-Clause
#include "layers/hooks/real.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "layers/hooks/next.hpp"

namespace sluice::layers::hooks {

namespace {

// A layer may stand before it, too.
constinit Next<void*(const char*, int) noexcept> next_dlopen("dlopen");

// The next in the order of the program's libraries; libraries that it has loaded later aren't among those.
class Library {
  public:
    // WITNESS is a function of its that no layer stands before.
    Library(const char* name, const char* witness) noexcept
        : handle_(behind_drop_in(next_dlopen.get()(name, RTLD_LAZY), witness)) {}

    template<typename Function>
    Library& need(const char* name, Function& function) noexcept {
        want(name, function);
        complete_ = complete_ && function != nullptr;
        return *this;
    }

    template<typename Function>
    Library& want(const char* name, Function& function) noexcept {
        void* address = dlsym(RTLD_NEXT, name);
        if (address == nullptr && handle_ != nullptr) {
            address = dlsym(handle_, name);
        }
        static_assert(sizeof address == sizeof function);
        std::memcpy(&function, &address, sizeof address);
        return *this;
    }

    bool complete() const noexcept { return complete_; }

  private:
    // By its name we may get a drop-in, in which our own functions are found first. What it stands for has
    // the witness.
    static void* behind_drop_in(void* handle, const char* witness) noexcept {
        void* const address = handle != nullptr ? dlsym(handle, witness) : nullptr;
        Dl_info its{};
        void* const found = address != nullptr && dladdr(address, &its) != 0
                                ? next_dlopen.get()(its.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                                : nullptr;
        return found != nullptr ? found : handle;
    }

    void* const handle_; // never closed: what it gave is called until the end
    bool complete_ = true;
};

std::optional<RealVerbs> find_verbs() noexcept {
    RealVerbs verbs;
    Library library("libibverbs.so.1", "ibv_get_device_name");
    library.want("ibv_get_device_index", verbs.get_device_index)
        .want("ibv_import_device", verbs.import_device)
        .need("ibv_get_device_list", verbs.get_device_list)
        .need("ibv_free_device_list", verbs.free_device_list)
        .need("ibv_get_device_guid", verbs.get_device_guid)
        .need("ibv_open_device", verbs.open_device)
        .need("ibv_create_comp_channel", verbs.create_comp_channel)
        .need("ibv_create_ah", verbs.create_ah)
        .need("ibv_query_gid", verbs.query_gid);
    return library.complete() ? std::optional(verbs) : std::nullopt;
}

} // namespace

const RealVerbs* real_verbs() noexcept {
    static const std::optional<RealVerbs> verbs = find_verbs();
    if (!verbs) {
        errno = ENOSYS;
        return nullptr;
    }
    return &*verbs;
}

} // namespace sluice::layers::hooks
