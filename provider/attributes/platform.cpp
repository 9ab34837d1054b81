// SPDX-License-Identifier: BSD-3-Clause
#include "provider/attributes/platform.hpp"

#include <sys/utsname.h>

#include <charconv>
#include <string_view>

namespace sluice::attributes {

namespace {

// "6.1.0-13-amd64" -> 6, 1. Leaves both alone when it is nothing of the kind.
void parse_release(std::string_view release, Platform& platform) {
    int major = 0;
    int minor = 0;
    const char* const end = release.data() + release.size();
    const auto [dot, major_error] = std::from_chars(release.data(), end, major);
    if (major_error != std::errc{} || dot == end || *dot != '.') {
        return;
    }
    const auto [rest, minor_error] = std::from_chars(dot + 1, end, minor);
    if (minor_error != std::errc{} || major < 0 || minor < 0) {
        return;
    }
    platform.kernel_major = major;
    platform.kernel_minor = minor;
}

// An arm64 kernel that uses ACPI may still hold an empty device tree, made by the boot loader.
Firmware read_firmware(const FileTree& tree) {
    if (tree.exists("/sys/firmware/acpi/tables/FACP")) {
        return Firmware::kAcpi;
    }
    if (tree.exists("/sys/firmware/devicetree/base/compatible")) {
        return Firmware::kDeviceTree;
    }
    return Firmware::kUnknown;
}

std::string find_confidential_evidence(const FileTree& tree) {
    for (const char* path : {"/sys/devices/virtual/misc/tdx_guest", "/sys/class/misc/sev-guest",
                             "/sys/devices/platform/arm-cca-dev"}) {
        if (tree.exists(path)) {
            return path;
        }
    }
    for (const char* path : {"/sys/firmware/uv/prot_virt_guest", "/sys/devices/system/cpu/svm"}) {
        if (tree.read_line(path) == "1") {
            return path;
        }
    }
    return {};
}

} // namespace

Platform read_platform(const FileTree& tree) {
    Platform platform;
    if (tree.is_live()) {
        utsname system{};
        if (uname(&system) == 0) {
            platform.architecture = system.machine;
            parse_release(system.release, platform);
        }
    } else {
        platform.architecture = tree.read_line("/proc/sys/kernel/arch");
        parse_release(tree.read_line("/proc/sys/kernel/osrelease"), platform);
    }
    platform.firmware = read_firmware(tree);
    platform.confidential_evidence = find_confidential_evidence(tree);
    return platform;
}

} // namespace sluice::attributes
