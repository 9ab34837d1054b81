// SPDX-License-Identifier: BSD-3-Clause
//
// dat_version.hpp for DAT 1.2. Its triplets are what the engine of coherence works on.
#pragma once

#include <dat/udat.h>

#include <cstddef>

#include "core/coherence/segment.hpp"
#include "udapl/provider/cno.hpp"
#include "udapl/provider/ep_options.hpp"
#include "udapl/provider/ia_context.hpp"

namespace sluice::dapl {

static_assert(sizeof(coherence::Segment) == sizeof(DAT_LMR_TRIPLET) &&
              offsetof(coherence::Segment, context) == offsetof(DAT_LMR_TRIPLET, lmr_context) &&
              offsetof(coherence::Segment, address) == offsetof(DAT_LMR_TRIPLET, virtual_address) &&
              offsetof(coherence::Segment, length) == offsetof(DAT_LMR_TRIPLET, segment_length));

// A program's own wish for strong order is the type's business, and taken off.
constexpr unsigned kIgnoredPrivileges = DAT_MEM_PRIV_RO_DISABLE_FLAG;
constexpr unsigned kKnownPrivileges = kEveryPrivilege;
constexpr unsigned kImpliedPrivileges = 0;
constexpr DAT_MEM_TYPE kStronglyOrderedType = DAT_MEM_TYPE_SO_VIRTUAL;
constexpr unsigned kCnoFields = DAT_CNO_FIELD_ALL;
// Whether an endpoint refuses what is larger than its attributes say.
constexpr bool kSizesAreLimits = true;
// Whether an endpoint's connections may have another adapter's dispatcher.
constexpr bool kLendsConnectEvds = false;

inline DAT_IA_HANDLE as_programs_know(DAT_IA_HANDLE ia) noexcept {
    return ia;
}

inline coherence::Segment segment_of(const DAT_LMR_TRIPLET& triplet) noexcept {
    return {triplet.lmr_context, 0, triplet.virtual_address, triplet.segment_length};
}
inline Segments segments_of(DAT_COUNT count, const DAT_LMR_TRIPLET* iov) noexcept {
    return {reinterpret_cast<const coherence::Segment*>(iov), static_cast<std::size_t>(count)};
}
inline DAT_LMR_TRIPLET triplet_of(const coherence::Segment& segment) noexcept {
    return {segment.context, 0, segment.address, segment.length};
}
inline RemoteSegment remote_of(const DAT_RMR_TRIPLET& triplet) noexcept {
    return {triplet.rmr_context, triplet.target_address, triplet.segment_length};
}
// Whether IS_GOOD says so of all segments: here all of them together.
template<typename IsGood>
bool all_batches(const DAT_LMR_TRIPLET* segments, DAT_VLEN count, IsGood&& is_good) noexcept {
    return is_good(reinterpret_cast<const coherence::Segment*>(segments), count);
}

inline constexpr unsigned kConnectFlags = DAT_CONNECT_MULTIPATH_FLAG;

inline void add_own(const Device& /*device*/, DAT_IA_ATTR& /*attr*/) noexcept {}
inline void add_own(const IaContext& /*ia*/, DAT_PROVIDER_ATTR& attr) noexcept {
    attr.is_thread_safe = DAT_TRUE;
}
inline void add_own(const Event& /*transfer*/, DAT_EVENT& /*converted*/) noexcept {}
inline void add_own(DAT_RMR_PARAM& /*param*/) noexcept {}
inline void add_own(const Agent& agent, DAT_CNO_PARAM& param) noexcept {
    param.agent = {agent.data, agent.function};
}

} // namespace sluice::dapl
