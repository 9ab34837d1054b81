// SPDX-License-Identifier: BSD-3-Clause
//
// What one process has of a kind. Its child by fork() has another one, as new: a thread that was about to
// change the parent's isn't there to end that, and what the parent has open is not the child's.
//
// Thread safety: get() from any thread; renew() while there is one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>

namespace sluice::dapl {

// Never destroyed: programs close IAs as late as in their last destructor.
template<typename T>
class OfProcess {
  public:
    OfProcess() { std::construct_at(&value_); }
    ~OfProcess() {} // NOLINT(modernize-use-equals-default): that would be T's
    OfProcess(const OfProcess&) = delete;
    OfProcess& operator=(const OfProcess&) = delete;

    T& get() noexcept { return value_; }

    // In the child. The parent's stays as it is, and is nobody's.
    void renew() noexcept {
        // So that what looks for leaks finds it.
        std::copy_n(reinterpret_cast<const std::byte*>(&value_), sizeof value_, parents_.begin());
        std::construct_at(&value_);
    }

  private:
    union {
        T value_;
    };
    alignas(T) std::array<std::byte, sizeof(T)> parents_{};
};

} // namespace sluice::dapl
