// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/sync_check.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "core/boundary.hpp"
#include "udapl/provider/device.hpp"

namespace sluice::dapl {

namespace {

// "LMR 12, bytes 4096 to 4160".
std::string name_of(const SyncCheck::Region& region, coherence::LineRun bytes) {
    return "LMR " + std::to_string(region.context) + ", bytes " +
           std::to_string(bytes.first - region.address) + " to " +
           std::to_string(bytes.last + 1 - region.address);
}

// Whether the program's author isn't interested in what is at ADDRESS: this library, and the registry before
// it. A finding is known by where the program is.
bool is_of_dat(const void* address) noexcept {
    Dl_info own{};
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(&is_of_dat), &own) == 0 || dladdr(address, &info) == 0) {
        return false;
    }
    const std::string_view path = info.dli_fname;
    return info.dli_fbase == own.dli_fbase || path.substr(path.rfind('/') + 1).starts_with("libdat");
}

report::Stack of_program(const report::Stack& stack) noexcept {
    report::Stack rest;
    for (const void* each : stack.frames()) {
        if (rest.count != 0 || !is_of_dat(each)) {
            rest.addresses[rest.count++] = each;
        }
    }
    return rest.count != 0 ? rest : stack;
}

} // namespace

SyncCheck* SyncCheck::wanted() noexcept {
    // Never destroyed: programs close IAs as late as in their last destructor.
    static SyncCheck* const check = report::depth() == report::Depth::kFull ? new SyncCheck : nullptr;
    return check;
}

void SyncCheck::add(const Device& device, const Region& region) {
    const report::Stack made = report::capture();
    const LockGuard guard(mutex_);
    regions_.push_back({&device, region, made});
}

void SyncCheck::remove(const Device& device, std::uint32_t context) noexcept {
    const LockGuard guard(mutex_);
    std::erase_if(regions_, [&](const Known& each) {
        return each.device == &device && each.region.context == context;
    });
}

void SyncCheck::set_queue_pair(const void* owner, const Device& device, std::uint32_t number) {
    const LockGuard guard(mutex_);
    queue_pairs_.insert_or_assign(owner, Numbered{&device, number});
}

void SyncCheck::forget_queue_pair(const void* owner) noexcept {
    const LockGuard guard(mutex_);
    queue_pairs_.erase(owner);
}

const SyncCheck::Known* SyncCheck::find_locked(const Device& device, std::uint64_t address,
                                               std::uint64_t length) const noexcept {
    const auto found = std::ranges::find_if(regions_, [&](const Known& each) {
        return each.device == &device && length <= each.region.length &&
               address - each.region.address <= each.region.length - length;
    });
    return found != regions_.end() ? &*found : nullptr;
}

const Device* SyncCheck::device_of_locked(const glue::QueuePair::Peer& peer) const noexcept {
    const auto found = std::ranges::find_if(queue_pairs_, [&](const auto& each) {
        return each.second.number == peer.number && each.second.device->address().is_same_host(peer.address);
    });
    return found != queue_pairs_.end() ? found->second.device : nullptr;
}

void SyncCheck::before_read(const Dto& dto, const glue::QueuePair& poster, std::uint64_t address,
                            std::uint64_t length) noexcept {
    const Result<glue::QueuePair::Peer> peer = poster.peer();
    if (!peer || length == 0) {
        return;
    }
    const report::Stack stack = report::capture();
    (void)at_boundary("checking a Read", [&]() -> Result<void> {
        const LockGuard guard(mutex_);
        reads_.erase(&dto); // of a post that failed
        const Device* const device = device_of_locked(*peer);
        const Known* const of = device != nullptr ? find_locked(*device, address, length) : nullptr;
        if (of != nullptr) {
            reads_.insert({&dto, {*of, stack}});
            device->simulated()->begin_read(&dto, {address, address + (length - 1)});
        }
        return {};
    });
}

void SyncCheck::after_read(const Dto& dto, bool is_success) noexcept {
    std::optional<Posted> posted;
    std::optional<coherence::LineRun> stale;
    {
        const LockGuard guard(mutex_);
        const auto found = reads_.find(&dto);
        if (found == reads_.end()) {
            return;
        }
        posted = found->second;
        reads_.erase(found);
        // The device lives as long as one of its regions.
        if (find_locked(*posted->of.device, posted->of.region.address, posted->of.region.length) != nullptr) {
            stale = posted->of.device->simulated()->end_read(&dto);
        }
    }
    if (!stale || !is_success) {
        return;
    }
    (void)at_boundary("reporting a Read", [&]() -> Result<void> {
        const std::string where = name_of(posted->of.region, *stale);
        const report::Stack read = of_program(posted->stack);
        const report::Stack made = of_program(posted->of.made);
        const std::array sides{report::Side{"the peer's Read was posted", &read},
                               report::Side{"the LMR was made", &made}};
        report::write({.rule = "sync-read-missing",
                       .object = where,
                       .what = "dat_lmr_sync_rdma_read() missing for " + where +
                               ": they were stored to, and the peer has read what was there before",
                       .remedy = "call dat_lmr_sync_rdma_read() for these bytes, after the last store and "
                                 "before the peer may read",
                       .sides = sides});
        return {};
    });
}

} // namespace sluice::dapl
