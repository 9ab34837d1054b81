// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory regions: windows that are bound to a part of an LMR, and to another one later.
//
// Each bind is posted to an endpoint and gives a new key at once; it counts when it completes. Until then
// the LMR that the window was bound to is still needed, and so is the new one: both are held.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <vector>

#include "udapl/provider/ep.hpp"
#include "udapl/provider/memory.hpp"

namespace sluice::dapl {

// What the last bind asked for.
struct RmrView {
    coherence::Segment part;
    unsigned privileges;
    std::uint32_t key; // 0: not bound
};

class Rmr final : public Object {
  public:
    static constexpr HandleKind kHandleKind = kRmr;

    // kNotSupported where the device has no windows that are bound again and again.
    static Result<std::unique_ptr<Rmr>> make(Ia& ia, Held<Pz> pz);

    Pz& pz() const noexcept { return *pz_; }
    RmrView view() noexcept;

    // A PART of length 0 unbinds. KEY is what peers name it by from then on.
    EpAnswer bind(Ep& ep, const coherence::Segment& part, unsigned privileges, std::uint64_t cookie,
                  PostFlags flags, std::uint32_t& key);
    // Bind NUMBER is complete. Under the dispatcher's lock.
    void on_bound(std::uint64_t number, bool is_success) noexcept;

  private:
    struct Binding {
        std::uint64_t number;
        Held<Lmr> lmr; // empty: unbinds
    };

    Rmr(Ia& ia, Held<Pz> pz, glue::MemoryWindow window) noexcept
        : Object(&ia), pz_(std::move(pz)), window_(std::move(window)) {}
    EpAnswer find(const coherence::Segment& part, unsigned privileges, Held<Lmr>& lmr) const noexcept;

    const Held<Pz> pz_;
    Mutex mutex_;
    // Oldest first: what the window is bound to, and those under way.
    std::vector<Binding> bindings_ SLUICE_TSA(guarded_by(mutex_));
    glue::MemoryWindow window_ SLUICE_TSA(guarded_by(mutex_)); // goes before what it is bound to
    std::uint64_t last_number_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    // A bind was posted and didn't happen: the window's next key isn't the one that libibverbs expects.
    bool is_spoilt_ SLUICE_TSA(guarded_by(mutex_)) = false;
    RmrView view_ SLUICE_TSA(guarded_by(mutex_)){};
};

} // namespace sluice::dapl
