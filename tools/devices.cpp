// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice devices` and `sluice info`: the same answers, as a table of devices or one by one.
#include <cstring>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/commands.hpp"
#include "tools/library.hpp"
#include "tools/probe.hpp"

namespace sluice::tools {

namespace {

using Json = nlohmann::ordered_json;
using Descriptions = std::vector<sluice_attribute_description>;

constexpr int kSchema = 1;

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

std::vector<Device> read_devices(const Options& options, const std::vector<std::string>& names) {
    std::map<std::string, Probed> providers;
    if (options.root.empty() && !names.empty()) {
        providers = probe_providers();
    }
    std::vector<Device> devices;
    for (const std::string& name : names) {
        Device device{query_device(options, name), {}};
        correct_provider(device.attributes, providers);
        device.descriptions = describe(device.attributes);
        devices.push_back(std::move(device));
    }
    return devices;
}

Json to_json(const Device& device) {
    Json attributes = Json::object();
    for (const auto& description : device.descriptions) {
        Json attribute;
        const bool is_bytes = description.kind == SLUICE_ATTRIBUTE_BYTES && description.number != 0;
        attribute["value"] = is_bytes ? Json(description.number) : Json(description.value);
        attribute["source"] = description.source;
        attribute["confidence"] = description.confidence;
        attributes[description.name] = std::move(attribute);
    }
    return {{"name", device.attributes.name},
            {"coherence-evidence", device.attributes.coherence_evidence},
            {"attributes", std::move(attributes)}};
}

void print_json(const std::vector<Device>& devices) {
    Json list = Json::array();
    for (const Device& device : devices) {
        list.push_back(to_json(device));
    }
    const Json document{{"schema", kSchema}, {"devices", std::move(list)}};
    // Names from the kernel needn't be UTF-8; a document must be.
    std::cout << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

std::string file_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

void print_overview(const std::vector<Device>& devices) {
    std::vector<std::vector<std::string>> rows{
        {"DEVICE", "DRIVER", "PROVIDER", "CPU CACHES", "CONFIDENCE", "ATOMIC WRITE", "FLUSH", "PAGING"}};
    for (const Device& device : devices) {
        rows.push_back({device.attributes.name, device.find("kernel-driver").value,
                        file_name(device.find("provider").value), device.find("cpu-coherence").value,
                        device.find("cpu-coherence").confidence, device.find("atomic-write").value,
                        device.find("flush").value, device.find("on-demand-paging").value});
    }
    print_table(rows);
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

void print_details(const Device& device) {
    std::cout << device.attributes.name << '\n';
    std::vector<std::vector<std::string>> rows{{"  ATTRIBUTE", "VALUE", "CONFIDENCE", "SOURCE", "MEANING"}};
    for (const auto& description : device.descriptions) {
        const bool known = std::strcmp(description.value, "unknown") != 0;
        rows.push_back({std::string("  ") + description.name, description.value,
                        known ? description.confidence : "-", known ? description.source : "-",
                        description.meaning});
    }
    print_table(rows);
    if (device.attributes.coherence_evidence[0] != '\0') {
        std::cout << "\n  cpu-coherence: " << device.attributes.coherence_evidence << '\n';
    }
    print_advice(device);
}

} // namespace

ExitStatus run_devices(const Options& options) {
    const std::vector<Device> devices = read_devices(options, device_names(options));
    if (options.json) {
        print_json(devices);
    } else if (devices.empty()) {
        std::cout << kNoDevice;
    } else {
        print_overview(devices);
    }
    return devices.empty() ? kExitNoDevice : kExitOk;
}

ExitStatus run_info(const Options& options, const std::string& device) {
    const std::vector<std::string> names =
        device.empty() ? device_names(options) : std::vector<std::string>{device};
    const std::vector<Device> devices = read_devices(options, names);
    if (options.json) {
        print_json(devices);
    } else if (devices.empty()) {
        std::cout << kNoDevice;
    }
    for (std::size_t i = 0; !options.json && i < devices.size(); ++i) {
        std::cout << (i == 0 ? "" : "\n");
        print_details(devices[i]);
    }
    return devices.empty() ? kExitNoDevice : kExitOk;
}

} // namespace sluice::tools
