// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/touches.hpp"

#include <algorithm>
#include <cstring>
#include <list>

#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/pages/fault.hpp"
#include "layers/check/pages/pages.hpp"
#include "layers/check/registry.hpp"

namespace sluice::layers::check::touches {

namespace {

[[gnu::tls_model("initial-exec")]] constinit thread_local unsigned calls_of_device = 0;

struct Failed {
    std::uint64_t tag = 0;
    std::string name;
    Place posted = nullptr;
    Place polled = nullptr;
    std::vector<Piece> pieces;
};

// What was caught and not told, and receives that failed.
class Kept {
  public:
    static Kept& instance() noexcept {
        // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): else all is lost
        static auto* const kept = new Kept;
        return *kept;
    }

    void add(const pages::Touch& touch) {
        const LockGuard lock(mutex_);
        touches_.push_back(touch);
    }

    // The first that is WANTED.
    template<typename Wanted>
    std::optional<pages::Touch> take(Wanted&& wanted) {
        const LockGuard lock(mutex_);
        const auto found = std::ranges::find_if(touches_, wanted);
        if (found == touches_.end()) {
            return std::nullopt;
        }
        const pages::Touch touch = *found;
        touches_.erase(found);
        return touch;
    }

    void add(Failed failed) {
        const LockGuard lock(mutex_);
        if (failed_.size() == kMostFailed) {
            pages::lift(failed_.front().tag);
            failed_.pop_front();
        }
        failed_.push_back(std::move(failed));
        has_failed_.store(true, std::memory_order_relaxed);
    }

    template<typename Wanted>
    void forget_failed(Wanted&& wanted) noexcept {
        if (!has_failed_.load(std::memory_order_relaxed)) {
            return;
        }
        const LockGuard lock(mutex_);
        failed_.remove_if([&](const Failed& failed) {
            const bool is_wanted = wanted(failed);
            if (is_wanted) {
                pages::lift(failed.tag);
            }
            return is_wanted;
        });
        has_failed_.store(!failed_.empty(), std::memory_order_relaxed);
    }

    std::optional<Failed> failed(std::uint64_t tag) {
        const LockGuard lock(mutex_);
        const auto found = std::ranges::find(failed_, tag, &Failed::tag);
        return found != failed_.end() ? std::optional(*found) : std::nullopt;
    }

  private:
    static constexpr std::size_t kMostFailed = 1024;

    Mutex mutex_;
    std::list<pages::Touch> touches_ SLUICE_TSA(guarded_by(mutex_));
    std::list<Failed> failed_ SLUICE_TSA(guarded_by(mutex_));
    std::atomic<bool> has_failed_ = false;
};

constinit std::atomic<bool (*)(const pages::Touch&) noexcept> other_teller = nullptr;

// " (64 bytes from 0x...)"
std::string range_of(const Request& request, const void* address) {
    const std::uint64_t touched = reinterpret_cast<std::uintptr_t>(address);
    for (const Piece& piece : request.watched()) {
        if (touched >= piece.address && touched - piece.address < piece.length) {
            return " (" + std::to_string(piece.length) + " bytes from " + hex(piece.address) + ")";
        }
    }
    return {};
}

// The first of a request explains the others. A program that posts one buffer for many messages looks at
// none, or knows that no other comes yet.
template<typename Owner>
void tell_touch(const Owner& owner, Request& request, const pages::Touch& touch) noexcept {
    if (request.is_told_of || request.shares_memory) {
        return;
    }
    request.is_told_of = true;
    const bool is_sent = request.kind == Kind::kSend || request.kind == Kind::kWrite;
    const std::string_view rule = is_sent ? "buffer-changed-while-sent" : "buffer-used-before-completion";
    const char* const what = touch.is_store ? "is written to" : is_sent ? "is touched" : "is read";
    tell(rule, {{"the memory is touched", &touch.stack}, {"the request was posted", request.posted}}, [&] {
        return Told{name_of(request) + " of " + name_of(owner),
                    "its memory at " + hex(reinterpret_cast<std::uintptr_t>(touch.address)) +
                        range_of(request, touch.address) + ' ' + what +
                        (is_sent ? " while it is sent" : " before its completion was polled"),
                    "await the request's completion, with success, before its memory is used"};
    });
}

void tell_failed(const Failed& failed, const pages::Touch& touch) noexcept {
    if (touch.is_store || !touch.is_known_kind) {
        return; // it is used for something else
    }
    tell("status-ignored",
         {{"the memory is read", &touch.stack},
          {"the failed completion was polled", failed.polled},
          {"the request was posted", failed.posted}},
         [&] {
             return Told{
                 failed.name,
                 "it failed, and its memory at " + hex(reinterpret_cast<std::uintptr_t>(touch.address)) +
                     " is read as if a message were there",
                 "look at each completion's status first; only wr_id and qp_num mean something in one "
                 "that failed"};
         });
}

// The request that TOUCH is of, among those that are outstanding. True: it was told.
bool tell_outstanding(QueuePair& pair, Requests& requests, const pages::Touch& touch) noexcept {
    for (std::size_t i = 0; i < requests.size(); ++i) {
        if (requests[i].tag == touch.tag) {
            tell_touch(pair, requests[i], touch);
            return true;
        }
    }
    return false;
}

void tell_one(const pages::Touch& touch) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        if (const auto tell_other = other_teller.load(); tell_other != nullptr && tell_other(touch)) {
            return {};
        }
        if (const std::optional<Failed> failed = Kept::instance().failed(touch.tag)) {
            tell_failed(*failed, touch);
            return {};
        }
        for (const auto& pair : Registry::instance().pairs.all([](const QueuePair&) { return true; })) {
            const LockGuard lock(pair->mutex);
            if (tell_outstanding(*pair, pair->sends, touch) ||
                tell_outstanding(*pair, pair->receives, touch)) {
                return {};
            }
        }
        for (const auto& shared :
             Registry::instance().shared_queues.all([](const SharedQueue&) { return true; })) {
            const LockGuard lock(shared->mutex);
            for (std::size_t i = 0; i < shared->requests.size(); ++i) {
                if (shared->requests[i].tag == touch.tag) {
                    tell_touch(*shared, shared->requests[i], touch);
                    return {};
                }
            }
        }
        return {};
    });
}

