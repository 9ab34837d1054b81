// SPDX-License-Identifier: BSD-3-Clause
//
// How a DAT_RETURN is made. <dat/dat_error.h> only takes them apart.
#pragma once

#include <dat/udat.h>

namespace sluice::dat {

constexpr DAT_RETURN failure(DAT_RETURN_TYPE type, DAT_RETURN_SUBTYPE subtype = DAT_NO_SUBTYPE) noexcept {
    return DAT_CLASS_ERROR | static_cast<DAT_RETURN>(type) | static_cast<DAT_RETURN>(subtype);
}

// NUMBER: of the parameter, from 1.
constexpr DAT_RETURN wrong_argument(int number) noexcept {
    return failure(DAT_INVALID_PARAMETER, static_cast<DAT_RETURN_SUBTYPE>(DAT_INVALID_ARG1 + number - 1));
}

// Foreign providers sometimes forget the class of an error.
constexpr bool is_failure(DAT_RETURN status) noexcept {
    return DAT_GET_TYPE(status) != DAT_SUCCESS && !DAT_IS_WARNING(status);
}

} // namespace sluice::dat
