// SPDX-License-Identifier: BSD-3-Clause
#include "tools/device_names.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/library.hpp"

namespace sluice::tools {

namespace {

namespace fs = std::filesystem;

using Gid = std::array<std::uint8_t, 16>;

std::optional<Gid> gid_of(const std::string& address) {
    Gid gid{};
    gid[10] = gid[11] = 0xff;
    if (inet_pton(AF_INET, address.c_str(), gid.data() + 12) == 1) {
        return gid;
    }
    return inet_pton(AF_INET6, address.c_str(), gid.data()) == 1 ? std::optional(gid) : std::nullopt;
}

// Of the files in DIRECTORY; what can't be read has none.
std::vector<std::string> first_lines(const fs::path& directory) {
    std::vector<std::string> lines;
    std::error_code error;
    for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
        std::ifstream file(it->path());
        if (std::string line; std::getline(file, line)) {
            lines.push_back(std::move(line));
        }
    }
    return lines;
}

// NAME is that of a network interface of a device of the kernel's, or GID is one of its addresses.
bool is_kernel_device_called(const std::string& name, const std::optional<Gid>& gid, const fs::path& device) {
    std::error_code error;
    const fs::path ports = device / "ports";
    for (fs::directory_iterator it(ports, error), end; !error && it != end; it.increment(error)) {
        if (std::ranges::count(first_lines(it->path() / "gid_attrs" / "ndevs"), name) != 0) {
            return true;
        }
        const std::vector<std::string> gids = first_lines(it->path() / "gids");
        if (gid && std::ranges::any_of(gids, [&](const auto& each) { return gid_of(each) == gid; })) {
            return true;
        }
    }
    return false;
}

bool is_uroce_device_called(const std::string& name, const std::optional<Gid>& gid,
                            const sluice_uroce_device& device) {
    return device.name == name || device.interface == name || (gid && gid_of(device.address) == gid) ||
           (gid && std::ranges::any_of(device.gids, [&](const char* each) { return gid_of(each) == gid; }));
}

// Devices of uroce's that are opened without being listed: any number, any interface, any loopback address.
bool is_unlisted_uroce(std::string_view name, const std::optional<Gid>& gid) {
    constexpr std::string_view kPrefix = "uroce";
    constexpr std::uint8_t kLoopback = 127;
    if (gid) {
        const bool is_ipv4 =
            std::ranges::all_of(gid->begin(), gid->begin() + 10, [](auto b) { return b == 0; }) &&
            (*gid)[10] == 0xff && (*gid)[11] == 0xff;
        return is_ipv4 && (*gid)[12] == kLoopback;
    }
    if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) {
        return false;
    }
    const std::string_view rest = name.substr(kPrefix.size());
    return rest[0] == '_' || rest.find_first_not_of("0123456789") == std::string_view::npos;
}

} // namespace

std::string other_device_called(const std::string& name, const Options& options, const std::string& device) {
    if (name == device) {
        return "";
    }
    const std::optional<Gid> gid = gid_of(name);
    std::string other;
    for (const sluice_uroce_device& each : uroce_devices(options)) {
        if (is_uroce_device_called(name, gid, each)) {
            if (each.name == device) {
                return "";
            }
            other = each.name;
        }
    }
    for (const std::string& each : device_names(options)) {
        if (each == name ||
            is_kernel_device_called(name, gid, options.root + "/sys/class/infiniband/" + each)) {
            if (each == device) {
                return "";
            }
            other = each;
        }
    }
    return other.empty() && is_unlisted_uroce(name, gid) ? name : other;
}

} // namespace sluice::tools
