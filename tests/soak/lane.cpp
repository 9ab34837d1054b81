// SPDX-License-Identifier: BSD-3-Clause
#include "tests/soak/lane.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "tests/soak/partner.hpp"
#include "tests/soak/traffic.hpp"

namespace sluice::test::soak {

namespace {

// A death is reported within this time on one host (docs/reliability.md).
constexpr std::chrono::milliseconds kReport{1000};

using AddressText = std::array<char, 64>;

AddressText text_of(const std::string& text) {
    AddressText made{};
    text.copy(made.data(), made.size() - 1);
    return made;
}

// What the leader tells its partner before each step.
struct Order {
    std::uint64_t seed = 0;
    std::uint64_t number = 0;
    AddressText near[2]{}; // for its first step
    AddressText own{};     // of the step
    AddressText leader{};
};

// Devices that a process has from its first step to its last, so that steps find them as a program of days
// has them.
class KeptDevices {
  public:
    void keep(const std::string& address) {
        devices_.push_back(std::make_unique<OpenDevice>(address, false, ""));
    }
    bool empty() const { return devices_.empty(); }

  private:
    std::vector<std::unique_ptr<OpenDevice>> devices_{};
};

// One side's part of a step.
class Part {
  public:
    Part(const Step& step, bool is_leader, const std::string& address, const Talk& talk)
        : step_(step), is_leader_(is_leader), talk_(talk),
          endpoint_(step, address, is_leader ? step.faults : step.partner_faults) {}

    struct Hooks {
        // As Traffic::Watch, in the last round.
        Traffic::Watch watch;
        std::chrono::microseconds* report_time = nullptr;
        bool spoils = false;
    };
    // Whether the peer still lives.
    bool run(const Hooks& hooks, const std::string& peer_address) {
        for (unsigned round = 0; round < step_.rounds; ++round) {
            const bool is_last = round + 1 == step_.rounds;
            const Hooks without{.watch = [](const std::uint64_t*) { return Traffic::Peer::kThere; }};
            endpoint_.make_queue_pairs();
            const bool is_alive = run_round(round, is_last ? hooks : without, peer_address);
            endpoint_.destroy_queue_pairs();
            if (!is_alive) {
                return false;
            }
            talk_.meet('n');
        }
        return true;
    }
    const Totals& totals() const { return totals_; }

  private:
    Card card(const Ports& ports) const {
        Card made{};
        must_be_zero(ibv_query_gid(endpoint_.device.get(), 1, 0, &made.gid), "ibv_query_gid");
        made.block = endpoint_.block.address();
        made.rkey = endpoint_.mr->rkey;
        made.datagrams = endpoint_.datagrams != nullptr ? endpoint_.datagrams->qp_num : 0;
        made.ports = ports;
        return made;
    }
    void connect(Connections& connections, Traffic& traffic, const std::string& peer_address) {
        const bool is_active = is_leader_ == step_.leader_connects;
        talk_.tell(card(is_active ? Ports{} : connections.listen()));
        const auto peer = talk_.hear<Card>();
        traffic.set_peer(peer);
        if (is_active) {
            connections.connect_all(peer_address, peer.ports);
            if (step_.with_datagrams && connections.datagrams_of_peer() != peer.datagrams) {
                fail("rdma_cm tells of the datagram service 0x%x, which is 0x%x",
                     connections.datagrams_of_peer(), peer.datagrams);
            }
        } else {
            connections.accept_all();
        }
        talk_.meet('c');
    }
    bool run_round(unsigned round, const Hooks& hooks, const std::string& peer_address) {
        const std::uint64_t key = mix(step_.seed, round);
        place().round = round;
        place().doing = "connecting";
        Traffic traffic(endpoint_, mix(key, is_leader_ ? 1 : 2), mix(key, is_leader_ ? 2 : 1));
        Connections connections(endpoint_, key, [&](unsigned i) { traffic.post_receives(i); });
        connect(connections, traffic, peer_address);
        place().doing = "exchanging";
        const Traffic::Result result = traffic.run(connections, talk_, hooks.watch);
        if (hooks.spoils) {
            *endpoint_.block.at(target_at(0)) ^= 1;
        }
        add(traffic.totals());
        place().doing = "ending";
        if (result == Traffic::Result::kPeerIsDead) {
            connections.allow_end(ECONNRESET);
            *hooks.report_time = traffic.await_death(connections, kReport);
            return false;
        }
        traffic.compare();
        talk_.meet('d');
        connections.allow_end(0);
        if (is_leader_ == step_.leader_disconnects) {
            connections.disconnect_all();
        }
        traffic.await_end(connections);
        talk_.meet('e');
        return true;
    }
    void add(const Totals& more) {
        totals_.operations += more.operations;
        totals_.bytes += more.bytes;
        totals_.datagrams += more.datagrams;
        totals_.messages += more.messages;
    }

