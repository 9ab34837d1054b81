// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/sync_counters.hpp"

#include <sluice/sluice.h>

namespace sluice::dapl {

SyncCounters::SyncCounters(const char* device, const char* address) noexcept {
    for (SyncCounts*& place : places_) {
        sluice_sync_counters* const acquired =
            sluice_acquire_sync_counters(device, address, sizeof(sluice_sync_counters));
        place = acquired != nullptr ? reinterpret_cast<SyncCounts*>(acquired) : &unread_;
    }
}

SyncCounters::~SyncCounters() {
    for (SyncCounts* const place : places_) {
        if (place != &unread_) {
            sluice_release_sync_counters(reinterpret_cast<sluice_sync_counters*>(place));
        }
    }
}

} // namespace sluice::dapl
