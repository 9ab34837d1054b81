// SPDX-License-Identifier: BSD-3-Clause
//
// Traffic of all kinds over uroce between processes that are killed and stopped, for as long as somebody
// wants: every byte and every completion is compared with a ledger. scripts/soak runs it, and its --help says
// the rest.
//
//     soak [--seconds N] [--seed S] [--lanes N] [--step K] [--shared] [--program COMMAND]...
//
// This process opens no device. It starts the lanes' leaders, looks whether they get on, and counts.
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "tests/loopback.hpp"
#include "tests/soak/failure.hpp"
#include "tests/soak/lane.hpp"
#include "tests/soak/step.hpp"

namespace sluice::test::soak {
namespace {

constexpr unsigned kMostFailures = 10;
constexpr auto kLongestStep = std::chrono::seconds(400);

struct Wanted {
    std::uint64_t seconds = 60;
    std::uint64_t seed = 0;
    unsigned lanes = 4;
    std::uint64_t step = 0;
    bool is_one_step = false;
    bool is_shared = false;  // all lanes at the same two addresses
    bool is_spoiled = false; // one byte of each step, for the test that this is seen
    std::vector<std::string> programs{};
};

using Number = unsigned long long;

volatile sig_atomic_t signals = 0;

class Soak {
  public:
    explicit Soak(const Wanted& wanted) : wanted_(wanted), lanes_(wanted.is_one_step ? 1 : wanted.lanes) {
        void* const memory =
            mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            fail_with_errno("mmap");
        }
        shared_ = new (memory) Shared;
        near_ = two_addresses();
    }

    int run() {
        for (unsigned i = 0; i < lanes_; ++i) {
            plans_.push_back(plan());
            shared_->lanes[i].step = wanted_.is_one_step ? wanted_.step : i;
            start(i);
        }
        await_all_ready();
        shared_->may_begin = 1;
        while (running_ > 0) {
            (void)poll(nullptr, 0, 100);
            reap();
            look_for_hangs();
            tell_progress();
            if (must_end()) {
                shared_->must_end = 1;
            }
        }
        summarize();
        return failures_ == 0 ? 0 : 1;
    }

  private:
    struct Running {
        pid_t pid = -1;
        std::uint64_t step = 0;
        Clock::time_point since{};
    };

