// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/sysfs_directory.hpp"

#include <sys/stat.h>

#include <cstdio>
#include <vector>

#include "provider/uroce/device/gid_table.hpp"

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
    std::string name;
    std::string text;
};

std::vector<File> files_of(const LocalAddress& where) {
    const std::uint64_t guid = guid_of(where.gid);
    char guid_text[24];
    std::snprintf(guid_text, sizeof guid_text, "%04x:%04x:%04x:%04x", static_cast<unsigned>(guid >> 48),
                  static_cast<unsigned>(guid >> 32 & 0xffff), static_cast<unsigned>(guid >> 16 & 0xffff),
                  static_cast<unsigned>(guid & 0xffff));
    std::vector<File> files = {{"node_guid", guid_text}, {"ports/1/pkeys/0", "0xffff"}};
    const GidTable gids(where.gid, where.further);
    for (std::size_t i = 0; i < gids.length(); ++i) {
        const std::string index = std::to_string(i);
        files.push_back({"ports/1/gids/" + index, gid_text(*gids.at(i))});
        files.push_back({"ports/1/gid_attrs/types/" + index, "RoCE v2"});
        files.push_back({"ports/1/gid_attrs/ndevs/" + index, where.interface});
    }
    return files;
}

bool fill(int directory, const LocalAddress& where) {
    for (const char* folder : kFolders) {
        if (mkdirat(directory, folder, 0700) != 0) {
            return false;
        }
    }
    for (const File& file : files_of(where)) {
        if (!write_line(directory, file.name.c_str(), file.text)) {
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