    const Step& step_;
    const bool is_leader_;
    const Talk& talk_;
    Endpoint endpoint_;
    Totals totals_{};
};

void end_with_parent() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGINT, SIG_IGN); // a terminal sends it to all; the one that has started us says when to end
    (void)signal(SIGPIPE, SIG_IGN);
}

struct Run {
    int status = -1;
    std::string said{}; // on both of its streams
};

Run run_in_shell(std::string command) {
    const int out = memfd_create("said", MFD_CLOEXEC);
    posix_spawn_file_actions_t streams;
    must_be_zero(posix_spawn_file_actions_init(&streams), "posix_spawn_file_actions_init");
    must_be_zero(posix_spawn_file_actions_adddup2(&streams, out, STDOUT_FILENO), "standard output");
    must_be_zero(posix_spawn_file_actions_adddup2(&streams, out, STDERR_FILENO), "standard error");
    std::string shell = "/bin/sh";
    std::string option = "-c";
    char* const arguments[] = {shell.data(), option.data(), command.data(), nullptr};
    pid_t pid = -1;
    must_be_zero(posix_spawn(&pid, shell.c_str(), &streams, nullptr, arguments, environ), "posix_spawn");
    posix_spawn_file_actions_destroy(&streams);
    Run run;
    if (waitpid(pid, &run.status, 0) != pid) {
        fail_with_errno("waitpid");
    }
    constexpr std::size_t kMost = 16384;
    run.said.resize(kMost);
    run.said.resize(static_cast<std::size_t>(std::max<ssize_t>(pread(out, run.said.data(), kMost, 0), 0)));
    close(out);
    return run;
}

class Leader {
  public:
    Leader(const LanePlan& plan, LaneRecord& record) : plan_(plan), record_(record) {
        for (const std::string& address : plan.addresses.near) {
            devices_.keep(address);
        }
    }

    void run_step(const Step& step) {
        place().step = step.number;
        if (step.work == Work::kProgram) {
            run_program(plan_.programs[step.program % plan_.programs.size()]);
            return;
        }
        if (partner_ == nullptr) {
            partner_ = std::make_unique<Partner>();
        }
        const Talk talk = partner_->talk();
        talk.tell(Order{.seed = plan_.seed,
                        .number = step.number,
                        .near = {text_of(plan_.addresses.near[0]), text_of(plan_.addresses.near[1])},
                        .own = text_of(address_of(step, 1)),
                        .leader = text_of(address_of(step, 0))});
        run_traffic(step, talk);
    }
    void tell_partners_end() {
        if (partner_ != nullptr) {
            partner_->tell_end();
        }
    }
    void let_partner_go() { partner_.reset(); }

  private:
    const std::string& address_of(const Step& step, unsigned side) const {
        const auto& pair = step.is_fresh ? plan_.addresses.far : plan_.addresses.near;
        return pair[step.is_one_address ? 0 : side];
    }
    void run_traffic(const Step& step, const Talk& talk) {
        std::chrono::microseconds report_time{};
        Stop stop(step.event_at, step.stop_ms);
        const auto watch = [&](const std::uint64_t* operation) { return on_look(step, stop, operation); };
        Part part(step, true, address_of(step, 0), talk);
        const bool is_alive = part.run({watch, &report_time, plan_.is_spoiled}, address_of(step, 1));
        if (is_alive) {
            count(talk.hear<Totals>());
            talk.tell('k');
        } else {
            partner_.reset();
            record_.slowest_report_us = std::max<std::uint64_t>(
                record_.slowest_report_us, static_cast<std::uint64_t>(report_time.count()));
        }
        count(part.totals());
        record_.connections += std::uint64_t{step.connections} * step.rounds;
        record_.refusals += std::uint64_t{step.refused} * step.rounds;
        record_.faulty_steps += step.way == Way::kFaults ? 1 : 0;
        record_.stops += step.event == Event::kPartnerStopped || step.event == Event::kLeaderStopped ? 1 : 0;
    }
    Traffic::Peer on_look(const Step& step, Stop& stop, const std::uint64_t* operation) {
        if (step.event == Event::kPartnerStopped) {
            stop.look(operation, [&](bool begins) { begins ? partner_->stop() : partner_->go_on(); });
        }
        if (step.event == Event::kPartnerKilled && operation != nullptr && *operation == step.event_at) {
            partner_->kill();
            ++record_.kills;
        }
        if (!partner_->is_alive()) {
            return Traffic::Peer::kDead;
        }
        return stop.is_stopped() ? Traffic::Peer::kStopped : Traffic::Peer::kThere;
    }
    void count(const Totals& more) {
        record_.operations += more.operations;
        record_.bytes += more.bytes;
        record_.messages += more.messages;
        record_.datagrams += more.datagrams;
    }
    void run_program(const std::string& command) {
        const auto [status, said] = run_in_shell(command);
        if (status != 0) {
            std::fprintf(stderr, "%s", said.c_str());
            fail("'%s' ends with status 0x%x", command.c_str(), static_cast<unsigned>(status));
        }
        ++record_.programs;
    }

