// SPDX-License-Identifier: BSD-3-Clause
//
// Thousands of histories from seeds: two managers, a network that misbehaves, and two programs that
// connect, accept, reject, disconnect, give up and destroy at random moments. A ledger of all events
// says afterwards whether each connection had one legal life at either side, and whether both sides
// agree wherever they must. The argument is the number of histories; a second one is the seed of
// a single one.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/unit/roce/cm/network.hpp"

#include "tests/cmocka.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::cm;
using namespace sluice::roce::cm::test;

namespace {

std::uint64_t history_count = 200;
std::uint64_t first_history = 1;

constexpr std::uint16_t kOpenPort = 7174, kShutPort = 9;
constexpr std::uint32_t kNobody = 0;

// One side of one attempt, as its program saw it.
struct Side {
    bool exists = false;
    bool destroyed = false;    // by the program; no event after that
    bool asked_to_end = false; // disconnect() succeeded
    bool rejected_it = false;  // reject() succeeded
    int established = 0, rejected = 0, unreachable = 0, disconnected = 0, exits = 0;
    std::uint16_t why = 0;
    std::uint32_t data = 0; // that came with a rejection
    QpSettings qp;
    std::uint32_t qpn = 0;
    int ends() const { return rejected + unreachable + disconnected; }
};

struct Attempt {
    Side active;
    Side passive; // of the last request, if there were several
    int requests = 0;
    std::uint16_t port = kOpenPort;
};

class History {
  public:
    History(std::uint64_t seed, const CmFaults& faults)
        : network_(seed, faults), random_(seed), faulty_(faults.any()) {
        network_.on_event = [this](Node& node, const Event& event) { take(node, event); };
        for (Node* node : {&network_.left, &network_.right}) {
            must(node->manager
                     .listen({.service_id = wire::cm_service_id(wire::kPortSpaceTcp, kOpenPort), .local = {}})
                     .ok(),
                 "listen");
        }
    }

    bool play() {
        const std::uint32_t attempts = 1 + random_.below(6);
        for (std::uint32_t i = 0; i < attempts; ++i) {
            network_.later(random_.below(3000) * kMicrosecond, [this] { attempt(); });
        }
        must(network_.run(), "the history ends");
        for (auto& [token, attempt] : ledger_) {
            judge(attempt);
        }
        for (const Key& key : held_) {
            manager_of(key).destroy(key.second, network_.now);
        }
        must(network_.run(), "the clean-up ends");
        for (Node* node : {&network_.left, &network_.right}) {
            must(node->manager.live() == 0, "nothing is left");
            must(node->manager.next_deadline() == kNever, "no timer is left");
            must(node->manager.counters().dropped_malformed == 0, "every message is well-formed");
            must(node->manager.counters().dropped_busy == 0, "no answer is dropped");
        }
        return good_;
    }

    int established = 0, refused = 0, unreachable = 0;

  private:
    // A connection as one side knows it: the node's number and its id.
    using Key = std::pair<int, ConnectionId>;

    void must(bool holds, const char* what) {
        if (!holds) {
            std::printf("  broken: %s\n", what);
            good_ = false;
        }
    }

    int number_of(const Node& node) const { return &node == &network_.left ? 0 : 1; }
    ConnectionManager& manager_of(const Key& key) {
        return (key.first == 0 ? network_.left : network_.right).manager;
    }
    Side& side_of(const Key& key) {
        const auto& [token, passive] = whose_.at(key);
        return passive ? ledger_[token].passive : ledger_[token].active;
    }

    void attempt() {
        Node& node = random_.chance(0.5) ? network_.left : network_.right;
        const std::uint32_t token = ++tokens_;
        Attempt& attempt = ledger_[token];
        attempt.port = random_.chance(0.15) ? kShutPort : kOpenPort;
        attempt.active.exists = true;
        attempt.active.qpn = ++qpns_;
        std::array<std::uint8_t, 4> data{};
        std::memcpy(data.data(), &token, sizeof token);
        const auto id = node.manager.connect(
            {.local = node.where,
             .remote = network_.other(node).where,
             .service_id = wire::cm_service_id(wire::kPortSpaceTcp, attempt.port),
             .local_port = 1234,
             .qpn = attempt.active.qpn,
             .responder_resources = static_cast<std::uint8_t>(random_.below(20)),
             .initiator_depth = static_cast<std::uint8_t>(random_.below(20)),
             .timing = {.response_timeout = static_cast<std::uint8_t>(7 + random_.below(3)),
                        .packet_lifetime = 6,
                        .max_retries = static_cast<std::uint8_t>(random_.below(16)),
                        .give_up_after = random_.chance(0.2) ? (1 + random_.below(4000)) * kMicrosecond : 0},
             .private_data = data},
            network_.now);
        must(id.ok(), "connect");
        const Key key = {number_of(node), *id};
        whose_[key] = {token, false};
        held_.push_back(key);
        if (random_.chance(0.1)) {
            end_later(key);
        }
    }

