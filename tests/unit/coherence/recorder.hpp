// SPDX-License-Identifier: BSD-3-Clause
//
// A CPU that writes down what it was told: one event per line and per fence, in order. It goes
// through the same loop over lines as the real instructions, so what it records is what they do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/coherence/batch.hpp"

namespace sluice::testing {

enum class Event : std::uint8_t {
    kClean,
    kInvalidate,
    kBeforeClean,
    kAfterClean,
    kBeforeInvalidate,
    kAfterInvalidate,
};

struct Recorded {
    Event event;
    std::uintptr_t line; // 0 for a fence

    bool operator==(const Recorded&) const = default;
};

class Recorder {
  public:
    explicit Recorder(std::size_t line_bytes = 64, std::size_t granule_bytes = 64)
        : ops_{.clean = coherence::clean_op<Line<Event::kClean>>(),
               .invalidate = coherence::invalidate_op<Line<Event::kInvalidate>>(),
               .before_clean = {"before clean", fence<Event::kBeforeClean>},
               .after_clean = {"after clean", fence<Event::kAfterClean>},
               .before_invalidate = {"before invalidate", fence<Event::kBeforeInvalidate>},
               .after_invalidate = {"after invalidate", fence<Event::kAfterInvalidate>},
               .line_bytes = line_bytes,
               .granule_bytes = granule_bytes,
               .context = this} {}

    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    const coherence::Ops& ops() const { return ops_; }
    const std::vector<Recorded>& events() const { return events_; }
    void clear() { events_.clear(); }

    std::vector<std::uintptr_t> lines_of(Event wanted) const {
        std::vector<std::uintptr_t> found;
        for (const Recorded& recorded : events_) {
            if (recorded.event == wanted) {
                found.push_back(recorded.line);
            }
        }
        return found;
    }

    std::size_t count(Event wanted) const {
        return static_cast<std::size_t>(
            std::ranges::count_if(events_, [wanted](const Recorded& r) { return r.event == wanted; }));
    }

  private:
    template<Event kEvent>
    struct Line : coherence::LineInstruction {
        static constexpr const char* kName = kEvent == Event::kClean ? "clean" : "invalidate";
        static void line(const coherence::Ops& ops, std::uintptr_t at) {
            static_cast<Recorder*>(ops.context)->events_.push_back({kEvent, at});
        }
    };

    template<Event kEvent>
    static void fence(const coherence::Ops& self) noexcept {
        static_cast<Recorder*>(self.context)->events_.push_back({kEvent, 0});
    }

    coherence::Ops ops_;
    std::vector<Recorded> events_;
};

} // namespace sluice::testing
