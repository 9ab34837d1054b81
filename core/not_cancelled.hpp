// SPDX-License-Identifier: BSD-3-Clause
//
// While one lives, pthread_cancel() doesn't end its thread. A thread that is cancelled unwinds, and the
// program aborts where that meets a noexcept function, as most of ours are. Our functions that wait for
// nothing are to be no places where a thread is cancelled, whatever they call of libc.
#pragma once

namespace sluice {

class NotCancelled {
  public:
    NotCancelled() noexcept;
    ~NotCancelled();
    NotCancelled(const NotCancelled&) = delete;
    NotCancelled& operator=(const NotCancelled&) = delete;

  private:
    int before_ = 0;
};

} // namespace sluice