    static std::array<std::string, 2> two_addresses() {
        return {Loopback::instance().next_address(), Loopback::instance().next_address()};
    }
    LanePlan plan() const {
        return {.seed = wanted_.seed,
                .stride = lanes_,
                .is_one_step = wanted_.is_one_step,
                .is_spoiled = wanted_.is_spoiled,
                .addresses = {.near = wanted_.is_shared ? near_ : two_addresses(), .far = two_addresses()},
                .programs = wanted_.programs};
    }
    void start(unsigned lane) {
        const pid_t pid = fork();
        if (pid < 0) {
            fail_with_errno("fork");
        }
        if (pid == 0) {
            lead(plans_[lane], *shared_, shared_->lanes[lane]);
        }
        running_lanes_[lane] = {.pid = pid, .step = shared_->lanes[lane].step, .since = Clock::now()};
        ++running_;
    }
    // A process that is stopped alone at an address keeps others out of it: nobody is stopped before all are
    // there.
    void await_all_ready() {
        Patience patience(std::chrono::seconds(60), "the lanes don't open their devices");
        for (unsigned i = 0; i < lanes_; ++i) {
            while (shared_->lanes[i].is_ready == 0) {
                patience.look();
                (void)poll(nullptr, 0, 1);
            }
        }
    }
    bool must_end() const {
        return signals > 0 || failures_ >= kMostFailures ||
               (!wanted_.is_one_step && Clock::now() - began_ > std::chrono::seconds(wanted_.seconds));
    }
    void reap() {
        for (unsigned i = 0; i < lanes_; ++i) {
            int status = 0;
            if (running_lanes_[i].pid <= 0 || waitpid(running_lanes_[i].pid, &status, WNOHANG) <= 0) {
                continue;
            }
            running_lanes_[i].pid = -1;
            --running_;
            if (status != 0) {
                report(i, status);
            }
        }
    }
    void report(unsigned lane, int status) {
        const std::uint64_t step = shared_->lanes[lane].step;
        ++failures_;
        if (WIFSIGNALED(status)) {
            std::fprintf(stderr, "soak: step %llu, leader: ended by signal %d\n", static_cast<Number>(step),
                         WTERMSIG(status));
        }
        std::fprintf(stderr, "soak: FAILED in step %llu of seed %llu: %s\n", static_cast<Number>(step),
                     static_cast<Number>(wanted_.seed), describe(drawn(step)).c_str());
        std::fprintf(stderr, "soak: this step alone: scripts/soak --seed %llu --step %llu\n",
                     static_cast<Number>(wanted_.seed), static_cast<Number>(step));
        std::fprintf(stderr, "soak: beside the same others: scripts/soak --seed %llu --lanes %u%s\n",
                     static_cast<Number>(wanted_.seed), lanes_, wanted_.is_shared ? " --shared" : "");
        if (!wanted_.is_one_step && !must_end()) {
            shared_->lanes[lane].step += lanes_;
            start(lane);
        }
    }
    Step drawn(std::uint64_t step) const { return draw_step(wanted_.seed, step, !wanted_.programs.empty()); }
    // Its partner and what it has started end with it.
    void look_for_hangs() {
        for (unsigned i = 0; i < lanes_; ++i) {
            Running& lane = running_lanes_[i];
            const std::uint64_t step = shared_->lanes[i].step;
            if (step != lane.step) {
                lane.step = step;
                lane.since = Clock::now();
            } else if (lane.pid > 0 && Clock::now() - lane.since > kLongestStep) {
                std::fprintf(stderr, "soak: step %llu hangs\n", static_cast<Number>(step));
                (void)kill(lane.pid, SIGKILL);
                lane.since = Clock::now();
            }
        }
    }
    template<typename Member>
    Number sum(Member member) const {
        Number together = 0;
        for (unsigned i = 0; i < lanes_; ++i) {
            together += (shared_->lanes[i].*member).load();
        }
        return together;
    }
    void tell_progress() {
        const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began_).count();
        const bool is_terminal = isatty(1) != 0;
        if (elapsed < told_ + (is_terminal ? 1 : 30) || running_ == 0) {
            return;
        }
        told_ = elapsed;
        std::printf(
            "%s  %lld s: %llu steps, %llu operations, %llu MiB, %llu kills, %llu stops, %u failures%s",
            is_terminal ? "\r\033[K" : "", static_cast<long long>(elapsed), sum(&LaneRecord::steps),
            sum(&LaneRecord::operations), sum(&LaneRecord::bytes) >> 20, sum(&LaneRecord::kills),
            sum(&LaneRecord::stops), failures_, is_terminal ? "" : "\n");
        (void)std::fflush(stdout);
    }
    // Whether a lane's leader has at the end more than in its first steps. Each process that it
    // knows costs some descriptors and maps.
    bool has_grown(const LaneRecord& lane) const {
        constexpr std::uint64_t kKib = 4096; // an allocator's fragments
        constexpr std::uint64_t kSecondsPerKib = 4;
        const std::uint64_t descriptors = 8 + 4 * lanes_;
        const std::uint64_t maps = 16 + 8 * lanes_;
        const std::uint64_t more_kib = kKib + wanted_.seconds / kSecondsPerKib;
        return lane.last.descriptors > lane.first.descriptors + descriptors ||
               lane.last.maps > lane.first.maps + maps || lane.last.threads > lane.first.threads + 2 ||
               lane.last.anonymous_kib > lane.first.anonymous_kib + more_kib;
    }
    void tell_resources() {
        for (unsigned i = 0; i < lanes_; ++i) {
            const LaneRecord& lane = shared_->lanes[i];
            if (lane.measured < 2) {
                std::printf("  lane %u: %llu steps, too few to tell whether it grows\n", i,
                            static_cast<Number>(lane.steps));
                continue;
            }
            std::printf("  lane %u: descriptors %llu to %llu, maps %llu to %llu, threads %llu to %llu, "
                        "memory %llu to "
                        "%llu KiB\n",
                        i, static_cast<Number>(lane.first.descriptors),
                        static_cast<Number>(lane.last.descriptors), static_cast<Number>(lane.first.maps),
                        static_cast<Number>(lane.last.maps), static_cast<Number>(lane.first.threads),
                        static_cast<Number>(lane.last.threads), static_cast<Number>(lane.first.anonymous_kib),
                        static_cast<Number>(lane.last.anonymous_kib));
            if (has_grown(lane)) {
                ++failures_;
                std::fprintf(stderr, "soak: FAILED: what lane %u has of them grows from step to step\n", i);
            }
        }
    }
    void summarize() {
        std::uint64_t slowest = 0;
        for (unsigned i = 0; i < lanes_; ++i) {
            slowest = std::max<std::uint64_t>(slowest, shared_->lanes[i].slowest_report_us);
        }
        const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began_).count();
        if (isatty(1) != 0) {
            std::printf("\r\033[K");
        }
        tell_resources();
        std::printf("soak: seed %llu, %lld s, %llu steps (%llu with faults), %llu operations, %llu MiB, %llu "
                    "messages, "
                    "%llu datagrams, %llu connections, %llu refused, %llu programs, %llu stops, %llu kills, "
                    "slowest report of a death %.1f ms, %u failures\n",
                    static_cast<Number>(wanted_.seed), static_cast<long long>(elapsed),
                    sum(&LaneRecord::steps), sum(&LaneRecord::faulty_steps), sum(&LaneRecord::operations),
                    sum(&LaneRecord::bytes) >> 20, sum(&LaneRecord::messages), sum(&LaneRecord::datagrams),
                    sum(&LaneRecord::connections), sum(&LaneRecord::refusals), sum(&LaneRecord::programs),
                    sum(&LaneRecord::stops), sum(&LaneRecord::kills), static_cast<double>(slowest) / 1000,
                    failures_);
    }

    const Wanted& wanted_;
    const unsigned lanes_;
    Shared* shared_ = nullptr;
    std::array<std::string, 2> near_{};
    std::vector<LanePlan> plans_{};
    std::array<Running, kMaxLanes> running_lanes_{};
    unsigned running_ = 0;
    unsigned failures_ = 0;
    long long told_ = 0;
    Clock::time_point began_ = Clock::now();
};

