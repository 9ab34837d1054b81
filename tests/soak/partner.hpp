// SPDX-License-Identifier: BSD-3-Clause
//
// The other process of a lane, as its leader has it: started when there is none, and stopped and killed.
#pragma once

#include <sys/types.h>

#include "tests/soak/talk.hpp"

namespace sluice::test::soak {

class Partner {
  public:
    // Runs this program again, which has nothing of what this process has opened.
    Partner();
    // It ends by itself when nobody talks to it any more.
    ~Partner();
    Partner(const Partner&) = delete;
    Partner& operator=(const Partner&) = delete;

    Talk talk() const { return Talk(fd_); }
    void kill();
    // When it returns, all threads stand still.
    void stop();
    void go_on();
    bool is_alive() const { return pid_ > 0; }
    // Says how it ended, if it has.
    void tell_end();

  private:
    pid_t pid_ = -1;
    int fd_ = -1;
};

// Stops a process at an operation, and lets it go on later.
class Stop {
  public:
    Stop(std::uint64_t at, unsigned ms) : at_(at), lasts_(ms) {}
    // To be called as Traffic::Watch is. ACT gets true for a stop, and false for going on.
    template<typename Act>
    void look(const std::uint64_t* operation, Act act) {
        if (operation != nullptr && *operation == at_) {
            act(true);
            began_ = Clock::now();
            is_stopped_ = true;
        } else if (is_stopped_ && Clock::now() - began_ > lasts_) {
            is_stopped_ = false;
            act(false);
        }
    }
    bool is_stopped() const { return is_stopped_; }

  private:
    std::uint64_t at_;
    std::chrono::milliseconds lasts_;
    Clock::time_point began_{};
    bool is_stopped_ = false;
};

} // namespace sluice::test::soak
