// SPDX-License-Identifier: BSD-3-Clause
//
// The lock under which lines move between hosts, so that each moves whole: one for all processes of a run.
//
// Thread safety: all of it. A process that dies with it held leaves a line half moved, as a host would that
// loses its power; the others go on.
#pragma once

#include <cstdint>
#include <string>

#include "layers/hosts/real_map.hpp"

namespace sluice::layers::hosts {

class SharedLock {
  public:
    // DIRECTORY is the run's.
    static Result<SharedLock> open(const std::string& directory);

    void lock() noexcept;
    void unlock() noexcept;
    // Another number for each process that asks. Under the lock.
    std::uint64_t next_number_locked() noexcept;

  private:
    struct State;
    explicit SharedLock(MappedFile file) noexcept : file_(std::move(file)) {}
    State& state() noexcept;

    MappedFile file_;
};

// A file of the run's directory, made if it isn't there. Closed by exec.
Result<Descriptor> open_in(const std::string& directory, const std::string& name, int access);

} // namespace sluice::layers::hosts
