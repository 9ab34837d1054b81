// SPDX-License-Identifier: BSD-3-Clause
//
// The function of that name behind a layer's own, looked up at its first call: programs call some before any
// constructor has run.
#pragma once

#include <atomic>
#include <cerrno>

namespace sluice::layers::hooks {

// Behind this library, wherever it stands: in the order of the program's libraries, or in those that were
// loaded later. Null: nobody has it.
void* find_next(const char* name) noexcept;

// Thread safety: may be called from any thread.
template<typename Function>
class Next {
  public:
    constexpr explicit Next(const char* name) noexcept : name_(name) {}

    // Null: no library has it.
    Function* get() noexcept {
        Function* found = found_.load(std::memory_order_relaxed); // code, which is there before all of us
        if (found == nullptr) {
            void* const address = find_next(name_);
            found = reinterpret_cast<Function*>(address);
            found_.store(found, std::memory_order_relaxed);
        }
        return found;
    }

    // FAILURE and ENOSYS without it.
    template<typename Value, typename... Arguments>
    Value call(Value failure, Arguments... arguments) {
        Function* const function = get();
        if (function == nullptr) {
            errno = ENOSYS;
            return failure;
        }
        return function(arguments...);
    }

  private:
    const char* const name_;
    std::atomic<Function*> found_ = nullptr;
};

} // namespace sluice::layers::hooks
