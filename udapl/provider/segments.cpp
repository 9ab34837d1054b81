// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/segments.hpp"

namespace sluice::dapl {

EpAnswer translate_each(coherence::Engine& memory, std::uint32_t zone, std::uint64_t limit, bool is_cut,
                        Segments segments, unsigned needed, ibv_sge* list, std::uint64_t* total) noexcept {
    const SegmentContext context{memory, zone, limit, is_cut};
    std::uint64_t sum = 0;
    coherence::Region region; // of the last segment that has bytes: as a rule, the next one's too
    const coherence::Segment* last = nullptr;
    for (const coherence::Segment& segment : segments) {
        if (segment.length == 0) {
            *list++ = {}; // its other members mean nothing
            continue;
        }
        EpAnswer answer{};
        if (last != nullptr && last->context == segment.context) {
            answer = is_inside(region, segment) ? EpAnswer::kDone : EpAnswer::kOutsideRegion;
        } else {
            answer = find_usable(context, segment, needed, region);
        }
        if (answer != EpAnswer::kDone) {
            return answer;
        }
        last = &segment;
        if (const EpAnswer bad = place(context, segment, region, *list++, sum); bad != EpAnswer::kDone) {
            return bad;
        }
    }
    *total = sum;
    return EpAnswer::kDone;
}

} // namespace sluice::dapl
