// SPDX-License-Identifier: BSD-3-Clause
#include "provider/claim.hpp"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/boundary.hpp"
#include "provider/config/config.hpp"

namespace sluice::provider {

namespace {

constexpr std::string_view kSuffix = "-rdmav";

std::string_view base_name(std::string_view path) noexcept {
    const auto slash = path.rfind('/');
    return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// The file that this library was loaded from, under the name by which it was asked for.
std::string_view own_path() noexcept {
    Dl_info info;
    return dladdr(reinterpret_cast<const void*>(&claim_of), &info) != 0 && info.dli_fname != nullptr
               ? info.dli_fname
               : "";
}

bool asked_by_environment() noexcept {
    // libibverbs looks at the second only when the first is unset.
    const char* list = secure_getenv("RDMAV_DRIVERS");
    if (list == nullptr) {
        list = secure_getenv("IBV_DRIVERS");
    }
    return list != nullptr && list_names_sluice(list);
}

// What /etc/sluice/sluice.conf and `sluice provider enable` say. A file that can't be read or
// understood names nobody; the log tells why.
bool configuration_names_driver(abi::Driver driver) noexcept {
    const Result<config::Claim> claimed =
        at_boundary("claim", []() -> Result<config::Claim> { return config::claimed_drivers(); });
    return claimed && (driver == abi::Driver::kRxe ? claimed->rxe : claimed->siw);
}

// Then it was that library which brought us, for uroce alone: kernel devices stay as they are.
bool is_brought_by_preload() noexcept {
    void* const preload = dlopen("libsluice-preload.so", RTLD_LAZY | RTLD_NOLOAD);
    if (preload != nullptr) {
        dlclose(preload);
    }
    return preload != nullptr;
}

// Whether the stock provider's file for DRIVER, beside ours, is one and the same file.
bool replaces_stock(abi::Driver driver, std::string_view own) noexcept {
    const std::string_view name = base_name(own);
    const auto suffix = name.find(kSuffix);
    if (suffix == std::string_view::npos) {
        return false;
    }
    char stock[4096];
    const int length = std::snprintf(
        stock, sizeof stock, "%.*slib%s%.*s", static_cast<int>(own.size() - name.size()), own.data(),
        driver_name(driver), static_cast<int>(name.size() - suffix), name.data() + suffix);
    if (length < 0 || static_cast<std::size_t>(length) >= sizeof stock) {
        return false;
    }
    struct stat ours {};
    struct stat theirs {};
    return stat(own.data(), &ours) == 0 && stat(stock, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
           ours.st_ino == theirs.st_ino;
}

} // namespace

const char* driver_name(abi::Driver driver) noexcept {
    switch (driver) {
    case abi::Driver::kRxe:
        return "rxe";
    case abi::Driver::kSiw:
        return "siw";
    }
    return "unknown";
}

const char* to_string(Claim claim) noexcept {
    switch (claim) {
    case Claim::kNone:
        return "nobody asked for it";
    case Claim::kEnvironment:
        return "RDMAV_DRIVERS names it";
    case Claim::kConfiguration:
        return "sluice.conf or `sluice provider enable` asks for it";
    case Claim::kLinked:
        return "the program links libsluice";
    case Claim::kReplaces:
        return "it is installed in place of the stock provider";
    }
    return "unknown";
}

bool list_names_sluice(std::string_view list) noexcept {
    while (!list.empty()) {
        const auto end = list.find_first_of(":;");
        const std::string_view entry = list.substr(0, end);
        const std::string_view name = base_name(entry);
        // A name stands alone; a path leads to the file without its suffix.
        if (entry == "sluice" || (name != entry && name == "libsluice")) {
            return true;
        }
        list = end == std::string_view::npos ? std::string_view{} : list.substr(end + 1);
    }
    return false;
}

bool is_provider_path(std::string_view path) noexcept {
    return base_name(path).find(kSuffix) != std::string_view::npos;
}

Claim claim_of(abi::Driver driver) noexcept {
    if (asked_by_environment()) {
        return Claim::kEnvironment;
    }
    if (configuration_names_driver(driver)) {
        return Claim::kConfiguration;
    }
    const std::string_view own = own_path();
    if (own.empty()) {
        return Claim::kNone;
    }
    if (!is_provider_path(own)) {
        return is_brought_by_preload() ? Claim::kNone : Claim::kLinked;
    }
    return replaces_stock(driver, own) ? Claim::kReplaces : Claim::kNone;
}

} // namespace sluice::provider
