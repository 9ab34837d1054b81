// SPDX-License-Identifier: BSD-3-Clause
//
// dat_version.hpp for DAT 2.0 under libdat2: its triplets are copied, and programs know adapters by small
// numbers.
#pragma once

#include <dat/dat_ib_extensions.h>
#include <dat/dat_registry.h>

#include <algorithm>
#include <array>

#include "udapl/provider/cno.hpp"
#include "udapl/provider/ep_options.hpp"
#include "udapl/provider/ia_context.hpp"

namespace sluice::dapl {

constexpr unsigned kIgnoredPrivileges = 0;
constexpr unsigned kKnownPrivileges = kEveryPrivilege | kRemoteAtomic;
// Programs for 2.0 send from regions that they registered to be written only, and write more than they said:
// OpenFabrics' provider lets them (ADR 58).
constexpr unsigned kImpliedPrivileges = kLocalRead;
constexpr bool kSizesAreLimits = false;
constexpr bool kLendsConnectEvds = true; // as dapltest has it
static_assert(kRemoteAtomic == DAT_IB_MEM_PRIV_REMOTE_ATOMIC);
constexpr DAT_MEM_TYPE kStronglyOrderedType = DAT_MEM_TYPE_VIRTUAL; // it has no type of its own
// libdat2's mask of all is a bit of its own, and that of the proxy is two.
constexpr unsigned kCnoFields = DAT_CNO_FIELD_PROXY | DAT_CNO_FIELD_ALL;

inline DAT_IA_HANDLE as_programs_know(DAT_IA_HANDLE ia) noexcept {
    DAT_IA_HANDLE known = DAT_HANDLE_NULL; // stays so while libdat2 opens it
    (void)dats_get_ia_handle(ia, &known);
    return known;
}

inline coherence::Segment segment_of(const DAT_LMR_TRIPLET& triplet) noexcept {
    return {triplet.lmr_context, 0, triplet.virtual_address, triplet.segment_length};
}

// The segments of a request, and one more where there are too many, for which the post refuses it.
class CopiedSegments {
  public:
    CopiedSegments(DAT_COUNT count, const DAT_LMR_TRIPLET* iov) noexcept
        : count_(std::min(static_cast<std::size_t>(count), segments_.size())) {
        std::transform(iov, iov + count_, segments_.begin(), segment_of);
    }
    // NOLINTNEXTLINE(google-explicit-constructor): they are used as Segments
    operator Segments() const noexcept { return {segments_.data(), count_}; }

  private:
    std::array<coherence::Segment, kMaxSegments + 1> segments_; // not cleared: most requests have one
    const std::size_t count_;
};

inline CopiedSegments segments_of(DAT_COUNT count, const DAT_LMR_TRIPLET* iov) noexcept {
    return {count, iov};
}
inline DAT_LMR_TRIPLET triplet_of(const coherence::Segment& segment) noexcept {
    return {segment.address, static_cast<DAT_SEG_LENGTH>(segment.length), segment.context};
}
inline RemoteSegment remote_of(const DAT_RMR_TRIPLET& triplet) noexcept {
    return {triplet.rmr_context, triplet.virtual_address, triplet.segment_length};
}

// Whether IS_GOOD says so of all segments, some at a time; it isn't called again after it said no.
template<typename IsGood>
bool all_batches(const DAT_LMR_TRIPLET* segments, DAT_VLEN count, IsGood&& is_good) noexcept {
    std::array<coherence::Segment, 64> batch;
    while (count != 0) {
        const DAT_VLEN size = std::min<DAT_VLEN>(count, batch.size());
        std::transform(segments, segments + size, batch.begin(), segment_of);
        if (!is_good(batch.data(), size)) {
            return false;
        }
        segments += size;
        count -= size;
    }
    return true;
}

inline constexpr unsigned kConnectFlags =
    DAT_CONNECT_MULTIPATH_REQUESTED_FLAG | DAT_CONNECT_MULTIPATH_REQUIRED_FLAG;

void add_own(const Device& device, DAT_IA_ATTR& attr) noexcept;
void add_own(const IaContext& ia, DAT_PROVIDER_ATTR& attr) noexcept;

// An event of OpenFabrics' extensions.
void add_extension(const Event& transfer, DAT_EVENT& converted) noexcept;
inline void add_own(const Event& transfer, DAT_EVENT& converted) noexcept {
    DAT_DTO_COMPLETION_EVENT_DATA& data = converted.event_data.dto_completion_event_data;
    data.operation = static_cast<DAT_DTOS>(transfer.operation);
    data.rmr_context = 0;
    if (transfer.operation >= DtoOperation::kWriteImmediate) [[unlikely]] {
        add_extension(transfer, converted);
    }
}
inline void add_own(DAT_RMR_PARAM& param) noexcept {
    param.rmr_scope = DAT_RMR_SCOPE_PZ;
    param.va_type = DAT_VA_TYPE_VA;
}
inline void add_own(const Agent& agent, DAT_CNO_PARAM& param) noexcept {
    param.proxy_type = agent.function != nullptr ? DAT_PROXY_TYPE_AGENT : DAT_PROXY_TYPE_NONE;
    param.proxy.agent = {agent.data, agent.function};
}

} // namespace sluice::dapl
