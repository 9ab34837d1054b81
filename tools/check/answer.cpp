// SPDX-License-Identifier: BSD-3-Clause
#include "tools/check/answer.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "tools/check/record.hpp"

namespace sluice::tools::check {

namespace {

std::string_view take_answer_line(std::string_view& text) {
    const std::size_t at = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, at);
    text.remove_prefix(std::min(at + 1, text.size()));
    return line;
}

// "FILE:LINE", and maybe " (discriminator N)".
void take_source(std::string_view text, Place& place) {
    text = text.substr(0, text.find(" (discriminator "));
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos || colon == 0 || text.starts_with("??")) {
        return;
    }
    const std::string_view number = text.substr(colon + 1);
    unsigned line = 0;
    if (std::from_chars(number.data(), number.data() + number.size(), line).ec == std::errc() && line != 0) {
        place.line = line;
        place.file =
            std::filesystem::path(printable(text.substr(0, std::min(colon, report::file::kLongestLine))))
                .lexically_normal()
                .string();
    }
}

} // namespace

std::vector<Place> places_in(std::string_view answer) {
    std::vector<Place> places;
    (void)take_answer_line(answer); // the address
    while (!answer.empty() && places.size() < kMostFrames) {
        Place place;
        place.function = printable(take_answer_line(answer).substr(0, report::file::kLongestLine));
        take_source(take_answer_line(answer), place);
        if (place.function == "??") {
            place.function = "?";
        }
        places.push_back(std::move(place));
    }
    for (std::size_t i = 0; i + 1 < places.size(); ++i) {
        places[i].is_inlined = true;
    }
    return places;
}

} // namespace sluice::tools::check
