// SPDX-License-Identifier: BSD-3-Clause
//
// How service points come about.
#pragma once

#include "core/boundary.hpp"
#include "udapl/provider/front_free.hpp"
#include "udapl/provider/service_points.hpp"

namespace sluice::dapl {

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
        return wrong_handle(wrong); // somebody has guessed its handle, and freed it
    }
    const Result<void> listens = at_boundary("listening", [&] { return (*pinned)->listen(qualifier); });
    if (!listens) {
        (*pinned)->abandon();
        (void)Ia::destroy(*std::move(pinned));
        return to_dat(listens.error());
    }
    *handle = *given;
    return kSuccess;
}

} // namespace sluice::dapl
