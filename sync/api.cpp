// SPDX-License-Identifier: BSD-3-Clause
//
// The façade of libsluice-sync: every function of <sluice/sync.h>, in header order. Each checks its
// arguments, makes one call and returns its code, and does nothing else.
#include "sluice/sync.h"

#include <cerrno>
#include <cstddef>

#include "core/coherence/copy.hpp"
#include "core/coherence/flag.hpp"
#include "core/facade.hpp"
#include "core/log.hpp"
#include "core/probes.hpp"
#include "core/put_text.hpp"
#include "core/versioned.hpp"
#include "sluice/version.hpp"
#include "sync/access.hpp"
#include "sync/state.hpp"

using sluice::Error;
using sluice::ErrorKind;
using sluice::Facade;
using sluice::put_text;
using sluice::Result;
using sluice::Where;
using sluice::coherence::Ops;
using sluice::sync::Access;
using sluice::sync::check_access;
using sluice::sync::error_about;
using sluice::sync::error_in_segment;
using sluice::sync::is_checking;
using sluice::sync::is_sound;
using sluice::sync::prepare_ops;
using sluice::sync::Range;
using sluice::sync::ready_ops;
namespace coherence = sluice::coherence;

static_assert(sizeof(Range) == sizeof(sluice_sync_segment) &&
              offsetof(Range, address) == offsetof(sluice_sync_segment, address) &&
              offsetof(Range, length) == offsetof(sluice_sync_segment, length));

namespace {

struct Sync : Facade<Sync> {
    using Code = int;
    static constexpr Code kDone = 0;
    static Code fail(const Error& error, const Where& where) noexcept {
        SLUICE_LOG(kInfo, "sync", "%s: %s", where.function, error.text());
        // Not what the kernel happened to say when it was asked what the CPU has.
        return error.kind() == ErrorKind::kNotSupported ? EOPNOTSUPP : error.to_errno();
    }
};

constexpr std::size_t kOldestCpu = sizeof(sluice_sync_cpu);

Range range_of(const void* address, std::uint64_t length) noexcept {
    return {reinterpret_cast<std::uintptr_t>(address), length};
}

// What an exported function returns for bad arguments; FUNCTION is its name. Not a Where, which would be
// stored before each flush.
[[gnu::cold, gnu::noinline]] int refuse(const Error& error, const char* function) noexcept {
    return Sync::fail(error, Where("", 0, function));
}

Error error_of_unsound(Range range) noexcept {
    return error_about(range, ErrorKind::kInvalidArgument, "a range must not wrap around or begin at NULL");
}

[[gnu::cold, gnu::noinline]] int unsound(Range range, const char* function) noexcept {
    return refuse(error_of_unsound(range), function);
}

// The table, or why the call can't be done. Both in registers: a store would delay the flush.
struct Entry {
    const Ops* ops;
    int error;
};

// A call's way in when nothing is known yet or checks are on. CHECK looks at the pages.
template<typename Check>
Entry enter(const char* function, Check&& check) noexcept {
    Entry entry{nullptr, 0};
    entry.error = Sync::give(
        &entry.ops,
        [&]() -> Result<const Ops*> {
            if (Result<void> possible = is_checking() ? check() : Result<void>{}; !possible) {
                return std::move(possible).error();
            }
            return prepare_ops();
        },
        Where("", 0, function));
    return entry;
}

[[gnu::cold, gnu::noinline]] Entry enter_one(Range range, Access access, const char* function) noexcept {
    return enter(function, [&] { return check_access(range, access); });
}

[[gnu::cold, gnu::noinline]] Entry enter_two(Range read, Range written, const char* function) noexcept {
    return enter(function, [&] {
        Result<void> possible = check_access(read, Access::kRead);
        return possible ? check_access(written, Access::kWrite) : std::move(possible);
    });
}

[[gnu::cold, gnu::noinline]] Entry enter_batch(const Range* ranges, std::uint64_t count,
                                               const char* function) noexcept {
    return enter(function, [&] {
        Result<void> possible;
        for (std::uint64_t i = 0; possible && i < count; ++i) {
            possible = check_access(ranges[i], Access::kRead);
            if (!possible) {
                possible = error_in_segment(i, possible.error());
            }
        }
        return possible;
    });
}

// As enter(), which most calls don't need.
[[gnu::always_inline]] inline Entry ready(Range range, Access access, const char* function) noexcept {
    const Ops* const ops = ready_ops.load(std::memory_order_acquire); // partner: prepare_ops()
    return ops != nullptr ? Entry{ops, 0} : enter_one(range, access, function);
}

[[gnu::always_inline]] inline Entry ready_two(Range read, Range written, const char* function) noexcept {
    const Ops* const ops = ready_ops.load(std::memory_order_acquire); // partner: prepare_ops()
    return ops != nullptr ? Entry{ops, 0} : enter_two(read, written, function);
}

// The memory of the array itself. COUNT is possible.
Range array_of(const Range* ranges, std::uint64_t count) noexcept {
    return range_of(ranges, count * sizeof *ranges);
}

// Whether there can be an array of COUNT at RANGES, which isn't read.
bool is_array(const Range* ranges, std::uint64_t count) noexcept {
    return count <= SIZE_MAX / sizeof *ranges && is_sound(array_of(ranges, count));
}

// With checks on, whether the array may be read; 0 or the error.
[[gnu::cold, gnu::noinline]] int check_array(const Range* ranges, std::uint64_t count,
                                             const char* function) noexcept {
    return Sync::answer(
        [&] { return is_checking() ? check_access(array_of(ranges, count), Access::kRead) : Result<void>{}; },
        Where("", 0, function));
}

[[gnu::cold, gnu::noinline]] int no_array(const Range* ranges, std::uint64_t count,
                                          const char* function) noexcept {
    return refuse(Error::format(ErrorKind::kInvalidArgument, 0,
                                "no memory holds an array of %llu segments at 0x%llx",
                                static_cast<unsigned long long>(count),
                                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(ranges))),
                  function);
}

