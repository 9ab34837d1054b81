// SPDX-License-Identifier: BSD-3-Clause
//
// A peer: a device as one program uses it, and what the device can do.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <atomic>
#include <memory>

#include "ibverbs-glue/memory.hpp"
#include "rpma/descriptor.hpp"

namespace sluice::rpma {

class Peer {
  public:
    // CONTEXT outlives it.
    static Result<std::unique_ptr<Peer>> make(ibv_context* context);

    const glue::Context& context() const noexcept { return *context_; }
    const glue::ProtectionDomain& domain() const noexcept { return domain_; }
    bool is_iwarp() const noexcept { return context().is_iwarp(); }
    bool can_page() const noexcept { return can_page_; }

    // What the device does by itself, as requester and as responder.
    Features features() const noexcept { return features_; }
    // What a peer may rely on: all that, unless some region could not be had with it.
    Features offer() const noexcept;
    void withdraw_persistent_flush() noexcept { has_volatile_.store(true, std::memory_order_relaxed); }

    // Fails while something made from it is there.
    Result<void> close() noexcept { return domain_.destroy(); }

  private:
    Peer(ibv_context* context, glue::ProtectionDomain domain, const ibv_device_attr_ex& can) noexcept;

    glue::LentContext context_;
    glue::ProtectionDomain domain_;
    const Features features_;
    const bool can_page_;
    std::atomic<bool> has_volatile_{false};
};

// General paging on demand, and both reads and writes of reliable connections.
bool can_page(const ibv_device_attr_ex& device) noexcept;

} // namespace sluice::rpma
