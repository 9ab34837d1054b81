// SPDX-License-Identifier: BSD-3-Clause
//
// Many small histories of two connected queue pairs, each made from a seed: what both ask of each
// other, and how bad the network is. At the end every byte of both memories and every completion
// must be what the ledger says. In every other history both are processes of one machine, and execute on each
// other's memory what may be done so.
//
//     simulation_test [COUNT [FIRST-SEED]]    so many seeds
//     simulation_test --trace SEED            one, with every packet
//
// A failure prints its seed.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/unit/roce/near_hosts.hpp"
#include "tests/unit/roce/planner.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::test;

namespace {

constexpr std::size_t kBlockBytes = kRoomAt + 524288;

struct Totals {
    std::uint64_t histories = 0, packets = 0, requests = 0, gave_up = 0, refusal_lost = 0, with_faults = 0,
                  by_design = 0, direct = 0, through_memory = 0;
    std::uint64_t timeouts = 0, rewinds = 0, duplicates = 0, rnr = 0, gaps = 0, damaged = 0, strays = 0;
};

void fill(std::vector<std::uint8_t>& bytes, Random& random) {
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
        const std::uint64_t word = random.next();
        std::memcpy(bytes.data() + i, &word, 8);
    }
}

Faults random_faults(Random& random) {
    switch (random.below(5)) {
    case 0:
        return {};
    case 1:
        return {.loss = 0.01, .duplicate = 0.01, .reorder = 0.01, .corrupt = 0.005};
    case 2:
        return {.loss = 0.05, .duplicate = 0.05, .reorder = 0.1, .corrupt = 0.02};
    case 3:
        return {.reorder = 0.3};
    default:
        return {.loss = 0.12, .duplicate = 0.1, .reorder = 0.2, .corrupt = 0.03};
    }
}

// One history.
class History {
  public:
    History(std::uint64_t seed, bool trace)
        : random_(seed), faults_(random_faults(random_)), near_(seed % 2 == 0 ? new NearHosts : nullptr),
          simulation_(seed, faults_, near_ != nullptr ? near_->both : std::array<Neighbourhood*, 2>{}),
          hosts_{&simulation_.left, &simulation_.right} {
        simulation_.trace = trace;
        if (near_ != nullptr) {
            near_->introduce(simulation_);
        }
    }

    // What is wrong, or nothing.
    std::string run(Totals& totals) {
        set_up();
        make_plans();
        std::string wrong = play();
        count(totals);
        return wrong.empty() ? judge(totals) : wrong;
    }

  private:
    void set_up() {
        static constexpr std::uint32_t kMtus[] = {256, 256, 256, 512, 512, 1024, 2048, 4096};
        QpAttributes attributes = usual_attributes();
        attributes.path_mtu = kMtus[random_.below(8)];
        attributes.send_psn = attributes.recv_psn =
            random_.chance(0.5) ? 0xffffff - random_.below(20) : random_.below(0x1000000);
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic =
            static_cast<std::uint8_t>(1 + random_.below(8));
        attributes.min_rnr_timer = static_cast<std::uint8_t>(1 + random_.below(12));
        mtu_ = attributes.path_mtu;
        for (const Side side : {kLeft, kRight}) {
            Block& block = blocks_[side];
            block.bytes.resize(kBlockBytes);
            block.unknown.resize(kBlockBytes);
            fill(block.bytes, random_);
            block.truth = block.bytes;
            block.used = kRoomAt;
            hosts_[side]->memory.make_hole(block.addr(kHoleAt), kHoleBytes);
        }
        std::array<QpConfig, 2> configs = {usual_config(*hosts_[0]), usual_config(*hosts_[1])};
        for (const Side side : {kLeft, kRight}) {
            configs[side].max_send_wr = 1 + random_.below(16);
            configs[side].max_recv_wr = 1 + random_.below(16);
            with_srq_[side] = random_.chance(0.25);
            if (with_srq_[side]) {
                srqs_[side] = std::make_unique<ReceiveQueue>(configs[side].max_recv_wr, 4);
                configs[side].srq = srqs_[side].get();
            }
        }
        const Pair pair = connect(simulation_, attributes, configs[0], configs[1]);
        qps_ = {pair.left, pair.right};
        for (const Side side : {kLeft, kRight}) {
            register_keys(side);
        }
    }

