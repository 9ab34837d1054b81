// SPDX-License-Identifier: BSD-3-Clause
//
// The boundary guard: what stands between a C caller and C++.
//
// Every exported function that runs more than plain noexcept code has one body, passed to
// at_boundary(), and one outward table that turns the Error into the ABI's code:
//
//     DAT_RETURN dat_thing(...) {
//         return to_dat(at_boundary("dat_thing", [&] { return thing(...); }));
//     }
//
// Nothing that BODY does can unwind into the caller. We don't throw on purpose, but the standard
// library does: out of memory becomes kInsufficientResources, anything else is a bug of ours and
// becomes kInternal, with a line in the log that names the function.
//
// A thread isn't cancelled in there. A function that sleeps until something happens, where a thread can be
// cancelled as in any such call, sleeps outside, in a frame that has nothing to destroy: a library with an
// unwinder of its own (ADR 106) can't run destructors for the C library's.
#pragma once

#include <utility>

#include "core/not_cancelled.hpp"
#include "core/result.hpp"

namespace sluice {

namespace boundary_detail {
// Called inside a catch block: looks at the exception in flight.
Error describe_exception(const char* function) noexcept;
} // namespace boundary_detail

template<typename Body>
auto at_boundary(const char* function, Body&& body) noexcept -> decltype(body()) {
    const NotCancelled guard;
    try {
        return std::forward<Body>(body)();
    } catch (...) {
        return boundary_detail::describe_exception(function);
    }
}

} // namespace sluice
