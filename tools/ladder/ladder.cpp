// SPDX-License-Identifier: BSD-3-Clause
#include "tools/ladder/ladder.hpp"

#include <algorithm>

#include "tools/ladder/ladder.css.hpp"
#include "tools/ladder/ladder.html.hpp"
#include "tools/ladder/ladder.js.hpp"

namespace sluice::tools::ladder {

namespace {

using page::Json;

constexpr int kPageSchema = 1;
constexpr std::uint64_t kMostSeconds = std::uint64_t{1} << 33; // the year 2242; more wouldn't fit nanoseconds

// What a row has in columns of its own, and flags that aren't set.
bool is_left_out(const sluice_packet_field& field) {
    const std::string_view name = field.name;
    return (field.kind == SLUICE_FIELD_FLAG && field.number == 0) || name == "source" ||
           name == "destination" || name == "opcode" || name == "psn";
}

bool is_damaged(Fields fields) {
    return !fields.empty() && std::string_view(fields.back().name) == "icrc" &&
           std::string_view(fields.back().value) != "ok";
}

void add_line(std::string& lines, std::string_view line) {
    lines.append(lines.empty() ? "" : "\n").append(line);
}

Json end_of(const End& end) {
    return {{"address", end.address}, {"queue-pair", end.qpn ? Json(*end.qpn) : Json(nullptr)}};
}

bool has(const Ends& ends, std::uint32_t qpn) {
    return ends[0].qpn == qpn || ends[1].qpn == qpn;
}

} // namespace

std::uint32_t Ladder::Names::number(const std::string& text) {
    const auto [place, is_new] = numbers_.try_emplace(text, static_cast<std::uint32_t>(texts_.size()));
    if (is_new) {
        texts_.push_back(text);
    }
    return place->second;
}

void Ladder::add(std::uint64_t seconds, std::uint32_t nanoseconds, Fields fields) {
    const Packet packet = packet_of(fields);
    const Lanes::Entry entry = lanes_.add(packet);
    std::string shape, values;
    for (const sluice_packet_field& field : fields) {
        if (!is_left_out(field)) {
            add_line(shape, field.name);
            add_line(values, field.value);
        }
    }
    packets_.push_back(
        {.nanoseconds = std::min(seconds, kMostSeconds) * 1000000000 + nanoseconds,
         .lane = entry.lane,
         .opcode = opcodes_.number(packet.opcode.empty() ? "not understood" : std::string(packet.opcode)),
         .psn = packet.psn,
         .shape = shapes_.number(shape),
         .kind = packet.kind,
         .again = entry.again,
         .is_damaged = is_damaged(fields),
         .values = std::move(values)});
}

void Ladder::place_all() {
    if (places_.empty()) {
        places_ = lanes_.finish();
    }
}

void Ladder::choose(std::uint32_t qpn) {
    place_all();
    std::erase_if(packets_, [&](const Row& row) {
        return !has(lanes_.connections()[places_[row.lane].connection], qpn);
    });
}

Json Ladder::connections() const {
    Json list = Json::array();
    for (const Ends& ends : lanes_.connections()) {
        list.push_back({end_of(ends[0]), end_of(ends[1])});
    }
    return list;
}

// A list for each property: an object for each packet would have the same names over and over.
Json Ladder::columns() const {
    Json times = Json::array(), connections = Json::array(), marks = Json::array(), opcodes = Json::array(),
         psns = Json::array(), shapes = Json::array(), values = Json::array();
    for (const Row& row : packets_) {
        const Place& place = places_[row.lane];
        times.push_back(static_cast<std::int64_t>(row.nanoseconds - packets_.front().nanoseconds));
        connections.push_back(place.connection);
        marks.push_back(static_cast<unsigned>(row.kind) << 3 | (place.is_forth ? 1U : 0U) |
                        (row.again ? 2U : 0U) | (row.is_damaged ? 4U : 0U));
        opcodes.push_back(row.opcode);
        psns.push_back(row.psn);
        shapes.push_back(row.shape);
        values.push_back(row.values);
    }
    return {{"time", std::move(times)},   {"connection", std::move(connections)},
            {"mark", std::move(marks)},   {"opcode", std::move(opcodes)},
            {"psn", std::move(psns)},     {"shape", std::move(shapes)},
            {"values", std::move(values)}};
}

void Ladder::write(std::ostream& out, const std::string& name, const std::string& note,
                   std::uint64_t others) {
    place_all();
    const Json data{{"schema", kPageSchema},
                    {"name", name},
                    {"note", note},
                    {"others", others},
                    {"start", packets_.empty() ? 0 : packets_.front().nanoseconds / 1000000},
                    {"kinds", kind_names()},
                    {"opcodes", opcodes_.all()},
                    {"shapes", shapes_.all()},
                    {"connections", connections()},
                    {"packets", columns()}};
    const std::string title = name + " - packets";
    page::write(out, {.title = title, .style = kLadderCss, .body = kLadderHtml, .script = kLadderJs}, data);
}

} // namespace sluice::tools::ladder
