// SPDX-License-Identifier: BSD-3-Clause
//
// Protection zones, LMRs and the sync calls.
#include "udapl/provider/dat_calls.hpp"
#include "udapl/provider/dat_lifetime.hpp"
#include "udapl/provider/dat_version.hpp"
#include "udapl/provider/memory.hpp"
#include "udapl/provider/sync_check.hpp"

namespace sluice::dapl {

namespace {

static_assert(kLocalRead == DAT_MEM_PRIV_LOCAL_READ_FLAG && kRemoteRead == DAT_MEM_PRIV_REMOTE_READ_FLAG &&
              kLocalWrite == DAT_MEM_PRIV_LOCAL_WRITE_FLAG &&
              kRemoteWrite == DAT_MEM_PRIV_REMOTE_WRITE_FLAG && kEveryPrivilege == DAT_MEM_PRIV_ALL_FLAG);
static_assert(sizeof(Cookie) == DAT_LMR_COOKIE_SIZE);

DAT_RETURN pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE* pz_handle) {
    if (pz_handle == nullptr) {
        return wrong_argument(2);
    }
    return Dat::answer([&] {
        Result<Pin<Ia>> ia = handles().get<Ia>(ia_handle);
        return ia ? adopt(**ia, Pz::make(**ia), pz_handle) : wrong_handle(DAT_INVALID_HANDLE_IA);
    });
}

DAT_RETURN pz_query(DAT_PZ_HANDLE pz_handle, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM* param) {
    const Result<Pin<Pz>> pz = handles().get<Pz>(pz_handle);
    if (!pz) {
        return wrong_handle(DAT_INVALID_HANDLE_PZ);
    }
    if (!is_mask(mask, DAT_PZ_FIELD_ALL)) {
        return wrong_argument(2);
    }
    if (param == nullptr) {
        return wrong_argument(3);
    }
    param->ia_handle = as_programs_know((*pz)->ia().handle());
    return kSuccess;
}

DAT_RETURN pz_free(DAT_PZ_HANDLE pz) {
    return free_object<Pz>(pz, DAT_INVALID_HANDLE_PZ, DAT_INVALID_STATE_PZ_IN_USE);
}

// LENGTH bytes at ADDRESS.
DAT_RETURN describe_range(const void* address, DAT_VLEN length, LmrOptions& options) noexcept {
    options.address = reinterpret_cast<std::uintptr_t>(address);
    options.length = length;
    return length > UINT64_MAX - options.address ? wrong_argument(4) : kSuccess;
}

// The memory of another region.
DAT_RETURN describe_source(const Ia& ia, DAT_LMR_HANDLE source_handle, LmrOptions& options) {
    const Result<Pin<Lmr>> source = handles().get<Lmr>(source_handle);
    if (!source || &(*source)->ia().device() != &ia.device()) {
        return wrong_handle(DAT_INVALID_HANDLE_LMR);
    }
    options.type = LmrType::kOfLmr;
    options.address = (*source)->options().address;
    options.length = (*source)->options().length;
    options.of_lmr = source_handle;
    return kSuccess;
}

DAT_RETURN describe_shared(const DAT_SHARED_MEMORY& shared, DAT_VLEN length, LmrOptions& options) noexcept {
    options.type = LmrType::kShared;
    options.cookie = reinterpret_cast<const Cookie*>(shared.shared_memory_id);
    return options.cookie != nullptr ? describe_range(shared.virtual_address, length, options)
                                     : wrong_argument(3);
}

// What is asked for, or the code that says what is wrong with it. PRIVILEGES were checked.
DAT_RETURN describe(const Ia& ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region, DAT_VLEN length,
                    LmrOptions& options) {
    if (type == DAT_MEM_TYPE_LMR) {
        return describe_source(ia, region.for_lmr_handle, options);
    }
    if (type == DAT_MEM_TYPE_SHARED_VIRTUAL) {
        return describe_shared(region.for_shared_memory, length, options);
    }
    // NOLINTNEXTLINE(misc-redundant-expression): DAT 2.0 has one type for both
    if (type != DAT_MEM_TYPE_VIRTUAL && type != kStronglyOrderedType) {
        return failure(DAT_MODEL_NOT_SUPPORTED);
    }
    // Whoever didn't open the adapter by a name with RO_AWARE_ means strong order.
    options.type = type == DAT_MEM_TYPE_VIRTUAL && ia.options().is_ordering_aware ? LmrType::kVirtual
                                                                                  : LmrType::kStronglyOrdered;
    return describe_range(region.for_va, length, options);
}

template<typename T>
void give(T* where, T value) noexcept {
    if (where != nullptr) {
        *where = value;
    }
}

DAT_RETURN make_lmr(Ia& ia, Pz& pz, const LmrOptions& options, const LmrResults& results) {
    Ref<Pz> held(&pz);
    if (!held) {
        return wrong_handle(DAT_INVALID_HANDLE_PZ);
    }
    Result<std::unique_ptr<Lmr>> made = Lmr::make(ia, std::move(held), options);
    if (!made && made.error().kind() == ErrorKind::kInvalidArgument) {
        SLUICE_LOG(kWarning, "dat", "dat_lmr_create: %s (%d)", made.error().text(), made.error().os_errno());
        return wrong_argument(3);
    }
    const Lmr* const lmr = made ? made->get() : nullptr;
    // Before it can be freed: as soon as it has its handle, it may go.
    const DAT_LMR_CONTEXT lmr_context = lmr != nullptr ? lmr->context() : 0;
    const DAT_RMR_CONTEXT rmr_context = lmr != nullptr ? lmr->remote_key() : 0;
    DAT_LMR_HANDLE handle = DAT_HANDLE_NULL;
    const DAT_RETURN status = adopt(ia, std::move(made), &handle);
    if (status == kSuccess) {
        give(results.handle, handle);
        give(results.lmr_context, lmr_context);
        give(results.rmr_context, rmr_context);
        give(results.registered_size, DAT_VLEN{options.length});
        give(results.registered_address, DAT_VADDR{options.address});
    }
    return status;
}

DAT_RETURN lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK mask, DAT_LMR_PARAM* param) {
    const Result<Pin<Lmr>> lmr = handles().get<Lmr>(lmr_handle);
    if (!lmr) {
        return wrong_handle(DAT_INVALID_HANDLE_LMR);
    }
    if (!is_mask(mask, DAT_LMR_FIELD_ALL)) {
        return wrong_argument(2);
    }
    if (param == nullptr) {
        return wrong_argument(3);
    }
    const LmrOptions& options = (*lmr)->options();
    *param = {};
    param->ia_handle = as_programs_know((*lmr)->ia().handle());
    switch (options.type) {
    case LmrType::kVirtual:
    case LmrType::kStronglyOrdered:
        param->mem_type = options.type == LmrType::kVirtual ? DAT_MEM_TYPE_VIRTUAL : kStronglyOrderedType;
        param->region_desc.for_va = reinterpret_cast<DAT_PVOID>(options.address);
        break;
    case LmrType::kShared:
        param->mem_type = DAT_MEM_TYPE_SHARED_VIRTUAL;
        // DAT gives it as the program's own pointer, which may write there.
        param->region_desc.for_shared_memory = {
            reinterpret_cast<DAT_PVOID>(options.address),
            reinterpret_cast<DAT_LMR_COOKIE>(const_cast<Cookie*>(options.cookie))}; // NOLINT
        break;
    case LmrType::kOfLmr:
        param->mem_type = DAT_MEM_TYPE_LMR;
        param->region_desc.for_lmr_handle = options.of_lmr;
        break;
    }
    param->length = param->registered_size = options.length;
    param->registered_address = options.address;
    param->pz_handle = (*lmr)->pz().handle();
    param->mem_priv = static_cast<DAT_MEM_PRIV_FLAGS>(options.privileges);
    param->lmr_context = (*lmr)->context();
    param->rmr_context = (*lmr)->remote_key();
    return kSuccess;
}