// The index of the first segment that isn't sound; COUNT if there is none.
std::uint64_t first_unsound(const Range* ranges, std::uint64_t count) noexcept {
    std::uint64_t index = 0;
    while (index < count && is_sound(ranges[index])) {
        ++index;
    }
    return index;
}

[[gnu::cold, gnu::noinline]] int unsound_segment(const Range* ranges, std::uint64_t index,
                                                 const char* function) noexcept {
    return refuse(error_in_segment(index, error_of_unsound(ranges[index])), function);
}

bool do_overlap(Range a, Range b) noexcept {
    return a.length != 0 && (a.address - b.address < b.length || b.address - a.address < a.length);
}

[[gnu::cold, gnu::noinline]] int overlapping(Range target, Range source, const char* function) noexcept {
    return refuse(Error::format(ErrorKind::kInvalidArgument, 0,
                                "a copy of %llu bytes from 0x%llx to 0x%llx: the ranges must not overlap",
                                static_cast<unsigned long long>(target.length),
                                static_cast<unsigned long long>(source.address),
                                static_cast<unsigned long long>(target.address)),
                  function);
}

using RangeWork = void(const Ops&, std::uintptr_t, std::size_t) noexcept;
using BatchWork = void(const Ops&, const Range*, std::uint64_t) noexcept;

enum class Aim : bool { kVisible, kPersistent };

template<Aim kAim>
bool is_supported(const Ops& ops) noexcept {
    return kAim == Aim::kVisible || ops.persist.issue != nullptr;
}

int not_persistent(const char* function) noexcept {
    return refuse(Error(ErrorKind::kNotSupported, "user mode can't clean to persistence on this CPU; "
                                                  "sluice_sync_query() gives \"none\" for persist"),
                  function);
}

template<RangeWork* kWork, Aim kAim = Aim::kVisible>
[[gnu::always_inline]] inline int do_range(const void* address, std::uint64_t length,
                                           const char* function = __builtin_FUNCTION()) noexcept {
    SLUICE_PROBE(sync_range, function, address, length, __builtin_return_address(0));
    const Range range = range_of(address, length);
    if (!is_sound(range)) [[unlikely]] {
        return unsound(range, function);
    }
    const Entry entry = ready(range, Access::kRead, function);
    if (entry.error != 0) [[unlikely]] {
        return entry.error;
    }
    if (!is_supported<kAim>(*entry.ops)) [[unlikely]] {
        return not_persistent(function);
    }
    kWork(*entry.ops, range.address, length);
    return 0;
}

template<BatchWork* kWork, Aim kAim = Aim::kVisible>
[[gnu::always_inline]] inline int do_batch(const sluice_sync_segment* segments, std::uint64_t count,
                                           const char* function = __builtin_FUNCTION()) noexcept {
    SLUICE_PROBE(sync_batch, function, segments, count, __builtin_return_address(0));
    const auto* const ranges = reinterpret_cast<const Range*>(segments);
    if (!is_array(ranges, count)) [[unlikely]] {
        return no_array(ranges, count, function);
    }
    const Ops* const ops = ready_ops.load(std::memory_order_acquire); // partner: prepare_ops()
    if (ops == nullptr) [[unlikely]] {
        if (const int error = check_array(ranges, count, function); error != 0) {
            return error;
        }
    }
    if (const std::uint64_t wrong = first_unsound(ranges, count); wrong != count) [[unlikely]] {
        return unsound_segment(ranges, wrong, function);
    }
    const Entry entry = ops != nullptr ? Entry{ops, 0} : enter_batch(ranges, count, function);
    if (entry.error != 0) [[unlikely]] {
        return entry.error;
    }
    if (!is_supported<kAim>(*entry.ops)) [[unlikely]] {
        return not_persistent(function);
    }
    kWork(*entry.ops, ranges, count);
    return 0;
}

bool is_flag(const std::uint64_t* flag) noexcept {
    return flag != nullptr && reinterpret_cast<std::uintptr_t>(flag) % alignof(std::uint64_t) == 0;
}

[[gnu::cold, gnu::noinline]] int no_flag(const std::uint64_t* flag, const char* function) noexcept {
    return refuse(error_about(range_of(flag, sizeof *flag), ErrorKind::kInvalidArgument,
                              "a flag must not be NULL and must be on a multiple of 8 bytes"),
                  function);
}

