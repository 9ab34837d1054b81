// SPDX-License-Identifier: BSD-3-Clause
#include "core/old_pages/old_pages.hpp"

#include <dlfcn.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <span>
#include <utility>

#include "core/fault_access.hpp"
#include "core/fault_chain.hpp"
#include "core/old_pages/page_states.hpp"
#include "core/own_memory.hpp"
#include "core/report/timeline.hpp"

namespace sluice::old_pages {

namespace {

using coherence::LineRun;

struct Record {
    Touch touch;
    std::atomic<bool> is_ready{false};
};
constexpr std::size_t kRecords = 64; // more at a time are lost
constinit std::array<Record, kRecords> records = {};
constinit std::atomic<std::uint32_t> recorded{0};
constinit std::atomic<std::uint32_t> taken{0};

constinit std::atomic<std::uint32_t> last_event{0};

// The handler reads these, maybe in a thread that has never been here: no memory may be allocated for that,
// hence the model.
struct OfThread {
    std::uint32_t event;    // the last that it has taken
    std::uintptr_t retried; // where it faulted at an open page, and how often
    std::uint32_t retries;
    std::array<Page*, 4> stepped; // open for one instruction
    std::size_t stepped_count;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local OfThread of_thread = {};

constexpr std::uintptr_t page_of(std::uintptr_t address) noexcept {
    return address & ~(kPageBytes - 1);
}

constexpr std::uint64_t bit_of(std::uintptr_t address) noexcept {
    return std::uint64_t{1} << (address % kPageBytes / kLineBytes);
}

// Those lines of PAGE that BYTES touch.
std::uint64_t bits_of(std::uintptr_t page, LineRun bytes) noexcept {
    const std::uintptr_t first = std::max(bytes.first, page);
    const std::uintptr_t last = std::min(bytes.last, page + (kPageBytes - 1));
    return (bit_of(last) - bit_of(first)) | bit_of(last);
}

std::uint64_t old_at(std::uintptr_t page) noexcept {
    const Page* const found = find(page);
    return found != nullptr ? found->old.load(std::memory_order_relaxed) : 0;
}

bool is_old(std::uintptr_t address) noexcept {
    return (old_at(page_of(address)) & bit_of(address)) != 0;
}

bool is_old_word(const Page& page, std::uintptr_t address) noexcept {
    const std::size_t word = address % kPageBytes / kWordBytes;
    return (page.words[word / 64].load(std::memory_order_relaxed) >> (word % 64) & 1U) != 0;
}

struct Fault {
    std::uintptr_t address = 0;
    Access access = Access::kUnknown;
};

// A fault that names only its page tells of an old line where the page has no others.
bool is_old_access(const Page& page, const Fault& fault) noexcept {
    const bool is_known = kKnowsAddresses || ~page.old.load(std::memory_order_relaxed) == 0;
    return is_known && is_old(fault.address);
}

// Whether an access to an old line is one that is asked for.
bool is_asked_for(const Page& page, const Fault& fault) noexcept {
    return !page.is_of_loads.load(std::memory_order_relaxed) ||
           (fault.access == Access::kLoad && is_old_word(page, fault.address));
}

// By the kernel, since another thread may close the page at this moment, and a fault in a handler is the end.
// False: that has happened.
bool read_word(std::uintptr_t address, std::uint64_t& word) noexcept {
    return copy_own_memory(address & ~(kWordBytes - 1), std::as_writable_bytes(std::span(&word, 1))) ==
           sizeof word;
}

// The old lines around ADDRESS, which is in one.
LineRun old_around(std::uintptr_t address) noexcept {
    constexpr std::uintptr_t kMost = std::uintptr_t{1} << 20; // to each side
    const std::uintptr_t line = address & ~(kLineBytes - 1);
    LineRun around{line, line + (kLineBytes - 1)};
    while (line - around.first < kMost && is_old(around.first - kLineBytes)) {
        around.first -= kLineBytes;
    }
    while (around.last - line < kMost && is_old(around.last + 1)) {
        around.last += kLineBytes;
    }
    return around;
}

void record(const Touch& touch) noexcept {
    const std::uint32_t number = recorded.load(std::memory_order_relaxed);
    std::uint32_t expected = number;
    if (number - taken.load(std::memory_order_acquire) >= kRecords ||
        !recorded.compare_exchange_strong(expected, number + 1, std::memory_order_acq_rel)) {
        return; // one more thread at this moment, or too many
    }
    Record& place = records[number % kRecords];
    place.touch = touch;
    place.is_ready.store(true, std::memory_order_release); // partner: take()
}

// An access to PAGE, which is open now.
void record_with_word(const Page& page, Touch touch) noexcept {
    if (!page.is_of_loads.load(std::memory_order_relaxed) || read_word(touch.address, touch.word)) {
        record(touch);
    }
}

bool is_known_to_thread(const Page& page) noexcept {
    const auto since =
        static_cast<std::int32_t>(of_thread.event - page.event.load(std::memory_order_relaxed));
    return of_thread.event != 0 && since >= 0;
}

// Not every unwinder passes the handler's frame: then the handler's own stack.
report::Stack stack_of_fault() noexcept {
    const report::Stack stack = report::capture_fault();
    return stack.count > 1 ? stack : report::capture();
}

void open_until_next_event(Page& page) noexcept {
    page.old.store(0, std::memory_order_relaxed); // so that they are new then
    (void)open_as(page, State::kOpen);
}

// For the instruction that has faulted. Elsewhere until the next event.
void open_for_a_step(Page& page, [[maybe_unused]] ucontext_t& context) noexcept {
#if defined(__x86_64__)
    constexpr greg_t kTrap = 0x100;
    OfThread& mine = of_thread;
    if (mine.stepped_count < mine.stepped.size()) {
        if (open_as(page, State::kStepped)) {
            mine.stepped[mine.stepped_count++] = &page;
            context.uc_mcontext.gregs[REG_EFL] |= kTrap;
        }
        return;
    }
#endif
    open_until_next_event(page);
}

void on_closed(Page& page, const Fault& fault, ucontext_t& context) noexcept {
    const bool is_found = is_old_access(page, fault) && is_known_to_thread(page) && is_asked_for(page, fault);
    if (!is_found) {
        // The store may be part of a large copy: to step through it would take too long.
        if (fault.access != Access::kLoad && page.is_of_loads.load(std::memory_order_relaxed)) {
            open_until_next_event(page);
        } else {
            open_for_a_step(page, context);
        }
        return;
    }
    const bool is_first = !page.is_touched.exchange(true, std::memory_order_acq_rel);
    (void)open_as(page, State::kOpen);
    if (is_first) {
        record_with_word(page, {.address = fault.address,
                                .old = old_around(fault.address),
                                .is_store = fault.access == Access::kStore,
                                .time_ns = report::timeline_now_ns(),
                                .stack = stack_of_fault()});
    }
}

// False: the fault isn't ours.
bool take_fault(const siginfo_t& info, ucontext_t& context) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(info.si_addr);
    Page* const page = info.si_code > 0 ? find(page_of(address)) : nullptr;
    if (page == nullptr) {
        return false;
    }
    const Fault fault{.address = address, .access = access_of_fault(context)};
    OfThread& mine = of_thread;
    const State state = settled(*page);
    if (state == State::kClosed) {
        mine.retries = 0;
        on_closed(*page, fault, context);
        return true;
    }
    // Another thread has opened it since. If that isn't so, the same fault comes again and again.
    constexpr std::uint32_t kMostRetries = 1000;
    const bool is_again = std::exchange(mine.retried, fault.address) == fault.address;
    mine.retries = is_again ? mine.retries + 1 : 0;
    return mine.retries < kMostRetries;
}

void on_page_fault(int signal, siginfo_t* info, void* context);
void on_step(int signal, siginfo_t* info, void* context);

constinit FaultChain fault_chain(SIGSEGV, on_page_fault);
constinit FaultChain step_chain(SIGTRAP, on_step);
[[gnu::tls_model("initial-exec")]] constinit thread_local FaultChain::Passing passing_fault = {};
[[gnu::tls_model("initial-exec")]] constinit thread_local FaultChain::Passing passing_step = {};

void on_page_fault(int /*signal*/, siginfo_t* info, void* context) {
    const int saved_errno = errno;
    if (!take_fault(*info, *static_cast<ucontext_t*>(context))) {
        fault_chain.pass_on(info, context, passing_fault);
    }
    errno = saved_errno;
}

void on_step(int /*signal*/, siginfo_t* info, void* context) {
    const int saved_errno = errno;
    OfThread& mine = of_thread;
    if (info->si_code != TRAP_TRACE || mine.stepped_count == 0) {
        step_chain.pass_on(info, context, passing_step);
    } else {
        while (mine.stepped_count != 0) {
            (void)close_from(*mine.stepped[--mine.stepped_count], State::kStepped);
        }
#if defined(__x86_64__)
        static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~greg_t{0x100};
#endif
    }
    errno = saved_errno;
}

bool install() noexcept {
    return fault_chain.take_front().ok() && step_chain.take_front().ok();
}

// The first of BYTES in the page AT of which an access is recorded, or the line that it is in. 0: there is
// none.
std::uintptr_t first_asked_for(const Page& page, std::uintptr_t at, LineRun bytes, bool is_store) noexcept {
    std::uint64_t old = page.old.load(std::memory_order_relaxed) & bits_of(at, bytes);
    if (!page.is_of_loads.load(std::memory_order_relaxed)) {
        return old != 0 ? at + static_cast<unsigned>(__builtin_ctzll(old)) * kLineBytes : 0;
    }
    for (; old != 0 && !is_store; old &= old - 1) {
        const std::uintptr_t line = at + static_cast<unsigned>(__builtin_ctzll(old)) * kLineBytes;
        for (std::uintptr_t word = std::max(line, bytes.first & ~(kWordBytes - 1));
             word < line + kLineBytes && word <= bytes.last; word += kWordBytes) {
            if (is_old_word(page, word)) {
                return word;
            }
        }
    }
    return 0;
}

// The program gives BYTES to the kernel.
void on_buffer(const void* address, std::size_t length, int is_store) {
    if (length == 0) {
        return;
    }
    const auto first = reinterpret_cast<std::uintptr_t>(address);
    const LineRun bytes{first, first + (length - 1)};
    for (std::uintptr_t at = page_of(bytes.first); at <= bytes.last; at += kPageBytes) {
        Page* const page = find(at);
        if (page == nullptr || settled(*page) == State::kOpen) {
            continue;
        }
        const std::uintptr_t touched = first_asked_for(*page, at, bytes, is_store != 0);
        const bool is_found = touched != 0 && is_known_to_thread(*page);
        if (!is_found) {
            page->old.store(0, std::memory_order_relaxed); // closed again at the next event
        }
        const bool is_first = is_found && !page->is_touched.exchange(true, std::memory_order_acq_rel);
        const LineRun old = is_first ? old_around(touched) : LineRun{};
        open_page(*page);
        if (is_first) {
            record_with_word(*page, {.address = touched,
                                     .old = old,
                                     .is_store = is_store != 0,
                                     .time_ns = report::timeline_now_ns(),
                                     .stack = report::capture()});
        }
    }
}

// Asked once: a preloaded layer is there from the beginning.
bool may_close_parts() noexcept {
    static const bool may = [] {
        using Watch = void (*)(void (*touch)(const void*, std::size_t, int));
        const auto watch = reinterpret_cast<Watch>(dlsym(RTLD_DEFAULT, "sluice_check_on_buffers"));
        if (watch != nullptr) {
            watch(on_buffer);
        }
        return watch != nullptr;
    }();
    return may;
}

bool may_close(std::uint64_t old) noexcept {
    static const bool knows_pages = sysconf(_SC_PAGESIZE) == static_cast<long>(kPageBytes);
    return old != 0 && knows_pages && (~old == 0 || may_close_parts());
}

template<typename Visit>
void for_each_page(LineRun bytes, const Visit& visit) noexcept {
    for (std::uintptr_t at = page_of(bytes.first); at <= bytes.last && at >= page_of(bytes.first);
         at += kPageBytes) {
        if (Page* const page = find(at); page != nullptr) {
            visit(at, *page);
        }
    }
}

void set_lines(Page& page, std::uint64_t old, std::uint32_t event) noexcept {
    const std::uint64_t before = page.old.exchange(old, std::memory_order_relaxed);
    if ((old & ~before) == 0) {
        return;
    }
    page.event.store(event, std::memory_order_relaxed);
    page.is_touched.store(false, std::memory_order_relaxed);
    if (may_close(old) && install()) {
        (void)close_from(page, State::kOpen);
    }
}

} // namespace

std::uint32_t begin_event() noexcept {
    return last_event.fetch_add(1, std::memory_order_relaxed) + 1;
}

void end_event(std::uint32_t number) noexcept {
    of_thread.event = number;
}

void set_old(std::uintptr_t page, std::uint64_t old, std::uint32_t event) noexcept {
    if (Page* const entry = old != 0 ? find_or_add(page) : find(page)) {
        entry->is_of_loads.store(false, std::memory_order_relaxed);
        set_lines(*entry, old, event);
    }
}

void set_old_words(std::uintptr_t page, const OldWords& words, std::uint32_t event) noexcept {
    std::uint64_t old = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
        old |= std::uint64_t{words[i] != 0} << i;
    }
    Page* const entry = old != 0 ? find_or_add(page) : find(page);
    if (entry == nullptr) {
        return;
    }
    entry->is_of_loads.store(true, std::memory_order_relaxed);
    for (std::size_t i = 0; i < entry->words.size(); ++i) {
        std::uint64_t of_eight = 0;
        for (std::size_t line = 0; line < 8; ++line) {
            of_eight |= std::uint64_t{words[i * 8 + line]} << (8 * line);
        }
        entry->words[i].store(of_eight, std::memory_order_relaxed);
    }
    set_lines(*entry, old, event);
}

