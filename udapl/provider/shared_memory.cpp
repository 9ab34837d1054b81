// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/shared_memory.hpp"

#include <pthread.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "core/file_tree.hpp"
#include "core/mappings.hpp"
#include "core/sync.hpp"
#include "udapl/provider/of_process.hpp"

namespace sluice::dapl {

namespace {

struct Used {
    SharedPlace place;
    std::uint32_t users = 0;
};

struct Uses {
    Mutex mutex;
    std::map<Cookie, Used> by_cookie SLUICE_TSA(guarded_by(mutex));
};

OfProcess<Uses>& uses() {
    static OfProcess<Uses> instance;
    return instance;
}

[[gnu::constructor]] void renew_uses_in_children() noexcept {
    (void)uses(); // made while there is one thread
    pthread_atfork(nullptr, nullptr, [] { uses().renew(); });
}

} // namespace

Result<SharedPlace> find_shared(std::string_view maps, std::uint64_t address, std::uint64_t length) {
    SharedPlace found;
    std::uint64_t at = address; // so far all is shared
    Mapping mapping;
    while (at - address < length && take_mapping(maps, mapping)) {
        if (at < mapping.first || at >= mapping.end) {
            continue;
        }
        if (!mapping.is_shared) {
            return Error::format(ErrorKind::kInvalidState, 0,
                                 "0x%llx is this process' own memory: map it MAP_SHARED, or attach a segment",
                                 static_cast<unsigned long long>(at));
        }
        if (at == address) {
            found = {std::string(mapping.device), mapping.inode, mapping.offset + (address - mapping.first)};
        }
        at = mapping.end;
    }
    if (at - address < length) {
        return Error::format(ErrorKind::kInvalidArgument, 0, "0x%llx is not mapped",
                             static_cast<unsigned long long>(at));
    }
    return found;
}

Result<SharedUse> SharedUse::make(const Cookie& cookie, std::uint64_t address, std::uint64_t length) {
    const Result<std::string> maps = FileTree().read("/proc/self/maps", kLargestMappings);
    if (!maps) {
        return maps.error().clone();
    }
    Result<SharedPlace> place = find_shared(*maps, address, length);
    if (!place) {
        return std::move(place).error();
    }
    Uses& all = uses().get();
    const LockGuard guard(all.mutex);
    Used& used = all.by_cookie[cookie];
    if (used.users != 0 && used.place != *place) {
        return Error(ErrorKind::kInvalidArgument,
                     "this cookie stands for other memory, which is still registered under it");
    }
    used.place = *std::move(place);
    ++used.users;
    return SharedUse(cookie);
}

SharedUse::SharedUse(SharedUse&& other) noexcept
    : cookie_(other.cookie_), is_moved_(std::exchange(other.is_moved_, true)) {}

SharedUse::~SharedUse() {
    if (is_moved_) {
        return;
    }
    Uses& all = uses().get();
    const LockGuard guard(all.mutex);
    const auto used = all.by_cookie.find(cookie_);
    if (--used->second.users == 0) {
        all.by_cookie.erase(used);
    }
}

} // namespace sluice::dapl
