// SPDX-License-Identifier: BSD-3-Clause
//
// The multicast groups that a device hears.
#include "provider/uroce/device/device.hpp"

#include <utility>

namespace sluice::uroce::device {

// The link is nobody else's as long as this lives.
class Device::HeldLink {
  public:
    explicit HeldLink(Device& device) noexcept : device_(device) { device.take_link(); }
    ~HeldLink() { device_.link_taken_.store(false, std::memory_order_release); } // partner: take_link()
    HeldLink(const HeldLink&) = delete;
    HeldLink& operator=(const HeldLink&) = delete;

  private:
    Device& device_;
};

// At its end, however that comes, the link hears no group for which there is no queue pair.
class Device::Trimming {
  public:
    explicit Trimming(Device& device) noexcept : device_(device) {}
    ~Trimming() SLUICE_TSA(no_thread_safety_analysis) { device_.leave_unheard_groups_locked(); }
    Trimming(const Trimming&) = delete;
    Trimming& operator=(const Trimming&) = delete;

  private:
    Device& device_; // its groups are locked
};

Result<void> Device::attach(engine::QueuePair& qp, const engine::Address& group) {
    const LockGuard guard(changing_groups_);
    const Trimming trimming(*this);
    Result<void> heard = hear_locked(group);
    if (!heard) {
        return heard;
    }
    const ProgressSession session(*this);
    session.engine().groups().attach(group, qp);
    return {};
}

// The socket comes before the queue pair: what the link hears for nobody is dropped.
Result<void> Device::hear_locked(const engine::Address& group) {
    Result<void> started = start_progress();
    if (!started) {
        return started;
    }
    if (link_ == nullptr) {
        return Error(ErrorKind::kNotSupported, "this device has no way to multicast groups");
    }
    has_groups_.store(true, std::memory_order_relaxed);
    Result<int> joined = [&] {
        const HeldLink held(*this);
        return link_->join(group);
    }();
    if (!joined) {
        return joined.error().kind() == ErrorKind::kExists ? Result<void>() : std::move(joined).error();
    }
    return progress_.watch_also(*joined);
}

bool Device::detach(engine::QueuePair& qp, const engine::Address& group) noexcept {
    const LockGuard guard(changing_groups_);
    bool detached = false;
    {
        const ProgressSession session(*this);
        detached = session.engine().groups().detach(group, qp);
    }
    leave_unheard_groups_locked();
    return detached;
}

void Device::leave_unheard_groups() noexcept {
    if (has_groups_.load(std::memory_order_relaxed)) {
        const LockGuard guard(changing_groups_);
        leave_unheard_groups_locked();
    }
}

void Device::leave_unheard_groups_locked() noexcept {
    if (link_ == nullptr) {
        return;
    }
    const HeldLink held(*this);
    const ProgressSession session(*this);
    link_->leave_groups(
        [](const void* groups, const engine::Address& group) noexcept {
            return static_cast<const engine::MulticastGroups*>(groups)->hears(group);
        },
        &session.engine().groups());
}

// Who has it, gives it back when the device's next holder has delivered: the caller isn't that.
void Device::take_link() noexcept {
    while (link_taken_.exchange(true, std::memory_order_acquire)) { // partner: release in read_link()
        sched_yield();
    }
}

} // namespace sluice::uroce::device
