// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/sysfs_directory.hpp"

#include <sys/stat.h>

#include <array>
#include <cstdio>

namespace sluice::uroce::device {

namespace {

constexpr const char* kFolders[] = {"ports",
                                    "ports/1",
                                    "ports/1/gids",
                                    "ports/1/pkeys",
                                    "ports/1/gid_attrs",
                                    "ports/1/gid_attrs/types",
                                    "ports/1/gid_attrs/ndevs"};

struct File {
    const char* name;
    std::string text;
};

std::array<File, 5> files_of(const LocalAddress& where) {
    const std::uint64_t guid = guid_of(where.gid);
    char guid_text[24];
    std::snprintf(guid_text, sizeof guid_text, "%04x:%04x:%04x:%04x", static_cast<unsigned>(guid >> 48),
                  static_cast<unsigned>(guid >> 32 & 0xffff), static_cast<unsigned>(guid >> 16 & 0xffff),
                  static_cast<unsigned>(guid & 0xffff));
    return {{{"node_guid", guid_text},
             {"ports/1/gids/0", gid_text(where.gid)},
             {"ports/1/pkeys/0", "0xffff"},
             {"ports/1/gid_attrs/types/0", "RoCE v2"},
             {"ports/1/gid_attrs/ndevs/0", where.interface}}};
}

bool fill(int directory, const LocalAddress& where) {
    for (const char* folder : kFolders) {
        if (mkdirat(directory, folder, 0700) != 0) {
            return false;
        }
    }
    for (const File& file : files_of(where)) {
        if (!write_line(directory, file.name, file.text)) {
            return false;
        }
    }
    return true;
}

} // namespace

std::string gid_text(const engine::Address& address) {
    std::string text;
    for (std::size_t i = 0; i < address.gid.size(); i += 2) {
        char group[8];
        std::snprintf(group, sizeof group, "%s%02x%02x", i == 0 ? "" : ":", unsigned{address.gid[i]},
                      unsigned{address.gid[i + 1]});
        text += group;
    }
    return text;
}

// FNV-1a, with the bit that says "given locally".
std::uint64_t guid_of(const engine::Address& address) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const std::uint8_t byte : address.gid) {
        hash = (hash ^ byte) * 0x100000001b3;
    }
    return hash | std::uint64_t{2} << 56;
}

Result<SysfsDirectory> SysfsDirectory::make(const LocalAddress& where) {
    Result<PrivateDirectory> made =
        PrivateDirectory::make([&where](int directory) { return fill(directory, where); });
    if (!made) {
        return std::move(made).error();
    }
    return SysfsDirectory(std::move(*made));
}

} // namespace sluice::uroce::device