std::uint64_t number_or_die(const char* option, const char* text, std::uint64_t most) {
    char* end = nullptr;
    const std::uint64_t number = std::strtoull(text, &end, 10);
    if (end == text || *end != '\0' || *text == '-' || number > most) {
        std::fprintf(stderr, "soak: --%s needs a number up to %llu, not '%s'\n", option,
                     static_cast<Number>(most), text);
        std::exit(2);
    }
    return number;
}

Wanted read_command_line(int argc, char** argv) {
    Wanted wanted;
    wanted.seed = std::random_device{}();
    constexpr option kOptions[] = {{"seconds", required_argument, nullptr, 's'},
                                   {"seed", required_argument, nullptr, 'r'},
                                   {"lanes", required_argument, nullptr, 'l'},
                                   {"step", required_argument, nullptr, 'k'},
                                   {"program", required_argument, nullptr, 'p'},
                                   {"shared", no_argument, nullptr, 'a'},
                                   {"spoil", no_argument, nullptr, 'x'},
                                   {"partner", required_argument, nullptr, 'f'},
                                   {nullptr, 0, nullptr, 0}};
    constexpr std::uint64_t kMostSeconds = 31'536'000;
    for (int said = 0; (said = getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
        switch (said) {
        case 's':
            wanted.seconds = number_or_die("seconds", optarg, kMostSeconds);
            break;
        case 'r':
            wanted.seed = number_or_die("seed", optarg, UINT64_MAX);
            break;
        case 'l':
            wanted.lanes = static_cast<unsigned>(number_or_die("lanes", optarg, kMaxLanes));
            break;
        case 'k':
            wanted.step = number_or_die("step", optarg, UINT64_MAX);
            wanted.is_one_step = true;
            break;
        case 'p':
            wanted.programs.emplace_back(optarg);
            break;
        case 'a':
            wanted.is_shared = true;
            break;
        case 'x':
            wanted.is_spoiled = true;
            break;
        case 'f':
            accompany(static_cast<int>(number_or_die("partner", optarg, INT32_MAX)));
        default:
            std::exit(2);
        }
    }
    if (optind != argc || wanted.lanes == 0) {
        std::fprintf(stderr,
                     "soak: no argument without an option is known, and there is at least one lane\n");
        std::exit(2);
    }
    return wanted;
}

} // namespace
} // namespace sluice::test::soak

int main(int argc, char** argv) {
    using namespace sluice::test::soak;
    const Wanted wanted = read_command_line(argc, argv);
    for (const int number : {SIGINT, SIGTERM}) {
        struct sigaction action {};
        action.sa_handler = [](int) { signals = signals + 1; };
        (void)sigaction(number, &action, nullptr);
    }
    std::printf("soak: seed %llu, %u lanes of two processes\n", static_cast<Number>(wanted.seed),
                wanted.is_one_step ? 1 : wanted.lanes);
    if (wanted.is_one_step) {
        std::printf("soak: step %llu: %s\n", static_cast<Number>(wanted.step),
                    describe(draw_step(wanted.seed, wanted.step, !wanted.programs.empty())).c_str());
    }
    (void)std::fflush(stdout);
    return Soak(wanted).run();
}
