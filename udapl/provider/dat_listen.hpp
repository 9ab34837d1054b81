// SPDX-License-Identifier: BSD-3-Clause
//
// How service points come about.
#pragma once

#include <cerrno>

#include "core/boundary.hpp"
#include "udapl/provider/dat_lifetime.hpp"
#include "udapl/provider/service_points.hpp"

namespace sluice::dapl {

// WHY it can't listen. Where any qualifier would have done, none is free.
inline DAT_RETURN cannot_listen(const Error& why, bool is_any) noexcept {
    const DAT_RETURN status = to_dat(why);
    const bool is_taken = why.kind() == ErrorKind::kExists || why.os_errno() == EADDRNOTAVAIL;
    return is_any && is_taken ? failure(DAT_CONN_QUAL_UNAVAILABLE) : status;
}

// Gives POINT its handle, and lets it listen; QUALIFIER 0 becomes what it is. It listens under its handle.
template<typename T>
DAT_RETURN start_listening(Ia& ia, std::unique_ptr<T> point, DAT_RETURN_SUBTYPE wrong,
                           DAT_CONN_QUAL& qualifier, DAT_HANDLE* handle) {
    const Result<void*> given = ia.adopt(std::move(point), &functions());
    if (!given) {
        return to_dat(given.error());
    }
    Result<Pin<T>> pinned = handles().get<T>(*given);
    if (!pinned) {
        return wrong_handle(wrong); // another thread has guessed its handle, and freed it
    }
    const Result<void> listens = at_boundary("listening", [&] { return (*pinned)->listen(qualifier); });
    if (!listens) {
        (*pinned)->abandon();
        (void)IaContext::destroy(*std::move(pinned));
        return cannot_listen(listens.error(), qualifier == 0);
    }
    *handle = *given;
    return kSuccess;
}

} // namespace sluice::dapl
