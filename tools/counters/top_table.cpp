// SPDX-License-Identifier: BSD-3-Clause
#include "tools/counters/top_table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>

namespace sluice::tools::counters {

namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kWidestCommand = 24;
constexpr std::size_t kLeastCommand = 8;
constexpr std::size_t kLeastParts = 10; // of the last minute
constexpr std::size_t kMostParts = 60;

// As they stand beside each other.
enum Field { kPid, kCommand, kDevice, kAddress, kSent, kReceived, kPackets, kAgain, kMinute, kColumns };

constexpr std::array<const char*, kColumns> kHeads{
    "PID", "COMMAND", "DEVICE", "ADDRESS", "SENT/S", "RECEIVED/S", "PACKETS/S", "AGAIN/S", "LAST MINUTE"};
// The first goes first.
constexpr std::array kGoing{kAddress, kMinute, kDevice, kPackets, kAgain, kReceived, kPid};

constexpr bool is_number(Field column) {
    return column == kPid || (column >= kSent && column <= kAgain);
}

Field column_of(SortedBy sorted_by) {
    return sorted_by == SortedBy::kBytes ? kSent : sorted_by == SortedBy::kPackets ? kPackets : kAgain;
}

double value_of(const Rate& rate, SortedBy sorted_by) {
    return sorted_by == SortedBy::kBytes     ? rate.bytes()
           : sorted_by == SortedBy::kPackets ? rate.packets
                                             : rate.retransmissions;
}

std::vector<std::reference_wrapper<const Watched>> sorted(const Rates& rates, SortedBy sorted_by) {
    std::vector<std::reference_wrapper<const Watched>> all(rates.all().begin(), rates.all().end());
    std::ranges::stable_sort(all, std::greater(),
                             [&](const Watched& one) { return value_of(one.rate, sorted_by); });
    return all;
}

using Cells = std::array<std::string, kColumns>;

Cells cells_of(const Watched& one) {
    const std::string mark = one.use.is_running ? "" : " (ended)";
    return {std::to_string(one.use.pid),
            one.use.command.substr(0, kWidestCommand - mark.size()) + mark,
            one.use.device,
            one.use.address,
            in_short(one.rate.bytes_sent),
            in_short(one.rate.bytes_received),
            in_short(one.rate.packets),
            in_short(one.rate.retransmissions),
            ""};
}

// PART of MOST, both above zero, as a bar of eight.
const char* bar(double part, double most, bool unicode) {
    static constexpr std::array kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static constexpr std::array kSigns{".", ":", "-", "=", "+", "*", "#", "@"};
    const auto height = std::min<std::size_t>(static_cast<std::size_t>(part / most * 8), 7);
    return (unicode ? kBlocks : kSigns).at(height);
}

std::string sparkline(const std::vector<double>& parts, bool unicode) {
    const double most = *std::ranges::max_element(parts);
    std::string made;
    for (const double part : parts) {
        made += part > 0 ? bar(part, most, unicode) : " ";
    }
    return made;
}

struct Layout {
    std::array<std::size_t, kColumns> widths{};
    std::array<bool, kColumns> is_shown{};

    std::size_t total() const {
        std::size_t all = 0;
        for (std::size_t i = 0; i < kColumns; ++i) {
            all += is_shown[i] ? widths[i] + (all > 0 ? kGap : 0) : 0;
        }
        return all;
    }
    // To MOST at most, if there is room.
    void widen(Field column, std::size_t most, std::size_t columns) {
        const std::size_t now = total();
        if (is_shown[column] && now < columns) {
            widths[column] = std::max(widths[column], std::min(widths[column] + columns - now, most));
        }
    }
};

Layout layout_for(const std::vector<Cells>& rows, const TopLook& look) {
    Layout made;
    made.is_shown.fill(true);
    for (const Cells& row : rows) {
        for (std::size_t i = 0; i < kColumns; ++i) {
            made.widths[i] = std::max(made.widths[i], row[i].size());
        }
    }
    const std::size_t command = made.widths[kCommand];
    made.widths[kCommand] = std::min(command, kLeastCommand);
    made.widths[kMinute] = std::max(made.widths[kMinute], kLeastParts);
    for (const Field going : kGoing) {
        made.is_shown[going] = made.total() <= look.columns || going == column_of(look.sorted_by);
    }
    made.widen(kCommand, command, look.columns);
    made.widen(kMinute, kMostParts, look.columns);
    return made;
}

// All cells but the last minute's are of one byte for each character.
std::string line_of(const Cells& row, const Layout& layout, std::size_t columns) {
    std::string line;
    for (std::size_t i = 0; i < kMinute; ++i) {
        if (layout.is_shown[i]) {
            const std::string cell = row[i].substr(0, layout.widths[i]);
            const std::string room(layout.widths[i] - cell.size(), ' ');
            line += (line.empty() ? "" : std::string(kGap, ' ')) +
                    (is_number(static_cast<Field>(i)) ? room + cell : cell + room);
        }
    }
    line = line.substr(0, columns);
    line += layout.is_shown[kMinute] ? std::string(kGap, ' ') + row[kMinute] : "";
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
}

const char* name_of(SortedBy sorted_by) {
    return sorted_by == SortedBy::kBytes     ? "bytes"
           : sorted_by == SortedBy::kPackets ? "packets"
                                             : "retransmissions";
}

} // namespace

std::string in_short(double value) {
    static constexpr std::array kUnits{"", "k", "M", "G", "T", "P", "E"};
    std::size_t unit = 0;
    while (value >= 999.5 && unit + 1 < kUnits.size()) {
        value /= 1000;
        ++unit;
    }
    const bool is_whole = unit == 0 && (value >= 10 || value == static_cast<double>(static_cast<int>(value)));
    char text[32];
    std::snprintf(text, sizeof text, "%.*f%s",
                  is_whole || value >= 99.95    ? 0
                  : value >= 9.995 || unit == 0 ? 1
                                                : 2,
                  value, kUnits.at(unit));
    return text;
}

std::vector<std::string> top_table(const Rates& rates, const TopLook& look) {
    const auto order = sorted(rates, look.sorted_by);
    std::vector<Cells> rows{{}};
    std::ranges::copy(kHeads, rows.front().begin());
    for (const Watched& one : order) {
        rows.push_back(cells_of(one));
    }
    const Layout layout = layout_for(rows, look);
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (i > 0) {
            rows[i][kMinute] =
                sparkline(rates.last_minute(order[i - 1], layout.widths[kMinute]), look.unicode);
        }
        lines.push_back(line_of(rows[i], layout, look.columns));
    }
    return lines;
}

std::string top_title(const Rates& rates, const TopLook& look) {
    double sent = 0;
    double received = 0;
    for (const Watched& one : rates.all()) {
        sent += one.rate.bytes_sent;
        received += one.rate.bytes_received;
    }
    const std::string title = "sent " + in_short(sent) + "B/s, received " + in_short(received) + "B/s, by " +
                              name_of(look.sorted_by);
    return title.substr(0, look.columns);
}

} // namespace sluice::tools::counters
