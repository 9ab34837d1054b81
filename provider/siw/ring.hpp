// SPDX-License-Identifier: BSD-3-Clause
//
// The rings that siw shares with user space: plain arrays whose elements carry a flag that says
// whose turn it is. There are no indices to be wrong; how many elements there are is said once,
// when the ring is made, and the count of steps is our own.
//
// Thread safety: none; the queue that owns the ring has the lock.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/siw-abi.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "provider/abi/uverbs.hpp"

namespace sluice::provider::siw {

static_assert(sizeof(siw_sqe) == 120 && sizeof(siw_rqe) == 112 && sizeof(siw_cqe) == 32);

// Where the elements are. A copy of it stays in registers while memory of others is written, which
// could be the ring's own for all that a compiler knows.
template<typename Element>
struct Elements {
    Element* first = nullptr;
    std::uint32_t mask = 0;

    // Any number of steps names an element.
    Element& at(std::uint32_t step) const noexcept { return first[step & mask]; }
};

template<typename Element>
class Ring {
  public:
    // Maps COUNT elements, which the kernel gave under KEY, with EXTRA_BYTES behind them. 0 or an
    // errno.
    int map(const abi::Uverbs& uverbs, std::uint32_t count, std::uint64_t key,
            std::size_t extra_bytes = 0) noexcept {
        if (count == 0 || count > kMaxElements || (count & (count - 1)) != 0) {
            return EINVAL;
        }
        if (const int error = mapping_.map(uverbs, count * sizeof(Element) + extra_bytes, key)) {
            return error;
        }
        elements_ = {.first = static_cast<Element*>(mapping_.data()), .mask = count - 1};
        end_ = elements_.first + count;
        return 0;
    }
    bool attached() const noexcept { return elements_.first != nullptr; }

    Elements<Element> elements() const noexcept { return elements_; }
    Element& at(std::uint32_t step) const noexcept { return elements_.at(step); }
    Element* first() const noexcept { return elements_.first; }
    Element* end() const noexcept { return end_; } // and what was mapped behind the elements
    std::uint32_t count() const noexcept { return elements_.mask + 1; }

    std::uint32_t next = 0; // steps taken so far

  private:
    static constexpr std::uint32_t kMaxElements = 1U << 22;

    abi::Mapping mapping_;
    Elements<Element> elements_;
    Element* end_ = nullptr;
};

// Copies a list, which may be empty and nowhere.
inline void copy_sges(siw_sge* to, const ibv_sge* from, std::size_t count) noexcept {
    static_assert(sizeof *to == sizeof *from);
    for (std::size_t i = 0; i < count; ++i) {
        __builtin_memcpy(&to[i], &from[i], sizeof *to);
    }
}

// Partner of the kernel's barrier when it hands an element over.
template<typename Flags>
unsigned flags_of(const Flags& flags) noexcept {
    return __atomic_load_n(&flags, __ATOMIC_ACQUIRE);
}
template<typename Flags>
bool is_valid(const Flags& flags) noexcept {
    return (flags_of(flags) & SIW_WQE_VALID) != 0;
}

// Hands an element over, or back: partner of the kernel's read of the flags.
template<typename Flags>
void set_flags(Flags& flags, unsigned value) noexcept {
    __atomic_store_n(&flags, static_cast<Flags>(value), __ATOMIC_RELEASE);
}

} // namespace sluice::provider::siw
