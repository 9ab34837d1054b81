// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/registry/redirection.hpp"

namespace sluice::dat {

namespace {

// An address that could hold the pointer that an object begins with. Small numbers are no
// addresses: DAT itself uses 1 and 2 as special handles.
bool could_be_object(DAT_HANDLE handle) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(handle);
    return address >= 4096 && address % alignof(DAT_PROVIDER*) == 0;
}

} // namespace

Result<void> Redirection::add_range(const dapl_sluice_v1& provider) {
    const LockGuard guard(mutex_);
    const auto begin = reinterpret_cast<std::uintptr_t>(provider.handles);
    for (Range& range : ranges_) {
        const bool is_free = range.size.load(std::memory_order_relaxed) == 0;
        if (!is_free && range.begin.load(std::memory_order_relaxed) == begin) {
            return {};
        }
        if (is_free) {
            range.begin.store(begin, std::memory_order_relaxed);
            range.functions.store(provider.functions, std::memory_order_relaxed);
            range.size.store(provider.handles_size, std::memory_order_release); // partner: functions_in()
            return {};
        }
    }
    return Error::format(ErrorKind::kInsufficientResources, 0,
                         "%u versions of libdapl-sluice are loaded already", kMaxRanges);
}

Result<void> Redirection::add_table(const DAT_PROVIDER* table) {
    const LockGuard guard(mutex_);
    const std::uint32_t count = table_count_.load(std::memory_order_relaxed);
    std::uint32_t place = 0;
    while (place < count && tables_[place].load(std::memory_order_relaxed) != nullptr) {
        ++place;
    }
    if (place == kMaxTables) {
        return Error::format(ErrorKind::kInsufficientResources, 0, "%u providers are registered already",
                             kMaxTables);
    }
    tables_[place].store(table, std::memory_order_relaxed);
    if (place == count) {
        table_count_.store(count + 1, std::memory_order_release); // partner: find_foreign()
    }
    return {};
}

void Redirection::remove_table(const DAT_PROVIDER* table) noexcept {
    const LockGuard guard(mutex_);
    std::uint32_t count = table_count_.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < count; ++i) {
        if (tables_[i].load(std::memory_order_relaxed) == table) {
            tables_[i].store(nullptr, std::memory_order_relaxed);
            break;
        }
    }
    while (count > 0 && tables_[count - 1].load(std::memory_order_relaxed) == nullptr) {
        --count;
    }
    table_count_.store(count, std::memory_order_release); // partner: find_foreign()
}

const DAT_PROVIDER* Redirection::find_foreign(DAT_HANDLE handle) const noexcept {
    // Partners: the releases in add_table() and remove_table().
    const std::uint32_t count = table_count_.load(std::memory_order_acquire);
    if (count == 0 || !could_be_object(handle)) {
        return nullptr;
    }
    const DAT_PROVIDER* const front = *static_cast<const DAT_PROVIDER* const*>(handle);
    for (std::uint32_t i = 0; i < count; ++i) {
        if (front != nullptr && tables_[i].load(std::memory_order_relaxed) == front) {
            return front;
        }
    }
    return nullptr;
}

} // namespace sluice::dat
