// SPDX-License-Identifier: BSD-3-Clause
//
// The parser of counters' files. The input is what somebody has changed in a sound file: a place, two bytes,
// and what stands there now. The first byte says how long the file is, in halves of a kilobyte; from 128 on,
// how many of its rows, in quarters. Places are those where something stands.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "provider/uroce/device/counter_format.hpp"
#include "provider/uroce/device/counter_parser.hpp"

using namespace sluice::uroce::device;

namespace {

constexpr std::size_t kRooms = 3;
constexpr std::size_t kRows = 3;
constexpr std::size_t kRoomsEnd = kRoomsAt + kRooms * kRoomBytes;
constexpr std::size_t kRowsEnd = kRowsAt + kRows * kRowBytes;
constexpr std::size_t kPlaces = kRoomsEnd + kRowsEnd - kRowsHeadAt;

// What is there is zero, and has room.
void put(char* to, std::string_view text) {
    to[text.copy(to, text.size())] = '\0';
}

std::vector<std::uint8_t> sound_file() {
    std::vector<std::uint8_t> file(kRowsEnd);
    FileHeader head{
        .magic = kCounterMagic, .counters = 3, .pid = 1, .opened_ns = 2, .command = {}, .names = {}};
    put(head.command.data(), "program");
    put(head.names[0].data(), "path.udp.bytes_sent");
    put(head.names[2].data(), "drop.no_room");
    std::memcpy(file.data(), &head, sizeof head);
    for (std::size_t room = 0; room < kRooms; ++room) {
        std::uint8_t* const at = file.data() + kRoomsAt + room * kRoomBytes;
        std::memcpy(at, room == 2 ? "uroce1" : "uroce0", 7);
        std::memcpy(at + 64, "127.0.0.1", 10);
    }
    RowsHeader rows{.magic = kRowsMagic, .counters = 2, .reserved = 0, .used = {}, .names = {}};
    rows.used.set(kRows);
    put(rows.names[0].data(), "messages_sent");
    put(rows.names[1].data(), "dropped");
    std::memcpy(file.data() + kRowsHeadAt, static_cast<const void*>(&rows), sizeof rows);
    for (std::size_t i = 0; i < kRows; ++i) {
        QueuePairInFile row{};
        row.room.set(i);
        row.row.qpn.set(i + 1);
        std::memcpy(file.data() + kRowsAt + i * kRowBytes, static_cast<const void*>(&row), sizeof row);
    }
    return file;
}

bool is_printable(const std::string& text) {
    return std::ranges::none_of(text, [](unsigned char byte) { return byte < ' ' || byte >= 0x7f; });
}

std::size_t length(const std::uint8_t* data, std::size_t size, std::size_t most) {
    if (size == 0) {
        return most;
    }
    return data[0] < 128 ? std::size_t{data[0]} * 512
                         : std::min(most, kRowsAt + std::size_t{data[0] - 128U} * kRowBytes / 4);
}

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

} // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::vector<std::uint8_t> sound = sound_file();
    std::vector<std::uint8_t> file = sound;
    for (std::size_t i = 1; i + 2 < size; i += 3) {
        const std::size_t place = static_cast<std::size_t>(data[i] << 8 | data[i + 1]) % kPlaces;
        file[place < kRoomsEnd ? place : place - kRoomsEnd + kRowsHeadAt] = data[i + 2];
    }
    const std::size_t len = length(data, size, file.size());
    // Exactly as long, so that a sanitizer sees what is read behind it.
    const std::vector<std::uint8_t> given(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(len));
    const auto use = parse_counters(parts_of(given));
    if (!use.ok()) {
        return 0;
    }
    require(use->devices.size() <= kRooms && is_printable(use->command));
    std::size_t queue_pairs = 0;
    for (const DeviceUse& device : use->devices) {
        queue_pairs += device.queue_pairs.size();
        for (const QueuePairUse& one : device.queue_pairs) {
            require(one.qpn != 0 && one.qpn <= 0xffffff && one.peer_qpn <= 0xffffff);
            require(is_printable(one.local) && is_printable(one.remote));
            require(!one.type.empty() && !one.state.empty() && one.counters.size() <= kMaxRowCounters);
        }
        require(is_printable(device.device) && is_printable(device.address) && !device.device.empty());
        require(device.counters.size() <= kMaxCounters);
        for (const auto& [name, value] : device.counters) {
            require(!name.empty() && name.size() < kCounterNameBytes && is_printable(name));
        }
    }
    require(queue_pairs <= kRows);
    return 0;
}