DAT_RETURN lmr_free(DAT_LMR_HANDLE lmr) {
    return free_object<Lmr>(lmr, DAT_INVALID_HANDLE_LMR, DAT_INVALID_STATE_LMR_IN_USE);
}

// The two directions.
struct ForDevice {
    static constexpr auto kBatch = &coherence::Engine::before_device_reads;
    static constexpr auto kCalls = &SyncCounts::before_device_reads;
    static constexpr auto kLines = &SyncCounts::lines_cleaned;
};
struct ForProgram {
    static constexpr auto kBatch = &coherence::Engine::after_device_wrote;
    static constexpr auto kCalls = &SyncCounts::after_device_wrote;
    static constexpr auto kLines = &SyncCounts::lines_invalidated;
};

template<typename Direction>
DAT_RETURN sync(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET* segments, DAT_VLEN count) noexcept {
    const Result<Pin<Ia>> ia = handles().get<Ia>(ia_handle);
    if (!ia) [[unlikely]] {
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    }
    if (count == 0) {
        return kSuccess;
    }
    // No array has more: it would go past the end of the address space.
    if (segments == nullptr || count > UINT64_MAX / sizeof *segments) [[unlikely]] {
        return wrong_argument(segments == nullptr ? 2 : 3);
    }
    Device& device = (*ia)->device();
    coherence::Engine& memory = device.memory();
    const auto is_valid = [&](const coherence::Segment* batch, std::uint64_t size) {
        return memory.validate(batch, size).ok();
    };
    const auto is_done = [&](const coherence::Segment* batch, std::uint64_t size) {
        const bool done = (memory.*Direction::kBatch)(batch, size).ok();
        if (done && memory.sync_required()) {
            device.sync_counters().here().*Direction::kLines += memory.lines_of(batch, size);
        }
        return done;
    };
    // All or nothing. One alone is checked before it is touched, and so are all where nothing is.
    const bool is_checked_first = count > 1 && memory.sync_required();
    if ((is_checked_first && !all_batches(segments, count, is_valid)) ||
        !all_batches(segments, count, is_done)) [[unlikely]] {
        ++device.sync_counters().here().refused;
        return wrong_argument(2);
    }
    ++(device.sync_counters().here().*Direction::kCalls);
    return kSuccess;
}

