// SPDX-License-Identifier: BSD-3-Clause
#include "provider/attributes/coherence.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace sluice::attributes {

namespace {

constexpr std::string_view kTreeBase = "/sys/firmware/devicetree/base";
constexpr std::size_t kMaxProperty = 4096;

bool is_always_coherent(std::string_view architecture) {
    constexpr std::array kCoherent{"x86_64", "i686", "s390x", "ppc64le", "ppc64", "loongarch64"};
    return std::ranges::find(kCoherent, architecture) != kCoherent.end();
}

// What the kernel assumes of a device whose device tree says nothing. Only architectures where
// the answer is worth something are here.
std::optional<sluice_coherence> device_tree_default(std::string_view architecture) {
    if (architecture == "riscv64") {
        return SLUICE_COHERENCE_COHERENT;
    }
    if (architecture == "aarch64" || architecture.starts_with("arm") || architecture.starts_with("mips")) {
        return SLUICE_COHERENCE_NONCOHERENT;
    }
    return std::nullopt;
}

bool is_within(std::string_view path, std::string_view base) {
    return path.starts_with(base) && (path.size() == base.size() || path[base.size()] == '/');
}

// The nearest node that says something. A node whose memory path goes another way than through
// its parents says so with an interconnect "dma-mem"; following that needs an interpreter of the
// tree, so the answer is only assumed.
Finding walk_device_tree(const FileTree& tree, const std::string& start, sluice_coherence otherwise) {
    sluice_confidence confidence = SLUICE_CONFIDENCE_LIKELY;
    for (std::string_view node = start; is_within(node, kTreeBase); node = parent_of(node)) {
        const std::string path(node);
        for (const auto& [property, value] : {std::pair{"/dma-coherent", SLUICE_COHERENCE_COHERENT},
                                              std::pair{"/dma-noncoherent", SLUICE_COHERENCE_NONCOHERENT}}) {
            if (tree.exists(path + property)) {
                return {static_cast<std::uint64_t>(value), SLUICE_SOURCE_DEVICE_TREE, confidence,
                        path + property};
            }
        }
        const Result<std::string> interconnects = tree.read(path + "/interconnect-names", kMaxProperty);
        if (interconnects && interconnects->find("dma-mem") != std::string::npos) {
            confidence = SLUICE_CONFIDENCE_ASSUMED;
        }
    }
    return {static_cast<std::uint64_t>(otherwise), SLUICE_SOURCE_DEVICE_TREE, confidence,
            "neither dma-coherent nor dma-noncoherent at " + start + " or above it"};
}

// The device or the nearest thing that it sits on that has a node. A PCI function seldom has one;
// its host bridge does.
Finding ask_device_tree(const Inputs& inputs, sluice_coherence otherwise) {
    for (std::string_view at = inputs.device.hardware_path; is_within(at, "/sys/devices");
         at = parent_of(at)) {
        const std::string link = std::string(at) + "/of_node";
        if (!inputs.tree.has_entry(link)) {
            continue;
        }
        const Result<std::string> node = inputs.tree.resolve(link);
        if (!node || !is_within(*node, kTreeBase)) {
            return {SLUICE_COHERENCE_UNKNOWN, SLUICE_SOURCE_NONE, SLUICE_CONFIDENCE_NONE,
                    link + " leads nowhere: /sys/firmware is hidden, as in many containers"};
        }
        return walk_device_tree(inputs.tree, *node, otherwise);
    }
    return {static_cast<std::uint64_t>(otherwise), SLUICE_SOURCE_DEFAULT, SLUICE_CONFIDENCE_ASSUMED,
            "nothing that the device sits on has a node in the device tree"};
}

std::optional<Finding> ask_firmware(const Inputs& inputs) {
    const std::optional<sluice_coherence> otherwise = device_tree_default(inputs.platform.architecture);
    if (inputs.device.hardware_path.empty() || !otherwise) {
        return std::nullopt;
    }
    switch (inputs.platform.firmware) {
    case Firmware::kAcpi:
        return Finding{SLUICE_COHERENCE_UNKNOWN, SLUICE_SOURCE_NONE, SLUICE_CONFIDENCE_NONE,
                       "the firmware's _CCA tells it, which Linux shows to nobody; servers are coherent"};
    case Firmware::kDeviceTree:
        return ask_device_tree(inputs, *otherwise);
    case Firmware::kUnknown:
        return Finding{SLUICE_COHERENCE_UNKNOWN, SLUICE_SOURCE_NONE, SLUICE_CONFIDENCE_NONE,
                       "/sys/firmware shows neither a device tree nor ACPI tables, as in many containers"};
    }
    return std::nullopt;
}

} // namespace

Finding find_cpu_coherence(const Inputs& inputs) {
    if (inputs.overrides.cpu) {
        return *inputs.overrides.cpu;
    }
    if (inputs.device.is_own) {
        return {SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_PROCESS, SLUICE_CONFIDENCE_CERTAIN,
                "this process's own loads and stores move the data"};
    }
    const bool registered =
        inputs.live != nullptr && inputs.live->registered.value_or(false) && !inputs.device.is_software;
    if (registered && inputs.platform.kernel_is_at_least(7, 0)) {
        return {SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_REGISTRATION, SLUICE_CONFIDENCE_CERTAIN,
                "Linux registered memory, which it refuses since 7.0 when DMA is not coherent"};
    }
    if (is_always_coherent(inputs.platform.architecture)) {
        return {SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_ARCHITECTURE, SLUICE_CONFIDENCE_CERTAIN,
                "DMA is coherent on every " + inputs.platform.architecture + " machine"};
    }
    if (std::optional<Finding> told = ask_firmware(inputs)) {
        return *told;
    }
    if (inputs.device.is_software) {
        const bool known = !inputs.device.kernel_driver.empty();
        return {SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_SOFTWARE_DEVICE,
                known ? SLUICE_CONFIDENCE_CERTAIN : SLUICE_CONFIDENCE_LIKELY,
                "the kernel's own loads and stores move the data"};
    }
    if (inputs.platform.architecture.empty()) {
        return {SLUICE_COHERENCE_UNKNOWN, SLUICE_SOURCE_NONE, SLUICE_CONFIDENCE_NONE,
                "the machine's architecture is not known"};
    }
    return {SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_DEFAULT, SLUICE_CONFIDENCE_ASSUMED,
            "no sign that DMA is not coherent on " + inputs.platform.architecture};
}

Finding find_io_coherence(const Inputs& inputs) {
    if (inputs.overrides.io) {
        return *inputs.overrides.io;
    }
    if (inputs.device.is_software) {
        return {SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_SOFTWARE_DEVICE, SLUICE_CONFIDENCE_CERTAIN};
    }
    if (is_always_coherent(inputs.platform.architecture)) {
        return {SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_ARCHITECTURE, SLUICE_CONFIDENCE_LIKELY};
    }
    if (inputs.platform.architecture.empty()) {
        return {};
    }
    return {SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_DEFAULT, SLUICE_CONFIDENCE_ASSUMED};
}

} // namespace sluice::attributes