constinit std::atomic<bool> has_kept = false;

} // namespace

std::uint64_t next_tag() noexcept {
    static constinit std::atomic<std::uint64_t> last = 0;
    static const bool is_known = [] {
        pages::add_device([] { return calls_of_device != 0; });
        return true;
    }();
    return last.fetch_add(is_known ? 1U : 0U, std::memory_order_relaxed) + 1;
}

void take(const QueuePair& pair, Request& request) noexcept {
    pages::Touch touch;
    while (pages::take_touch(touch)) {
        if (touch.tag == request.tag) {
            tell_touch(pair, request, touch);
        } else {
            (void)at_boundary("check", [&]() -> Result<void> {
                Kept::instance().add(touch);
                return {};
            });
            has_kept.store(true, std::memory_order_relaxed);
        }
    }
    if (has_kept.load(std::memory_order_relaxed)) {
        while (const std::optional<pages::Touch> kept =
                   Kept::instance().take([&](const pages::Touch& each) { return each.tag == request.tag; })) {
            tell_touch(pair, request, *kept);
        }
    }
}

void tell_all() noexcept {
    pages::Touch touch;
    while (pages::take_touch(touch)) {
        tell_one(touch);
    }
    if (has_kept.exchange(false, std::memory_order_relaxed)) {
        while (const std::optional<pages::Touch> kept =
                   Kept::instance().take([](const pages::Touch&) { return true; })) {
            tell_one(*kept);
        }
    }
}

void set_teller(bool (*tell)(const pages::Touch& touch) noexcept) noexcept {
    other_teller = tell;
}

void keep_failed(const QueuePair& pair, const Request& request, Place polled) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        const std::span<const Piece> pieces = request.watched();
        Kept::instance().add(Failed{.tag = request.tag,
                                    .name = name_of(request) + " of " + name_of(pair),
                                    .posted = request.posted,
                                    .polled = polled,
                                    .pieces = {pieces.begin(), pieces.end()}});
        return {};
    });
}

void forget_failed(const Request& request) noexcept {
    Kept::instance().forget_failed([&](const Failed& failed) {
        return std::ranges::any_of(failed.pieces, [&](const Piece& old) {
            return std::ranges::any_of(request.watched(),
                                       [&](const Piece& piece) { return overlap(old, piece); });
        });
    });
}

void forget_failed(const Region& region) noexcept {
    Kept::instance().forget_failed([&](const Failed& failed) {
        return std::ranges::any_of(failed.pieces,
                                   [&](const Piece& piece) { return piece.region.get() == &region; });
    });
}

ForDevice::ForDevice() noexcept {
    ++calls_of_device;
}

ForDevice::~ForDevice() {
    --calls_of_device;
}

} // namespace sluice::layers::check::touches
