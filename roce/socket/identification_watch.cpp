// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/identification_watch.hpp"

namespace sluice::roce::socket {

IdentificationWatch::Source& IdentificationWatch::find(const engine::Address& address) noexcept {
    std::uint32_t hash =
        0x811c9dc5; // FNV-1a: a peer that an attacker displaces this way loses nothing but time
    for (const std::uint8_t byte : address.gid) {
        hash = (hash ^ byte) * 0x01000193;
    }
    Source& source = sources_[(hash ^ hash >> 16) % sources_.size()];
    if (source.address != address) {
        source = {.address = address};
    }
    return source;
}

bool IdentificationWatch::follows(std::uint16_t identification, std::uint16_t last) noexcept {
    const auto ahead = static_cast<std::uint16_t>(identification - last);
    return ahead <= kAhead || ahead >= static_cast<std::uint16_t>(-kBehind);
}

void IdentificationWatch::damaged(const engine::Address& address) noexcept {
    find(address).watched = kWatchedPackets;
}

bool IdentificationWatch::believes(const engine::Address& address, std::uint16_t identification) noexcept {
    constexpr std::uint8_t kAnyway = 3;
    Source& source = find(address);
    const bool suspected = source.watched != 0;
    source.watched -= suspected ? 1 : 0;
    const bool plausible =
        !suspected || identification < kSegments || (source.known && follows(identification, source.last)) ||
        (source.doubts > 0 && follows(identification, source.doubtful)) || source.doubts + 1 >= kAnyway;
    if (!plausible) {
        source.doubtful = identification;
        ++source.doubts;
        return false;
    }
    source.last = identification;
    source.known = true;
    source.doubts = 0;
    return true;
}

} // namespace sluice::roce::socket
