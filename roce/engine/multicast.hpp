// SPDX-License-Identifier: BSD-3-Clause
//
// Which queue pairs hear which multicast group (IBTA vol 1, 10.5). The caller sees to it that the group's
// packets arrive at all.
//
// Not thread safe. Attaching allocates; looking doesn't.
#pragma once

#include <algorithm>
#include <vector>

#include "roce/engine/queue_pair.hpp"

namespace sluice::roce::engine {

// What a multicast packet has in the place of a queue pair's number (9.2.1).
inline constexpr std::uint32_t kMulticastQpn = 0xffffff;

class MulticastGroups {
  public:
    bool hears(const Address& group) const noexcept {
        return std::ranges::any_of(members_, [&](const Member& one) { return one.group == group; });
    }
    bool hears(const Address& group, const QueuePair& qp) const noexcept {
        return std::ranges::any_of(members_,
                                   [&](const Member& one) { return one.group == group && one.qp == &qp; });
    }
    // Twice is once.
    void attach(const Address& group, QueuePair& qp) {
        if (!hears(group, qp)) {
            members_.push_back({group, &qp});
        }
    }
    // False: it wasn't attached.
    bool detach(const Address& group, const QueuePair& qp) noexcept {
        return std::erase_if(members_,
                             [&](const Member& one) { return one.group == group && one.qp == &qp; }) != 0;
    }
    void forget(const QueuePair& qp) noexcept {
        std::erase_if(members_, [&](const Member& one) { return one.qp == &qp; });
    }
    // Calls VISIT(queue pair) for each that hears GROUP.
    template<typename Visit>
    void for_each(const Address& group, Visit&& visit) const {
        for (const Member& one : members_) {
            if (one.group == group) {
                visit(*one.qp);
            }
        }
    }

  private:
    struct Member {
        Address group;
        QueuePair* qp;
    };

    std::vector<Member> members_;
};

} // namespace sluice::roce::engine
