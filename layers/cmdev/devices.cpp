// SPDX-License-Identifier: BSD-3-Clause
#include "layers/cmdev/devices.hpp"

#include <sluice/sluice.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/boundary.hpp"
#include "core/sync.hpp"
#include "layers/hooks/real.hpp"

namespace sluice::layers::cmdev {

namespace {

// librdmacm gives it to the functions here, and to no other.
struct Unlisted {
    ibv_device device{};
    std::string address;
    std::uint64_t guid = 0;
};

struct Lists {
    Mutex mutex;
    std::vector<std::unique_ptr<Unlisted>> shown SLUICE_TSA(guarded_by(mutex));  // never taken away
    std::map<ibv_device**, ibv_device**> programs SLUICE_TSA(guarded_by(mutex)); // by the list that was made
};

Lists& lists() {
    static Lists& instance = *new Lists();
    return instance;
}

const Unlisted* find(const ibv_device* device) {
    Lists& all = lists();
    const LockGuard guard(all.mutex);
    const auto found =
        std::ranges::find_if(all.shown, [device](const auto& each) { return &each->device == device; });
    return found == all.shown.end() ? nullptr : found->get();
}

const Unlisted* find_or_null(const ibv_device* device) noexcept {
    const Result<const Unlisted*> found =
        at_boundary("find", [device]() -> Result<const Unlisted*> { return find(device); });
    return found ? *found : nullptr;
}

// THEIRS and the others, of which one that is listed meanwhile is shown as listed.
Result<ibv_device**> extend(ibv_device** theirs, int& count) {
    std::vector<ibv_device*> devices(theirs, theirs + count);
    Lists& all = lists();
    const LockGuard guard(all.mutex);
    for (const std::unique_ptr<Unlisted>& each : all.shown) {
        const bool is_listed = std::any_of(theirs, theirs + count, [&each](ibv_device* listed) {
            return ibv_get_device_guid(listed) == each->guid;
        });
        if (!is_listed) {
            devices.push_back(&each->device);
        }
    }
    count = static_cast<int>(devices.size());
    auto made = std::make_unique<ibv_device*[]>(devices.size() + 1);
    std::ranges::copy(devices, made.get());
    all.programs.emplace(made.get(), theirs);
    return made.release();
}

// The program's list of LIST, which is gone; null if it is none of ours.
Result<ibv_device**> release(ibv_device** list) {
    Lists& all = lists();
    const LockGuard guard(all.mutex);
    const auto found = all.programs.find(list);
    if (found == all.programs.end()) {
        return static_cast<ibv_device**>(nullptr);
    }
    ibv_device** const theirs = found->second;
    all.programs.erase(found);
    const std::unique_ptr<ibv_device*[]> owner(list);
    return theirs;
}

} // namespace

Result<std::uint64_t> show_device(const glue::Address& address, ibv_context* context) {
    const hooks::RealVerbs* const real = hooks::real_verbs();
    if (real == nullptr) {
        return Error(ErrorKind::kNotSupported, "there is no libibverbs", ENOSYS);
    }
    const std::uint64_t guid = real->get_device_guid(context->device);
    Lists& all = lists();
    const LockGuard guard(all.mutex);
    const bool is_known =
        std::ranges::any_of(all.shown, [guid](const auto& each) { return each->guid == guid; });
    if (!is_known) {
        auto device = std::make_unique<Unlisted>();
        device->device.node_type = IBV_NODE_CA;
        device->device.transport_type = IBV_TRANSPORT_IB;
        device->address = address.to_string();
        device->guid = guid;
        all.shown.push_back(std::move(device));
    }
    return guid;
}

ibv_device** list_devices(int* count) {
    int number = 0;
    ibv_device** const theirs = ibv_get_device_list(&number);
    if (theirs == nullptr) {
        return nullptr;
    }
    const Result<ibv_device**> list = at_boundary("list_devices", [&] { return extend(theirs, number); });
    if (!list) {
        ibv_free_device_list(theirs);
        errno = list.error().to_errno();
        return nullptr;
    }
    if (count != nullptr) {
        *count = number;
    }
    return *list;
}

void free_device_list(ibv_device** list) {
    const Result<ibv_device**> theirs = at_boundary("free_device_list", [&] { return release(list); });
    ibv_free_device_list(theirs && *theirs != nullptr ? *theirs : list);
}

__be64 device_guid(ibv_device* device) {
    const Unlisted* const ours = find_or_null(device);
    return ours != nullptr ? ours->guid : ibv_get_device_guid(device);
}

int device_index(ibv_device* device) {
    return find_or_null(device) != nullptr ? -1 : ibv_get_device_index(device);
}

ibv_context* open_device(ibv_device* device) {
    const Unlisted* const ours = find_or_null(device);
    return ours != nullptr ? sluice_open_uroce(ours->address.c_str()) : ibv_open_device(device);
}

} // namespace sluice::layers::cmdev
