// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/opened.hpp"

#include <array>
#include <atomic>
#include <span>

#include "layers/check/mappings.hpp"

namespace sluice::layers::check {

namespace {

constinit std::array<std::atomic<BufferListener*>, 8> others = {};

// True: a request forbids what the kernel is about to do.
bool open_for_kernel(const void* memory, std::size_t bytes, bool is_store, pages::Touch& touch) noexcept {
    const bool is_touch =
        may_be_registered(memory, bytes) && pages::lift_for_kernel(memory, bytes, is_store, touch);
    for (const std::atomic<BufferListener*>& other : others) {
        BufferListener* const tell = other.load(std::memory_order_relaxed); // code, which is there before us
        if (tell == nullptr) {
            break;
        }
        tell(memory, bytes, is_store ? 1 : 0);
    }
    return is_touch;
}

} // namespace

void add_buffer_listener(BufferListener* listener) noexcept {
    for (std::atomic<BufferListener*>& other : others) {
        BufferListener* free = nullptr;
        if (other.compare_exchange_strong(free, listener) || free == listener) {
            return;
        }
    }
}

void Opened::open_pieces(const iovec* pieces, std::size_t count, bool is_store) noexcept {
    std::size_t before = 0;
    for (const iovec& piece : std::span(pieces, count)) {
        open(reinterpret_cast<std::uintptr_t>(piece.iov_base), piece.iov_len, is_store, before);
        before += piece.iov_len;
    }
}

void Opened::open(std::uintptr_t address, std::size_t bytes, bool is_store,
                  std::size_t bytes_before) noexcept {
    pages::Touch touch;
    const auto* const memory = reinterpret_cast<const void*>(address); // NOLINT(performance-no-int-to-ptr)
    if (open_for_kernel(memory, bytes, is_store, touch) && !forbidden_) {
        touch.stack = report::capture();
        forbidden_ = KernelTouch{.bytes_before = bytes_before, .touch = touch};
    }
}

ssize_t Opened::after(ssize_t done) const noexcept {
    if (forbidden_ && done > 0 && static_cast<std::size_t>(done) > forbidden_->bytes_before) {
        pages::keep(forbidden_->touch);
    }
    return done;
}

} // namespace sluice::layers::check
