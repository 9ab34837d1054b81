// SPDX-License-Identifier: BSD-3-Clause
//
// What the functions about endpoints have in common.
#pragma once

#include "udapl/provider/dat_functions.hpp"
#include "udapl/provider/dat_version.hpp"
#include "udapl/provider/ep.hpp"

namespace sluice::dapl {

DAT_RETURN wrong_state(EpState state) noexcept;

// What a call gives that can't find the endpoint in a wrong state. ARGUMENT: the one that is wrong where the
// answer is about one.
DAT_RETURN to_dat(EpAnswer answer, int argument) noexcept;
// The same for all others.
DAT_RETURN refusal(EpAnswer answer, const Ep& ep, int argument) noexcept;
inline DAT_RETURN to_dat(EpAnswer answer, const Ep& ep, int argument = 0) noexcept {
    return answer == EpAnswer::kDone ? kSuccess : refusal(answer, ep, argument);
}

inline PostFlags post_flags(unsigned flags) noexcept {
    static_assert(PostFlags::kSilent == DAT_COMPLETION_SUPPRESS_FLAG &&
                  PostFlags::kSolicited == DAT_COMPLETION_SOLICITED_WAIT_FLAG &&
                  PostFlags::kQuiet == DAT_COMPLETION_UNSIGNALLED_FLAG &&
                  PostFlags::kFenced == DAT_COMPLETION_BARRIER_FENCE_FLAG);
    return {flags};
}
inline bool is_iov(DAT_COUNT count, const DAT_LMR_TRIPLET* iov) noexcept {
    return count == 0 || (count > 0 && iov != nullptr);
}

// The dispatcher that HANDLE names, if it takes STREAM; empty for none. False: it names none of these.
bool find_evd(DAT_EVD_HANDLE handle, unsigned stream, const IaContext& ia, Ref<Evd>& found) noexcept;

// The same for the dispatcher of an endpoint's connections, which some versions let another adapter lend.
bool find_connect_evd(DAT_EVD_HANDLE handle, const IaContext& ia, EpEvds& evds) noexcept;

// Whether an attribute of WHOSE is in a range. One that isn't, the log tells, as its number is the program's.
bool is_attribute_within(const char* whose, const char* name, DAT_COUNT value, DAT_COUNT least,
                         DAT_COUNT most) noexcept;

// Those of a program that has no wishes.
EpOptions usual_options(const IaContext& ia) noexcept;
// What an endpoint is made with: a shared receive queue, and dispatchers for its directions.
struct EpParts {
    bool has_srq;
    bool has_receives;
    bool has_requests;
};
// ATTR, of an endpoint with PARTS, in our words, or the code that says what is wrong with it; it is that
// ARGUMENT.
DAT_RETURN describe(const DAT_EP_ATTR& attr, const IaContext& ia, const EpParts& parts, int argument,
                    EpOptions& options) noexcept;
// The reverse.
DAT_EP_ATTR attributes_of(const EpOptions& options) noexcept;

// Calls FUNCTION with the endpoint that HANDLE names.
template<typename Function>
DAT_RETURN with_ep(DAT_EP_HANDLE handle, Function&& function) {
    const Result<Pin<Ep>> ep = handles().get<Ep>(handle);
    return ep ? function(**ep) : wrong_handle(DAT_INVALID_HANDLE_EP);
}

} // namespace sluice::dapl