sluice_sync_cpu describe(const Ops& ops) noexcept {
    sluice_sync_cpu cpu{};
    put_text(cpu.clean, ops.clean.name);
    put_text(cpu.invalidate, ops.invalidate.name);
    put_text(cpu.persist, ops.persist.name);
    put_text(cpu.copy, ops.copy.name);
    put_text(cpu.before_clean, ops.before_clean.name);
    put_text(cpu.after_clean, ops.after_clean.name);
    put_text(cpu.before_invalidate, ops.before_invalidate.name);
    put_text(cpu.after_invalidate, ops.after_invalidate.name);
    put_text(cpu.line_source, ops.line_source);
    cpu.line_bytes = ops.line_bytes;
    cpu.granule_bytes = ops.granule_bytes;
    cpu.copy_bytes = ops.copy.worth_bytes;
    cpu.forced = ops.is_forced ? 1 : 0;
    cpu.checking = is_checking() ? 1 : 0;
    return cpu;
}

} // namespace

const char* sluice_sync_version(void) {
    return sluice::kVersion;
}

int sluice_sync_query(sluice_sync_cpu* cpu, size_t size) {
    return Sync::answer([&]() -> Result<void> {
        const Result<const Ops*> ops = prepare_ops();
        return ops ? sluice::copy_versioned(describe(**ops), cpu, size, kOldestCpu) : ops.error().clone();
    });
}

int sluice_sync_clean(const void* address, uint64_t length) {
    return do_range<coherence::clean>(address, length);
}

int sluice_sync_invalidate(const void* address, uint64_t length) {
    return do_range<coherence::invalidate>(address, length);
}

// No architecture lets user mode drop a line without writing it back first.
int sluice_sync_clean_invalidate(const void* address, uint64_t length) {
    return do_range<coherence::invalidate>(address, length);
}

int sluice_sync_persist(const void* address, uint64_t length) {
    return do_range<coherence::persist, Aim::kPersistent>(address, length);
}

int sluice_sync_clean_batch(const sluice_sync_segment* segments, uint64_t count) {
    return do_batch<coherence::clean>(segments, count);
}

int sluice_sync_invalidate_batch(const sluice_sync_segment* segments, uint64_t count) {
    return do_batch<coherence::invalidate>(segments, count);
}

int sluice_sync_clean_invalidate_batch(const sluice_sync_segment* segments, uint64_t count) {
    return do_batch<coherence::invalidate>(segments, count);
}

int sluice_sync_persist_batch(const sluice_sync_segment* segments, uint64_t count) {
    return do_batch<coherence::persist, Aim::kPersistent>(segments, count);
}

int sluice_sync_copy(void* to, const void* from, uint64_t length) {
    const Range target = range_of(to, length);
    const Range source = range_of(from, length);
    if (!is_sound(target) || !is_sound(source)) [[unlikely]] {
        return unsound(is_sound(target) ? source : target, __func__);
    }
    if (do_overlap(target, source)) [[unlikely]] {
        return overlapping(target, source, __func__);
    }
    const Entry entry = ready_two(source, target, __func__);
    if (entry.error == 0) [[likely]] {
        coherence::copy_and_clean(*entry.ops, to, from, length);
    }
    return entry.error;
}

int sluice_sync_publish(uint64_t* flag, uint64_t value) {
    if (!is_flag(flag)) [[unlikely]] {
        return no_flag(flag, __func__);
    }
    const Entry entry = ready(range_of(flag, sizeof *flag), Access::kWrite, __func__);
    if (entry.error == 0) [[likely]] {
        coherence::publish(*entry.ops, flag, value);
    }
    return entry.error;
}

int sluice_sync_observe(const uint64_t* flag, uint64_t* value) {
    if (!is_flag(flag)) [[unlikely]] {
        return no_flag(flag, __func__);
    }
    if (value == nullptr) [[unlikely]] {
        return refuse(Error(ErrorKind::kInvalidArgument, "the place for the value is NULL"), __func__);
    }
    const Entry entry = ready_two(range_of(flag, sizeof *flag), range_of(value, sizeof *value), __func__);
    if (entry.error == 0) [[likely]] {
        *value = coherence::observe(*entry.ops, flag);
    }
    return entry.error;
}

int sluice_sync_check(const void* address, uint64_t length, unsigned access) {
    const Range range = range_of(address, length);
    if (!is_sound(range)) {
        return unsound(range, __func__);
    }
    if (access != SLUICE_SYNC_READ && access != SLUICE_SYNC_WRITE) {
        return refuse(Error::format(ErrorKind::kInvalidArgument, 0,
                                    "access %u is neither SLUICE_SYNC_READ nor SLUICE_SYNC_WRITE", access),
                      __func__);
    }
    return Sync::answer(
        [&] { return check_access(range, access == SLUICE_SYNC_WRITE ? Access::kWrite : Access::kRead); });
}

void sluice_sync_set_checking(int on) {
    sluice::sync::set_checking(on != 0);
}
