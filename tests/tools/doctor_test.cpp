// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice doctor`: each set-up is broken in a shell, named, and cured by the command that is printed.
#include "tests/tools/patient.hpp"

using namespace sluice::test;

namespace {

TEST(healthy_machine__without_devices_of_the_kernel__nothing_found) {
    Patient patient;
    if (!patient.can_live()) {
        skip();
    }
    const Json findings = patient.examine();
    assert_string_equal(patient.status().c_str(), "0\n");
    for (const Json& finding : findings) {
        assert_true(finding["verdict"] == "ok");
        assert_true(finding["remedy"].is_null() && finding["by"].is_null());
    }
    assert_false(find_finding(findings, "uroce", "ok", "uroce0 (127.0.0.1) opens").is_null());
}

TEST(text__of_every_line__fits_80_columns_and_has_no_escapes) {
    Patient patient;
    if (!patient.can_live()) {
        skip();
    }
    const std::string text = patient.say("export SLUICE_UROCE_FAULTS=junk; sluice doctor");
    assert_contains(text, "problem  uroce");
    assert_contains(text, "\n    unset SLUICE_UROCE_FAULTS\n");
    assert_contains(text, "\n1 problem, ");
    assert_lacks(text, "\x1b");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        assert_true(line.size() <= 80);
    }
}

// docker0 without a container is no reason to worry.
TEST(network__bridge_without_a_port_that_is_up__is_ok) {
    Patient patient;
    if (!patient.can_live()) {
        skip();
    }
    const std::string said = patient.say(
        "ip link add br0 type bridge && ip address add 10.0.0.1/24 dev br0 && ip link set br0 up && "
        "ip link add eth0 type veth peer name eth1 && ip link set eth0 master br0 && "
        "until ip link show br0 | grep -q NO-CARRIER; do :; done");
    if (!said.empty()) {
        print_message("no bridge can be made here: %s", said.c_str());
        skip();
    }
    const Json findings = patient.examine();
    assert_false(find_finding(findings, "network", "ok", "br0 is a bridge").is_null());
    assert_string_equal(patient.status().c_str(), "0\n");
}

SET_UP(limits__16_descriptors__named_and_cured, {"ulimit -S -n 16", "limits", "problem", "may open 16 files"})
SET_UP(limits__no_file_size__named_and_cured, {"ulimit -S -f 0", "limits", "problem", "write files of 0 KiB"})

SET_UP(settings__huge_pages_neither_yes_nor_no__named_and_cured,
       {"export SLUICE_DAT_HUGE_PAGES=maybe", "settings", "problem", "SLUICE_DAT_HUGE_PAGES is 'maybe'"})
SET_UP(settings__sync_check_neither_yes_nor_no__named_and_cured,
       {"export SLUICE_SYNC_CHECK=1", "settings", "problem", "SLUICE_SYNC_CHECK is '1'"})
SET_UP(settings__unknown_coherence__named_and_cured,
       {"export SLUICE_COHERENCE=perhaps", "settings", "problem", "'perhaps'"})
SET_UP(settings__simulated_coherence__named_and_cured,
       {"export SLUICE_COHERENCE=simulated", "settings", "warning", "simulated"})
SET_UP(settings__counters_in_no_directory__named_and_cured,
       {"export SLUICE_UROCE_COUNTERS=$HOME/none/of/it", "settings", "warning", "no directory"})
SET_UP(settings__injected_faults__named_and_cured,
       {"export SLUICE_UROCE_FAULTS=drop=1%", "settings", "warning", "inject faults"})

SET_UP(uroce__unknown_log_level__named_and_cured,
       {"export SLUICE_LOG=loud", "uroce", "warning", "SLUICE_LOG: 'loud'"})
SET_UP(uroce__unknown_guard__named_and_cured, {"export SLUICE_UROCE_GUARD=dog", "uroce", "problem", "'dog'"})
SET_UP(uroce__unknown_neighbours__named_and_cured,
       {"export SLUICE_UROCE_NEIGHBOURS=all", "uroce", "problem", "SLUICE_UROCE_NEIGHBOURS is 'all'"})
