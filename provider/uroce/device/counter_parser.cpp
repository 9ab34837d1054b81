// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/counter_parser.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "provider/uroce/device/counter_format.hpp"

namespace sluice::uroce::device {

namespace {

bool is_name(std::string_view text) noexcept {
    return std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    });
}

// Up to the zero that must be in it.
template<std::size_t kSize>
std::optional<std::string_view> text_in(const std::array<char, kSize>& field) noexcept {
    const auto end = std::ranges::find(field, '\0');
    return end == field.end() ? std::nullopt
                              : std::optional(std::string_view(field.data(), end - field.begin()));
}

// Terminals take some characters for orders, and JSON has to be UTF-8.
std::string printable(std::string_view text) {
    std::string made(text);
    std::ranges::replace_if(
        made, [](unsigned char byte) { return byte < ' ' || byte >= 0x7f; }, '?');
    return made;
}

Error not_understood(const char* what) {
    return Error(ErrorKind::kProtocol, what);
}

struct Names {
    std::vector<std::pair<std::size_t, std::string>> places; // of numbers, with their names
};

Result<Names> read_names(const FileHeader& header) {
    Names names;
    for (std::size_t i = 0; i < header.counters; ++i) {
        const auto name = text_in(header.names[i]);
        if (!name || !is_name(*name)) {
            return not_understood("the name of a counter is none");
        }
        if (!name->empty()) {
            names.places.emplace_back(i, *name);
        }
    }
    return names;
}

// Of the room that begins at BYTES.
void add_room(ProcessUse& use, const Names& names, const std::uint8_t* bytes) {
    RoomName room_name;
    std::array<std::uint64_t, kMaxCounters> values;
    std::memcpy(&room_name, bytes + offsetof(CounterRoom, name), sizeof room_name);
    std::memcpy(&values, bytes + offsetof(CounterRoom, values), sizeof values);
    const auto device = text_in(room_name.device);
    const auto address = text_in(room_name.address);
    if (!device || device->empty() || !address) {
        return;
    }
    DeviceUse one{printable(*device), printable(*address), {}};
    auto known = std::ranges::find_if(use.devices, [&](const DeviceUse& other) {
        return other.device == one.device && other.address == one.address;
    });
    if (known == use.devices.end()) {
        for (const auto& [place, name] : names.places) {
            one.counters.emplace_back(name, 0);
        }
        use.devices.push_back(std::move(one));
        known = use.devices.end() - 1;
    }
    for (std::size_t i = 0; i < names.places.size(); ++i) {
        known->counters[i].second += values[names.places[i].first];
    }
}

} // namespace

Result<ProcessUse> parse_counters(std::span<const std::uint8_t> file) {
    if (file.size() < sizeof(FileHeader)) {
        return not_understood("it is shorter than its head");
    }
    const auto header = std::make_unique_for_overwrite<FileHeader>();
    std::memcpy(header.get(), file.data(), sizeof *header);
    if (header->magic != kCounterMagic) {
        return not_understood("it doesn't begin as counters do, or those of another version");
    }
    if (header->counters > kMaxCounters) {
        return not_understood("it says that it has more counters than there is room for");
    }
    const auto command = text_in(header->command);
    Result<Names> names = read_names(*header);
    if (!names) {
        return std::move(names).error();
    }
    ProcessUse use{.pid = header->pid,
                   .opened_ns = header->opened_ns,
                   .command = printable(command.value_or("?")),
                   .devices = {}};
    for (std::size_t at = kRoomsAt; at + kRoomBytes <= std::min(file.size(), kCounterFileBytes);
         at += kRoomBytes) {
        add_room(use, *names, file.data() + at);
    }
    return use;
}

} // namespace sluice::uroce::device
