// SPDX-License-Identifier: BSD-3-Clause
//
// What one process has of a kind. Its child by fork() has another one, as new: a thread that was about to
// change the parent's isn't there to end that, and what the parent has open is not the child's.
//
// Thread safety: get() from any thread; renew() while there is one.
#pragma once

#include <memory>

namespace sluice::dapl {

template<typename T>
class OfProcess {
  public:
    T& get() noexcept { return newest_->value; }

    // In the child. The parent's stays as it is.
    void renew() { newest_ = new Generation{{}, newest_}; }

  private:
    struct Generation {
        T value;
        Generation* parents; // never destroyed: programs close IAs as late as in their last destructor
    };

    Generation* newest_ = new Generation{};
};

} // namespace sluice::dapl