SET_UP(uroce__silence_in_words__named_and_cured,
       {"export SLUICE_UROCE_SILENCE=long", "uroce", "problem", "SLUICE_UROCE_SILENCE is 'long'"})
SET_UP(uroce__recording_to_no_directory__named_and_cured,
       {"export SLUICE_UROCE_PCAP=$HOME/none/trace.pcap", "uroce", "problem", "SLUICE_UROCE_PCAP"})
SET_UP(uroce__interface_that_is_none__named_and_cured,
       {"export SLUICE_UROCE=eth9", "uroce", "problem", "no interface \"eth9\""})
SET_UP(uroce__address_of_no_interface__named_and_cured,
       {"export SLUICE_UROCE=uroce0=10.9.9.9", "uroce", "problem", "uroce0 (10.9.9.9): no interface"})
SET_UP(network__loopback_down__named_and_cured,
       {"ip link set lo down", "network", "warning", "lo has an address and is down"})
SET_UP(uroce__loopback_without_its_address__named_and_cured,
       {"ip address delete 127.0.0.1/8 dev lo", "uroce", "problem", "uroce0 (127.0.0.1): no interface"})

SET_UP(settings__file_with_an_impossible_value__named_and_cured,
       {"mkdir /etc/sluice; printf 'claim = siw\ncoherence = maybe\n' >/etc/sluice/sluice.conf", "settings",
        "problem", "/etc/sluice/sluice.conf:2: 'maybe'"})
SET_UP(uroce__file_with_an_address_of_no_interface__named_and_cured,
       {"mkdir /etc/sluice; printf '[device uroce0]\naddress = 10.9.9.9\n' >/etc/sluice/sluice.conf", "uroce",
        "problem", "uroce0 (10.9.9.9): no interface"})
SET_UP(uroce__port_of_another_program__named_and_cured,
       {"coproc '" TEST_HOLDER "' 127.0.0.1; read -ru ${COPROC[0]}", "uroce", "problem",
        "UDP port 4791 is in use by process", "", "wait"})

SET_UP(network__interface_down__named_and_cured, {"ip link add eth0 type veth peer name eth1 && ip address "
                                                  "add 10.0.0.1/24 dev eth0 && ip link set eth1 up",
                                                  "network", "warning", "eth0 has an address and is down"})
// The kernel tells of a carrier a moment after it has come or gone.
SET_UP(network__no_carrier__named_and_cured, {"ip link add eth0 type veth peer name eth1 && ip address add "
                                              "10.0.0.1/24 dev eth0 && ip link set eth0 up && "
                                              "until ip link show eth0 | grep -q NO-CARRIER; do :; done",
                                              "network", "warning", "eth0 is up and has no carrier", "",
                                              "while ip link show eth0 | grep -q NO-CARRIER; do :; done"})
SET_UP(uroce__mtu_too_small__named_and_cured, {"ip link add eth0 type veth peer name eth1 && ip address add "
                                               "10.0.0.1/24 dev eth0 && ip link set eth1 up; "
                                               "ip link set eth0 mtu 200 up",
                                               "uroce", "problem", "the MTU of eth0 is too small"})

SET_UP(loader__preloaded_library_that_is_not_there__named_and_cured,
       {"export LD_PRELOAD=/none/libnone.so", "loader", "warning", "LD_PRELOAD names /none/libnone.so"})
SET_UP(loader__another_libibverbs_that_is_none__named_and_cured,
       {"mkdir lib; echo >lib/libibverbs.so.1; export LD_LIBRARY_PATH=$HOME/lib", "loader", "problem",
        "lib/libibverbs.so.1, which can't be loaded"})
SET_UP(loader__no_directory_for_devices__named_and_cured,
       {"unset TMPDIR XDG_RUNTIME_DIR; for d in /tmp /dev/shm; do mount --rbind $d $d; mount -o "
        "remount,bind,ro $d; "
        "done",
        "loader", "problem", "none of $XDG_RUNTIME_DIR"})

SET_UP(same_host__by_packets_only__named_and_cured, {"export SLUICE_UROCE_NEIGHBOURS=packets", "same-host",
                                                     "warning", "SLUICE_UROCE_NEIGHBOURS is packets"})
