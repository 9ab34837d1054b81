// SPDX-License-Identifier: BSD-3-Clause
#include "layers/hosts/place.hpp"

#include <charconv>

namespace sluice::layers::hosts {

namespace {

constexpr unsigned kMostEvictions = 1000;

template<typename Number>
bool take_number(std::string_view& text, Number& number) noexcept {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop == end || *stop != ':') {
        return false;
    }
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()) + 1);
    return true;
}

} // namespace

Result<Place> parse_place(std::string_view text) {
    Place place;
    std::string_view rest = text;
    const bool has_numbers = take_number(rest, place.host) && take_number(rest, place.hosts) &&
                             take_number(rest, place.seed) && take_number(rest, place.evictions);
    place.directory = rest;
    if (!has_numbers || place.hosts > kMostHosts || place.host >= place.hosts ||
        place.evictions > kMostEvictions || !rest.starts_with('/')) {
        return Error::format(ErrorKind::kInvalidArgument, 0,
                             "SLUICE_SYNC_HOST=%.*s: it must be HOST:HOSTS:SEED:EVICTIONS:DIRECTORY, with "
                             "at most %u hosts and %u evictions; `sluice sync run` sets it",
                             static_cast<int>(text.size()), text.data(), kMostHosts, kMostEvictions);
    }
    return place;
}

} // namespace sluice::layers::hosts
