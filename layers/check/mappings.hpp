// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that goes while it is registered: the device keeps the pages that the program has given up, and what
// peers write there is lost.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "layers/check/objects.hpp"

namespace sluice::layers::check {

// Whether any memory is registered at all: most of a program's calls end here.
bool may_be_registered(const void* memory, std::size_t bytes) noexcept;

// Around a call that gives [memory, memory+bytes) back. It is a mistake if a request is outstanding that
// names the memory, or if the region is used later. That it is still registered alone is told to pedants:
// caches of registrations find that out in the call, and deregister soon.
class Unmapping {
  public:
    Unmapping(const void* memory, std::size_t bytes) noexcept;
    // It was given back, by CALL.
    void check(std::string_view call) const noexcept;

  private:
    const Place place_;
    const std::uint64_t first_;
    const std::uint64_t bytes_;
    std::vector<std::shared_ptr<Region>> registered_;
};

} // namespace sluice::layers::check
