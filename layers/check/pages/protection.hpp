// SPDX-License-Identifier: BSD-3-Clause
//
// Which pages the requests forbid, and the kernel's rights of these pages, which follow.
//
// A page counts its requests by what they forbid; the strictest holds. A page that is opened for good drops
// its counts and notes the moment: requests that began before have no part in it any more.
//
// Locks: one spin lock, which the handler of faults takes, too. Under it nothing touches memory of the
// program's, and signals are blocked, since the handler of one could run into a protected page in the same
// thread.
//
// Thread safety: everything may be called in any thread at any time; what says so, in a fault's handler.
#pragma once

#include <csignal>

#include <array>
#include <atomic>
#include <span>

#include "core/sync.hpp"
#include "layers/check/pages/kept_touches.hpp"
#include "layers/check/pages/page_rules.hpp"
#include "layers/check/pages/requests.hpp"
#include "layers/check/pages/touch.hpp"

namespace sluice::layers::check::pages {

struct KnownRange {
    PageRange pages;
    Rights rights = Rights::kUnknown;
};

enum class Added : std::uint8_t {
    kAll,
    kSome,     // the others may not be protected
    kNoPage,   // there is none that may be protected
    kUnknown,  // some aren't known yet: nothing is done
    kRequests, // as many as the table has places
    kMappings, // of the kernel's: as many as we allow ourselves
    kKernel,   // it refused
};

class Protection {
  public:
    // The process's.
    static Protection& instance() noexcept;

    // 0 until it is called: nothing can be added.
    void limit_mappings(std::size_t most) noexcept;

    // Has no effect on pages that are known already.
    void learn(std::span<const KnownRange> ranges) noexcept;
    // In a child of fork(), for ever.
    bool is_off() const noexcept { return is_off_.load(std::memory_order_relaxed); }
    Added add(std::uint64_t tag, PageRange pages, Forbidden forbidden) noexcept;
    void change(std::uint64_t tag, Forbidden forbidden) noexcept;
    void remove(std::uint64_t tag) noexcept;
    // Opens the pages for all, and knows nothing of them any more.
    void forget(PageRange pages) noexcept;
    bool take_touch(Touch& touch) noexcept;
    // Touches that found no room.
    bool has_lost_touches() const noexcept { return touches_.has_lost(); }
    // Whether one of PAGES is protected against ACCESS by a request: then TOUCH says which and where. It is
    // for the caller to keep() it when the access has happened.
    bool would_touch(PageRange pages, Access access, Touch& touch) noexcept;
    void keep(const Touch& touch) noexcept;

    // In a fault's handler, too: whether the page is protected against that access.
    bool forbids(std::uint64_t number, Access access) noexcept;
    // The first page that isn't protected against that access. A device asks at each copy, so that this takes
    // no lock: a page that is protected or opened meanwhile is left to the handler of the copy's fault, or
    // copied in a way that works for open pages, too.
    std::uint64_t end_of_forbidden(PageRange pages, Access access) const noexcept
        SLUICE_TSA(no_thread_safety_analysis);
    // In a fault's handler, too: opens the page for good; the touch, if there is one, is remembered with the
    // tag of a request that forbids it. True: the access is to be repeated. That is so also where the page
    // was opened since the fault, but once for a thread: then the fault has another reason.
    bool open(std::uint64_t number, Access access, Touch* touch) noexcept;
    // The same for a device's access, which is no touch. A device goes through a request's memory page by
    // page: all pages of the oldest request that forbids it are opened.
    bool open_for_device(std::uint64_t number, Access access) noexcept;

    // Around fork().
    void before_fork() noexcept SLUICE_TSA(no_thread_safety_analysis);
    void after_fork_in_parent() noexcept SLUICE_TSA(no_thread_safety_analysis);
    void after_fork_in_child() noexcept SLUICE_TSA(no_thread_safety_analysis);

  private:
    class Section;

    template<typename Visit>
    void for_each_known(PageRange pages, Visit&& visit) noexcept SLUICE_TSA(requires_capability(lock_));
    std::size_t count(const Request& request) noexcept SLUICE_TSA(requires_capability(lock_));
    void uncount(const Request& request) noexcept SLUICE_TSA(requires_capability(lock_));
    // Of the requests that forbid it, the one that BETTER prefers to all others. Null: there is none.
    template<typename Better>
    const Request* forbidding(std::uint64_t number, const Page& page, Access access, Better&& better) noexcept
        SLUICE_TSA(requires_capability(lock_));
    void clear_all(PageRange pages) noexcept SLUICE_TSA(requires_capability(lock_));
    bool is_to_be_repeated(std::uint64_t number, const Page& page) const noexcept
        SLUICE_TSA(requires_capability(lock_));
    bool open_all_around(std::uint64_t number) noexcept SLUICE_TSA(requires_capability(lock_));
    void clear(Page& page) noexcept SLUICE_TSA(requires_capability(lock_));
    bool apply(PageRange pages) noexcept SLUICE_TSA(requires_capability(lock_));
    Level level_of(std::uint64_t number) const noexcept SLUICE_TSA(requires_capability(lock_));
    void set_level(std::uint64_t number, Page& page, Level level) noexcept
        SLUICE_TSA(requires_capability(lock_));
    // Fills in all but the address and the stack. False: no request forbids it any more.
    bool describe(std::uint64_t number, const Page& page, Access access, Touch& touch) noexcept
        SLUICE_TSA(requires_capability(lock_));

    SpinLock lock_;
    sigset_t mask_around_fork_ SLUICE_TSA(guarded_by(lock_)) = {}; // of the thread that forks
    PageTable table_ SLUICE_TSA(guarded_by(lock_));
    Requests requests_ SLUICE_TSA(guarded_by(lock_));
    std::uint64_t moment_ SLUICE_TSA(guarded_by(lock_)) = 0;
    // Neighbours of different levels: the mappings that we have made of one.
    std::size_t boundaries_ SLUICE_TSA(guarded_by(lock_)) = 0;
    std::size_t most_mappings_ SLUICE_TSA(guarded_by(lock_)) = 0;
    std::size_t known_pages_ SLUICE_TSA(guarded_by(lock_)) = 0;
    // requests_.count() for readers without the lock. It is above 0 as long as a page may be protected: a
    // device copies for requests that were added before they were posted, and sees them here.
    std::atomic<std::size_t> protecting_ = 0;
    KeptTouches touches_; // added and taken under the lock
    std::atomic<bool> is_off_ = false;
};

} // namespace sluice::layers::check::pages
