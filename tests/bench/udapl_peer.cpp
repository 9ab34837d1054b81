// SPDX-License-Identifier: BSD-3-Clause
//
// Our uDAPL against OpenFabrics' on the same rxe device: bench_udapl_peer [--json FILE] [--quick].
//
// Runs itself in the lab. The same program (udapl_round_trips.c), compiled for each of the two, is counted by
// callgrind in two lengths; what the longer one costs more is the round trips, and nothing of what opening,
// connecting and loading cost. Each stands on its own: ours on our provider of rxe, theirs on rdma-core's.
// scripts/bench fetches the other one and compiles for it.
#include <cstring>
#include <filesystem>

#include "tests/bench/harness.hpp"
#include "tests/bench/in_lab.hpp"

namespace {

using sluice::bench::in_build;
using sluice::bench::own_folder;

struct Contestant {
    std::string environment;
    std::string program;
    std::string adapter;
};

Contestant ours(const std::string& device) {
    return {"LD_LIBRARY_PATH=" + in_build("udapl/provider"), own_folder() + "/bench_udapl_round_trips",
            device};
}

// Its adapters stand in a dat.conf, with a network interface for each.
Contestant theirs(const std::string& netdev) {
    const std::string conf = std::filesystem::temp_directory_path() / "bench_udapl_peer.conf";
    std::ofstream(conf) << "peer u2.0 nonthreadsafe default " << own_folder()
                        << "/peer/libdaplofa.so.2 dapl.2.0 \"" << netdev << " 0\" \"\"\n";
    return {"LD_LIBRARY_PATH=" + own_folder() + "/peer DAT_OVERRIDE=" + conf,
            own_folder() + "/peer/udapl_round_trips", "peer"};
}

struct Count {
    double caller = 0; // the thread that calls DAT
    double all = 0;
};

// What callgrind wrote into FILE, which is of one thread.
double total_of(const std::filesystem::path& file) {
    std::ifstream in(file);
    std::string line;
    while (std::getline(in, line)) {
        if (line.starts_with("totals: ")) {
            return std::strtod(line.c_str() + std::strlen("totals: "), nullptr);
        }
    }
    return 0;
}

// Instructions in user space of one run. Zeros when they could not be counted.
Count count(const Contestant& who, const char* mode, int round_trips) {
    std::string work = std::filesystem::temp_directory_path() / "bench_udapl_peer.XXXXXX";
    if (mkdtemp(work.data()) == nullptr) {
        std::perror(work.c_str());
        std::exit(1);
    }
    const std::string command =
        who.environment +
        " valgrind --tool=callgrind -q --separate-threads=yes --callgrind-out-file=" + work + "/thread " +
        who.program + " " + who.adapter + " " + mode + " " + std::to_string(round_trips) + " 1>&2";
    Count counted;
    if (std::system(command.c_str()) == 0) {
        counted.caller = total_of(work + "/thread-01");
        for (const auto& file : std::filesystem::directory_iterator(work)) {
            counted.all += total_of(file.path());
        }
    }
    std::filesystem::remove_all(work);
    return counted;
}

Count per_round_trip(const Contestant& who, const char* mode, int round_trips) {
    const Count once = count(who, mode, round_trips);
    const Count twice = count(who, mode, 2 * round_trips);
    if (once.caller <= 0 || twice.caller <= once.caller) {
        return {};
    }
    return {(twice.caller - once.caller) / round_trips, (twice.all - once.all) / round_trips};
}

void add(sluice::bench::Report& report, const std::string& name, double our, double their,
         sluice::bench::Goal kind) {
    sluice::bench::Figure figure;
    figure.name = name;
    figure.ours = our;
    figure.theirs = their;
    figure.value = their > 0 ? our / their : 0;
    figure.unit = "ratio";
    figure.kind = kind;
    figure.goal = 0.7;
    figure.compared_unit = "instructions";
    if (our <= 0 || their <= 0) {
        figure.reason = "callgrind counted nothing";
    }
    report.add(std::move(figure));
}

// The other threads sleep until something happens that isn't a round trip. Ours looks ten times a second
// after queues of devices that don't tell of failures; how often that is per round trip, the clock decides.
void compare(sluice::bench::Report& report, const Contestant& our, const Contestant& their, const char* mode,
             const std::string& name) {
    const int round_trips =
        report.rounds(1200); // a dispatcher's lock is earned by 1024 calls (docs/adr/0006)
    const Count ours_counted = per_round_trip(our, mode, round_trips);
    const Count theirs_counted = per_round_trip(their, mode, round_trips);
    add(report, name, ours_counted.caller, theirs_counted.caller, sluice::bench::Goal::kAtMost);
    add(report, name + ", other threads too", ours_counted.all, theirs_counted.all,
        sluice::bench::Goal::kNone);
}

} // namespace

int main(int argc, char** argv) {
    if (!std::filesystem::exists(own_folder() + "/peer/udapl_round_trips")) {
        std::fprintf(stderr, "bench_udapl_peer: %s/peer isn't there; run scripts/bench udapl_peer\n",
                     own_folder().c_str());
        return 3;
    }
    const char* const device = std::getenv("LAB_DEVICE");
    const char* const netdev = std::getenv("LAB_NETDEV");
    if (device == nullptr || netdev == nullptr) {
        constexpr std::array<std::string_view, 1> kType = {"rxe"};
        return sluice::bench::run_in_lab(kType, argc, argv);
    }
    sluice::bench::Report report("udapl_peer: user-space instructions against OpenFabrics' uDAPL", argc,
                                 argv);
    const Contestant our = ours(device);
    const Contestant their = theirs(netdev);
    compare(report, our, their, "poll", "round trip of 64 bytes, events dequeued");
    compare(report, our, their, "wait", "round trip of 64 bytes, events waited for");
    return report.finish();
}