    void register_keys(Side side) {
        RegionTable& regions = hosts_[side]->engine.regions();
        Block& block = blocks_[side];
        Keys& keys = keys_[side];
        keys.all = hosts_[side]->add(block.bytes, kLocalWrite);
        const std::uint64_t target = block.addr(kTargetAt);
        keys.target =
            *regions.add_region(Host::kPd, target, target, kRoomAt - kTargetAt,
                                kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kMwBindAllowed);
        keys.read_only = *regions.add_region(Host::kPd, target, target, kTargetBytes,
                                             kRemoteRead | kFlushGlobal | kFlushPersistent);
        for (std::uint32_t& window : keys.windows) {
            const std::uint32_t fresh = *regions.add_window(Host::kPd, WindowType::kType2);
            window = fresh ^ 1;
            const MwBind bind = {fresh, window, keys.target, target, kTargetBytes, kRemoteWrite};
            if (!regions.bind(bind, Host::kPd, qps_[side]->qpn())) {
                std::abort();
            }
        }
        keys.own_window = *regions.add_window(Host::kPd, WindowType::kType1);
    }

    void make_plans() {
        plans_[kLeft].sender = kLeft;
        plans_[kRight].sender = kRight;
        const bool fails = random_.chance(0.3) && !with_srq_[kRight];
        const std::uint32_t most = mtu_ <= 512 ? 16 : 8;
        Planner left(random_, blocks_, plans_[kLeft], keys_, mtu_);
        left.add_requests(1 + random_.below(most));
        flushes_[kRight] = left.flushes();
        if (fails) {
            const auto failure = static_cast<Failure>(1 + random_.below(kFailures - 1));
            local_failure_ = failure == Failure::kWrongLocalKey || failure == Failure::kUnmappedSource;
            left.add_failure(failure);
            left.add_requests(random_.below(4));
        } else if (random_.chance(0.7)) {
            Planner right(random_, blocks_, plans_[kRight], keys_, mtu_);
            right.add_requests(1 + random_.below(most));
            flushes_[kLeft] = right.flushes();
        }
    }

    std::string play() {
        const std::uint32_t rings_at = random_.below(2) * random_.below(60);
        for (std::uint32_t steps = 0; steps < 200000; ++steps) {
            if (near_ != nullptr && steps == rings_at) {
                near_->give_rings(simulation_);
            }
            const bool alive = simulation_.step();
            bool moved = false;
            for (const Side side : {kLeft, kRight}) {
                moved |= (!alive || random_.chance(0.2)) && post_send(side);
                moved |= (!alive || random_.chance(0.2)) && post_receive(side);
                poll(side);
            }
            if (!alive && !moved) {
                return {};
            }
        }
        return "it never ends";
    }

    bool post_send(Side side) {
        Plan& plan = plans_[side];
        if (next_send_[side] == plan.entries.size()) {
            return false;
        }
        Entry& entry = plan.entries[next_send_[side]];
        entry.wr.sges = entry.sges;
        if (qps_[side]->post_send(entry.wr) != Post::kPosted) {
            return false;
        }
        ++next_send_[side];
        hosts_[side]->engine.posted(*qps_[side]);
        return true;
    }

    // SIDE receives what the other one plans.
    bool post_receive(Side side) {
        Plan& plan = plans_[side == kLeft ? kRight : kLeft];
        if (next_receive_[side] == plan.receives.size()) {
            return false;
        }
        const PostedReceive& receive = plan.receives[next_receive_[side]];
        const RecvWr wr = {receive.wr_id, receive.sges};
        const Post posted = with_srq_[side] ? srqs_[side]->post(wr) : qps_[side]->post_receive(wr);
        next_receive_[side] += posted == Post::kPosted ? 1 : 0;
        return posted == Post::kPosted;
    }

    void poll(Side side) {
        Completion completion;
        while (hosts_[side]->send_cq.poll(completion)) {
            outcomes_[side].sends.push_back(completion);
        }
        while (hosts_[side]->recv_cq.poll(completion)) {
            outcomes_[side].receives.push_back(completion);
        }
    }

    std::string judge(Totals& totals) {
        bool any_gave_up = false;
        Ledger ledgers[2] = {Ledger(blocks_), Ledger(blocks_)};
        const bool somebody_died = qps_[0]->state() == QpState::kError || qps_[1]->state() == QpState::kError;
        for (const Side side : {kLeft, kRight}) {
            const bool peer_may_fail = somebody_died && !plans_[kLeft].fails;
            std::string wrong =
                ledgers[side].check_sends(plans_[side], outcomes_[side].sends, faults_.any(), peer_may_fail);
            if (!wrong.empty()) {
                return (side == kLeft ? "left: " : "right: ") + wrong;
            }
            any_gave_up |= ledgers[side].gave_up();
        }
        (plans_[kLeft].fails ? totals.refusal_lost : totals.gave_up) += any_gave_up ? 1 : 0;
        for (const Side side : {kLeft, kRight}) {
            const Side receiver = side == kLeft ? kRight : kLeft;
            const bool flushed = qps_[receiver]->state() == QpState::kError && !with_srq_[receiver];
            std::string wrong =
                ledgers[side].check_receives(plans_[side], outcomes_[receiver].receives, flushed);
            if (!wrong.empty()) {
                return (receiver == kLeft ? "left: " : "right: ") + wrong;
            }
            ledgers[side].settle(plans_[side]);
        }
        if (!any_gave_up) {
            std::string wrong = check_states();
            if (!wrong.empty()) {
                return wrong;
            }
        }
        return ledgers[kLeft].check_memory();
    }

