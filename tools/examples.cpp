// SPDX-License-Identifier: BSD-3-Clause
#include "tools/examples.hpp"

#include <algorithm>
#include <array>

namespace sluice::tools {

namespace {

struct Examples {
    std::string_view command;
    std::string_view lines;
};

constexpr std::array kExamples{
    Examples{"",
             "  sluice devices                        what is there\n"
             "  sluice doctor                         why something doesn't work\n"
             "  sluice run --pair -- ./ping {rank} {peer}\n"
             "                                        two programs, RDMA between them, no device needed\n"},
    Examples{"devices", "  sluice devices\n"
                        "  sluice devices --json | jq -r '.devices[].name'\n"},
    Examples{"info", "  sluice info uroce0\n"
                     "  sluice info uroce0 --json | jq '.devices[0].attributes.flush'\n"},
    Examples{"config", "  sluice config\n"
                       "  SLUICE_COHERENCE=simulated sluice config\n"},
    Examples{"doctor", "  sluice doctor\n"
                       "  sluice doctor -- ibv_devinfo          a program that finds no device\n"},
    Examples{"dat", "  sluice dat list\n"
                    "  sluice dat check                      why a name can't be opened\n"},
    Examples{"dat list", "  sluice dat list\n"
                         "  DAT_OVERRIDE=./dat.conf sluice dat list\n"},
    Examples{"dat check", "  sluice dat check\n"
                          "  sluice dat check uroce0\n"
                          "  sluice dat check 127.0.0.1            a device by its address\n"},
    Examples{"dat register", "  sudo sluice dat register uroce0 --name ia0\n"
                             "  sudo sluice dat register uroce0 --name ofa-v2-uroce --api 2\n"},
    Examples{"dat unregister", "  sudo sluice dat unregister ia0\n"
                               "  sudo sluice dat unregister ofa-v2-uroce --api 2\n"},
    Examples{"provider", "  sluice provider status\n"
                         "  sudo sluice provider enable\n"},
    Examples{"provider status", "  sluice provider status\n"},
    Examples{"provider enable", "  sudo sluice provider enable\n"},
    Examples{"provider disable", "  sudo sluice provider disable\n"},
    Examples{"uroce", "  sluice uroce dump trace.pcap\n"},
    Examples{"uroce dump", "  SLUICE_UROCE_PCAP=trace.pcap ./program; sluice uroce dump trace.pcap\n"
                           "  sluice uroce dump --html trace.pcap > trace.html\n"
                           "  tcpdump -i eth0 -w - udp port 4791 | sluice uroce dump -\n"},
    Examples{"stat", "  sluice stat\n"
                     "  sluice stat --pid $(pidof program) --json\n"
                     "  sluice stat --metrics                 for Prometheus\n"},
    Examples{"top", "  sluice top\n"
                    "  sluice top --once                     a table for a script\n"},
    Examples{"run", "  sluice run --device uroce -- ibv_devinfo\n"
                    "  sluice run --pair -- sh -c 'ib_write_bw -p {port} $([ {rank} = 0 ] || echo {peer})'\n"
                    "  sudo sluice run -- sh -c './test --listen $LAB_ADDR'\n"},
    Examples{"check", "  sluice check -- ./program\n"
                      "  sluice check --json - -- ./program\n"
                      "  sluice check --timeline t.html -- sluice sync run -- ./ring /dev/shm/ring\n"},
    Examples{"trace",
             "  sluice trace -- ./program             then open sluice-trace.json in ui.perfetto.dev\n"
             "  sluice trace --html trace.html -- ./program\n"
             "  sluice trace -o t.json -- sluice run --pair -- ./program {rank} {peer}\n"},
    Examples{"persist", "  sluice persist run --every-step --file db --check './read db' -- ./write db\n"},
    Examples{"persist run", "  sluice persist run --every-step --file db --check './read db' -- ./write db\n"
                            "  sluice persist run --seed 7 --cut 3 --file db -- ./write db\n"},
    Examples{"sync", "  sluice sync run -- ./ring /dev/shm/ring\n"},
    Examples{"sync run", "  sluice sync run -- ./ring produce /dev/shm/ring : ./ring consume /dev/shm/ring\n"
                         "  sluice sync run --hosts 3 --seed 17 -- ./ring {host} /dev/shm/ring\n"},
};

} // namespace

std::string examples_of(std::string_view command) {
    const auto* const found = std::ranges::find(kExamples, command, &Examples::command);
    return found == kExamples.end() ? "" : "Examples:\n" + std::string(found->lines);
}

} // namespace sluice::tools
