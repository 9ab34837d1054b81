// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice doctor` on machines whose kernel has RDMA devices, made of files.
#include <sys/syscall.h>

#include "tests/sandbox.hpp"
#include "tests/tools/patient.hpp"

using namespace sluice::test;

namespace {

constexpr const char* kPort = "/sys/class/infiniband/rxe0/ports/1";

// With a device rxe0 that works, made on eth0.
void add_rxe(const Machine& machine) {
    const std::string port = kPort;
    machine.write("/sys/class/infiniband/rxe0/node_type", "1: CA\n");
    machine.write(port + "/state", "4: ACTIVE\n");
    machine.write(port + "/link_layer", "Ethernet\n");
    machine.write(port + "/gids/0", "fe80:0000:0000:0000:0000:00ff:fe00:0001\n");
    machine.write(port + "/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
    machine.write(port + "/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n");
    for (const char* number : {"0", "1", "2"}) {
        machine.write(port + "/gid_attrs/types/" + number, "RoCE v2\n");
        machine.write(port + "/gid_attrs/ndevs/" + number, "eth0\n");
    }
    machine.write("/sys/class/infiniband_verbs/uverbs0/ibdev", "rxe0\n");
    machine.write("/dev/infiniband/uverbs0", "");
    machine.write("/dev/infiniband/rdma_cm", "");
}

Json findings_of(const Machine& machine, int status) {
    const Ran ran = run({"--root", machine.root(), "doctor", "--json"});
    assert_status(ran, status);
    return json_of(ran)["findings"];
}

// The finding about the kernel with FACT in it, which has to be there.
Json finding_of(const Machine& machine, int status, const char* verdict, const char* fact) {
    const Json findings = findings_of(machine, status);
    Json found = find_finding(findings, "kernel", verdict, fact);
    if (found.is_null()) {
        fail_msg("'%s' is not in: %s", fact, findings.dump(1).c_str());
    }
    return found;
}

TEST(kernel__device_that_works__index_of_its_gid_is_told) {
    const Machine machine;
    add_rxe(machine);
    finding_of(machine, 0, "ok", "rxe0 port 1: GID index 1 is RoCEv2; programs without rdma_cm want -g 1");
}

TEST(kernel__port_down__its_interface_is_brought_up) {
    const Machine machine;
    add_rxe(machine);
    machine.write(std::string(kPort) + "/state", "1: DOWN\n");
    const Json finding = finding_of(machine, 1, "problem", "rxe0 port 1 is in state 1: DOWN");
    assert_string_equal(finding["remedy"].get<std::string>().c_str(), "ip link set eth0 up");
}

TEST(kernel__no_gid_of_rocev2__says_that_an_address_is_missing) {
    const Machine machine;
    add_rxe(machine);
    for (const char* number : {"0", "1", "2"}) {
        machine.write(std::string(kPort) + "/gid_attrs/types/" + number, "IB/RoCE v1\n");
    }
    machine.remove(std::string(kPort) + "/gids/1");
    finding_of(machine, 0, "warning", "rxe0 port 1 has no GID for RoCEv2: eth0 has no IP address");
}

TEST(kernel__address_of_rocev1_alone__says_what_that_means) {
    const Machine machine;
    add_rxe(machine);
    for (const char* number : {"0", "1", "2"}) {
        machine.write(std::string(kPort) + "/gid_attrs/types/" + number, "IB/RoCE v1\n");
    }
    finding_of(
        machine, 0, "ok",
        "rxe0 port 1: GID index 1 is RoCEv1, the only RoCE that the device has: no router passes it on, and "
        "rdma_rxe and uroce don't know it; programs without rdma_cm want -g 1");
}

TEST(kernel__node_not_in_the_container__says_who_can_cure_it) {
    const Machine machine;
    add_rxe(machine);
    machine.remove("/dev/infiniband/uverbs0");
    const Json finding = finding_of(machine, 1, "problem", "/dev/infiniband/uverbs0 isn't here");
    assert_true(finding["remedy"].is_null());
    assert_contains(finding["by"].get<std::string>(), "--device=/dev/infiniband/uverbs0");
}

TEST(kernel__no_node_at_all__module_is_named) {
    const Machine machine;
    add_rxe(machine);
    machine.remove("/sys/class/infiniband_verbs");
    const Json finding = finding_of(machine, 1, "problem", "ib_uverbs isn't loaded");
    assert_string_equal(finding["remedy"].get<std::string>().c_str(), "modprobe ib_uverbs");
}

TEST(kernel__no_connection_manager__module_is_named) {
    const Machine machine;
    add_rxe(machine);
    machine.remove("/dev/infiniband/rdma_cm");
    const Json finding = finding_of(machine, 0, "warning", "rdma_cm isn't here");
    assert_string_equal(finding["remedy"].get<std::string>().c_str(), "modprobe rdma_ucm");
}

TEST(kernel__adapter_without_its_rdma_module__module_is_named) {
    const Machine machine;
    machine.write("/sys/module/mlx5_core/initstate", "live\n");
    const Json finding = finding_of(machine, 0, "warning", "mlx5_core is loaded and mlx5_ib is not");
    assert_string_equal(finding["remedy"].get<std::string>().c_str(), "modprobe mlx5_ib");
}

TEST(kernel__devices_of_other_namespaces__how_to_get_one_is_told) {
    const Machine machine;
    machine.write("/sys/module/ib_core/parameters/netns_mode", "N\n");
    finding_of(machine, 0, "ok", "`rdma dev set DEV netns NAME`");
}

TEST(kernel__ubuntu_without_extra_modules__package_is_named) {
    const Machine machine;
    machine.write("/proc/sys/kernel/osrelease", "6.8.0-1-aws\n");
    machine.write("/lib/modules/6.8.0-1-aws/kernel/fs/fuse.ko", "");
    machine.write("/etc/os-release", "NAME=Ubuntu\nID=ubuntu\n");
    finding_of(machine, 0, "ok", "the package linux-modules-extra-6.8.0-1-aws has them");
}

TEST(kernel__names_from_hostile_files__no_escapes_and_valid_json) {
    const Machine machine;
    add_rxe(machine);
    machine.write(std::string(kPort) + "/state", "1: \x1b[31m\xff\xfe\n");
    finding_of(machine, 1, "problem", "rxe0 port 1 is in state 1: ");
    assert_lacks(run({"--root", machine.root(), "doctor"}).out, "\x1b");
}

// The kernel's devices pin what is registered. This one is made of files, so that no provider can open it.
TEST(limits__no_locked_memory_for_a_device_of_the_kernel__named_and_cured) {
    const Machine machine;
    add_rxe(machine);
    machine.write("/sys/class/infiniband_verbs/abi_version", "6\n");
    name_and_cure({.break_it = "mount --bind " + machine.root() + "/sys /sys; mkdir dev dev/shm && cp -r " +
                               machine.root() +
                               "/dev/infiniband dev && touch dev/null dev/urandom && "
                               "mount --bind /dev/null dev/null && mount --bind /dev/urandom dev/urandom && "
                               "mount --rbind dev /dev; ulimit -S -l 0",
                   .subject = "limits",
                   .verdict = "problem",
                   .fact = "may lock 0 KiB of memory",
                   .last_status = "1\n"});
}

TEST(same_host__refused_by_seccomp__says_who_can_cure_it) {
    assert_true(test::is_true_in_child([] {
        if (!test::refuse(SYS_process_vm_readv)) {
            return true;
        }
        const Json document = Json::parse(run({"doctor", "--json"}).out, nullptr, false);
        const Json finding =
            find_finding(document["findings"], "same-host", "warning", "process_vm_readv() fails");
        return finding.is_object() && finding["remedy"].is_null() &&
               finding["by"].get<std::string>().find("seccomp") != std::string::npos;
    }));
}

} // namespace
