// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/verbs/events.hpp"

#include "core/log.hpp"
#include "provider/uroce/verbs/event_socket.hpp"

namespace sluice::uroce::verbs {

bool AsyncEvents::report(const void* element, ibv_event_type type) noexcept {
    return report(Record{reinterpret_cast<std::uintptr_t>(element), static_cast<std::uint32_t>(type), 0});
}

// As the kernel writes it: a port's number is in the element's place.
bool AsyncEvents::report_of_port(std::uint8_t port, ibv_event_type type) noexcept {
    return report(Record{port, static_cast<std::uint32_t>(type), 0});
}

bool AsyncEvents::report(const Record& record) noexcept {
    refill();
    if (waiting_.empty() && send_event(fd_, &record, sizeof record)) {
        return true;
    }
    if (waiting_.full()) {
        SLUICE_LOG(kWarning, "uroce", "asynchronous event %u is lost: nobody reads ibv_get_async_event()",
                   record.type);
        return false;
    }
    waiting_.grow() = record;
    pending_.store(true, std::memory_order_relaxed);
    return true;
}

void AsyncEvents::refill() noexcept {
    while (!waiting_.empty() && send_event(fd_, &waiting_.front(), sizeof(Record))) {
        waiting_.pop_front();
    }
    pending_.store(!waiting_.empty(), std::memory_order_relaxed);
}

std::uint32_t AsyncEvents::forget(const void* element) noexcept {
    std::uint32_t taken = take_back_events(fd_, element);
    for (std::uint32_t left = waiting_.size(); left != 0; --left) {
        const Record record = waiting_.front();
        waiting_.pop_front();
        if (record.element == reinterpret_cast<std::uintptr_t>(element)) {
            ++taken;
        } else {
            waiting_.grow() = record;
        }
    }
    refill();
    return taken;
}

} // namespace sluice::uroce::verbs
