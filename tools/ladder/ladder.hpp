// SPDX-License-Identifier: BSD-3-Clause
//
// A recording as a page: for each connection two ends, and the packets between them as arrows.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tools/ladder/lanes.hpp"
#include "tools/page/page.hpp"

namespace sluice::tools::ladder {

// What a browser can scroll through: its longest page is about 17 million pixels high.
inline constexpr std::size_t kMostPackets = 500000;

class Ladder {
  public:
    // SECONDS and NANOSECONDS since 1970.
    void add(std::uint64_t seconds, std::uint32_t nanoseconds, Fields fields);

    // After the last packet: leaves only connections that have this queue pair at an end.
    void choose(std::uint32_t qpn);
    std::size_t size() const { return packets_.size(); }

    // NAME is the recording's, NOTE a text below it, OTHERS what it has besides RoCEv2.
    void write(std::ostream& out, const std::string& name, const std::string& note, std::uint64_t others);

  private:
    struct Row {
        std::uint64_t nanoseconds = 0;
        std::uint32_t lane = 0;
        std::uint32_t opcode = 0;
        std::uint32_t psn = 0;
        std::uint32_t shape = 0;
        Kind kind = Kind::kRefused;
        bool again = false;
        bool is_damaged = false;
        std::string values; // of the shape's fields, a line for each
    };
    // Numbers for texts that come again and again.
    class Names {
      public:
        std::uint32_t number(const std::string& text);
        const std::vector<std::string>& all() const { return texts_; }

      private:
        std::map<std::string, std::uint32_t> numbers_;
        std::vector<std::string> texts_;
    };

    void place_all();
    page::Json connections() const;
    page::Json columns() const;

    Lanes lanes_;
    std::vector<Place> places_; // after the last packet
    Names opcodes_;
    Names shapes_; // names of fields, a line for each
    std::vector<Row> packets_;
};

} // namespace sluice::tools::ladder