    const LanePlan& plan_;
    LaneRecord& record_;
    KeptDevices devices_;
    std::unique_ptr<Partner> partner_;
};

Leader* the_leader = nullptr;

// Growth is looked for behind the first steps, in which a process allocates what it keeps, and comes to know
// the others.
constexpr std::uint64_t kWarmUp = 30;

void measure(LaneRecord& record) {
    malloc_trim(0);
    const Resources now = measure_resources();
    if (record.steps > kWarmUp) {
        record.last = now;
        record.measured = 2;
        return;
    }
    record.measured = 1;
    record.first = {.descriptors = std::max(record.first.descriptors, now.descriptors),
                    .maps = std::max(record.first.maps, now.maps),
                    .anonymous_kib = std::max(record.first.anonymous_kib, now.anonymous_kib),
                    .threads = std::max(record.first.threads, now.threads)};
}

} // namespace

Resources measure_resources() {
    Resources measured;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        ++measured.descriptors;
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        ++measured.maps;
    }
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        if (word == "RssAnon:") {
            status >> measured.anonymous_kib;
        } else if (word == "Threads:") {
            status >> measured.threads;
        }
    }
    return measured;
}

void lead(const LanePlan& plan, Shared& shared, LaneRecord& record) {
    end_with_parent();
    place() = {.role = "leader", .step = record.step, .let_go = nullptr};
    Leader leader(plan, record);
    the_leader = &leader;
    place().let_go = [] { the_leader->tell_partners_end(); };
    record.is_ready = 1;
    while (shared.may_begin == 0) {
        (void)poll(nullptr, 0, 1);
    }
    while (shared.must_end == 0) {
        leader.run_step(draw_step(plan.seed, record.step, !plan.programs.empty()));
        ++record.steps;
        record.step += plan.stride;
        measure(record);
        if (plan.is_one_step) {
            break;
        }
    }
    leader.let_partner_go();
    _exit(0);
}

void accompany(int fd) {
    end_with_parent();
    const pid_t leader = getppid();
    static pid_t stopped_leader = 0;
    place() = {.role = "partner", .step = 0, .let_go = [] {
                   if (stopped_leader != 0) {
                       (void)kill(stopped_leader, SIGCONT);
                   }
               }};
    const Talk talk(fd);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    KeptDevices devices;
    for (;;) {
        const auto order = talk.hear_or_end<Order>();
        if (!order) {
            _exit(0);
        }
        const Step step = draw_step(order->seed, order->number, false);
        place().step = step.number;
        if (devices.empty()) {
            devices.keep(order->near[0].data());
            devices.keep(order->near[1].data());
        }
        Stop stop(step.event_at, step.stop_ms);
        const auto watch = [&](const std::uint64_t* operation) {
            if (step.event == Event::kLeaderStopped) {
                stop.look(operation, [&](bool begins) {
                    stopped_leader = begins ? leader : 0;
                    must_be_zero(kill(leader, begins ? SIGSTOP : SIGCONT), "stopping the leader");
                });
            }
            return stop.is_stopped() ? Traffic::Peer::kStopped : Traffic::Peer::kThere;
        };
        std::chrono::microseconds unused{};
        Part part(step, false, order->own.data(), talk);
        (void)part.run({watch, &unused}, order->leader.data());
        talk.tell(part.totals());
        (void)talk.hear<char>();
    }
}

} // namespace sluice::test::soak
