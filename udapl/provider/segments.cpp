// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/segments.hpp"

namespace sluice::dapl {

EpAnswer translate_each(coherence::Engine& memory, std::uint32_t zone, std::uint64_t limit, bool is_cut,
                        Segments segments, unsigned needed, ibv_sge* list, std::uint64_t* total) noexcept {
    const SegmentContext context{memory, zone, limit, is_cut};
    for (const coherence::Segment& segment : segments) {
        if (const EpAnswer bad = translate_one(context, segment, needed, *list++, *total);
            bad != EpAnswer::kDone) {
            return bad;
        }
    }
    return EpAnswer::kDone;
}

} // namespace sluice::dapl
