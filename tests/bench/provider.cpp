// SPDX-License-Identifier: BSD-3-Clause
//
// The rxe and siw providers against the stock ones: bench_provider [--json FILE] [--quick].
//
// Needs an rxe or siw device and valgrind. Without either it runs itself in the lab, once for each,
// where the kernel is emulated: absolute times mean nothing there.
//
// Instructions in user space are counted by callgrind around the calls alone, while nothing else
// happens: requests are posted, their completions waited for without looking, and then polled.
// Times are of the same calls in three processes that take turns: the stock provider, ours, and
// the stock one again, which shows what this machine can't tell apart.
#include <fcntl.h>
#include <sys/wait.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/bench/harness.hpp"
#include "tests/bench/in_lab.hpp"
#include "tests/bench/provider_datagrams.hpp"

namespace {

using sluice::bench::Datagrams;
using sluice::bench::die;
using sluice::bench::kBatch;
using sluice::bench::kTypes;
using sluice::bench::Loop;
using sluice::bench::own_path;

constexpr int kRounds = 32;

// A device of each type, empty where there is none.
std::array<std::string, kTypes.size()> devices_here() {
    std::array<std::string, kTypes.size()> found;
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    for (int i = 0; list != nullptr && i < count; ++i) {
        for (std::size_t type = 0; type < kTypes.size(); ++type) {
            if (std::string_view(ibv_get_device_name(list[i])).starts_with(kTypes[type])) {
                found[type] = ibv_get_device_name(list[i]);
            }
        }
    }
    if (list != nullptr) {
        ibv_free_device_list(list);
    }
    return found;
}

// The child: does everything that is measured kRounds times, for callgrind to count.
int act(const std::string& device, bool promise_one_thread) {
    Loop loop(device, promise_one_thread);
    for (int round = 0; round < kRounds; ++round) {
        loop.measure_poll_empty();
        loop.give_receives();
        loop.measure_post_one();
        loop.await_sends();
        loop.measure_poll_one();
        loop.give_receives();
        loop.measure_post_chain();
        loop.await_sends();
        loop.measure_poll_batch();
        if (loop.can_build()) {
            loop.give_receives();
            loop.measure_post_built();
            loop.await_sends();
            loop.drain_sends();
        }
    }
    return 0;
}

// As RDMAV_DRIVERS names it: each libibverbs puts an end of its own behind that.
std::string our_provider() {
    return sluice::bench::in_build("provider/libibverbs") + "/libsluice";
}

struct Measured {
    double one = 0; // a post and a poll
    double chain = 0;
    double built = 0; // 0 where nothing can be built
    double batch = 0;
    double empty = 0;
};

// What a function of Loop cost with all that it called, per request. FILE is callgrind's, without its
// compressions: below a function's name a line "position cost" for each of its own lines and calls.
double cost_of(const char* function, const std::string& file) {
    std::ifstream in(file);
    std::string line;
    bool inside = false;
    double cost = 0;
    while (std::getline(in, line)) {
        if (line.starts_with("fn=")) {
            inside = line.find(std::string("Loop::") + function + "(") != std::string::npos;
        } else if (inside && std::isdigit(static_cast<unsigned char>(line[0])) != 0) {
            cost += std::strtod(line.c_str() + line.find(' '), nullptr);
        }
    }
    return cost / kRounds / kBatch;
}

// User-space instructions per request. All 0 when they could not be counted.
Measured measure(const std::string& device, bool ours, bool promise_one_thread) {
    std::string file = std::filesystem::temp_directory_path() / "bench_provider.XXXXXX";
    const int descriptor = mkstemp(file.data());
    if (descriptor < 0) {
        die("make a file");
    }
    close(descriptor);
    const std::string command = (ours ? "RDMAV_DRIVERS=" + our_provider() : "env -u RDMAV_DRIVERS") +
                                " valgrind --tool=callgrind -q --compress-strings=no --compress-pos=no" +
                                " --toggle-collect='*Loop::measure_*' --callgrind-out-file=" + file + " " +
                                own_path() + " --act " + device +
                                (promise_one_thread ? " one-thread" : " locked") + " 1>&2";
    Measured measured;
    if (std::system(command.c_str()) == 0) {
        measured = {.one = cost_of("measure_post_one", file) + cost_of("measure_poll_one", file),
                    .chain = cost_of("measure_post_chain", file),
                    .built = cost_of("measure_post_built", file),
                    .batch = cost_of("measure_poll_batch", file),
                    .empty = cost_of("measure_poll_empty", file)};
    }
    std::filesystem::remove(file);
    return measured;
}

void compare(sluice::bench::Report& report, const std::string& name, double ours, double theirs,
             double goal) {
    sluice::bench::Figure figure;
    figure.name = name;
    figure.value = theirs > 0 ? ours / theirs : 0;
    figure.unit = "ratio";
    figure.kind = sluice::bench::Goal::kAtMost;
    figure.goal = goal;
    figure.ours = ours;
    figure.theirs = theirs;
    figure.compared_unit = "instructions";
    figure.points = sluice::bench::compared(
        {"Instructions in user space, per request", "instructions", "Sluice", "stock"}, 0, ours, theirs,
        goal * theirs);
    if (ours <= 0 || theirs <= 0) {
        figure.reason = "callgrind counted nothing";
    }
    report.add(std::move(figure));
}

// --- times ---

// One timed round of what WHAT names, in ns per request; each measured call stands alone.
double timed_round(Loop& loop, char what) {
    using sluice::bench::ticks;
    std::uint64_t total = 0;
    const auto timed = [&total](auto&& call) {
        const std::uint64_t start = ticks();
        call();
        total += ticks() - start;
    };
    if (what == 'e') {
        timed([&] { loop.measure_poll_empty(); });
    } else {
        loop.give_receives();
        const auto post = [&] {
            switch (what) {
            case 'c':
                return loop.measure_post_chain();
            case 's':
                return loop.measure_post_built();
            default:
                return loop.measure_post_one();
            }
        };
        const auto poll = [&] { what == 'b' ? loop.measure_poll_batch() : loop.measure_poll_one(); };
        what == 'b' || what == 'o' ? post() : timed(post);
        loop.await_sends();
        what == 'b' || what == 'o' ? timed(poll) : poll();
    }
    return static_cast<double>(total) * sluice::bench::ns_per_tick() / kBatch;
}

// The same of a poll of datagrams.
double timed_datagrams(Datagrams& datagrams) {
    datagrams.give();
    const std::uint64_t start = sluice::bench::ticks();
    datagrams.measure_poll_datagrams();
    return static_cast<double>(sluice::bench::ticks() - start) * sluice::bench::ns_per_tick() / kBatch;
}

// The child: a round for each byte that it reads.
int serve(const std::string& device, bool promise_one_thread) {
    Loop loop(device, promise_one_thread);
    std::unique_ptr<Datagrams> datagrams;
    char what = 0;
    while (read(STDIN_FILENO, &what, 1) == 1) {
        if (what == 'd' && datagrams == nullptr) {
            datagrams = std::make_unique<Datagrams>(device);
        }
        const double ns = what == 'd' ? timed_datagrams(*datagrams) : timed_round(loop, what);
        if (write(STDOUT_FILENO, &ns, sizeof ns) != sizeof ns) {
            return 1;
        }
    }
    return 0;
}

// siw's stock provider has no such queue pairs.
bool can_build(const std::string& type) {
    return type == "rxe";
}

class Server {
  public:
    Server(const std::string& device, bool ours, bool promise_one_thread) {
        std::array<int, 2> to{};
        std::array<int, 2> from{};
        if (pipe2(to.data(), O_CLOEXEC) != 0 || pipe2(from.data(), O_CLOEXEC) != 0 || (pid_ = fork()) < 0) {
            die("start a process");
        }
        if (pid_ == 0) {
            dup2(to[0], STDIN_FILENO);
            dup2(from[1], STDOUT_FILENO);
            if (ours) {
                setenv("RDMAV_DRIVERS", our_provider().c_str(), 1);
            } else {
                unsetenv("RDMAV_DRIVERS");
            }
            const std::string self = own_path();
            execl(self.c_str(), self.c_str(), "--serve", device.c_str(),
                  promise_one_thread ? "one-thread" : "locked", nullptr);
            _exit(127);
        }
        close(to[0]);
        close(from[1]);
        to_ = to[1];
        from_ = from[0];
    }
    ~Server() {
        close(to_);
        close(from_);
        waitpid(pid_, nullptr, 0);
    }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    double round(char what) const {
        double ns = 0;
        if (write(to_, &what, 1) != 1 || read(from_, &ns, sizeof ns) != sizeof ns) {
            die("time a round");
        }
        return ns;
    }

