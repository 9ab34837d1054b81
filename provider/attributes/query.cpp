// SPDX-License-Identifier: BSD-3-Clause
#include "provider/attributes/query.hpp"

#include <algorithm>
#include <optional>

#include "core/put_text.hpp"
#include "provider/attributes/bus.hpp"
#include "provider/attributes/capabilities.hpp"
#include "provider/attributes/cpu_cache.hpp"
#include "provider/config/config.hpp"

namespace sluice::attributes {

namespace {

constexpr int kRegistrationProvesSince = 7;

// With a question mark for each control character: a driver's name comes from the machine.
template<std::size_t kSize>
void put_printable(char (&to)[kSize], std::string_view from) {
    sluice::put_text(to, from);
    std::replace_if(
        to, to + std::min(from.size(), kSize - 1),
        [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
}

std::optional<Finding> to_override(const config::Decision& decision) {
    const sluice_source source = decision.from_environment ? SLUICE_SOURCE_ENVIRONMENT : SLUICE_SOURCE_CONFIG;
    switch (decision.value) {
    case config::Coherence::kAuto:
        return std::nullopt;
    case config::Coherence::kCoherent:
        return Finding{SLUICE_COHERENCE_COHERENT, source, SLUICE_CONFIDENCE_CERTAIN, decision.origin};
    case config::Coherence::kNoncoherent:
        return Finding{SLUICE_COHERENCE_NONCOHERENT, source, SLUICE_CONFIDENCE_CERTAIN, decision.origin};
    case config::Coherence::kSimulated:
        return Finding{SLUICE_COHERENCE_SIMULATED, source, SLUICE_CONFIDENCE_CERTAIN, decision.origin};
    }
    return std::nullopt;
}

sluice_attribute to_attribute(const Finding& finding) {
    return {finding.value, static_cast<std::uint32_t>(finding.source),
            static_cast<std::uint32_t>(finding.confidence)};
}

void put(sluice_text_attribute& to, const TextFinding& finding) {
    put_printable(to.value, finding.value);
    if (!finding.value.empty()) {
        to.source = finding.source;
        to.confidence = finding.confidence;
    }
}

TextFinding netdev_of(const SysfsDevice& device, const LiveFacts* live) {
    if (device.is_own) {
        return {live != nullptr ? live->netdev : "", SLUICE_SOURCE_PROCESS, SLUICE_CONFIDENCE_CERTAIN};
    }
    return {device.netdev, SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_CERTAIN};
}

// Software devices of the kernel say "0.0.0".
TextFinding firmware_of(const SysfsDevice& device, const LiveFacts* live) {
    if (device.is_software && !device.is_own) {
        return {"none", SLUICE_SOURCE_SOFTWARE_DEVICE, SLUICE_CONFIDENCE_CERTAIN};
    }
    if (!device.firmware.empty()) {
        return {device.firmware, SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_CERTAIN};
    }
    return {live != nullptr ? live->firmware : "",
            device.is_own ? SLUICE_SOURCE_PROCESS : SLUICE_SOURCE_DEVICE, SLUICE_CONFIDENCE_CERTAIN};
}

void put(sluice_device_attributes& attributes, const Bus& bus) {
    put(attributes.iommu, bus.iommu);
    put(attributes.pci_address, bus.pci_address);
    put(attributes.pci_link, bus.pci_link);
    attributes.numa_node = to_attribute(bus.numa_node);
    attributes.iommu_group = to_attribute(bus.iommu_group);
    attributes.ats = to_attribute(bus.ats);
    attributes.acs = to_attribute(bus.acs);
}

} // namespace

Result<sluice_device_attributes> query(const FileTree& tree, std::string_view name, Asker ask, void* context,
                                       bool may_try_queue_pairs) {
    Result<SysfsDevice> device = find_device(tree, name);
    if (!device) {
        return std::move(device).error();
    }
    const Result<config::Decisions> decisions = config::decisions_for(tree, name);
    if (!decisions) {
        return decisions.error().clone();
    }
    const Platform platform = read_platform(tree);
    const Overrides overrides{to_override(decisions->coherence), to_override(decisions->io_coherence)};
    std::optional<LiveFacts> live;
    if (ask != nullptr) {
        const bool proves = platform.kernel_is_at_least(kRegistrationProvesSince, 0) && !device->is_software;
        live = ask(context, {.registration = proves, .queue_pair = may_try_queue_pairs && !device->is_own});
    }
    const Inputs inputs{tree, platform, *device, live ? &*live : nullptr, overrides};
    const Finding cpu = find_cpu_coherence(inputs);
    const CpuCache cache = find_cpu_cache(tree);
    const Capabilities can = find_capabilities(inputs);

    sluice_device_attributes attributes{};
    put_printable(attributes.name, device->name);
    put_printable(attributes.coherence_evidence, cpu.evidence);
    put(attributes.provider,
        {live ? live->provider_path : "", SLUICE_SOURCE_PROCESS, SLUICE_CONFIDENCE_CERTAIN});
    put(attributes.kernel_driver,
        {device->is_own ? "none" : device->kernel_driver,
         device->is_own ? SLUICE_SOURCE_PROCESS : SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_CERTAIN});
    put(attributes.clean, cache.clean);
    put(attributes.invalidate, cache.invalidate);
    attributes.cpu_coherence = to_attribute(cpu);
    attributes.io_coherence = to_attribute(find_io_coherence(inputs));
    attributes.line_bytes = to_attribute(cache.line_bytes);
    attributes.granule_bytes = to_attribute(cache.granule_bytes);
    attributes.relaxed_ordering = to_attribute(can.relaxed_ordering);
    attributes.no_snoop = to_attribute(can.no_snoop);
    attributes.in_order_placement = to_attribute(can.in_order_placement);
    attributes.native_atomic_write = to_attribute(can.native_atomic_write);
    attributes.flush = to_attribute(can.flush);
    attributes.on_demand_paging = to_attribute(can.on_demand_paging);
    attributes.dma_bounce = to_attribute(can.dma_bounce);
    attributes.atomics = to_attribute(can.atomics);
    attributes.max_sge = to_attribute(can.max_sge);
    attributes.max_inline = to_attribute(can.max_inline);
    put(attributes, find_bus(inputs));
    put(attributes.netdev, netdev_of(*device, inputs.live));
    put(attributes.firmware, firmware_of(*device, inputs.live));
    return attributes;
}

} // namespace sluice::attributes
