// SPDX-License-Identifier: BSD-3-Clause
//
// While one lives, pthread_cancel() doesn't end its thread. A thread that is cancelled unwinds, and the
// program aborts where that meets a noexcept function, as most of ours are. Our functions that wait for
// nothing are to be no places where a thread is cancelled, whatever they call of libc.
#pragma once

#include <pthread.h>

namespace sluice {

class NotCancelled {
  public:
    NotCancelled() noexcept { (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~NotCancelled() { (void)pthread_setcancelstate(before_, nullptr); }
    NotCancelled(const NotCancelled&) = delete;
    NotCancelled& operator=(const NotCancelled&) = delete;

  private:
    int before_ = PTHREAD_CANCEL_ENABLE;
};

} // namespace sluice
