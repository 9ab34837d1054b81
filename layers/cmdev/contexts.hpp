// SPDX-License-Identifier: BSD-3-Clause
//
// The uroce devices that this process's ids are bound to.
#pragma once

#include <infiniband/verbs.h>

#include <string>
#include <vector>

#include "ibverbs-glue/uroce_contexts.hpp"

namespace sluice::layers::cmdev {

class OpenContext {
  public:
    static Result<OpenContext> open(const std::string& address);
    ibv_context* get() const noexcept { return context_; }

  private:
    explicit OpenContext(ibv_context* context) noexcept : context_(context) {}

    ibv_context* context_; // never closed
};

using Contexts = glue::UroceContexts<OpenContext>;
using Found = Contexts::Found;

Contexts& contexts();

// One for each device that is listed and can be had, and those that are open anyway: what the wildcard
// address means. The error of the last that can't be had, when there is none.
Result<std::vector<Found>> all_contexts();

} // namespace sluice::layers::cmdev
