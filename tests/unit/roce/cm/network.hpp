// SPDX-License-Identifier: BSD-3-Clause
//
// Two connection managers and what lies between them. Messages fly as bytes; a seed decides which
// are lost, come twice, late or damaged. Time is simulated: it jumps to whatever happens next.
#pragma once

#include <functional>
#include <queue>
#include <vector>

#include "roce/cm/manager.hpp"
#include "tests/unit/roce/ipv4.hpp"
#include "tests/unit/roce/random.hpp"

namespace sluice::roce::cm::test {

using namespace engine;

using roce::test::ipv4;
using roce::test::Random;

inline std::uint16_t attribute_of(const Mad& mad) {
    return static_cast<std::uint16_t>(mad[16] << 8 | mad[17]);
}

template<typename Message>
Message message_of(const Mad& mad) {
    return wire::decode<Message>(std::span(mad).template subspan<wire::MadHeader::kBytes, wire::kCmBytes>());
}

constexpr Nanoseconds kMicrosecond = 1000;
// Patient enough for this network: one way takes at most 262 us.
constexpr Timing kFastTiming = {
    .response_timeout = 8, .packet_lifetime = 6, .max_retries = 7, .give_up_after = 0};

struct Node {
    Node(std::uint8_t number, const ManagerConfig& config) : where(ipv4(number)), manager(config) {}
    Address where;
    ConnectionManager manager;
};

struct CmFaults {
    double loss = 0;
    double duplicate = 0;
    double reorder = 0;
    double corrupt = 0; // noticed by the ICRC, so lost
    bool any() const { return loss + duplicate + reorder + corrupt > 0; }
};

class Network {
  public:
    explicit Network(std::uint64_t seed, const CmFaults& faults = {}, ManagerConfig config = {})
        : left(1, with(config, 0x1111, seed * 2)), right(2, with(config, 0x2222, seed * 2 + 1)),
          faults_(faults), random_(seed ^ 0x636d) {}

    Node left;
    Node right;
    Nanoseconds now = 1000;
    std::uint64_t messages = 0;
    std::function<void(Node& node, const Event& event)> on_event;
    // Looks at each message before it leaves; false swallows it.
    std::function<bool(Node& from, const Mad& mad)> tap;

    void later(Nanoseconds after, std::function<void()> action) {
        flights_.push({now + after, ++launched_, nullptr, {}, std::move(action)});
    }

    // Sends and tells all that is ready.
    void settle() {
        OutMad out;
        Event event;
        for (bool more = true; more;) {
            more = false;
            for (Node* node : {&left, &right}) {
                while (node->manager.transmit(out)) {
                    launch(*node, out);
                    more = true;
                }
                while (node->manager.next_event(event)) {
                    if (on_event) {
                        on_event(*node, event);
                    }
                    more = true;
                }
            }
        }
    }

    // When the next thing happens.
    Nanoseconds next() const {
        const Nanoseconds arrival = flights_.empty() ? kNever : flights_.top().when;
        return std::min({arrival, left.manager.next_deadline(), right.manager.next_deadline()});
    }
    // Goes on to that. False: nothing will happen.
    bool step() {
        settle();
        if (next() == kNever) {
            return false;
        }
        now = std::max(now, next());
        left.manager.advance(now);
        right.manager.advance(now);
        if (!flights_.empty() && flights_.top().when <= now) {
            const Flight flight = flights_.top();
            flights_.pop();
            if (flight.action) {
                flight.action();
            } else {
                flight.to->manager.receive(flight.mad.source, flight.mad.destination, flight.mad.bytes, now);
            }
        }
        settle();
        return true;
    }
    // False when it never ends.
    bool run(int max_steps = 100000) {
        while (max_steps-- > 0) {
            if (!step()) {
                return true;
            }
        }
        return false;
    }
    void run_until(Nanoseconds when) {
        for (settle(); next() <= when;) {
            step();
        }
        now = when;
    }

    Node& other(const Node& node) { return &node == &left ? right : left; }

  private:
    struct Flight {
        Nanoseconds when = 0;
        std::uint64_t number = 0;
        Node* to = nullptr;
        OutMad mad;
        std::function<void()> action;
        bool operator<(const Flight& other) const {
            return when != other.when ? when > other.when : number > other.number;
        }
    };
    static constexpr Nanoseconds kDelay = 40 * kMicrosecond, kExtra = 200 * kMicrosecond;

    static ManagerConfig with(ManagerConfig config, std::uint64_t guid, std::uint64_t seed) {
        config.guid = guid;
        config.secret = RandomKey::repeatable(seed);
        return config;
    }

    void launch(Node& from, const OutMad& out) {
        ++messages;
        if ((tap && !tap(from, out.bytes)) || random_.chance(faults_.loss) ||
            random_.chance(faults_.corrupt)) {
            return;
        }
        fly(from, out);
        if (random_.chance(faults_.duplicate)) {
            fly(from, out);
        }
    }
    void fly(Node& from, const OutMad& out) {
        Node& to = out.destination == left.where ? left : out.destination == right.where ? right : from;
        const Nanoseconds extra =
            random_.chance(faults_.reorder) ? random_.below(static_cast<std::uint32_t>(kExtra)) : 0;
        flights_.push({now + kDelay + extra, ++launched_, &to, out, {}});
    }

    CmFaults faults_;
    Random random_;
    std::priority_queue<Flight> flights_;
    std::uint64_t launched_ = 0;
};

} // namespace sluice::roce::cm::test
