// SPDX-License-Identifier: BSD-3-Clause
#include "core/old_pages/page_states.hpp"

#include <sys/mman.h>

#include <array>

namespace sluice::old_pages {

namespace {

constexpr std::size_t kPages = 8192; // more aren't closed
constexpr std::size_t kProbes = 16;
constinit std::array<Page, kPages> pages = {};

std::size_t place_of(std::uintptr_t page) noexcept {
    return static_cast<std::size_t>((page / kPageBytes * 0x9E3779B97F4A7C15U) >> 51) % kPages;
}

void set_access(const Page& page, int access) noexcept {
    (void)mprotect(reinterpret_cast<void*>(page.address.load(std::memory_order_relaxed)), kPageBytes, access);
}

// From FROM to TO by way of BETWEEN, in which nobody else does anything. False: it isn't in FROM.
bool change(Page& page, State from, State between, State to, int access) noexcept {
    if (!page.state.compare_exchange_strong(from, between, std::memory_order_acq_rel)) {
        return false;
    }
    set_access(page, access);
    page.state.store(to, std::memory_order_release); // partner: settled()
    return true;
}

} // namespace

Page* find(std::uintptr_t page) noexcept {
    for (std::size_t i = 0; i < kProbes; ++i) {
        Page& each = pages[(place_of(page) + i) % kPages];
        const std::uintptr_t address = each.address.load(std::memory_order_acquire); // partner: find_or_add()
        if (address == page || address == 0) {
            return address == page ? &each : nullptr;
        }
    }
    return nullptr;
}

Page* find_or_add(std::uintptr_t page) noexcept {
    for (std::size_t i = 0; i < kProbes; ++i) {
        Page& each = pages[(place_of(page) + i) % kPages];
        std::uintptr_t address = 0;
        if (each.address.compare_exchange_strong(address, page, std::memory_order_acq_rel) ||
            address == page) {
            return &each;
        }
    }
    return nullptr;
}

bool open_as(Page& page, State to) noexcept {
    return change(page, State::kClosed, State::kOpening, to, PROT_READ | PROT_WRITE);
}

bool close_from(Page& page, State from) noexcept {
    return change(page, from, State::kClosing, State::kClosed, PROT_NONE);
}

// What it is in when no other thread is about to change it.
State settled(const Page& page) noexcept {
    State state = page.state.load(std::memory_order_acquire);
    while (state == State::kOpening || state == State::kClosing) {
        state = page.state.load(std::memory_order_acquire);
    }
    return state;
}

void open_page(Page& page) noexcept {
    State state = settled(page);
    while (state != State::kOpen) {
        if (state == State::kStepped
                ? page.state.compare_exchange_strong(state, State::kOpen, std::memory_order_acq_rel)
                : open_as(page, State::kOpen)) {
            return;
        }
        state = settled(page);
    }
}

} // namespace sluice::old_pages
