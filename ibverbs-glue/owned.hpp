// SPDX-License-Identifier: BSD-3-Clause
//
// Owns an object of libibverbs. One owner, moved and not copied; the destructor destroys.
#pragma once

#include <utility>

#include "core/log.hpp"
#include "ibverbs-glue/adaptors.hpp"

namespace sluice::glue {

// DESTROY is the library's function: it takes the object and returns 0 or an errno.
template<typename T, auto kDestroy>
class Owned {
  public:
    Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Owned& operator=(Owned&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    ~Owned() {
        // Something that was made from the object still lives: a bug of the caller's. The kernel
        // cleans up when the process ends.
        if (const Result<void> done = destroy(); !done) {
            SLUICE_LOG(kWarning, "verbs", "an object is left behind: %s (%d)", done.error().text(),
                       done.error().os_errno());
        }
    }

    T* get() const noexcept { return object_; }
    T* operator->() const noexcept { return object_; }

    // For a caller that must know whether it succeeded: on failure the object stays as it was.
    Result<void> destroy() noexcept {
        if (object_ == nullptr) {
            return {};
        }
        Result<void> done = from_rc(kDestroy(object_), "destroying an object of libibverbs");
        if (done) {
            object_ = nullptr;
        }
        return done;
    }

  protected:
    explicit Owned(T* object) noexcept : object_(object) {}

    // Nothing is destroyed any more.
    T* release() noexcept { return std::exchange(object_, nullptr); }

  private:
    T* object_;
};

} // namespace sluice::glue
