// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/sysfs_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <vector>

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
    return {{"node_guid", guid_text}, {"ports/1/pkeys/0", "0xffff"}};
}

// What the kernel has nothing to say to is an empty text.
std::vector<File> files_of(const GidTable& gids, const std::string& interface) {
    std::vector<File> files;
    for (std::size_t i = 0; i < gids.length(); ++i) {
        const std::string index = std::to_string(i);
        const engine::Address* const entry = gids.at(i);
        const bool is_empty = entry == nullptr;
        files.push_back({"ports/1/gids/" + index, gid_text(is_empty ? engine::Address{} : *entry)});
        files.push_back({"ports/1/gid_attrs/types/" + index, is_empty ? "" : "RoCE v2"});
        files.push_back({"ports/1/gid_attrs/ndevs/" + index, is_empty ? "" : interface});
    }
    return files;
}

bool fill(int directory, const LocalAddress& where) {
    for (const char* folder : kFolders) {
        if (mkdirat(directory, folder, 0700) != 0) {
            return false;
        }
    }
    std::vector<File> files = files_of(where);
    const GidTable gids(where.gid, where.further);
    std::ranges::move(files_of(gids, where.interface), std::back_inserter(files));
    return std::ranges::all_of(
        files, [directory](const File& file) { return write_line(directory, file.name.c_str(), file.text); });
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

void SysfsDirectory::update(const GidTable& gids, const std::string& interface) const {
    constexpr const char* kNew = "ports/1/new";
    const Descriptor directory(open(path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    for (const File& file : files_of(gids, interface)) {
        if (file.text.empty()) {
            unlinkat(directory.get(), file.name.c_str(), 0);
        } else if (write_line(directory.get(), kNew, file.text)) {
            (void)renameat(directory.get(), kNew, directory.get(), file.name.c_str());
        }
    }
}

} // namespace sluice::uroce::device
