// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libpmem and libpmem2, whose own cache instructions aren't seen. Memory that isn't
// simulated is left to them. pmem_msync() and what they do by msync() is seen in libc.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "layers/hooks/next.hpp"
#include "layers/power/pending.hpp"

namespace {

namespace power = sluice::layers::power;
using sluice::coherence::Range;
using sluice::layers::hooks::Next;

// Of both libraries.
constexpr unsigned kNoDrain = 1U << 0;
constexpr unsigned kNoFlush = 1U << 5;

Range range_of(const void* address, std::size_t length) noexcept {
    return {reinterpret_cast<std::uintptr_t>(address), length};
}

void persist_by(Next<void(const void*, std::size_t)>& real, const void* address, std::size_t length,
                const char* call) noexcept {
    auto* const function = real.get();
    if (!power::persist_range(range_of(address, length), call) && function != nullptr) {
        function(address, length);
    }
}

void flush_by(Next<void(const void*, std::size_t)>& real, const void* address, std::size_t length) noexcept {
    auto* const function = real.get();
    if (!power::flush_range(range_of(address, length)) && function != nullptr) {
        function(address, length);
    }
}

void drain_by(Next<void()>& real, const char* call) noexcept {
    auto* const function = real.get();
    if (!power::drain(call) && function != nullptr) {
        function();
    }
}

// LENGTH bytes at TO have been stored, and are flushed as FLAGS say.
void* stored(void* to, std::size_t length, unsigned flags, const char* call) noexcept {
    static constinit Next<void(const void*, std::size_t)> real("pmem_flush");
    if ((flags & kNoFlush) == 0) {
        flush_by(real, to, length);
    }
    if ((flags & (kNoFlush | kNoDrain)) == 0) {
        power::drain(call);
    }
    return to;
}

void* copy(void* to, const void* from, std::size_t length, unsigned flags, const char* call) noexcept {
    return stored(std::memmove(to, from, length), length, flags, call);
}

void* fill(void* to, int value, std::size_t length, unsigned flags, const char* call) noexcept {
    return stored(std::memset(to, value, length), length, flags, call);
}

// What libpmem2 gives out. Its mappings don't matter here.
void persist2(const void* address, std::size_t length) noexcept {
    power::persist_range(range_of(address, length), "pmem2 persist");
}
void flush2(const void* address, std::size_t length) noexcept {
    power::flush_range(range_of(address, length));
}
void drain2() noexcept {
    power::drain("pmem2 drain");
}
void* copy2(void* to, const void* from, std::size_t length, unsigned flags) noexcept {
    return copy(to, from, length, flags, "pmem2 memmove");
}
void* fill2(void* to, int value, std::size_t length, unsigned flags) noexcept {
    return fill(to, value, length, flags, "pmem2 memset");
}

} // namespace

struct pmem2_map;

extern "C" {
#pragma GCC visibility push(default)

int pmem_is_pmem(const void* address, size_t length) noexcept {
    static constinit Next<int(const void*, size_t)> real("pmem_is_pmem");
    return power::is_simulated(range_of(address, length)) ? 1 : real.call(0, address, length);
}

int pmem_has_auto_flush() noexcept {
    return 0;
}

void pmem_persist(const void* address, size_t length) noexcept {
    static constinit Next<void(const void*, size_t)> real("pmem_persist");
    persist_by(real, address, length, "pmem_persist");
}

int pmem_deep_persist(const void* address, size_t length) noexcept {
    static constinit Next<int(const void*, size_t)> real("pmem_deep_persist");
    return power::persist_range(range_of(address, length), "pmem_deep_persist")
               ? 0
               : real.call(-1, address, length);
}

void pmem_flush(const void* address, size_t length) noexcept {
    static constinit Next<void(const void*, size_t)> real("pmem_flush");
    flush_by(real, address, length);
}

void pmem_deep_flush(const void* address, size_t length) noexcept {
    static constinit Next<void(const void*, size_t)> real("pmem_deep_flush");
    flush_by(real, address, length);
}

void pmem_drain() noexcept {
    static constinit Next<void()> real("pmem_drain");
    drain_by(real, "pmem_drain");
}

int pmem_deep_drain(const void* address, size_t length) noexcept {
    static constinit Next<int(const void*, size_t)> real("pmem_deep_drain");
    return power::drain("pmem_deep_drain") ? 0 : real.call(-1, address, length);
}

void* pmem_memmove(void* to, const void* from, size_t length, unsigned flags) noexcept {
    return copy(to, from, length, flags, "pmem_memmove");
}
void* pmem_memcpy(void* to, const void* from, size_t length, unsigned flags) noexcept {
    return copy(to, from, length, flags, "pmem_memcpy");
}
void* pmem_memset(void* to, int value, size_t length, unsigned flags) noexcept {
    return fill(to, value, length, flags, "pmem_memset");
}
void* pmem_memmove_persist(void* to, const void* from, size_t length) noexcept {
    return copy(to, from, length, 0, "pmem_memmove_persist");
}
void* pmem_memcpy_persist(void* to, const void* from, size_t length) noexcept {
    return copy(to, from, length, 0, "pmem_memcpy_persist");
}
void* pmem_memset_persist(void* to, int value, size_t length) noexcept {
    return fill(to, value, length, 0, "pmem_memset_persist");
}
void* pmem_memmove_nodrain(void* to, const void* from, size_t length) noexcept {
    return copy(to, from, length, kNoDrain, "");
}
void* pmem_memcpy_nodrain(void* to, const void* from, size_t length) noexcept {
    return copy(to, from, length, kNoDrain, "");
}
void* pmem_memset_nodrain(void* to, int value, size_t length) noexcept {
    return fill(to, value, length, kNoDrain, "");
}

decltype(&persist2) pmem2_get_persist_fn(pmem2_map*) noexcept {
    return persist2;
}
decltype(&flush2) pmem2_get_flush_fn(pmem2_map*) noexcept {
    return flush2;
}
decltype(&drain2) pmem2_get_drain_fn(pmem2_map*) noexcept {
    return drain2;
}
decltype(&copy2) pmem2_get_memmove_fn(pmem2_map*) noexcept {
    return copy2;
}
decltype(&copy2) pmem2_get_memcpy_fn(pmem2_map*) noexcept {
    return copy2;
}
decltype(&fill2) pmem2_get_memset_fn(pmem2_map*) noexcept {
    return fill2;
}
int pmem2_deep_flush(pmem2_map*, void* address, size_t length) noexcept {
    power::persist_range(range_of(address, length), "pmem2_deep_flush");
    return 0;
}

#pragma GCC visibility pop
} // extern "C"
