// SPDX-License-Identifier: BSD-3-Clause
//
// How objects come and go, for every kind the same.
#pragma once

#include "udapl/provider/dat_functions.hpp"
#include "udapl/provider/ia.hpp"

namespace sluice::dapl {

// Gives what was made a handle.
template<typename T>
DAT_RETURN adopt(IaContext& ia, Result<std::unique_ptr<T>> made, DAT_HANDLE* handle) {
    if (!made) {
        return to_dat(made.error());
    }
    const Result<void*> given = ia.adopt(*std::move(made), &functions());
    if (!given) {
        return to_dat(given.error());
    }
    *handle = *given;
    return kSuccess;
}

// Frees the object that HANDLE names, if there are no references to it.
template<typename T>
DAT_RETURN free_object(DAT_HANDLE handle, DAT_RETURN_SUBTYPE wrong, DAT_RETURN_SUBTYPE in_use) noexcept {
    Result<Pin<T>> object = handles().get<T>(handle);
    if (!object) {
        return wrong_handle(wrong);
    }
    if (!(*object)->close()) {
        return (*object)->is_held() ? failure(DAT_INVALID_STATE, in_use) : wrong_handle(wrong);
    }
    (*object)->abandon(); // for a thread that has just begun to wait
    return IaContext::destroy(*std::move(object)) ? kSuccess : wrong_handle(wrong);
}

} // namespace sluice::dapl