    std::string check_states() const {
        const bool fails = plans_[kLeft].fails;
        const QpState left = fails ? QpState::kError : QpState::kReadyToSend;
        const QpState right = fails && !local_failure_ ? QpState::kError : QpState::kReadyToSend;
        if (qps_[0]->state() != left || qps_[1]->state() != right) {
            return "a queue pair is in the wrong state";
        }
        for (const Side side : {kLeft, kRight}) {
            if (hosts_[side]->memory.flushes != flushes_[side] && !fails) {
                return "memory was flushed " + std::to_string(hosts_[side]->memory.flushes) + " times, not " +
                       std::to_string(flushes_[side]);
            }
        }
        return {};
    }

    void count(Totals& totals) const {
        ++totals.histories;
        totals.packets += simulation_.packets;
        totals.damaged += simulation_.damaged_and_noticed;
        totals.with_faults += faults_.any() ? 1 : 0;
        totals.by_design += plans_[kLeft].fails ? 1 : 0;
        totals.requests += plans_[0].entries.size() + plans_[1].entries.size();
        if (near_ != nullptr) {
            totals.through_memory += simulation_.packets_through_memory;
            totals.direct += near_->left_counters.requests + near_->right_counters.requests;
        }
        for (const Host* host : hosts_) {
            const Counters& counters = host->engine.counters();
            totals.timeouts += counters.timeouts;
            totals.rewinds += counters.rewinds;
            totals.duplicates += counters.duplicates;
            totals.rnr += counters.rnr_naks_in;
            totals.gaps += counters.out_of_sequence;
            totals.strays += counters.stray_responses;
        }
    }

    Random random_;
    Faults faults_;
    std::unique_ptr<NearHosts> near_; // null: two machines
    Simulation simulation_;
    std::array<Host*, 2> hosts_;
    std::array<Block, 2> blocks_;
    std::array<Keys, 2> keys_;
    std::array<Plan, 2> plans_;
    std::array<QueuePair*, 2> qps_{};
    std::array<bool, 2> with_srq_{};
    std::array<std::unique_ptr<ReceiveQueue>, 2> srqs_;
    std::array<Outcome, 2> outcomes_;
    std::array<std::size_t, 2> next_send_{};
    std::array<std::size_t, 2> next_receive_{};
    std::array<std::uint64_t, 2> flushes_{};
    std::uint32_t mtu_ = 0;
    bool local_failure_ = false;
};

bool play(std::uint64_t seed, bool trace, Totals& totals) {
    auto history = std::make_unique<History>(seed, trace);
    const std::string wrong = history->run(totals);
    if (!wrong.empty()) {
        std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), wrong.c_str());
        std::printf("again, with every packet: simulation_test --trace %llu\n",
                    static_cast<unsigned long long>(seed));
    }
    return wrong.empty();
}

void print(const Totals& t) {
    const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf("%llu histories, %llu with a bad network, %llu with a failure by design\n",
                number(t.histories), number(t.with_faults), number(t.by_design));
    std::printf(
        "%llu requests, %llu of them direct, %llu packets, %llu through memory, %llu damaged and noticed\n",
        number(t.requests), number(t.direct), number(t.packets), number(t.through_memory), number(t.damaged));
    std::printf(
        "%llu timeouts, %llu rewinds, %llu duplicate requests, %llu gaps, %llu RNR, %llu stray responses\n",
        number(t.timeouts), number(t.rewinds), number(t.duplicates), number(t.gaps), number(t.rnr),
        number(t.strays));
    std::printf("%llu gave up because the network was too bad, %llu because it lost the refusal\n",
                number(t.gave_up), number(t.refusal_lost));
}

int run(int argc, char** argv) {
    Totals totals;
    if (argc == 3 && std::string(argv[1]) == "--trace") {
        return play(std::strtoull(argv[2], nullptr, 0), true, totals) ? 0 : 1;
    }
    const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 1000;
    const std::uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1;
    int failures = 0;
    for (std::uint64_t seed = first; seed < first + count && failures < 10; ++seed) {
        failures += play(seed, false, totals) ? 0 : 1;
    }
    print(totals);
    // A ledger that forgives too often proves nothing.
    return failures == 0 && (count < 100 || (totals.direct != 0 && totals.through_memory != 0)) &&
                   totals.gave_up * 200 <= totals.histories && totals.refusal_lost * 50 <= totals.histories
               ? 0
               : 1;
}

} // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
