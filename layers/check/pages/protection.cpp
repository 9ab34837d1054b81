// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/pages/protection.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace sluice::layers::check::pages {

namespace {

// Not by libc's function: the layer stands before that one, and asks us.
bool set_rights(void* memory, std::size_t bytes, int rights) noexcept {
    return syscall(SYS_mprotect, memory, bytes, rights) == 0;
}

constinit Protection the_protection;

// The page that a fault of this thread was last answered for by a repetition alone. A handler of signals
// reads it.
struct Repeated {
    std::uint64_t number;
    std::uint64_t opened_at;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Repeated repeated = {};

void* address_of(std::uint64_t number) noexcept {
    return reinterpret_cast<void*>(number * page_bytes()); // NOLINT(performance-no-int-to-ptr)
}

void block_signals(sigset_t& before) noexcept {
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGSEGV);
    (void)sigdelset(&all, SIGBUS);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
}

} // namespace

// The lock, held for a scope.
class SLUICE_TSA(scoped_lockable) Protection::Section {
  public:
    explicit Section(SpinLock& lock) noexcept SLUICE_TSA(acquire_capability(lock)) : lock_(lock) {
        block_signals(before_);
        lock_.lock();
    }
    ~Section() SLUICE_TSA(release_capability()) {
        lock_.unlock();
        (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

  private:
    SpinLock& lock_;
    sigset_t before_;
};

Protection& Protection::instance() noexcept {
    return the_protection;
}

void Protection::limit_mappings(std::size_t most) noexcept {
    const Section section(lock_);
    most_mappings_ = most;
}

void Protection::learn(std::span<const KnownRange> ranges) noexcept {
    const Section section(lock_);
    const std::uint64_t now = ++moment_;
    for (const KnownRange& range : ranges) {
        for (std::uint64_t number = range.pages.first; number < range.pages.end; ++number) {
            Page* const page = table_.make(number);
            if (page != nullptr && page->rights == Rights::kUnknown) {
                page->set(range.rights);
                page->cleared_at = now;
                ++known_pages_;
            }
        }
    }
}

Added Protection::add(std::uint64_t tag, PageRange pages, Forbidden forbidden) noexcept {
    const Section section(lock_);
    for (std::uint64_t number = pages.first; number < pages.end; ++number) {
        const Page* const page = table_.find(number);
        if (page == nullptr || page->rights == Rights::kUnknown) {
            return Added::kUnknown;
        }
    }
    if (requests_.is_full()) {
        return Added::kRequests;
    }
    const Request request{.tag = tag, .pages = pages, .since = ++moment_, .forbidden = forbidden};
    const std::size_t counted = count(request);
    if (counted == 0) {
        return Added::kNoPage;
    }
    if (const bool has_room = boundaries_ + 2 <= most_mappings_; !has_room || !apply(pages)) {
        uncount(request);
        (void)apply(pages);
        return has_room ? Added::kKernel : Added::kMappings;
    }
    requests_.add(request);
    protecting_.store(requests_.count(), std::memory_order_relaxed);
    return counted == pages.end - pages.first ? Added::kAll : Added::kSome;
}

void Protection::change(std::uint64_t tag, Forbidden forbidden) noexcept {
    const Section section(lock_);
    for (Request* request = requests_.find(tag); request != nullptr;
         request = requests_.find_next(*request)) {
        const Request former = *request;
        uncount(former);
        request->forbidden = forbidden;
        // With its old moment: what was opened meanwhile stays so.
        (void)count(*request);
        (void)apply(request->pages);
    }
}

void Protection::remove(std::uint64_t tag) noexcept {
    const Section section(lock_);
    while (Request* const request = requests_.find(tag)) {
        const Request former = *request;
        requests_.erase(*request);
        uncount(former);
        (void)apply(former.pages);
    }
    protecting_.store(requests_.count(), std::memory_order_relaxed);
}

template<typename Visit>
void Protection::for_each_known(PageRange pages, Visit&& visit) noexcept {
    for (std::uint64_t number = pages.first; number < pages.end;) {
        Page* const page = table_.find(number);
        if (page != nullptr && page->rights != Rights::kUnknown) {
            visit(number, *page);
        }
        number = page == nullptr ? PageTable::behind_leaf(number) : number + 1;
    }
}

void Protection::forget(PageRange pages) noexcept {
    pages.end = std::min(pages.end, PageTable::kMostPages);
    const Section section(lock_);
    if (known_pages_ == 0) {
        return;
    }
    clear_all(pages);
    (void)apply(pages);
    for_each_known(pages, [&](std::uint64_t number, Page& page) SLUICE_TSA(requires_capability(lock_)) {
        set_level(number, page, Level::kOpen);
        page.set(Rights::kUnknown);
        --known_pages_;
    });
}

// How many pages count it.
std::size_t Protection::count(const Request& request) noexcept {
    std::size_t counted = 0;
    for (std::uint64_t number = request.pages.first; number < request.pages.end; ++number) {
        Page* const page = table_.find(number);
        if (page != nullptr && is_known(page->rights) && page->cleared_at < request.since) {
            ++(request.forbidden == Forbidden::kEverything ? page->nothing : page->no_stores);
            ++counted;
        }
    }
    return counted;
}

// Rights that have changed since have cleared the page.
void Protection::uncount(const Request& request) noexcept {
    for (std::uint64_t number = request.pages.first; number < request.pages.end; ++number) {
        Page* const page = table_.find(number);
        if (page != nullptr && is_known(page->rights) && page->cleared_at < request.since) {
            --(request.forbidden == Forbidden::kEverything ? page->nothing : page->no_stores);
        }
    }
}

void Protection::clear(Page& page) noexcept {
    page.no_stores = 0;
    page.nothing = 0;
    page.cleared_at = ++moment_;
}

void Protection::clear_all(PageRange pages) noexcept {
    for_each_known(pages, [&](std::uint64_t /*number*/, Page& page)
                              SLUICE_TSA(requires_capability(lock_)) { clear(page); });
}

Level Protection::level_of(std::uint64_t number) const noexcept {
    const Page* const page = table_.find(number);
    return page != nullptr ? page->level : Level::kOpen;
}

void Protection::set_level(std::uint64_t number, Page& page, Level level) noexcept {
    const Level before = level_of(number - 1);
    const Level behind = level_of(number + 1);
    boundaries_ -=
        static_cast<std::size_t>(before != page.level) + static_cast<std::size_t>(behind != page.level);
    boundaries_ += static_cast<std::size_t>(before != level) + static_cast<std::size_t>(behind != level);
    if (level < page.level) {
        page.opened_at = ++moment_;
    }
    page.set(level);
}

// False: the kernel refused some of it. A page's level is never less than what the kernel has.
bool Protection::apply(PageRange pages) noexcept {
    bool is_done = true;
    for (std::uint64_t number = pages.first; number < pages.end;) {
        const Page* const page = table_.find(number);
        if (page == nullptr || !is_known(page->rights) || wanted_level(*page) == page->level) {
            number = page == nullptr ? PageTable::behind_leaf(number) : number + 1;
            continue;
        }
        const Page like = *page;
        const Level level = wanted_level(like);
        std::uint64_t end = number + 1;
        for (; end < pages.end && is_alike(table_.find(end), like); ++end) {
        }
        const int wanted = kernels_rights(like.rights, level);
        if (wanted == kernels_rights(like.rights, like.level) ||
            set_rights(address_of(number), (end - number) * page_bytes(), wanted)) {
            for (; number < end; ++number) {
                set_level(number, *table_.find(number), level);
            }
        } else {
            is_done = false;
            // Some of them may have been protected before it failed.
            for (; number < end && level > like.level; ++number) {
                set_level(number, *table_.find(number), level);
            }
            number = end;
        }
    }
    return is_done;
}

// As far as the level reaches.
bool Protection::open_all_around(std::uint64_t number) noexcept {
    const Level level = level_of(number);
    PageRange all{.first = number, .end = number + 1};
    while (level_of(all.first - 1) == level) {
        --all.first;
    }
    while (level_of(all.end) == level) {
        ++all.end;
    }
    clear_all(all);
    return apply(all);
}

bool Protection::forbids(std::uint64_t number, Access access) noexcept {
    const Section section(lock_);
    const Page* const page = table_.find(number);
    return page != nullptr && is_known(page->rights) && forbids_access(*page, access);
}

std::uint64_t Protection::end_of_forbidden(PageRange pages, Access access) const noexcept {
    if (protecting_.load(std::memory_order_relaxed) == 0) {
        return pages.first;
    }
    for (; pages.first < pages.end; ++pages.first) {
        const PageLook page = table_.look(pages.first);
        if (!is_known(page.rights) || !forbids_access(page, access)) {
            break;
        }
    }
    return pages.first;
}

bool Protection::open(std::uint64_t number, Access access, Touch* touch) noexcept {
    const Section section(lock_);
    Page* const page = table_.find(number);
    if (page == nullptr || !is_known(page->rights)) {
        return false;
    }
    if (forbids_access(*page, access)) {
        if (touch != nullptr && describe(number, *page, access, *touch)) {
            touches_.add(*touch);
        }
        clear(*page);
        // Where the kernel has no place for a further mapping, there is one if the neighbours are opened,
        // too.
        return apply({.first = number, .end = number + 1}) || open_all_around(number);
    }
    return is_to_be_repeated(number, *page);
}

bool Protection::open_for_device(std::uint64_t number, Access access) noexcept {
    const Section section(lock_);
    Page* const page = table_.find(number);
    if (page == nullptr || !is_known(page->rights)) {
        return false;
    }
    if (!forbids_access(*page, access)) {
        return is_to_be_repeated(number, *page);
    }
    const Request* const oldest =
        forbidding(number, *page, access,
                   [](const Request& one, const Request& other) { return one.since < other.since; });
    const PageRange opened =
        oldest != nullptr ? oldest->pages : PageRange{.first = number, .end = number + 1};
    clear_all(opened);
    return apply(opened) || open_all_around(number);
}

bool Protection::is_to_be_repeated(std::uint64_t number, const Page& page) const noexcept {
    if (page.opened_at == 0 || (repeated.number == number && repeated.opened_at == page.opened_at)) {
        return false;
    }
    repeated = {.number = number, .opened_at = page.opened_at};
    return true;
}

template<typename Better>
const Request* Protection::forbidding(std::uint64_t number, const Page& page, Access access,
                                      Better&& better) noexcept {
    const Request* best = nullptr;
    for (std::size_t rank = 0; rank < requests_.count(); ++rank) {
        const Request& request = requests_.at_rank(rank);
        const bool has_it = request.pages.first <= number && number < request.pages.end &&
                            page.cleared_at < request.since && request.forbids(access);
        if (has_it && (best == nullptr || better(request, *best))) {
            best = &request;
        }
    }
    return best;
}

// The newest of those that forbid it: it is the least likely to have ended already.
bool Protection::describe(std::uint64_t number, const Page& page, Access access, Touch& touch) noexcept {
    const Request* const newest =
        forbidding(number, page, access,
                   [](const Request& one, const Request& other) { return one.since > other.since; });
    if (newest == nullptr) {
        return false;
    }
    touch.tag = newest->tag;
    touch.is_store =
        access == Access::kStore || (access == Access::kUnknown && page.level == Level::kNoStores);
    touch.is_known_kind = access != Access::kUnknown || page.level == Level::kNoStores;
    return true;
}

bool Protection::would_touch(PageRange pages, Access access, Touch& touch) noexcept {
    const Section section(lock_);
    for (std::uint64_t number = pages.first; number < pages.end; ++number) {
        const Page* const page = table_.find(number);
        if (page != nullptr && is_known(page->rights) && forbids_access(*page, access) &&
            describe(number, *page, access, touch)) {
            touch.address = address_of(number);
            return true;
        }
    }
    return false;
}

void Protection::keep(const Touch& touch) noexcept {
    const Section section(lock_);
    touches_.add(touch);
}

bool Protection::take_touch(Touch& touch) noexcept {
    if (touches_.is_empty()) {
        return false;
    }
    const Section section(lock_);
    return touches_.take(touch);
}

void Protection::before_fork() noexcept {
    sigset_t before;
    block_signals(before);
    lock_.lock();
    mask_around_fork_ = before;
}

void Protection::after_fork_in_parent() noexcept {
    const sigset_t before = mask_around_fork_;
    lock_.unlock();
    (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Protection::after_fork_in_child() noexcept {
    while (requests_.count() != 0) {
        const Request request = requests_.at_rank(0);
        requests_.erase(requests_.at_rank(0));
        uncount(request);
        (void)apply(request.pages);
    }
    protecting_.store(0, std::memory_order_relaxed);
    touches_.clear();
    is_off_.store(true, std::memory_order_relaxed); // there is no other thread
    after_fork_in_parent();
}

} // namespace sluice::layers::check::pages
