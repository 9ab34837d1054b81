// SPDX-License-Identifier: BSD-3-Clause
//
// DAT's functions. Only the dat*.cpp know DAT's structures. Each function checks its arguments, turns
// handles into objects, makes one call, and turns the answer into a code. libdat finds the functions in the
// table alone.
//
// The same sources are compiled twice: with the headers of DAT 1.2 for libdapl-sluice, and with those of 2.0
// for libdapl-sluice2 (ADR 57). What the versions say differently is in dat_version.hpp; functions whose
// parameters differ are in dat1_calls.cpp and dat2_calls.cpp.
#pragma once

#include <dat/dat_registry.h>

#include "core/facade.hpp"
#include "core/log.hpp"
#include "udapl/provider/event.hpp"
#include "udapl/provider/object.hpp"
#include "udapl/registry/codes.hpp"

namespace sluice::dapl {

using dat::failure;
using dat::wrong_argument;

// A code, and not a value of an enumeration.
constexpr DAT_RETURN kSuccess = DAT_SUCCESS;

// The table without a name: what our handles begin with.
const DAT_PROVIDER& functions() noexcept;

// Each file enters its functions into the table.
void add_cno_functions(DAT_PROVIDER& table) noexcept;
void add_connection_functions(DAT_PROVIDER& table) noexcept;
void add_ep_functions(DAT_PROVIDER& table) noexcept;
void add_evd_functions(DAT_PROVIDER& table) noexcept;
void add_ia_functions(DAT_PROVIDER& table) noexcept;
// Those whose parameters are this version's own.
void add_own_functions(DAT_PROVIDER& table) noexcept;
void add_memory_functions(DAT_PROVIDER& table) noexcept;
void add_post_functions(DAT_PROVIDER& table) noexcept;
void add_rmr_functions(DAT_PROVIDER& table) noexcept;
void add_rsp_functions(DAT_PROVIDER& table) noexcept;
void add_srq_functions(DAT_PROVIDER& table) noexcept;

// For functions without a result. Whatever BODY throws: a name more or less is no reason to end a program.
template<typename Body>
void quietly(const char* function, Body&& body) noexcept {
    const Result<void> done = at_boundary(function, [&]() -> Result<void> {
        body();
        return {};
    });
    if (!done) {
        SLUICE_LOG(kWarning, "dat", "%s: %s", function, done.error().text());
    }
}

// For errors whose code follows from their kind alone; the text goes to the log.
DAT_RETURN to_dat(const Error& error) noexcept;

inline DAT_RETURN wrong_handle(DAT_RETURN_SUBTYPE subtype) noexcept {
    return failure(DAT_INVALID_HANDLE, subtype);
}

// Whether MASK has no bits but those of ALL.
constexpr bool is_mask(std::uint64_t mask, std::uint64_t all) noexcept {
    return (mask & ~all) == 0;
}

// The functions' bodies give codes: an error's kind alone says less than DAT asks for.
struct Dat : Facade<Dat> {
    using Code = DAT_RETURN;
    static constexpr Code kDone = kSuccess;
    static Code fail(const Error& error, const Where& /*where*/) noexcept { return to_dat(error); }
};

} // namespace sluice::dapl
