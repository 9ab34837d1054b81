// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice devices` and `sluice info`: the same answers, as a table of devices or one by one.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/commands.hpp"
#include "tools/library.hpp"
#include "tools/probe.hpp"
#include "tools/reach.hpp"

namespace sluice::tools {

namespace {

using Json = nlohmann::ordered_json;
using Descriptions = std::vector<sluice_attribute_description>;

constexpr int kDevicesSchema = 1;

constexpr const char* kNoDevice =
    "There is no RDMA device here.\n"
    "\n"
    "  A software device over a network interface IF, as root:\n"
    "      modprobe rdma_rxe && rdma link add rxe0 type rxe netdev IF\n"
    "  Hardware: `lspci -nnk` names each card and the kernel driver that it needs.\n"
    "  A container sees a device when it is started with --device=/dev/infiniband/uverbs0 and shares\n"
    "  the host's network, or was given the device with `rdma dev set DEV netns ...`.\n";

struct Device {
    sluice_device_attributes attributes;
    const sluice_uroce_device* uroce; // null for those of the kernel
    Descriptions descriptions;

    const sluice_attribute_description& find(const char* name) const {
        for (const auto& description : descriptions) {
            if (std::strcmp(description.name, name) == 0) {
                return description;
            }
        }
        throw Failure(kExitFailure, std::string("libsluice has no attribute '") + name + "'");
    }
};

// This program links libsluice, which changes the choice of providers: what is told about them
// comes from one that doesn't.
void correct_provider(sluice_device_attributes& attributes, const std::map<std::string, Probed>& providers) {
    const auto found = providers.find(attributes.name);
    std::memset(&attributes.provider, 0, sizeof attributes.provider);
    if (found != providers.end() && !found->second.path.empty()) {
        found->second.path.copy(attributes.provider.value, sizeof attributes.provider.value - 1);
        attributes.provider.source = SLUICE_SOURCE_PROCESS;
        attributes.provider.confidence = SLUICE_CONFIDENCE_CERTAIN;
    }
}

const sluice_uroce_device* find(const std::vector<sluice_uroce_device>& all, const std::string& name) {
    for (const sluice_uroce_device& one : all) {
        if (one.name == name) {
            return &one;
        }
    }
    return nullptr;
}

// Any uroceN may be asked for, not only those that are listed.
bool is_of_kernel(const std::string& name) {
    return !name.starts_with("uroce");
}

std::vector<Device> read_devices(const Options& options, const std::vector<std::string>& names,
                                 const std::vector<sluice_uroce_device>& uroce) {
    std::map<std::string, Probed> providers;
    if (options.root.empty() && std::any_of(names.begin(), names.end(), is_of_kernel)) {
        providers = probe_providers();
    }
    std::vector<Device> devices;
    for (const std::string& name : names) {
        Device device{query_device(options, name), find(uroce, name), {}};
        if (is_of_kernel(name)) {
            correct_provider(device.attributes, providers);
        }
        device.descriptions = describe(device.attributes);
        devices.push_back(std::move(device));
    }
    return devices;
}

const Reach& reach() {
    static const Reach found = find_reach();
    return found;
}

Json to_json(const Reach& found) {
    return {{"requests", found.is_direct ? "memory" : "packets"},
            {"packets", found.has_rings ? "rings" : "udp"},
            {"reason", found.reason}};
}

Json to_json(const Device& device) {
    Json attributes = Json::object();
    for (const auto& description : device.descriptions) {
        Json attribute;
        const bool is_known = description.source != std::string("unknown");
        const bool is_number = is_known && (description.kind == SLUICE_ATTRIBUTE_BYTES ||
                                            description.kind == SLUICE_ATTRIBUTE_NUMBER);
        attribute["value"] = is_number ? Json(description.number) : Json(description.value);
        attribute["source"] = description.source;
        attribute["confidence"] = description.confidence;
        attributes[description.name] = std::move(attribute);
    }
    Json json{{"name", device.attributes.name},
              {"coherence-evidence", device.attributes.coherence_evidence},
              {"attributes", std::move(attributes)}};
    if (device.uroce != nullptr) {
        json["address"] = device.uroce->address;
        json["address-origin"] = device.uroce->origin;
        json["interface"] = device.uroce->interface;
        json["path-mtu"] = device.uroce->path_mtu;
        json["used-by"] = device.uroce->used_by;
        json["reach"] = to_json(reach());
    }
    return json;
}

void print_json(const std::vector<Device>& devices) {
    Json list = Json::array();
    for (const Device& device : devices) {
        list.push_back(to_json(device));
    }
    const Json document{{"schema", kDevicesSchema}, {"devices", std::move(list)}};
    // Names from the kernel needn't be UTF-8; a document must be.
    std::cout << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

// Whether it can be opened now, or why not.
std::string state_of(const sluice_uroce_device& device) {
    if (device.path_mtu == 0) {
        return device.interface[0] == '\0' ? "no interface has this address"
                                           : "the interface's MTU is too small";
    }
    return device.used_by[0] == '\0' ? "available" : std::string("in use by ") + device.used_by;
}

bool can_be_opened(const sluice_uroce_device& device) {
    return device.path_mtu != 0 && device.used_by[0] == '\0';
}

void print_uroce(const Options& options, const std::vector<sluice_uroce_device>& uroce) {
    std::cout << "\nWithout a kernel, for sluice_open_uroce():\n";
    const std::vector<Column> columns{{"DEVICE"},       {"ADDRESS", 4},
                                      {"INTERFACE", 3}, {"MTU", 2, Column::kRight},
                                      {"SAID BY", 1},   {"STATE", 0, Column::kLeft, true}};
    std::vector<Row> rows;
    rows.reserve(uroce.size());
    for (const sluice_uroce_device& one : uroce) {
        rows.push_back({one.name, one.address, one.interface[0] == '\0' ? "-" : one.interface,
                        std::to_string(one.path_mtu), one.origin,
                        Cell(state_of(one), can_be_opened(one) ? Tone::kGood : Tone::kWarning)});
    }
    print_table(options, columns, rows);
}

std::string file_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

Tone tone_of(std::uint64_t coherence) {
    return coherence == SLUICE_COHERENCE_UNKNOWN ? Tone::kWarning : Tone::kPlain;
}

void print_overview(const Options& options, const std::vector<Device>& devices) {
    const std::vector<Column> columns{{"DEVICE"},        {"DRIVER", 6},       {"PROVIDER", 4}, {"CPU CACHES"},
                                      {"CONFIDENCE", 5}, {"ATOMIC WRITE", 3}, {"FLUSH", 2},    {"PAGING", 1}};
    std::vector<Row> rows;
    rows.reserve(devices.size());
    for (const Device& device : devices) {
        rows.push_back(
            {device.attributes.name, device.find("kernel-driver").value,
             file_name(device.find("provider").value),
             Cell(device.find("cpu-coherence").value, tone_of(device.attributes.cpu_coherence.value)),
             device.find("cpu-coherence").confidence, device.find("atomic-write").value,
             device.find("flush").value, device.find("on-demand-paging").value});
    }
    print_table(options, columns, rows);
}

void print_advice(const Device& device) {
    const std::uint64_t coherence = device.attributes.cpu_coherence.value;
    if (coherence == SLUICE_COHERENCE_UNKNOWN) {
        std::cout
            << "\n  Programs that use Sluice treat unknown as noncoherent, which is safe and costs time. If\n"
               "  you know better, say so in /etc/sluice/sluice.conf:\n\n"
               "      [device "
            << device.attributes.name << "]\n      coherence = coherent\n";
    }
    const std::string clean = device.find("clean").value;
    if (coherence == SLUICE_COHERENCE_NONCOHERENT && clean == "none") {
        std::cout
            << "\n  The device doesn't see this CPU's caches, and the CPU gives programs no instruction to\n"
               "  write them back: memory can't be shared with it from user space.\n";
    }
}

void print_reach(const Reach& found) {
    std::cout << "  to processes of this user on this host: ";
    if (found.is_direct) {
        std::cout << "Writes, Reads and atomics by their memory, packets through rings\n";
    } else {
        std::cout << "everything as packets, " << (found.has_rings ? "through rings" : "over UDP") << "; "
                  << found.reason << '\n';
    }
}

void print_details(const Options& options, const Device& device) {
    std::cout << device.attributes.name << '\n';
    if (device.uroce != nullptr) {
        std::cout << "  without a kernel, for sluice_open_uroce(); at " << device.uroce->address
                  << " (said by " << device.uroce->origin << "): " << state_of(*device.uroce) << '\n';
        print_reach(reach());
    }
    std::vector<Row> rows;
    for (const auto& description : device.descriptions) {
        const bool known = std::strcmp(description.value, "unknown") != 0;
        rows.push_back({std::string("  ") + description.name, description.value,
                        known ? description.confidence : "-", known ? description.source : "-",
                        description.meaning});
    }
    print_table(options, {{"  ATTRIBUTE"}, {"VALUE"}, {"CONFIDENCE", 3}, {"SOURCE", 2}, {"MEANING", 1}},
                rows);
    if (device.attributes.coherence_evidence[0] != '\0') {
        std::cout << "\n  cpu-coherence: " << device.attributes.coherence_evidence << '\n';
    }
    print_advice(device);
}

std::vector<std::string> all_names(const Options& options, const std::vector<sluice_uroce_device>& uroce) {
    std::vector<std::string> names = device_names(options);
    for (const sluice_uroce_device& one : uroce) {
        names.emplace_back(one.name);
    }
    return names;
}

} // namespace

ExitStatus run_devices(const Options& options) {
    const std::vector<sluice_uroce_device> uroce = uroce_devices(options);
    const std::vector<Device> devices = read_devices(options, all_names(options, uroce), uroce);
    if (options.json) {
        print_json(devices);
    } else if (devices.empty()) {
        std::cout << kNoDevice;
    } else {
        print_overview(options, devices);
    }
    if (!options.json && !uroce.empty()) {
        print_uroce(options, uroce);
    }
    return devices.empty() ? kExitNoDevice : kExitOk;
}

ExitStatus run_info(const Options& options, const std::string& device) {
    const std::vector<sluice_uroce_device> uroce = uroce_devices(options);
    const std::vector<std::string> names =
        device.empty() ? all_names(options, uroce) : std::vector<std::string>{device};
    const std::vector<Device> devices = read_devices(options, names, uroce);
    if (options.json) {
        print_json(devices);
    } else if (devices.empty()) {
        std::cout << kNoDevice;
    }
    for (std::size_t i = 0; !options.json && i < devices.size(); ++i) {
        std::cout << (i == 0 ? "" : "\n");
        print_details(options, devices[i]);
    }
    return devices.empty() ? kExitNoDevice : kExitOk;
}

} // namespace sluice::tools
