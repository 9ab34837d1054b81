// SPDX-License-Identifier: BSD-3-Clause
//
// Recordings as tcpdump and our recorder write them: classic pcap, Ethernet or bare IP, of either byte
// order and either resolution. For files of our own repository: a broken one fails the test that reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace sluice::roce::test {

inline std::vector<std::uint8_t> read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The IP datagrams of a recording, in order.
inline std::vector<std::vector<std::uint8_t>> read_pcap(const std::string& path) {
    constexpr std::size_t kFileHeader = 24, kRecordHeader = 16, kRawIp = 101;
    const std::vector<std::uint8_t> file = read_file(path);
    std::vector<std::vector<std::uint8_t>> datagrams;
    if (file.size() < kFileHeader) {
        return datagrams;
    }
    const bool little = file[0] == 0xd4 || file[0] == 0x4d;
    const auto load32 = [&](std::size_t at) {
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            value = value << 8 | file[at + (little ? 3 - i : i)];
        }
        return value;
    };
    const std::size_t link_header = load32(20) == kRawIp ? 0 : 14;
    for (std::size_t at = kFileHeader; at + kRecordHeader <= file.size();) {
        const std::size_t len = load32(at + 8);
        at += kRecordHeader;
        if (len < link_header || len > file.size() - at) {
            break;
        }
        datagrams.emplace_back(file.begin() + static_cast<std::ptrdiff_t>(at + link_header),
                               file.begin() + static_cast<std::ptrdiff_t>(at + len));
        at += len;
    }
    return datagrams;
}

inline std::vector<std::string> files_of(const std::string& directory, const std::string& extension) {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        if (extension.empty() || entry.path().extension() == extension) {
            paths.push_back(entry.path().string());
        }
    }
    return paths;
}

} // namespace sluice::roce::test
