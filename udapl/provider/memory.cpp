// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <string_view>

#include "core/log.hpp"
#include "core/memory_calls.hpp"
#include "core/settings.hpp"
#include "udapl/provider/ia_context.hpp"
#include "udapl/provider/sync_check.hpp"

namespace sluice::dapl {

namespace {

constexpr unsigned kAnyWrite = kLocalWrite | kRemoteWrite | kRemoteAtomic;

std::uint32_t next_zone() noexcept {
    static std::atomic<std::uint32_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

unsigned access_of(const IaContext& ia, const LmrOptions& options) noexcept {
    unsigned access = 0;
    // Devices let a peer write only where the program may; DAT doesn't ask for that.
    if ((options.privileges & kAnyWrite) != 0) {
        access |= IBV_ACCESS_LOCAL_WRITE;
    }
    access |= (options.privileges & kRemoteAtomic) != 0 ? IBV_ACCESS_REMOTE_ATOMIC : 0;
    access |= (options.privileges & kRemoteWrite) != 0 ? IBV_ACCESS_REMOTE_WRITE : 0;
    access |= (options.privileges & kRemoteRead) != 0 ? IBV_ACCESS_REMOTE_READ : 0;
    access |= ia.device().limits().max_mw != 0 ? IBV_ACCESS_MW_BIND : 0;
    if (ia.options().is_ordering_aware && options.type != LmrType::kStronglyOrdered) {
        access |= IBV_ACCESS_RELAXED_ORDERING;
    }
    return access;
}

// Whole pages; the kernel rounds the end up by itself. That it can't is no reason not to register.
void ask_for_huge_pages(std::uint64_t address, std::uint64_t length) noexcept {
    const char* const wanted = setting_value(Setting::kDatHugePages);
    const Result<Choice> choice = parse_choice(Setting::kDatHugePages, wanted == nullptr ? "" : wanted);
    if (!choice || choice->index != 0) { // not "yes"
        return;
    }
    const std::uint64_t in_page = address % static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    if (advise_memory(reinterpret_cast<void*>(address - in_page), length + in_page, MADV_HUGEPAGE) != 0) {
        SLUICE_LOG(kInfo, "dat", "no huge pages at 0x%llx (%d)", static_cast<unsigned long long>(address),
                   errno);
    }
}

} // namespace

Pz::Pz(IaContext& ia, glue::ProtectionDomain domain) noexcept
    : Object(&ia), domain_(std::move(domain)), number_(next_zone()) {}

Result<std::unique_ptr<Pz>> Pz::make(IaContext& ia) {
    Result<glue::ProtectionDomain> domain = glue::ProtectionDomain::make(ia.device().context());
    if (!domain) {
        return std::move(domain).error();
    }
    return std::unique_ptr<Pz>(new Pz(ia, *std::move(domain)));
}

Lmr::Lmr(IaContext& ia, Ref<Pz> pz, const LmrOptions& options) noexcept
    : Object(&ia), pz_(std::move(pz)), options_(options) {}

Result<glue::MemoryRegion> Lmr::register_at(std::uint64_t address, unsigned access) const {
    return glue::MemoryRegion::make(pz_->domain(), reinterpret_cast<void*>(address), options_.length,
                                    options_.address, access);
}

Lmr::Extras& Lmr::extras() {
    if (extras_ == nullptr) {
        extras_ = std::make_unique<Extras>();
    }
    return *extras_;
}

Result<void> Lmr::register_memory() {
    if (options_.length == 0) {
        return {};
    }
    if (options_.type == LmrType::kShared) {
        Result<SharedUse> shared = SharedUse::make(*options_.cookie, options_.address, options_.length);
        if (!shared) {
            return std::move(shared).error();
        }
        extras().shared.emplace(*std::move(shared));
    }
    if (options_.type != LmrType::kOfLmr) {
        ask_for_huge_pages(options_.address, options_.length);
    }
    const unsigned access = access_of(ia(), options_);
    Result<glue::MemoryRegion> made = register_at(options_.address, access);
    SimulatedMemory* const simulated = ia().device().simulated();
    if (made && simulated != nullptr) {
        // So the device takes the program's memory. It gets the shadow instead.
        Result<SimulatedMemory::Shadow> shadow = simulated->add(options_.address, options_.length);
        if (!shadow) {
            return std::move(shadow).error();
        }
        const SimulatedMemory::Shadow& kept = extras().shadow.emplace(*std::move(shadow));
        made = register_at(reinterpret_cast<std::uintptr_t>(kept.address()), access);
    }
    if (!made) {
        return std::move(made).error();
    }
    region_ = *std::move(made);
    return {};
}

// The context is live only while the device knows the region, too.
Result<std::unique_ptr<Lmr>> Lmr::make(IaContext& ia, Ref<Pz> pz, const LmrOptions& options) {
    if (options.length > std::numeric_limits<std::uint64_t>::max() - options.address) {
        return Error(ErrorKind::kOutOfRange, "a region goes past the end of the address space");
    }
    const std::uint32_t zone = pz->number();
    auto lmr = std::unique_ptr<Lmr>(new Lmr(ia, std::move(pz), options));
    if (Result<void> registered = lmr->register_memory(); !registered) {
        return std::move(registered).error();
    }
    const bool device_writes = (options.privileges & kAnyWrite) != 0;
    Result<std::uint32_t> context =
        ia.device().memory().add({options.address, options.length, options.privileges | options.implied, zone,
                                  lmr->region_ ? lmr->region_->local_key() : 0},
                                 device_writes);
    if (!context) {
        return std::move(context).error();
    }
    lmr->context_ = *context;
    ia.device().lmrs().set(*context, lmr.get());
    if (lmr->extras_ != nullptr && lmr->extras_->shadow && SyncCheck::wanted() != nullptr) {
        const auto can = [&](unsigned privileges) { return (options.privileges & privileges) != 0; };
        SyncCheck::wanted()->add(*ia.device().simulated(), {.context = *context,
                                                            .address = options.address,
                                                            .length = options.length,
                                                            .is_written = can(kRemoteWrite | kRemoteAtomic),
                                                            .is_read = can(kRemoteRead | kRemoteAtomic)});
    }
    return lmr;
}

Lmr::~Lmr() {
    if (context_ == 0) {
        return; // it never came that far
    }
    if (extras_ != nullptr && extras_->shadow && SyncCheck::wanted() != nullptr) {
        SyncCheck::wanted()->remove(*ia().device().simulated(), context_);
    }
    ia().device().lmrs().clear(context_);
    if (const Result<void> removed = ia().device().memory().remove(context_); !removed) {
        SLUICE_LOG(kWarning, "dat", "a region was gone before it was freed: %s", removed.error().text());
    }
}

std::uint32_t Lmr::remote_key() const noexcept {
    const bool is_remote = (options_.privileges & (kRemoteRead | kRemoteWrite | kRemoteAtomic)) != 0;
    return is_remote && region_ ? region_->remote_key() : 0;
}

} // namespace sluice::dapl
