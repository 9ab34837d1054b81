// SPDX-License-Identifier: BSD-3-Clause
//
// The names of adapters that libdat2 opens, each with the table that its handles begin with.
#pragma once

#include <string>

#include "udapl/provider/dat_functions.hpp"

namespace sluice::dapl {

// A line of dat.conf. Stays for good.
struct Dat2Name {
    std::string name;
    std::string device;
    DAT_BOOLEAN is_thread_safe;
    DAT_PROVIDER table; // its extension points to this
};

// That of an open adapter, by the handle that we gave libdat2.
inline const Dat2Name& name_of(const void* ia_handle) noexcept {
    const DAT_PROVIDER* const table = *static_cast<const DAT_PROVIDER* const*>(ia_handle);
    return *static_cast<const Dat2Name*>(table->extension);
}

} // namespace sluice::dapl
