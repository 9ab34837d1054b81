// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/registry/library.hpp"

#include <dlfcn.h>

#include <memory>
#include <mutex>
#include <string_view>

namespace sluice::dat {

namespace {

constexpr const char* kOwnName = "libdapl-sluice.so.1";

// Whatever the provider's version knows, it knows at least this.
constexpr std::size_t kOldestSize = sizeof(dapl_sluice_v1);

// The loader has a lock of this kind around the same calls, which orders what happens in a library before it
// goes and in another one that comes to lie at its place. A thread sanitizer knows this one only.
std::recursive_mutex& loader_turn() {
    static auto& turn = *new std::recursive_mutex; // libraries are unloaded until the very end of the process
    return turn;
}

template<typename Function>
Function symbol(void* library, const char* name) noexcept {
    return reinterpret_cast<Function>(dlsym(library, name));
}

// Where the library was loaded from that has CODE; empty when the loader doesn't tell.
std::string path_of(const void* code) {
    Dl_info info{};
    return dladdr(code, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// The directory that this very library was loaded from, with a slash; empty when the loader doesn't
// tell a path.
std::string own_directory() {
    static const int somewhere_in_here = 0;
    const std::string path = path_of(&somewhere_in_here);
    return path.substr(0, path.rfind('/') + 1);
}

Result<const dapl_sluice_v1*> query_own(void* library) {
    const auto query = symbol<dapl_sluice_query_v1_function>(library, DAPL_SLUICE_QUERY_V1);
    if (query == nullptr) {
        return nullptr;
    }
    const dapl_sluice_v1* own = query();
    if (own == nullptr || own->size < kOldestSize) {
        return Error(ErrorKind::kNotFound, "it has no address space for handles, or is too old");
    }
    return own;
}

} // namespace

void Library::Unload::operator()(void* handle) const noexcept {
    const std::lock_guard turn(loader_turn());
    dlclose(handle);
}

// It isn't held across fork(): constructors of libraries call pthread_atfork(), and older C libraries have a
// lock of their own around that and all handlers.
void Library::renew_turn() {
    std::construct_at(&loader_turn());
}

Result<Library> Library::load(const std::string& name) {
    Library library;
    // Local: two providers may have functions of the same name.
    {
        const std::lock_guard turn(loader_turn());
        library.handle_.reset(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
    }
    if (!library.handle_) {
        return Error::format(ErrorKind::kNotFound, 0, "%s", dlerror());
    }
    void* const handle = library.handle_.get();
    library.init_ = symbol<void (*)(const DAT_PROVIDER_INFO*, const char*)>(handle, "dat_provider_init");
    library.fini_ = symbol<void (*)(const DAT_PROVIDER_INFO*)>(handle, "dat_provider_fini");
    if (library.init_ == nullptr || library.fini_ == nullptr) {
        return Error::format(ErrorKind::kNotFound, 0,
                             "%s: no provider: it lacks dat_provider_init or dat_provider_fini",
                             name.c_str());
    }
    Result<const dapl_sluice_v1*> own = query_own(handle);
    if (!own) {
        return Error::format(ErrorKind::kNotFound, 0, "%s: %s", name.c_str(), own.error().text());
    }
    library.own_ = *own;
    if (library.own_ != nullptr) {
        // Its handles must be answered until the process ends, by functions that are still there.
        library.keep();
    }
    return library;
}

Result<Library> Library::load_own() {
    Result<Library> beside = load(own_directory() + kOwnName);
    Result<Library> library = beside ? std::move(beside) : load(kOwnName);
    if (library && library->own() == nullptr) {
        return Error::format(ErrorKind::kNotFound, 0, "%s: it doesn't export %s", kOwnName,
                             DAPL_SLUICE_QUERY_V1);
    }
    return library;
}

// The name comes first: a foreign library may be about to be loaded, with the loader's lock held.
Result<Library> Library::find_own(const void* code) {
    const std::string path = path_of(code);
    if (!std::string_view(path).substr(path.rfind('/') + 1).starts_with(kOwnName)) {
        return Error(ErrorKind::kNotFound, "not our own provider's");
    }
    return load(path);
}

} // namespace sluice::dat
