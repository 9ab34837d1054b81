// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/private_data.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/pages/page_table.hpp"
#include "layers/check/pages/pages.hpp"
#include "layers/check/touches.hpp"

namespace sluice::layers::check::private_data {

namespace {

constexpr std::size_t kMost = 256; // events with private data that are known

struct Copy {
    std::byte* page = nullptr;
    const rdma_cm_event* event = nullptr; // null: it was acknowledged
    std::uint64_t tag = 0;                // of the protected page; 0: it isn't
    Place taken = nullptr;
    Place acknowledged = nullptr;
};

// Those of multicast have the program's own pointer in the place of private data.
bool has_private_data(const rdma_cm_event& event) noexcept {
    switch (event.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_ESTABLISHED:
    case RDMA_CM_EVENT_REJECTED:
        return event.param.conn.private_data != nullptr && event.param.conn.private_data_len != 0;
    default:
        return false;
    }
}

class Copies {
  public:
    static Copies& instance() noexcept {
        // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): else all is lost
        static auto* const copies = new Copies;
        return *copies;
    }

    void give(rdma_cm_event& event, Place place) {
        const LockGuard lock(mutex_);
        Copy* const copy = find_free_locked(event);
        if (copy == nullptr) {
            return;
        }
        pages::lift(copy->tag);
        *copy = {.page = copy->page, .event = &event, .taken = place};
        std::memcpy(copy->page, event.param.conn.private_data, event.param.conn.private_data_len);
        event.param.conn.private_data = copy->page;
        std::rotate(copies_.begin() + (copy - copies_.data()), copies_.begin() + (copy - copies_.data()) + 1,
                    copies_.end());
    }

    void take_back(const rdma_cm_event& event, Place place) {
        const LockGuard lock(mutex_);
        const auto copy = std::ranges::find(copies_, &event, &Copy::event);
        if (copy == copies_.end()) {
            return;
        }
        copy->event = nullptr;
        copy->acknowledged = place;
        copy->tag = touches::next_tag();
        (void)pages::protect(copy->tag, copy->page, pages::page_bytes(), pages::Forbidden::kEverything);
    }

    std::optional<Copy> find(std::uint64_t tag) {
        const LockGuard lock(mutex_);
        const auto copy = std::ranges::find(copies_, tag, &Copy::tag);
        return copy != copies_.end() ? std::optional(*copy) : std::nullopt;
    }

  private:
    Copies() {
        void* const memory = mmap(nullptr, kMost * pages::page_bytes(), PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (std::size_t i = 0; memory != MAP_FAILED && i < kMost; ++i) {
            copies_.push_back({.page = static_cast<std::byte*>(memory) + i * pages::page_bytes()});
        }
    }

    // An event at the address of one that we haven't seen acknowledged was freed past us. Null: the program
    // has too many.
    Copy* find_free_locked(const rdma_cm_event& event) SLUICE_TSA(requires_capability(mutex_)) {
        auto found = std::ranges::find(copies_, &event, &Copy::event);
        if (found == copies_.end()) {
            found = std::ranges::find(copies_, nullptr, &Copy::event);
        }
        return found != copies_.end() ? &*found : nullptr;
    }

    Mutex mutex_;
    std::vector<Copy> copies_ SLUICE_TSA(guarded_by(mutex_)); // the one that was given last at the end
};

bool tell_touch(const pages::Touch& touch) noexcept {
    const std::optional<Copy> copy = Copies::instance().find(touch.tag);
    if (!copy) {
        return false;
    }
    tell("private-data-of-old-event",
         {{"the private data is used", &touch.stack},
          {"its event was acknowledged", copy->acknowledged},
          {"the event was taken", copy->taken}},
         [&] {
             return Told{"private data of an event of librdmacm",
                         "its memory is used, and rdma_ack_cm_event() has freed it: the next event may take "
                         "its place",
                         "copy what is needed of private_data, then acknowledge the event"};
         });
    return true;
}

} // namespace

void give(rdma_cm_event& event, Place place) noexcept {
    if (report::depth() < report::Depth::kFull || !has_private_data(event)) {
        return;
    }
    (void)at_boundary("check", [&]() -> Result<void> {
        touches::set_teller(tell_touch);
        Copies::instance().give(event, place);
        return {};
    });
}

void take_back(const rdma_cm_event& event, Place place) noexcept {
    if (report::depth() < report::Depth::kFull || !has_private_data(event)) {
        return;
    }
    (void)at_boundary("check", [&]() -> Result<void> {
        Copies::instance().take_back(event, place);
        return {};
    });
}

} // namespace sluice::layers::check::private_data
