// SPDX-License-Identifier: BSD-3-Clause
#include "tools/trace/recording.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "tools/check/record.hpp"

namespace sluice::tools::trace {

namespace {

template<std::size_t kSize>
std::string text_in(const std::array<char, kSize>& bytes) {
    return check::printable(std::string_view(bytes.data(), strnlen(bytes.data(), bytes.size())));
}

void read_threads(const ReadAt& read, std::uint32_t claimed, Recording& recording) {
    std::vector<file::Thread> threads(std::min(claimed, file::kMostThreads));
    const std::size_t wanted = threads.size() * sizeof(file::Thread);
    threads.resize(read(file::kThreadsAt, reinterpret_cast<char*>(threads.data()), wanted) /
                   sizeof(file::Thread));
    recording.threads.reserve(threads.size());
    for (const file::Thread& each : threads) {
        recording.threads.push_back({.tid = each.tid, .name = text_in(each.name), .lost = each.lost});
    }
}

// Bytes of strangers: the enumeration is no bound.
bool is_event(const file::Event& event) {
    const auto kind = static_cast<std::uint8_t>(event.kind);
    return kind > static_cast<std::uint8_t>(file::Kind::kHead) &&
           kind <= static_cast<std::uint8_t>(file::Kind::kLast);
}

void take_block(const std::vector<file::Event>& block, std::size_t count, Recording& recording) {
    if (count == 0 || block[0].kind == file::Kind::kNothing) {
        return; // taken, and nothing written yet
    }
    if (block[0].kind != file::Kind::kHead || block[0].time_ns >= recording.threads.size()) {
        ++recording.unreadable;
        return;
    }
    const auto thread = static_cast<std::uint32_t>(block[0].time_ns);
    for (std::size_t i = 1; i < count; ++i) {
        if (is_event(block[i])) {
            recording.events.push_back({.event = block[i], .thread = thread});
        } else if (block[i].kind != file::Kind::kNothing) {
            ++recording.unreadable;
        }
    }
}

} // namespace

std::optional<Recording> read_recording(const ReadAt& read, std::uint32_t most_blocks) {
    file::Header header{};
    if (read(0, reinterpret_cast<char*>(&header), sizeof header) != sizeof header ||
        header.magic != file::kMagic) {
        return std::nullopt;
    }
    Recording recording;
    recording.pid = header.pid;
    recording.parent = header.parent;
    recording.program = text_in(header.program);
    recording.lost_of_others = header.lost;
    read_threads(read, header.threads, recording);
    const std::uint32_t blocks = std::min({header.block_count, header.blocks_taken, most_blocks});
    std::vector<file::Event> block(file::kBlockEvents);
    for (std::uint32_t i = 0; i < blocks; ++i) {
        const std::size_t got = read(file::kBlocksAt + i * file::kBlockBytes,
                                     reinterpret_cast<char*>(block.data()), file::kBlockBytes);
        take_block(block, got / sizeof(file::Event), recording);
        if (got < file::kBlockBytes) {
            break;
        }
    }
    std::ranges::stable_sort(recording.events, {},
                             [](const TracedEvent& each) { return each.event.time_ns; });
    return recording;
}

std::string device_name_in(const file::Event& event) {
    std::array<char, 16> name{};
    std::memcpy(name.data(), reinterpret_cast<const char*>(&event) + offsetof(file::Event, id), name.size());
    return text_in(name);
}

} // namespace sluice::tools::trace
