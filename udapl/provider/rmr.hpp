// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory regions: windows that are bound to a part of an LMR, and to another one later.
//
// Each bind is posted to an endpoint and gives a new key at once; it counts when it completes. Until then the
// window refers to the LMR that it was bound to and to the new one: neither can be freed.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <vector>

#include "udapl/provider/memory.hpp"
#include "udapl/provider/segments.hpp"

namespace sluice::dapl {

// The last bind.
struct RmrView {
    coherence::Segment segment;
    unsigned privileges;
    std::uint32_t key; // 0: not bound
};

// A bind of WINDOW, which is the RMR's of that HANDLE and zone, to be posted.
struct BindRequest {
    const glue::MemoryWindow& window;
    ibv_mw_bind_info info;
    const Pz& pz;
    void* handle;
    std::uint64_t number;
};

class Rmr final : public Object {
  public:
    static constexpr HandleKind kHandleKind = kRmr;

    // kNotSupported where the device has no windows that are bound again and again.
    static Result<std::unique_ptr<Rmr>> make(IaContext& ia, Ref<Pz> pz);

    Pz& pz() const noexcept { return *pz_; }
    RmrView view() noexcept;

    // A SEGMENT of length 0 unbinds. POST is called with a BindRequest, once or not at all, and its answer is
    // that of this call. KEY is the name of the segment for peers from then on.
    template<typename Post>
    EpAnswer bind(const coherence::Segment& segment, unsigned privileges, Post&& post, std::uint32_t& key);
    // Bind NUMBER is complete. Under the dispatcher's lock.
    void on_bound(std::uint64_t number, bool is_success) noexcept;

  private:
    struct Binding {
        std::uint64_t number;
        Ref<Lmr> lmr; // empty: unbinds
    };

    Rmr(IaContext& ia, Ref<Pz> pz, glue::MemoryWindow window) noexcept
        : Object(&ia), pz_(std::move(pz)), window_(std::move(window)) {}
    // The steps of a bind, in this order.
    EpAnswer begin_bind_locked() SLUICE_TSA(requires_capability(mutex_));
    BindRequest request_locked(const coherence::Segment& segment, unsigned privileges, Ref<Lmr> lmr)
        SLUICE_TSA(requires_capability(mutex_));
    void end_bind_locked(const RmrView& bound, bool is_posted) noexcept
        SLUICE_TSA(requires_capability(mutex_));
    EpAnswer find(const coherence::Segment& segment, unsigned privileges, Ref<Lmr>& lmr) const noexcept;

    const Ref<Pz> pz_;
    Mutex mutex_;
    // Oldest first: what the window is bound to, and those under way.
    std::vector<Binding> bindings_ SLUICE_TSA(guarded_by(mutex_));
    glue::MemoryWindow window_ SLUICE_TSA(guarded_by(mutex_)); // goes before what it is bound to
    std::uint64_t last_number_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    // A bind was posted and failed: the window's next key isn't the one that libibverbs expects.
    bool is_spoilt_ SLUICE_TSA(guarded_by(mutex_)) = false;
    RmrView view_ SLUICE_TSA(guarded_by(mutex_)){};
};

template<typename Post>
EpAnswer Rmr::bind(const coherence::Segment& segment, unsigned privileges, Post&& post, std::uint32_t& key) {
    Ref<Lmr> lmr;
    if (segment.length != 0) {
        if (const EpAnswer bad = find(segment, privileges, lmr); bad != EpAnswer::kDone) {
            return bad;
        }
    }
    const LockGuard guard(mutex_);
    if (const EpAnswer bad = begin_bind_locked(); bad != EpAnswer::kDone) {
        return bad;
    }
    const EpAnswer answer = post(request_locked(segment, privileges, std::move(lmr)));
    const bool is_posted = answer == EpAnswer::kDone;
    const std::uint32_t bound_key = is_posted && segment.length != 0 ? window_.remote_key() : 0;
    end_bind_locked({segment, privileges, bound_key}, is_posted);
    key = is_posted ? bound_key : key;
    return answer;
}

} // namespace sluice::dapl