    void take(Node& node, const Event& event) {
        const Key key = {number_of(node), event.id};
        if (event.type == EventType::kConnectRequest) {
            take_request(key, event);
            return;
        }
        must(whose_.contains(key), "an event belongs to somebody");
        Side& side = side_of(key);
        must(!side.destroyed, "no event after the end");
        switch (event.type) {
        case EventType::kConnectResponse:
            take_response(key);
            break;
        case EventType::kEstablished:
            must(whose_[key].second, "only the passive side is told");
            side.established++;
            end_later(key);
            break;
        case EventType::kRejected:
            side.rejected++;
            side.why = event.reason;
            std::memcpy(&side.data, event.private_data.data(), sizeof side.data);
            break;
        case EventType::kUnreachable:
            side.unreachable++;
            break;
        case EventType::kDisconnected:
            side.disconnected++;
            break;
        case EventType::kTimewaitExit:
            side.exits++;
            break;
        default:
            must(false, "a connection has no other events");
        }
    }

    void take_request(const Key& key, const Event& event) {
        std::uint32_t token = 0;
        std::memcpy(&token, event.private_data.data(), sizeof token);
        must(ledger_.contains(token), "the private data comes through");
        Attempt& attempt = ledger_[token];
        must(!attempt.passive.exists ||
                 (attempt.passive.established == 0 &&
                  (attempt.passive.ends() > 0 || attempt.passive.destroyed || attempt.passive.rejected_it)),
             "a request that lives isn't told of twice");
        must(attempt.port == kOpenPort, "who listens is asked");
        must(event.private_bytes == kIpRequestData && event.peer_port == 1234, "sizes and ports");
        attempt.requests++;
        attempt.passive = {};
        attempt.passive.exists = true;
        whose_[key] = {token, true};
        held_.push_back(key);
        if (random_.chance(0.1)) {
            return; // never answered
        }
        const Nanoseconds pause = random_.chance(0.3) ? random_.below(6000) * kMicrosecond : 0;
        network_.later(pause, [this, key, token] { answer(key, token); });
    }

    void answer(const Key& key, std::uint32_t token) {
        Side& side = ledger_[token].passive;
        if (side.destroyed || side.ends() > 0 || whose_.at(key).first != token) {
            return;
        }
        const std::uint32_t what = random_.below(10);
        if (what == 0) {
            destroy(key);
        } else if (what <= 2) {
            std::array<std::uint8_t, 4> data{};
            std::memcpy(data.data(), &token, sizeof token);
            side.rejected_it = manager_of(key).reject(key.second, reason::kConsumer, data, network_.now).ok();
        } else {
            side.qpn = ++qpns_;
            const bool done =
                manager_of(key)
                    .accept(key.second,
                            {.qpn = side.qpn,
                             .responder_resources = static_cast<std::uint8_t>(random_.below(20)),
                             .initiator_depth = static_cast<std::uint8_t>(random_.below(20)),
                             .private_data = {}},
                            network_.now)
                    .ok();
            must(done, "accept");
            const auto settings = manager_of(key).qp_settings(key.second);
            must(settings.ok(), "settings after accept");
            side.qp = *settings;
            if (random_.chance(0.05)) {
                end_later(key);
            }
        }
    }

    void take_response(const Key& key) {
        const auto settings = manager_of(key).qp_settings(key.second);
        must(settings.ok(), "settings with the answer");
        side_of(key).qp = *settings;
        const Nanoseconds pause = random_.chance(0.2) ? random_.below(4000) * kMicrosecond : 0;
        const bool refuse = random_.chance(0.05);
        network_.later(pause, [this, key, refuse] {
            Side& side = side_of(key);
            if (side.destroyed || side.ends() > 0) {
                return;
            }
            if (refuse) {
                side.rejected_it =
                    manager_of(key).reject(key.second, reason::kConsumer, {}, network_.now).ok();
            } else if (manager_of(key).ready(key.second).ok()) {
                side.established++;
                end_later(key);
            }
        });
    }

    void end_later(const Key& key) {
        const std::uint32_t how = random_.below(10);
        network_.later(random_.below(5000) * kMicrosecond, [this, key, how] {
            Side& side = side_of(key);
            if (side.destroyed) {
                return;
            }
            if (how == 0) {
                destroy(key);
            } else if (how <= 7) {
                const bool over = side.ends() > 0 || side.rejected_it;
                const bool done = manager_of(key).disconnect(key.second, network_.now).ok();
                must(done, "disconnect works, and does nothing after the end");
                side.asked_to_end = !over;
            }
        });
    }

    void destroy(const Key& key) {
        manager_of(key).destroy(key.second, network_.now);
        side_of(key).destroyed = true;
        must(!manager_of(key).qp_settings(key.second).ok(), "what is destroyed isn't found");
    }

