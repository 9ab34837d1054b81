// SPDX-License-Identifier: BSD-3-Clause
//
// Protection zones, and the memory that is registered in them.
#pragma once

#include <optional>

#include "ibverbs-glue/memory.hpp"
#include "udapl/provider/object.hpp"
#include "udapl/provider/shared_memory.hpp"
#include "udapl/provider/simulated_memory.hpp"

namespace sluice::dapl {

class Pz final : public Object {
  public:
    static constexpr HandleKind kHandleKind = kPz;

    static Result<std::unique_ptr<Pz>> make(IaContext& ia);

    const glue::ProtectionDomain& domain() const noexcept { return domain_; }
    // Unlike every other zone's of this process; what a region is marked with.
    std::uint32_t number() const noexcept { return number_; }

  private:
    Pz(IaContext& ia, glue::ProtectionDomain domain) noexcept;

    const glue::ProtectionDomain domain_;
    const std::uint32_t number_;
};

// The bits are DAT's own, in each of its versions.
constexpr unsigned kLocalRead = 0x01;
constexpr unsigned kRemoteRead = 0x02;
constexpr unsigned kLocalWrite = 0x10;
constexpr unsigned kRemoteWrite = 0x20;
constexpr unsigned kEveryPrivilege = 0x33;
constexpr unsigned kRemoteAtomic = 0x40; // OpenFabrics' extension of 2.0

enum class LmrType { kVirtual, kOfLmr, kShared, kStronglyOrdered };

// What is registered, and for what.
struct LmrOptions {
    LmrType type = LmrType::kVirtual;
    unsigned privileges = 0;
    unsigned implied = 0; // what the program may do beyond them
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    void* of_lmr = nullptr;         // the handle that was given, for queries
    const Cookie* cookie = nullptr; // of kShared; where the program has it
};

// A region of memory. On the device it may have more rights than its privileges say, because verbs can't
// express them all: the post checks the local ones.
class Lmr final : public Object {
  public:
    static constexpr HandleKind kHandleKind = kLmr;

    // kOutOfRange for a range that wraps; kInsufficientResources, with the limit in its text;
    // kInvalidArgument for memory that isn't mapped, or not for that use; kInvalidState for kShared where the
    // memory isn't.
    static Result<std::unique_ptr<Lmr>> make(IaContext& ia, Ref<Pz> pz, const LmrOptions& options);
    ~Lmr() override;

    const LmrOptions& options() const noexcept { return options_; }
    Pz& pz() const noexcept { return *pz_; }
    // Names the region in this process's requests and sync calls.
    std::uint32_t context() const noexcept { return context_; }
    // Null where it has no bytes.
    ibv_mr* region() const noexcept { return region_ ? region_->get() : nullptr; }
    // Names it to peers; 0 unless they may do something with it.
    std::uint32_t remote_key() const noexcept;

  private:
    // What few regions have, so that the many don't carry it.
    struct Extras {
        std::optional<SharedUse> shared;
        std::optional<SimulatedMemory::Shadow> shadow;
    };

    Lmr(IaContext& ia, Ref<Pz> pz, const LmrOptions& options) noexcept;
    Extras& extras();
    Result<void> register_memory();
    Result<glue::MemoryRegion> register_at(std::uint64_t address, unsigned access) const;

    const Ref<Pz> pz_;
    const LmrOptions options_;
    std::unique_ptr<Extras> extras_;           // before what the device has of it
    std::optional<glue::MemoryRegion> region_; // none where nothing is registered: it has no bytes
    std::uint32_t context_ = 0;
};

} // namespace sluice::dapl
