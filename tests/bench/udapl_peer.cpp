// SPDX-License-Identifier: BSD-3-Clause
//
// Our uDAPL against OpenFabrics' on the same rxe device: bench_udapl_peer [--json FILE] [--quick].
//
// Runs itself in the lab. The same program (udapl_transfers.c), compiled for each of the two, is counted by
// callgrind in two lengths; what the longer one costs more is the transfers, and nothing of what opening,
// connecting and loading cost. Each stands on its own: ours on our provider of rxe, theirs on rdma-core's.
// scripts/bench fetches the other one and compiles for it. The rows of RDMA are what OpenFabrics' dapltest
// measures as its performance, by sizes, segments and requests under way. It isn't counted itself: where it
// polls, it counts how slow the machine is.
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
    return {"LD_LIBRARY_PATH=" + in_build("udapl/provider"), own_folder() + "/bench_udapl_transfers", device};
}

// Its adapters stand in a dat.conf, with a network interface for each.
Contestant theirs(const std::string& netdev) {
    const std::string conf = std::filesystem::temp_directory_path() / "bench_udapl_peer.conf";
    std::ofstream(conf) << "peer u2.0 nonthreadsafe default " << own_folder()
                        << "/peer/libdaplofa.so.2 dapl.2.0 \"" << netdev << " 0\" \"\"\n";
    return {"LD_LIBRARY_PATH=" + own_folder() + "/peer DAT_OVERRIDE=" + conf,
            own_folder() + "/peer/udapl_transfers", "peer"};
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

// What both do: the program's arguments before the count, and behind it.
struct Work {
    std::string name;
    std::string mode;
    std::string rdma;
};

// Instructions in user space of one run. Zeros when they could not be counted.
Count count(const Contestant& contestant, const Work& work, int transfers) {
    std::string folder = std::filesystem::temp_directory_path() / "bench_udapl_peer.XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) {
        std::perror(folder.c_str());
        std::exit(1);
    }
    const std::string command =
        contestant.environment +
        " valgrind --tool=callgrind -q --separate-threads=yes --callgrind-out-file=" + folder + "/thread " +
        contestant.program + " " + contestant.adapter + " " + work.mode + " " + std::to_string(transfers) +
        " " + work.rdma + " 1>&2";
    Count counted;
    if (std::system(command.c_str()) == 0) {
        counted.caller = total_of(folder + "/thread-01");
        for (const auto& file : std::filesystem::directory_iterator(folder)) {
            counted.all += total_of(file.path());
        }
    }
    std::filesystem::remove_all(folder);
    return counted;
}

Count per_transfer(const Contestant& contestant, const Work& work, int transfers) {
    const Count once = count(contestant, work, transfers);
    const Count twice = count(contestant, work, 2 * transfers);
    if (once.caller <= 0 || twice.caller <= once.caller) {
        return {};
    }
    return {(twice.caller - once.caller) / transfers, (twice.all - once.all) / transfers};
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

// The other threads sleep until something happens that isn't a transfer. Ours looks ten times a second after
// queues of devices that don't tell of failures; how often that is per transfer, the clock decides.
void compare(sluice::bench::Report& report, const Contestant& our, const Contestant& their,
             const Work& work) {
    const int transfers = report.rounds(1200); // a dispatcher's lock is earned by 1024 calls (docs/adr/0006)
    const Count ours_counted = per_transfer(our, work, transfers);
    const Count theirs_counted = per_transfer(their, work, transfers);
    add(report, work.name, ours_counted.caller, theirs_counted.caller, sluice::bench::Goal::kAtMost);
    add(report, work.name + ", other threads too", ours_counted.all, theirs_counted.all,
        sluice::bench::Goal::kNone);
}

} // namespace

int main(int argc, char** argv) {
    if (!std::filesystem::exists(own_folder() + "/peer/udapl_transfers")) {
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
    for (const Work& work : {
             Work{"round trip of 64 bytes, events dequeued", "poll", ""},
             Work{"round trip of 64 bytes, events waited for", "wait", ""},
             Work{"Write of 4 bytes, events dequeued", "poll", "write 4 1 1"},
             Work{"Write of 4 bytes, events waited for", "wait", "write 4 1 1"},
             Work{"Write of 2 segments of 4 KiB, events waited for", "wait", "write 4096 2 1"},
             Work{"Write of 4 segments of 32 KiB, events waited for", "wait", "write 32768 4 1"},
             Work{"16 Writes of 2 segments of 64 KiB, events waited for", "wait", "write 65536 2 16"},
             Work{"Read of 32 KiB, events waited for", "wait", "read 32768 1 1"},
         }) {
        compare(report, our, their, work);
    }
    return report.finish();
}
