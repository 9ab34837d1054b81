// SPDX-License-Identifier: BSD-3-Clause
//
// A terminal as a screen that is drawn again and again, and as it was before when it ends. Control sequences
// are those of ECMA-48, and the private ones for a second screen, the cursor and wrapping that each terminal
// knows but dumb ones.
#pragma once

#include <termios.h>

#include <string>
#include <vector>

namespace sluice::tools::counters {

// Whether standard output is a terminal that a screen can be on.
bool has_screen();

// Whether the locale says that it shows characters of UTF-8.
bool shows_utf8();

class Screen {
  public:
    // Takes the signals that end, stop or resize.
    Screen();
    Screen(const Screen&) = delete;
    Screen& operator=(const Screen&) = delete;
    ~Screen();

    struct Size {
        std::size_t lines;
        std::size_t columns;
    };
    static Size size();

    // Cut at the bottom. False: the terminal has gone.
    bool draw(const std::vector<std::string>& lines) const;

    enum class Event { kTime, kKey, kResized, kEnd };
    // Waits so long at most. A stop (^Z) is obeyed in between; after it everything is to be drawn again.
    Event wait(double seconds);
    // Behind kKey.
    char key() const noexcept { return key_; }
    // Behind kEnd: the signal that asked for it; 0: the terminal has gone.
    int signal() const noexcept { return signal_; }

  private:
    void enter();
    void leave() const;
    Event take_signal();
    Event take_key();
    void stop();

    termios before_{};
    bool has_keys_;
    int signals_; // a descriptor to read them from
    char key_ = 0;
    int signal_ = 0;
};

// Ends as if nobody had taken SIGNAL.
void die_of(int signal);

} // namespace sluice::tools::counters
