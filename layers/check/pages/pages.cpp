// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/pages/pages.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/boundary.hpp"
#include "core/file_tree.hpp"
#include "core/report/finding.hpp"
#include "layers/check/pages/fault.hpp"
#include "layers/check/pages/protection.hpp"
#include "layers/check/pages/rights.hpp"

namespace sluice::layers::check::pages {

namespace {

// Of the stack that the calling thread is on, however it was made: what is written to next, and what the
// frames of some calls may hold.
constexpr std::uintptr_t kBelowStackPointer = std::uintptr_t{64} << 10;
constexpr std::uintptr_t kAboveStackPointer = std::uintptr_t{256} << 10;

// Of larger memory, what is known of each page would take some per cent of what is there: it is looked up
// when it is used.
constexpr std::size_t kMostLearned = std::size_t{4} << 30;

PageRange whole_pages(const void* memory, std::size_t bytes) noexcept {
    const auto first = reinterpret_cast<std::uintptr_t>(memory);
    if (bytes > UINTPTR_MAX - first) {
        return {};
    }
    const PageRange whole{.first = first / page_bytes() + (first % page_bytes() != 0 ? 1 : 0),
                          .end = (first + bytes) / page_bytes()};
    return whole.first < whole.end ? whole : PageRange();
}

PageRange touched_pages(const void* memory, std::size_t bytes) noexcept {
    const auto first = reinterpret_cast<std::uintptr_t>(memory);
    const std::uintptr_t last = bytes > UINTPTR_MAX - first ? UINTPTR_MAX : first + bytes - 1;
    return {.first = first / page_bytes(), .end = last / page_bytes() + 1};
}

bool is_near_stack_pointer(PageRange pages) noexcept {
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    return pages.first * page_bytes() < here + kAboveStackPointer &&
           here - kBelowStackPointer < pages.end * page_bytes();
}

// As the kernel's documentation has it, if it can't be read.
std::size_t most_mappings() {
    std::size_t most = 65530;
    const std::string text = FileTree().read_line("/proc/sys/vm/max_map_count");
    (void)std::from_chars(text.data(), text.data() + text.size(), most);
    return most / 4;
}

bool start() noexcept {
    const Result<void> started = at_boundary("start", []() -> Result<void> {
        Protection::instance().limit_mappings(most_mappings());
        if (pthread_atfork([] { Protection::instance().before_fork(); },
                           [] { Protection::instance().after_fork_in_parent(); },
                           [] { Protection::instance().after_fork_in_child(); }) != 0) {
            return Error(ErrorKind::kInsufficientResources, "no memory for a handler of fork()");
        }
        return {};
    });
    return started.ok();
}

bool is_ready() noexcept {
    static const bool has_started = start();
    const Result<void> caught = at_boundary("catch_faults", [] { return catch_faults(); });
    static constinit std::atomic<bool> is_told = false;
    if (!caught && !is_told.exchange(true, std::memory_order_relaxed)) {
        report::write_blind_spot(
            "the program installs so many handlers of SIGSEGV that pages aren't protected");
    }
    return has_started && caught.ok();
}

// False: it can't be known here, and never will be.
bool learn_pages(PageRange pages) noexcept {
    static constinit std::atomic<bool> is_hopeless = false;
    if (is_hopeless.load(std::memory_order_relaxed)) {
        return false;
    }
    const Result<void> learned = at_boundary("learn", [&]() -> Result<void> {
        Result<std::vector<KnownRange>> known = read_rights(pages);
        if (!known) {
            return std::move(known).error();
        }
        Protection::instance().learn(*known);
        return {};
    });
    if (!learned && !is_hopeless.exchange(true, std::memory_order_relaxed)) {
        const std::string_view why = learned.error().text();
        report::write_blind_spot(why.empty() ? "what the program may do with its memory can't be looked up"
                                             : why);
    }
    return learned.ok();
}

// Why a buffer stays unprotected that could have been; empty if it is, or couldn't.
std::string_view limit_of(Added added) noexcept {
    switch (added) {
    case Added::kMappings:
        return "buffers weren't protected, since more than a quarter of vm.max_map_count mappings were "
               "needed";
    case Added::kRequests:
        return "buffers weren't protected, since more requests were outstanding than fit into a table";
    case Added::kKernel:
        return "buffers weren't protected, since the kernel refused it";
    case Added::kAll:
    case Added::kSome:
    case Added::kNoPage:
    case Added::kUnknown:
        break;
    }
    return {};
}

// At most once each, since data paths come here.
void tell_of_limit(Added added) noexcept {
    static constinit std::array<std::atomic<bool>, static_cast<std::size_t>(Added::kKernel) + 1> is_told = {};
    const std::string_view limit = limit_of(added);
    if (!limit.empty() &&
        !is_told[static_cast<std::size_t>(added)].exchange(true, std::memory_order_relaxed)) {
        report::write_blind_spot(limit);
    }
}

} // namespace

void learn(const void* memory, std::size_t bytes) noexcept {
    const PageRange pages = whole_pages(memory, bytes);
    if (pages.first != pages.end && bytes <= kMostLearned && !Protection::instance().is_off()) {
        (void)learn_pages(pages);
    }
}

Protected protect(std::uint64_t tag, const void* memory, std::size_t bytes, Forbidden forbidden) noexcept {
    const PageRange pages = whole_pages(memory, bytes);
    if (pages.first == pages.end || Protection::instance().is_off() || is_near_stack_pointer(pages) ||
        !is_ready()) {
        return Protected::kNone;
    }
    Added added = Protection::instance().add(tag, pages, forbidden);
    if (added == Added::kUnknown && learn_pages(pages)) {
        added = Protection::instance().add(tag, pages, forbidden);
    }
    tell_of_limit(added);
    return added == Added::kAll    ? Protected::kAll
           : added == Added::kSome ? Protected::kSome
                                   : Protected::kNone;
}

void change(std::uint64_t tag, Forbidden forbidden) noexcept {
    Protection::instance().change(tag, forbidden);
}

void lift(std::uint64_t tag) noexcept {
    Protection::instance().remove(tag);
}

void lift_range(const void* memory, std::size_t bytes) noexcept {
    if (bytes != 0) {
        Protection::instance().forget(touched_pages(memory, bytes));
    }
}

bool lift_for_kernel(const void* memory, std::size_t bytes, bool is_store, Touch& touch) noexcept {
    if (bytes == 0) {
        return false;
    }
    const PageRange pages = touched_pages(memory, bytes);
    const bool is_touch = !is_device() && Protection::instance().would_touch(
                                              pages, is_store ? Access::kStore : Access::kLoad, touch);
    Protection::instance().forget(pages);
    return is_touch;
}

void keep(const Touch& touch) noexcept {
    Protection::instance().keep(touch);
}

bool take_touch(Touch& touch) noexcept {
    if (!Protection::instance().take_touch(touch)) {
        return false;
    }
    if (Protection::instance().has_lost_touches()) {
        report::write_blind_spot(
            "more accesses to memory in use than could be kept until they were asked for");
    }
    return true;
}

} // namespace sluice::layers::check::pages
