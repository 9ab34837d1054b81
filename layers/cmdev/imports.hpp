// SPDX-License-Identifier: BSD-3-Clause
//
// The functions that a loaded library imports, replaced for that library alone: nobody else's calls become
// slower, and a library that the program has loaded by itself is reached like any other.
#pragma once

#include <link.h>

#include <cstddef>
#include <span>

namespace sluice::layers::cmdev {

struct Import {
    const char* name;
    void* replacement; // with the ABI of NAME
};

// How many of IMPORTS, of which there are 64 at most, the library has. If these are LEAST or more, all of
// them are replaced from now on, otherwise none. Calls that run meanwhile get one or the other. May be
// repeated.
std::size_t replace_imports(const link_map& library, std::span<const Import> imports,
                            std::size_t least) noexcept;

} // namespace sluice::layers::cmdev
