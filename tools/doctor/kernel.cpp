// SPDX-License-Identifier: BSD-3-Clause
//
// What the kernel has: modules, devices with their nodes, ports and GIDs, and how network namespaces share
// them.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tools/doctor/checks.hpp"
#include "tools/library.hpp"

namespace sluice::tools::doctor {

namespace {

namespace fs = std::filesystem;

std::string line_of(const fs::path& file) {
    std::ifstream text(file);
    std::string line;
    std::getline(text, line);
    return line;
}

std::vector<fs::path> entries_of(const fs::path& directory) {
    std::vector<fs::path> entries;
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
        entries.push_back(at->path());
    }
    std::ranges::sort(entries);
    return entries;
}

bool is_loaded(const std::string& root, const char* module) {
    return fs::exists(root + "/sys/module/" + module);
}

bool is_link_local(const std::string& gid) {
    return gid.starts_with("fe80");
}

// The number of the first GID of PORT with that type: an address's if there is one, not a link-local one's.
std::optional<std::string> gid_index(const fs::path& port, const std::string& type) {
    std::optional<std::string> link_local;
    for (const fs::path& file : entries_of(port / "gid_attrs" / "types")) {
        const std::string gid = line_of(port / "gids" / file.filename());
        if (line_of(file) != type || gid.find_first_not_of("0:") == std::string::npos) {
            continue;
        }
        if (!is_link_local(gid)) {
            return file.filename().string();
        }
        link_local = link_local.value_or(file.filename().string());
    }
    return link_local;
}

std::string interface_of(const fs::path& port) {
    for (const fs::path& file : entries_of(port / "gid_attrs" / "ndevs")) {
        if (std::string name = line_of(file); !name.empty()) {
            return name;
        }
    }
    return line_of(port.parent_path().parent_path() / "parent"); // rxe's
}

void check_gids(const std::string& name, const fs::path& port, Report& report) {
    if (!line_of(port / "link_layer").starts_with("Ethernet")) {
        return;
    }
    if (const auto index = gid_index(port, "RoCE v2")) {
        report.ok(name + ": GID index " + *index + " is RoCEv2; programs without rdma_cm want -g " + *index);
        return;
    }
    const auto older = gid_index(port, "IB/RoCE v1");
    if (older && !is_link_local(line_of(port / "gids" / *older))) {
        report.ok(name + ": GID index " + *older +
                  " is RoCEv1, the only RoCE that the device has: no router passes it on, and rdma_rxe and "
                  "uroce don't "
                  "know it; programs without rdma_cm want -g " +
                  *older);
        return;
    }
    const std::string interface = interface_of(port);
    report.warn(name + " has no GID for RoCEv2: " + (interface.empty() ? "its interface" : interface) +
                    " has no IP address",
                {"", "root, by giving it one: ip address add ADDRESS/LENGTH dev " +
                         (interface.empty() ? "INTERFACE" : interface)});
}

void check_port(const std::string& device, const fs::path& port, Report& report) {
    const std::string name = device + " port " + port.filename().string();
    const std::string state = line_of(port / "state");
    if (state.empty() || state.starts_with("4:")) {
        check_gids(name, port, report);
        return;
    }
    const std::string interface = interface_of(port);
    report.problem(name + " is in state " + state + ": nothing can be sent",
                   interface.empty()
                       ? Remedy{"", "whoever has the other end of its cable, or the subnet manager"}
                       : as_root("ip link set " + shell_word(interface) + " up"));
}

// "uverbs0"; empty: the kernel has none.
std::string node_of(const std::string& device, const std::string& root) {
    for (const fs::path& node : entries_of(root + "/sys/class/infiniband_verbs")) {
        if (line_of(node / "ibdev") == device) {
            return node.filename().string();
        }
    }
    return {};
}

void check_node(const std::string& device, const std::string& root, Report& report) {
    const std::string name = node_of(device, root);
    const std::string path = root + "/dev/infiniband/" + name;
    if (name.empty()) {
        report.problem(device + " has no node for programs: ib_uverbs isn't loaded",
                       as_root("modprobe ib_uverbs"));
    } else if (access(path.c_str(), F_OK) != 0) {
        report.problem(device + "'s node " + path + " isn't here",
                       {"", "the one who starts this container, by --device=/dev/infiniband/" + name});
    } else if (access(path.c_str(), R_OK | W_OK) != 0) {
        report.problem("this user may not open " + path, {"chmod a+rw " + shell_word(path), "root"});
    }
}

void check_connection_manager(const std::string& root, Report& report) {
    if (!fs::exists(root + "/dev/infiniband/rdma_cm")) {
        report.warn("/dev/infiniband/rdma_cm isn't here: librdmacm finds no device of the kernel's",
                    is_loaded(root, "rdma_ucm")
                        ? Remedy{"", "the one who starts this container, by --device=/dev/infiniband/rdma_cm"}
                        : as_root("modprobe rdma_ucm"));
    }
}

// Adapters that are driven as network cards only.
void check_half_loaded(const std::string& root, Report& report) {
    for (const auto& [core, rdma] : {std::pair{"mlx5_core", "mlx5_ib"}, std::pair{"mlx4_core", "mlx4_ib"}}) {
        if (is_loaded(root, core) && !is_loaded(root, rdma)) {
            report.warn(std::string(core) + " is loaded and " + rdma +
                            " is not: the adapter is a network card and no RDMA device",
                        as_root(std::string("modprobe ") + rdma));
        }
    }
}

// Which package of the distribution has Soft-RoCE, where its kernel's own has not.
std::string package_with_rxe(const std::string& root, const std::string& release) {
    std::ifstream text(root + "/etc/os-release");
    for (std::string line; std::getline(text, line);) {
        if (line == "ID=ubuntu") {
            return "; the package linux-modules-extra-" + release + " has them";
        }
    }
    return {};
}

std::string describe_modules(const std::string& root) {
    const std::string release = line_of(root + "/proc/sys/kernel/osrelease");
    const fs::path modules = root + "/lib/modules/" + release + "/kernel";
    if (is_loaded(root, "rdma_rxe")) {
        return "rdma_rxe is loaded: `rdma link add rxe0 type rxe netdev IF` makes a device";
    }
    if (release.empty() || !fs::exists(modules)) {
        return "modules of this kernel aren't here";
    }
    if (!entries_of(modules / "drivers/infiniband/sw/rxe").empty()) {
        return "`modprobe rdma_rxe && rdma link add rxe0 type rxe netdev IF` makes one, as root";
    }
    return "its modules for RDMA aren't installed" + package_with_rxe(root, release);
}

void check_no_device(const std::string& root, Report& report) {
    report.ok("the kernel has no RDMA device here, and uroce needs none; " + describe_modules(root));
    if (line_of(root + "/sys/module/ib_core/parameters/netns_mode") == "N") {
        report.ok("each network namespace has devices of its own; `rdma dev set DEV netns NAME` on the host "
                  "moves one here");
    }
}

} // namespace

void check_kernel(const Options& options, Report& report) {
    const std::vector<std::string> devices = device_names(options);
    check_half_loaded(options.root, report);
    if (devices.empty()) {
        check_no_device(options.root, report);
        return;
    }
    // Records of machines have no nodes, unless somebody has made them.
    const bool has_nodes = options.root.empty() || fs::exists(options.root + "/dev/infiniband");
    if (has_nodes) {
        check_connection_manager(options.root, report);
    }
    for (const std::string& device : devices) {
        if (has_nodes) {
            check_node(device, options.root, report);
        }
        for (const fs::path& port : entries_of(options.root + "/sys/class/infiniband/" + device + "/ports")) {
            check_port(device, port, report);
        }
    }
}

} // namespace sluice::tools::doctor
