// SPDX-License-Identifier: BSD-3-Clause
#include "roce/engine/memory.hpp"

#include <atomic>
#include <cstring>

namespace sluice::roce::engine {
namespace {

template<typename T>
T* at(std::uint64_t addr) noexcept {
    return reinterpret_cast<T*>(static_cast<std::uintptr_t>(addr));
}

} // namespace

bool PlainMemory::copy_in(std::uint64_t to, const void* from, std::size_t len_bytes) noexcept {
    if (len_bytes != 0) {
        std::memmove(at<void>(to), from, len_bytes); // both may be the program's
    }
    return true;
}

bool PlainMemory::copy_out(void* to, std::uint64_t from, std::size_t len_bytes) noexcept {
    if (len_bytes != 0) {
        std::memcpy(to, at<const void>(from), len_bytes);
    }
    return true;
}

bool PlainMemory::readable(std::uint64_t, std::size_t) noexcept {
    return true;
}

bool PlainMemory::fetch_add(std::uint64_t addr, std::uint64_t add, std::uint64_t& original) noexcept {
    original = std::atomic_ref(*at<std::uint64_t>(addr)).fetch_add(add);
    return true;
}

bool PlainMemory::compare_swap(std::uint64_t addr, std::uint64_t compare, std::uint64_t swap,
                               std::uint64_t& original) noexcept {
    original = compare;
    std::atomic_ref(*at<std::uint64_t>(addr)).compare_exchange_strong(original, swap);
    return true;
}

bool PlainMemory::store(std::uint64_t addr, std::uint64_t value) noexcept {
    // Partner: the program's acquire load of the same word.
    std::atomic_ref(*at<std::uint64_t>(addr)).store(value, std::memory_order_release);
    return true;
}

bool PlainMemory::flush(std::uint64_t, std::size_t, std::uint8_t) noexcept {
    // Partner: the program's acquire fence after it learns of the flush. Nothing here is persistent.
    std::atomic_thread_fence(std::memory_order_release);
    return true;
}

} // namespace sluice::roce::engine
