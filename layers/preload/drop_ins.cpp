// SPDX-License-Identifier: BSD-3-Clause
#include "layers/preload/drop_ins.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "layers/hooks/next.hpp"

namespace sluice::layers::preload {

namespace {

// From this library's directory to that of the drop-ins: installed, and in the build tree.
constexpr const char* kDirectories[] = {"/drop-in/", "/../dropin/drop-in/"};

constinit hooks::Next<void*(const char*, int) noexcept> next_dlopen("dlopen");

std::string_view name_of_path(std::string_view path) noexcept {
    return path.substr(path.rfind('/') + 1); // npos + 1 is 0
}

// "libibverbs.so.1" for it and all that it is called; empty: another library.
std::string_view library_of(std::string_view path) noexcept {
    const std::string_view name = name_of_path(path);
    for (const std::string_view library : {"libibverbs.so.1", "librdmacm.so.1"}) {
        const std::string_view plain = library.substr(0, library.size() - 2);
        if (name == plain || name == library || (name.starts_with(library) && name[library.size()] == '.')) {
            return library;
        }
    }
    return {};
}

std::string without_links(const std::string& path) {
    const std::unique_ptr<char, decltype([](char* text) { std::free(text); })> resolved(
        realpath(path.c_str(), nullptr));
    return resolved != nullptr ? resolved.get() : "";
}

// Where the drop-ins are, with a slash at its end; empty: nowhere.
std::string drop_in_directory() {
    Dl_info ours{};
    if (dladdr(reinterpret_cast<const void*>(&open_drop_in), &ours) == 0) {
        return {};
    }
    const std::string path = without_links(ours.dli_fname);
    for (const char* directory : kDirectories) {
        std::string found = path.substr(0, path.rfind('/')) + directory;
        if (access(found.c_str(), R_OK) == 0) {
            return found;
        }
    }
    return {};
}

// The drop-in that stands before what the loader took for the library NAME; empty: none does.
Result<std::string> drop_in_before(const std::string& taken, std::string_view name) {
    const std::string directory = drop_in_directory();
    if (directory.empty() || without_links(taken).starts_with(without_links(directory) + "/lib")) {
        return std::string(); // it is one already
    }
    const std::string real = without_links(directory + "real/" + std::string(name));
    if (real.empty() || real != without_links(taken)) {
        SLUICE_LOG(kInfo, "preload",
                   "%s isn't the library that %s leads to: programs that load it see no device of uroce's, "
                   "unless they "
                   "load drop-ins made for it (docs/uroce.md)",
                   taken.c_str(), (directory + "real/" + std::string(name)).c_str());
        return std::string();
    }
    return directory + std::string(name);
}

} // namespace

bool may_have_drop_in(const char* file) noexcept {
    return file != nullptr && !library_of(file).empty();
}

void* open_drop_in(const char* file, int mode) noexcept {
    void* const taken = next_dlopen.get()(file, mode);
    const link_map* map = nullptr;
    if (taken == nullptr || dlinfo(taken, RTLD_DI_LINKMAP, &map) != 0) {
        return taken;
    }
    const Result<std::string> drop_in =
        at_boundary("dlopen", [&] { return drop_in_before(map->l_name, library_of(file)); });
    if (!drop_in || drop_in->empty()) {
        return taken;
    }
    void* const found = next_dlopen.get()(drop_in->c_str(), mode & ~RTLD_NOLOAD);
    if (found == nullptr) {
        SLUICE_LOG(kWarning, "preload", "%s shows no device of uroce's: %s", file, dlerror());
        return taken;
    }
    dlclose(taken);
    return found;
}

} // namespace sluice::layers::preload