void open(LineRun bytes) noexcept {
    for_each_page(bytes, [](std::uintptr_t, Page& page) { open_page(page); });
}

void forget(LineRun lines) noexcept {
    for_each_page(lines, [&](std::uintptr_t at, Page& page) {
        page.old.fetch_and(~bits_of(at, lines), std::memory_order_relaxed);
    });
}

void close_again(LineRun bytes) noexcept {
    for_each_page(bytes, [](std::uintptr_t, Page& page) {
        if (may_close(page.old.load(std::memory_order_relaxed)) && !page.is_touched.load() && install()) {
            (void)close_from(page, State::kOpen);
        }
    });
}

bool is_closed(std::uintptr_t page) noexcept {
    const Page* const found = find(page);
    return found != nullptr && settled(*found) == State::kClosed;
}

bool is_open(std::uintptr_t page) noexcept {
    const Page* const found = find(page);
    return found == nullptr || settled(*found) == State::kOpen;
}

bool take(Touch& touch) noexcept {
    const std::uint32_t number = taken.load(std::memory_order_relaxed);
    Record& place = records[number % kRecords];
    if (number == recorded.load(std::memory_order_acquire) ||
        !place.is_ready.load(std::memory_order_acquire)) { // partner: record()
        return false;
    }
    touch = place.touch;
    place.is_ready.store(false, std::memory_order_relaxed);
    taken.store(number + 1, std::memory_order_release); // partner: record()
    return true;
}

} // namespace sluice::old_pages