  private:
    pid_t pid_ = -1;
    int to_ = -1;
    int from_ = -1;
};

void compare_times(sluice::bench::Report& report, const std::string& device, const std::string& type,
                   bool promise_one_thread) {
    const Server stock(device, false, false);
    const Server ours(device, true, promise_one_thread);
    const Server again(device, false, false);
    const std::array<const Server*, 3> servers = {&stock, &ours, &again};
    struct Row {
        char what;
        const char* name;
        sluice::bench::Goal kind = sluice::bench::Goal::kAtMost;
    };
    std::vector<Row> rows = {{'p', "time of a post"},
                             {'o', "time of a poll of one"},
                             {'c', "time of a chain of 16, per request"},
                             {'b', "time of a poll of 16, per completion"},
                             {'e', "time of an empty poll"}};
    if (can_build(type)) {
        rows.push_back({'s', "time of 16 built by ibv_wr_start(), per request"});
    }
    if (type == "rxe" && !promise_one_thread) {
        // Ours says of each whether IPv4 or IPv6 carried it, for which it looks into its memory.
        rows.push_back(
            {'d', "time of a poll of 16 datagrams received, per datagram", sluice::bench::Goal::kNone});
    }
    for (const Row& row : rows) {
        std::array<std::vector<double>, 3> samples;
        for (int round = 0; round < report.rounds(60); ++round) {
            for (std::size_t turn = 0; turn < servers.size(); ++turn) {
                const std::size_t who = (turn + static_cast<std::size_t>(round)) % servers.size();
                samples[who].push_back(servers[who]->round(row.what));
            }
        }
        std::array<double, 3> medians{};
        std::ranges::transform(samples, medians.begin(), sluice::bench::median);
        sluice::bench::Figure figure;
        figure.name = type + ": " + row.name + (promise_one_thread ? ", one thread promised" : "");
        figure.ours = medians[1];
        figure.theirs = (medians[0] + medians[2]) / 2;
        figure.value = *figure.ours / *figure.theirs;
        figure.unit = "ratio";
        figure.kind = row.kind;
        figure.goal = 1.0;
        figure.noise = std::abs(medians[0] - medians[2]) / std::max(medians[0], medians[2]);
        figure.points = sluice::bench::compared({"Time, per request", "ns", "Sluice", "stock"}, 0,
                                                *figure.ours, *figure.theirs, figure.goal * *figure.theirs);
        report.add(std::move(figure));
    }
}

// What a program gains that builds its requests by calls of their own, and rings one doorbell.
void compare_doorbells(sluice::bench::Report& report, const std::string& device, const std::string& type) {
    const Server ours(device, true, false);
    std::vector<double> one;
    std::vector<double> built;
    for (int round = 0; round < report.rounds(60); ++round) {
        one.push_back(ours.round('p'));
        built.push_back(ours.round('s'));
    }
    sluice::bench::Figure figure;
    figure.name = type + ": time of 16 built by ibv_wr_start(), against 16 posts";
    figure.ours = sluice::bench::median(built);
    figure.theirs = sluice::bench::median(one);
    figure.value = *figure.ours / *figure.theirs;
    figure.unit = "ratio";
    figure.kind = sluice::bench::Goal::kAtMost;
    figure.goal = 1.0;
    report.add(std::move(figure));
}

void compare_on(sluice::bench::Report& report, const std::string& device, const std::string& type) {
    const Measured stock = measure(device, false, false);
    const Measured ours = measure(device, true, false);
    const Measured promised = measure(device, true, true);
    const auto row = [&](const char* name, double our, double their, double goal) {
        compare(report, type + ": " + name, our, their, goal);
    };
    const bool rxe = type == "rxe";
    row("post and poll of a 64-byte send", ours.one, stock.one, rxe ? 0.65 : 0.8);
    row("post and poll of a 64-byte send, one thread promised", promised.one, stock.one, rxe ? 0.6 : 0.8);
    row("chain of 16, per request", ours.chain, stock.chain, 1.0);
    row("chain of 16, per request, one thread promised", promised.chain, stock.chain, 1.0);
    if (can_build(type)) {
        row("16 built by ibv_wr_start(), per request", ours.built, stock.built, 1.0);
    }
    row("poll of 16, per completion", ours.batch, stock.batch, 0.7);
    row("poll of 16, per completion, one thread promised", promised.batch, stock.batch, 0.7);
    row("empty poll", ours.empty, stock.empty, 0.5);
    compare_times(report, device, type, false);
    compare_times(report, device, type, true);
    if (can_build(type)) {
        compare_doorbells(report, device, type);
    }
}

} // namespace

int main(int argc, char** argv) {
    if (argc == 4 && std::strcmp(argv[1], "--act") == 0) {
        return act(argv[2], std::strcmp(argv[3], "one-thread") == 0);
    }
    if (argc == 4 && std::strcmp(argv[1], "--serve") == 0) {
        return serve(argv[2], std::strcmp(argv[3], "one-thread") == 0);
    }
    const auto devices = devices_here();
    if (std::ranges::all_of(devices, [](const std::string& device) { return device.empty(); })) {
        return sluice::bench::run_in_lab(kTypes, argc, argv);
    }
    sluice::bench::Report report("provider: user-space instructions and times against the stock providers",
                                 argc, argv);
    for (std::size_t type = 0; type < kTypes.size(); ++type) {
        if (!devices[type].empty()) {
            compare_on(report, devices[type], std::string(kTypes[type]));
        }
    }
    return report.finish();
}