// The coherence timeline has the name of the call that moved a line.
DAT_RETURN checked_sync_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET* segments, DAT_VLEN count) {
    const SyncCall call("dat_lmr_sync_rdma_read");
    return sync<ForDevice>(ia, segments, count);
}

DAT_RETURN checked_sync_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET* segments, DAT_VLEN count) {
    const SyncCall call("dat_lmr_sync_rdma_write");
    return sync<ForProgram>(ia, segments, count);
}

} // namespace

DAT_RETURN create_lmr(const LmrWanted& wanted, const LmrResults& results) {
    Result<Pin<Ia>> ia = handles().get<Ia>(wanted.ia);
    if (!ia) {
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    }
    Result<Pin<Pz>> pz = handles().get<Pz>(wanted.pz);
    if (!pz || &(*pz)->ia() != ia->get()) {
        return wrong_handle(DAT_INVALID_HANDLE_PZ);
    }
    LmrOptions options;
    options.privileges = static_cast<unsigned>(wanted.privileges) & ~kIgnoredPrivileges;
    options.implied = kImpliedPrivileges;
    if (!is_mask(options.privileges, kKnownPrivileges)) {
        return wrong_argument(6);
    }
    if (const DAT_RETURN status = describe(**ia, wanted.type, wanted.region, wanted.length, options);
        status != kSuccess) {
        return status;
    }
    return make_lmr(**ia, **pz, options, results);
}

void add_memory_functions(DAT_PROVIDER& table) noexcept {
    table.pz_create_func = pz_create;
    table.pz_query_func = pz_query;
    table.pz_free_func = pz_free;
    table.lmr_query_func = lmr_query;
    table.lmr_free_func = lmr_free;
    table.lmr_sync_rdma_read_func = sync<ForDevice>;
    table.lmr_sync_rdma_write_func = sync<ForProgram>;
    if (SyncCheck::wanted() != nullptr) {
        table.lmr_sync_rdma_read_func = checked_sync_read;
        table.lmr_sync_rdma_write_func = checked_sync_write;
    }
}

} // namespace sluice::dapl
