// SPDX-License-Identifier: BSD-3-Clause
//
// The parser of counters' files. The input is what somebody has changed in a sound file: a place, two bytes,
// and what stands there now. The first byte says how long the file is, in halves of a kilobyte.
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

// What is there is zero, and has room.
void put(char* to, std::string_view text) {
    to[text.copy(to, text.size())] = '\0';
}

std::vector<std::uint8_t> sound_file() {
    std::vector<std::uint8_t> file(kRoomsAt + kRooms * kRoomBytes);
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
    return file;
}

bool is_printable(const std::string& text) {
    return std::ranges::none_of(text, [](unsigned char byte) { return byte < ' ' || byte >= 0x7f; });
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
        file[(data[i] << 8 | data[i + 1]) % file.size()] = data[i + 2];
    }
    const std::size_t len = size == 0 ? file.size() : std::min(file.size(), std::size_t{data[0]} * 512);
    // Exactly as long, so that a sanitizer sees what is read behind it.
    const std::vector<std::uint8_t> given(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(len));
    const auto use = parse_counters(given);
    if (!use.ok()) {
        return 0;
    }
    require(use->devices.size() <= kRooms && is_printable(use->command));
    for (const DeviceUse& device : use->devices) {
        require(is_printable(device.device) && is_printable(device.address) && !device.device.empty());
        require(device.counters.size() <= kMaxCounters);
        for (const auto& [name, value] : device.counters) {
            require(!name.empty() && name.size() < kCounterNameBytes && is_printable(name));
        }
    }
    return 0;
}