SET_UP(same_host__packets_recorded__named_and_cured,
       {"export SLUICE_UROCE_PCAP=$HOME/trace.pcap", "same-host", "warning", "SLUICE_UROCE_PCAP is set"})
SET_UP(same_host__yama_for_root_only__named_and_cured,
       {"mkdir -p m/proc/sys/kernel/yama; echo 2 >m/proc/sys/kernel/yama/ptrace_scope", "same-host",
        "warning", "kernel.yama.ptrace_scope is 2", "--root m"})

SET_UP(clock__read_from_a_device__named_and_cured,
       {"d=m/sys/devices/system/clocksource/clocksource0; mkdir -p $d; echo hpet >$d/current_clocksource; "
        "echo hpet acpi_pm tsc >$d/available_clocksource",
        "clock", "warning", "the clock source is hpet", "--root m"})

SET_UP(providers__enabled_and_not_installed__named_and_cured,
       {"sluice provider enable --force", "providers", "warning", "can't load sluice"})
SET_UP(providers__driver_without_a_file__named_and_cured,
       {"printf '# one\ndriver none\n' >/etc/libibverbs.d/none.driver", "providers", "warning",
        "/etc/libibverbs.d/none.driver:2: libibverbs can't load none"})
SET_UP(providers__line_that_is_none__named_and_cured,
       {"echo drivr mlx5 >/etc/libibverbs.d/wrong.driver", "providers", "warning", "warns of this line"})
SET_UP(providers__asked_for_by_rdmav_drivers_and_missing__named_and_cured,
       {"export RDMAV_DRIVERS=none", "providers", "problem", "RDMAV_DRIVERS asks for none"})
SET_UP(providers__asked_for_by_ibv_drivers_and_missing__named_and_cured,
       {"export IBV_DRIVERS='none;other'", "providers", "problem", "IBV_DRIVERS asks for none"})
SET_UP(providers__sysfs_elsewhere__named_and_cured,
       {"export SYSFS_PATH=$HOME", "providers", "problem", "SYSFS_PATH is"})
SET_UP(providers__built_for_another_interface__named_and_cured,
       {"d=$(dirname $(echo /usr/lib*/*/libibverbs/librxe-rdmav*.so)) && cp -r $d plugins && "
        "sed -i 's/IBVERBS_PRIVATE_[0-9][0-9]/IBVERBS_PRIVATE_11/' plugins/librxe-rdmav*.so && "
        "mount --bind plugins $d",
        "providers", "warning", "was built for the private interface 11"})

SET_UP(dat__override_that_is_not_there__named_and_cured,
       {"export DAT_OVERRIDE=$HOME/none.conf", "dat", "problem", "none.conf"})
SET_UP(dat__line_that_is_none__named_and_cured,
       {"printf '# one\nia0 u1.2 threadsafe\n' >/etc/dat.conf", "dat", "problem", "/etc/dat.conf:2"})
SET_UP(dat__library_that_is_not_there__named_and_cured,
       {"echo 'ia0 u1.2 threadsafe default libnone.so.1 none.1.0 \"\" \"\"' >/etc/dat.conf", "dat", "problem",
        "'ia0' can't be opened: libnone.so.1"})
SET_UP(dat__library_that_is_no_library__named_and_cured,
       {"echo \"ia0 u1.2 threadsafe default $HOME/etc/passwd none.1.0 '' ''\" | tr \"'\" '\"' >/etc/dat.conf",
        "dat", "problem", "'ia0' can't be opened"})
SET_UP(dat__device_that_is_not_there__named_and_cured,
       {"mkdir -p m/etc; echo 'ia0 u1.2 threadsafe default libdapl-sluice.so.1 s.1 \"rxe7\" \"\"' "
        ">m/etc/dat.conf",
        "dat", "problem", "names the device rxe7", "--root m"})

TEST(coherence__unknown__named_and_cured) {
    const Machine machine("arm64-acpi");
    name_and_cure({"", "coherence", "warning", "whether efa_0 sees the CPU's caches is unknown",
                   "--root " + machine.root()});
}

} // namespace

int main() {
    return run_all_tests();
}
