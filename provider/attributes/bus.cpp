// SPDX-License-Identifier: BSD-3-Clause
#include "provider/attributes/bus.hpp"

#include <charconv>

#include "provider/attributes/pci_config.hpp"

namespace sluice::attributes {

namespace {

constexpr std::string_view kDevices = "/sys/devices/";

TextFinding told_by_kernel(std::string text) {
    return {std::move(text), SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_CERTAIN};
}

// A number that isn't negative: what the kernel doesn't know, it calls -1.
Finding number_in(std::string_view text) {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return {};
    }
    return {number, SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_CERTAIN};
}

// "8.0 GT/s PCIe x8"; nothing where the kernel knows no link, as of functions inside a processor.
std::string link(const Inputs& inputs, const char* which) {
    const std::string path = inputs.device.hardware_path + "/" + which;
    const std::string speed = inputs.tree.read_line(path + "_link_speed");
    const std::string width = inputs.tree.read_line(path + "_link_width");
    const bool is_known = !speed.empty() && !speed.starts_with("Unknown") && !width.empty() && width != "0";
    return is_known ? speed + " x" + width : "";
}

TextFinding link_of(const Inputs& inputs) {
    const std::string now = link(inputs, "current");
    const std::string most = link(inputs, "max");
    return told_by_kernel(now.empty() || most.empty() || now == most ? now : now + " of " + most);
}

void find_translation(const Inputs& inputs, Bus& bus) {
    const std::string path = inputs.device.hardware_path + "/iommu_group";
    const Result<std::string> group = inputs.tree.resolve(path);
    if (!group) {
        // A link that leads nowhere is one that wasn't recorded.
        bus.iommu = told_by_kernel(inputs.tree.has_entry(path) ? "" : "none");
        return;
    }
    bus.iommu_group = number_in(name_of(*group));
    bus.iommu = told_by_kernel(inputs.tree.read_line(*group + "/type"));
}

Result<std::string> config_of(const Inputs& inputs, std::string_view function) {
    return inputs.tree.read(std::string(function) + "/config", kPciConfigBytes);
}

Finding ats_of(const Inputs& inputs) {
    const Result<std::string> config = config_of(inputs, inputs.device.hardware_path);
    const std::optional<bool> allowed = config ? parse_ats(*config) : std::nullopt;
    return allowed ? yes_or_no(*allowed, SLUICE_SOURCE_PCI, SLUICE_CONFIDENCE_CERTAIN) : Finding{};
}

// Each port on the way to the root redirects, or one doesn't, which is enough for requests that pass it.
// Nothing when there is no port, or one can't be read.
Finding acs_of(const Inputs& inputs) {
    Finding found;
    for (std::string_view at = parent_of(inputs.device.hardware_path); is_pci_address(name_of(at));
         at = parent_of(at)) {
        const Result<std::string> config = config_of(inputs, at);
        const std::optional<bool> redirects = config ? parse_request_redirect(*config) : std::nullopt;
        if (!redirects) {
            return {};
        }
        found = yes_or_no(*redirects, SLUICE_SOURCE_PCI, SLUICE_CONFIDENCE_CERTAIN);
        if (!*redirects) {
            return found;
        }
    }
    return found;
}

// There is no bus below a software device.
Bus bus_of_software() {
    const TextFinding none{"none", SLUICE_SOURCE_SOFTWARE_DEVICE, SLUICE_CONFIDENCE_CERTAIN};
    const Finding no = yes_or_no(false, SLUICE_SOURCE_SOFTWARE_DEVICE, SLUICE_CONFIDENCE_CERTAIN);
    return {none, none, none, {}, {}, no, no};
}

} // namespace

Bus find_bus(const Inputs& inputs) {
    if (inputs.device.is_software) {
        return bus_of_software();
    }
    Bus bus;
    const std::string& path = inputs.device.hardware_path;
    if (!path.starts_with(kDevices)) {
        return bus;
    }
    find_translation(inputs, bus);
    bus.numa_node = number_in(inputs.tree.read_line(path + "/numa_node"));
    if (is_pci_address(name_of(path))) {
        bus.pci_address = told_by_kernel(std::string(name_of(path)));
        bus.pci_link = link_of(inputs);
        bus.ats = ats_of(inputs);
        bus.acs = acs_of(inputs);
    } else {
        bus.pci_address = bus.pci_link = told_by_kernel("none");
        bus.ats = bus.acs = yes_or_no(false, SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_CERTAIN);
    }
    return bus;
}

} // namespace sluice::attributes
