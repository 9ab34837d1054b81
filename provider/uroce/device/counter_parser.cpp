// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/counter_parser.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "provider/uroce/device/counter_format.hpp"
#include "provider/uroce/roce.hpp"
#include "roce/socket/address.hpp"

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

Result<Names> read_names(std::span<const CounterName> fields) {
    Names names;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const auto name = text_in(fields[i]);
        if (!name || !is_name(*name)) {
            return not_understood("the name of a counter is none");
        }
        if (!name->empty()) {
            names.places.emplace_back(i, *name);
        }
    }
    return names;
}

template<std::size_t kMost>
NamedCounters with_names(const Names& names, const std::array<std::uint64_t, kMost>& values) {
    NamedCounters made;
    made.reserve(names.places.size());
    for (const auto& [place, name] : names.places) {
        made.emplace_back(name, values[place]);
    }
    return made;
}

// Where a room's device lies in the use. Nothing: it is nobody's room.
using Rooms = std::vector<std::optional<std::size_t>>;

// Of the room that begins at BYTES.
std::optional<std::size_t> add_room(ProcessUse& use, const Names& names, const std::uint8_t* bytes) {
    RoomName room_name;
    std::memcpy(&room_name, bytes + offsetof(CounterRoom, name), sizeof room_name);
    const auto device = text_in(room_name.device);
    const auto address = text_in(room_name.address);
    if (!device || device->empty() || !address) {
        return std::nullopt;
    }
    std::array<std::uint64_t, kMaxCounters> values;
    std::memcpy(&values, bytes + offsetof(CounterRoom, values), sizeof values);
    DeviceUse one{printable(*device), printable(*address), {}, {}};
    auto known = std::ranges::find_if(use.devices, [&](const DeviceUse& other) {
        return other.device == one.device && other.address == one.address;
    });
    if (known == use.devices.end()) {
        one.counters = with_names(names, std::array<std::uint64_t, kMaxCounters>{});
        use.devices.push_back(std::move(one));
        known = use.devices.end() - 1;
    }
    for (std::size_t i = 0; i < names.places.size(); ++i) {
        known->counters[i].second += values[names.places[i].first];
    }
    return static_cast<std::size_t>(known - use.devices.begin());
}

// By engine::QpType and engine::QpState.
constexpr std::array<const char*, 5> kTypes = {"RC", "UC", "UD", "XRC_SEND", "XRC_RECV"};
constexpr std::array<const char*, 7> kStates = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

template<std::size_t kCount>
std::string word_for(const std::array<const char*, kCount>& words, std::uint64_t number) {
    return number < kCount ? words[number] : "?";
}

std::string address_in(const std::uint8_t* bytes) {
    engine::Address address;
    std::memcpy(address.gid.data(), bytes, sizeof address.gid);
    return address == engine::Address{} ? std::string() : socket::to_text(address).data();
}

constexpr std::uint32_t kNumberMask = 0xffffff;

// A member of the row that begins at BYTES.
std::uint64_t number_at(const std::uint8_t* bytes, std::size_t member) {
    std::uint64_t number = 0;
    std::memcpy(&number, bytes + offsetof(QueuePairInFile, row) + member, sizeof number);
    return number;
}

void add_row(ProcessUse& use, const Rooms& rooms, const Names& names, const std::uint8_t* bytes) {
    using Row = engine::QueuePairRow;
    std::uint64_t room = 0;
    std::memcpy(&room, bytes + offsetof(QueuePairInFile, room), sizeof room);
    const auto qpn = static_cast<std::uint32_t>(number_at(bytes, offsetof(Row, qpn))) & kNumberMask;
    if (qpn == 0 || room >= rooms.size() || !rooms[room]) {
        return;
    }
    std::array<std::uint64_t, kMaxRowCounters> values;
    std::memcpy(&values, bytes + kRowCountersAt, sizeof values);
    const std::uint8_t* const row = bytes + offsetof(QueuePairInFile, row);
    use.devices[*rooms[room]].queue_pairs.push_back(
        {.qpn = qpn,
         .type = word_for(kTypes, number_at(bytes, offsetof(Row, type))),
         .state = word_for(kStates, number_at(bytes, offsetof(Row, state))),
         .local = address_in(row + offsetof(Row, local)),
         .remote = address_in(row + offsetof(Row, remote)),
         .peer_qpn = static_cast<std::uint32_t>(number_at(bytes, offsetof(Row, peer_qpn))) & kNumberMask,
         .counters = with_names(names, values)});
}

// Of a version that has none, or has them elsewhere, the devices are enough.
Result<void> add_rows(ProcessUse& use, const Rooms& rooms, std::span<const std::uint8_t> bytes) {
    if (bytes.size() < sizeof(RowsHeader)) {
        return {};
    }
    const auto header = std::make_unique_for_overwrite<RowsHeader>();
    std::memcpy(static_cast<void*>(header.get()), bytes.data(), sizeof *header);
    if (header->magic != kRowsMagic) {
        return {};
    }
    if (header->counters > kMaxRowCounters) {
        return not_understood("it says that its queue pairs have more counters than there is room for");
    }
    Result<Names> names = read_names(std::span(header->names).first(header->counters));
    if (!names) {
        return std::move(names).error();
    }
    const std::size_t used = std::min<std::uint64_t>(header->used, kMaxRows);
    constexpr std::size_t kFirst = kRowsAt - kRowsHeadAt;
    for (std::size_t i = 0; i < used && kFirst + (i + 1) * kRowBytes <= bytes.size(); ++i) {
        add_row(use, rooms, *names, bytes.data() + kFirst + i * kRowBytes);
    }
    for (DeviceUse& device : use.devices) {
        std::ranges::sort(device.queue_pairs, {}, &QueuePairUse::qpn);
    }
    return {};
}

} // namespace

CounterBytes parts_of(std::span<const std::uint8_t> file) noexcept {
    return file.size() > kRowsHeadAt ? CounterBytes{file.first(kRowsHeadAt), file.subspan(kRowsHeadAt)}
                                     : CounterBytes{file, {}};
}

Result<ProcessUse> parse_counters(const CounterBytes& bytes) {
    const std::span<const std::uint8_t> file = bytes.rooms;
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
    Result<Names> names = read_names(std::span(header->names).first(header->counters));
    if (!names) {
        return std::move(names).error();
    }
    ProcessUse use{.pid = header->pid,
                   .opened_ns = header->opened_ns,
                   .command = printable(command.value_or("?")),
                   .devices = {}};
    Rooms rooms;
    rooms.reserve(kMaxCounterRooms);
    for (std::size_t at = kRoomsAt; at + kRoomBytes <= file.size(); at += kRoomBytes) {
        rooms.push_back(add_room(use, *names, file.data() + at));
    }
    Result<void> added = add_rows(use, rooms, bytes.rows);
    if (!added) {
        return std::move(added).error();
    }
    return use;
}

} // namespace sluice::uroce::device
