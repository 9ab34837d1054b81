// SPDX-License-Identifier: BSD-3-Clause
//
// How fast processes count: from what they have counted at several times, what `sluice top` shows.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tools/library.hpp"

namespace sluice::tools::counters {

inline constexpr double kMinuteSeconds = 60;

// What `sluice top` shows of one device in one process, each in a second.
struct Rate {
    double bytes_sent = 0;
    double bytes_received = 0;
    double packets = 0; // sent and received
    double retransmissions = 0;
    double bytes() const noexcept { return bytes_sent + bytes_received; }
};

struct Watched {
    UroceUse use; // as it was last
    Rate rate;    // of the last interval
    struct Span {
        double begin; // in the seconds that add() is given
        double end;
        double bytes;
    };
    std::deque<Span> spans; // of the last minute
    double last_seen = 0;
    double last_seen_running = 0;
};

class Rates {
  public:
    // What there is at SECONDS, which never go back. Processes that had ended before the first time are left
    // out; one that ends later stays for a minute.
    void add(std::vector<UroceUse> uses, double seconds);

    const std::vector<Watched>& all() const noexcept { return all_; }
    // Bytes of the minute that ended with the last add(), in so many parts, the oldest first.
    std::vector<double> last_minute(const Watched& watched, std::size_t parts) const;

  private:
    Watched& watched(const UroceUse& use);
    bool is_left_out(const UroceUse& use);
    void update(Watched& one, UroceUse use, double seconds) const;

    std::vector<Watched> all_;
    std::vector<UroceUse> ended_before_;
    double now_ = 0;
    bool is_first_ = true;
};

} // namespace sluice::tools::counters
