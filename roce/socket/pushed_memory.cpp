// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/pushed_memory.hpp"

#include "core/coherence/power.hpp"

namespace sluice::roce::socket {

namespace {

// Gives back what it is given.
bool note_if(bool written, std::uint64_t addr, std::size_t len_bytes) noexcept {
    if (written && len_bytes != 0) {
        coherence::note_device_write({static_cast<std::uintptr_t>(addr), len_bytes});
    }
    return written;
}

} // namespace

bool PushedMemory::is_wanted() noexcept {
    return coherence::do_device_writes_pass_caches();
}

bool PushedMemory::copy_in(std::uint64_t to, const void* from, std::size_t len_bytes) noexcept {
    return note_if(behind_.copy_in(to, from, len_bytes), to, len_bytes);
}

bool PushedMemory::copy_out(void* to, std::uint64_t from, std::size_t len_bytes) noexcept {
    return behind_.copy_out(to, from, len_bytes);
}

bool PushedMemory::readable(std::uint64_t addr, std::size_t len_bytes) noexcept {
    const bool is_readable = behind_.readable(addr, len_bytes);
    if (is_readable) {
        coherence::push_device_writes();
    }
    return is_readable;
}

bool PushedMemory::fetch_add(std::uint64_t addr, std::uint64_t add, std::uint64_t& original) noexcept {
    return note_if(behind_.fetch_add(addr, add, original), addr, sizeof add);
}

bool PushedMemory::compare_swap(std::uint64_t addr, std::uint64_t compare, std::uint64_t swap,
                                std::uint64_t& original) noexcept {
    return note_if(behind_.compare_swap(addr, compare, swap, original), addr, sizeof swap);
}

bool PushedMemory::store(std::uint64_t addr, std::uint64_t value) noexcept {
    return note_if(behind_.store(addr, value), addr, sizeof value);
}

bool PushedMemory::flush(std::uint64_t addr, std::size_t len_bytes, std::uint8_t placement) noexcept {
    return behind_.flush(addr, len_bytes, placement);
}

} // namespace sluice::roce::socket
