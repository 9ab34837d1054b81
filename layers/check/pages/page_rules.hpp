// SPDX-License-Identifier: BSD-3-Clause
//
// What follows from a page's rights and from what requests forbid.
#pragma once

#include <sys/mman.h>

#include "core/fault_access.hpp"
#include "layers/check/pages/page_table.hpp"

namespace sluice::layers::check::pages {

inline bool is_known(Rights rights) noexcept {
    return rights == Rights::kRead || rights == Rights::kReadWrite;
}

// Those of the kernel's mapping.
inline int kernels_rights(Rights rights, Level level) noexcept {
    if (level == Level::kNothing) {
        return PROT_NONE;
    }
    return rights == Rights::kReadWrite && level == Level::kOpen ? PROT_READ | PROT_WRITE : PROT_READ;
}

inline Level wanted_level(const Page& page) noexcept {
    if (page.nothing != 0) {
        return Level::kNothing;
    }
    return page.no_stores != 0 ? Level::kNoStores : Level::kOpen;
}

// Whether the fault is due to us: without us, the access would be allowed.
inline bool forbids_access(PageLook page, Access access) noexcept {
    switch (access) {
    case Access::kLoad:
        return page.level == Level::kNothing;
    case Access::kStore:
        return page.level != Level::kOpen && page.rights == Rights::kReadWrite;
    case Access::kUnknown: // what faults where loads are allowed is a store
        return page.level == Level::kNothing ||
               (page.level == Level::kNoStores && page.rights == Rights::kReadWrite);
    }
    return false;
}

inline bool forbids_access(const Page& page, Access access) noexcept {
    return forbids_access(PageLook{.rights = page.rights, .level = page.level}, access);
}

// Whether it goes from the same level to the same.
inline bool is_alike(const Page* page, const Page& other) noexcept {
    return page != nullptr && page->rights == other.rights && page->level == other.level &&
           wanted_level(*page) == wanted_level(other);
}

} // namespace sluice::layers::check::pages