    void judge_side(const Side& side) {
        must(side.established <= 1, "established once");
        must(side.ends() <= 1, "one end");
        must(side.ends() == 0 || !side.rejected_it, "who rejects hears no more");
        must(side.disconnected == 0 || side.established == 1 || side.asked_to_end || side.qp.dest_qpn != 0,
             "only what was, or was given up, is disconnected");
        must(side.rejected + side.unreachable == 0 || side.established == 0, "what was isn't rejected");
        const int exits = side.disconnected == 1 && side.established == 1 ? 1 : 0;
        must(side.exits == exits || (side.destroyed && side.exits == 0), "time-wait ends once");
    }

    void judge(const Attempt& attempt) {
        const Side& active = attempt.active;
        const Side& passive = attempt.passive;
        judge_side(active);
        judge_side(passive);
        must(active.ends() == 1 || active.established == 1 || active.destroyed || active.rejected_it ||
                 (!active.destroyed && passive.exists && passive.ends() == 0 && !faulty_),
             "the active side has a result");
        must(passive.established == 0 || active.established == 1, "the passive side waits for RTU");
        must(attempt.requests <= 1 || faulty_, "one request without faults");
        must(attempt.port == kOpenPort || active.established == 0, "nobody listens there");
        if (active.rejected == 1 && active.why == reason::kConsumer) {
            must(passive.rejected_it || passive.destroyed || passive.asked_to_end || attempt.requests > 1,
                 "somebody rejected it");
            must(!passive.rejected_it || active.data != kNobody, "with its data");
        }
        must(active.why != reason::kInvalidServiceId || attempt.port == kShutPort, "refused for its port");
        if (attempt.port == kShutPort && !faulty_ && active.rejected == 1) {
            must(active.why == reason::kInvalidServiceId, "the shut port says so");
        }
        if (active.established == 1 && passive.established == 1) {
            agree(active, passive);
        }
        established += active.established;
        refused += active.rejected;
        unreachable += active.unreachable;
    }

    void agree(const Side& a, const Side& b) {
        must(a.qp.dest_qpn == b.qpn && b.qp.dest_qpn == a.qpn, "each knows the other's queue pair");
        must(a.qp.send_psn == b.qp.recv_psn && b.qp.send_psn == a.qp.recv_psn, "sequence numbers cross");
        must(a.qp.max_rd_atomic <= b.qp.max_dest_rd_atomic && b.qp.max_rd_atomic <= a.qp.max_dest_rd_atomic,
             "depths cross");
        must(a.qp.path_mtu == b.qp.path_mtu, "one MTU");
        must(a.qp.remote == b.qp.local && a.qp.local == b.qp.remote, "addresses cross");
        must(a.qp.timeout > 0 && b.qp.timeout > 0, "both notice a dead peer");
    }

    Network network_;
    Random random_;
    bool faulty_;
    bool good_ = true;
    std::uint32_t tokens_ = 0;
    std::uint32_t qpns_ = 100;
    std::map<std::uint32_t, Attempt> ledger_;
    std::map<Key, std::pair<std::uint32_t, bool>> whose_; // token, and whether it is the passive side
    std::vector<Key> held_;
};

void run(const char* name, CmFaults (*faults_of)(Random&)) {
    int established = 0, refused = 0, unreachable = 0;
    for (std::uint64_t seed = first_history; seed < first_history + history_count; ++seed) {
        Random random(seed ^ 0x6661756c74);
        History history(seed, faults_of(random));
        if (!history.play()) {
            std::printf("%s: seed %llu is broken\n", name, static_cast<unsigned long long>(seed));
            fail();
        }
        established += history.established;
        refused += history.refused;
        unreachable += history.unreachable;
    }
    std::printf("%s: seeds %llu to %llu: %d established, %d rejected, %d unreachable\n", name,
                static_cast<unsigned long long>(first_history),
                static_cast<unsigned long long>(first_history + history_count - 1), established, refused,
                unreachable);
    assert_true(history_count < 100 || (established > 0 && refused > 0));
}

TEST(histories__good_network__as_the_programs_meant) {
    run("good", [](Random&) { return CmFaults{}; });
}

TEST(histories__bad_network__one_legal_end_each) {
    run("bad", [](Random& random) {
        return CmFaults{.loss = 0.01 * random.below(30),
                        .duplicate = 0.01 * random.below(30),
                        .reorder = 0.01 * random.below(50),
                        .corrupt = 0.01 * random.below(5)};
    });
}

TEST(histories__terrible_network__one_legal_end_each) {
    run("terrible", [](Random& random) {
        return CmFaults{
            .loss = 0.4 + 0.01 * random.below(50), .duplicate = 0.3, .reorder = 0.5, .corrupt = 0};
    });
}

} // namespace

int main(int argc, char** argv) {
    if (argc > 1) {
        history_count = std::strtoull(argv[1], nullptr, 10);
    }
    if (argc > 2) {
        history_count = 1;
        first_history = std::strtoull(argv[2], nullptr, 10);
    }
    return sluice::test::run_all_tests("roce.cm.histories");
}
