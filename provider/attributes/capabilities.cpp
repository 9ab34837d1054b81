// SPDX-License-Identifier: BSD-3-Clause
#include "provider/attributes/capabilities.hpp"

#include "core/verbs_values.hpp"

namespace sluice::attributes {

namespace {

constexpr std::size_t kPciConfigBytes = 4096;

Finding answer(bool yes, sluice_source source, sluice_confidence confidence) {
    return {static_cast<std::uint64_t>(yes ? SLUICE_ANSWER_YES : SLUICE_ANSWER_NO), source, confidence};
}

Finding no_of_software() {
    return answer(false, SLUICE_SOURCE_SOFTWARE_DEVICE, SLUICE_CONFIDENCE_CERTAIN);
}

// There is no bus below a software device. Its copies write a message in order, but one page at a
// time and with whatever instructions the kernel likes, so it promises no order of placement.
void answer_for_software(Capabilities& found) {
    found.relaxed_ordering = no_of_software();
    found.no_snoop = no_of_software();
    found.in_order_placement = no_of_software();
    found.dma_bounce = no_of_software();
}

void ask_pci(const Inputs& inputs, Capabilities& found) {
    const Result<std::string> config =
        inputs.tree.read(inputs.device.hardware_path + "/config", kPciConfigBytes);
    if (!config) {
        return;
    }
    if (const std::optional<PciControl> control = parse_pci_control(*config)) {
        // A bit that is set allows the device to do it; whether it does, it decides for itself.
        const auto find = [](bool allowed) {
            return answer(allowed, SLUICE_SOURCE_PCI,
                          allowed ? SLUICE_CONFIDENCE_LIKELY : SLUICE_CONFIDENCE_CERTAIN);
        };
        found.relaxed_ordering = find(control->relaxed_ordering);
        found.no_snoop = find(control->no_snoop);
    }
}

Finding flush_of(std::uint64_t capabilities) {
    const bool global = (capabilities & kDeviceFlushGlobal) != 0;
    const bool persistent = (capabilities & kDeviceFlushPersistent) != 0;
    const sluice_flush value = global && persistent ? SLUICE_FLUSH_BOTH
                               : global             ? SLUICE_FLUSH_GLOBAL
                               : persistent         ? SLUICE_FLUSH_PERSISTENT
                                                    : SLUICE_FLUSH_NONE;
    return {static_cast<std::uint64_t>(value), SLUICE_SOURCE_DEVICE, SLUICE_CONFIDENCE_CERTAIN};
}

Finding paging_of(std::uint64_t paging) {
    const sluice_paging value = (paging & kPagingExplicit) == 0   ? SLUICE_PAGING_NONE
                                : (paging & kPagingImplicit) != 0 ? SLUICE_PAGING_IMPLICIT
                                                                  : SLUICE_PAGING_EXPLICIT;
    return {static_cast<std::uint64_t>(value), SLUICE_SOURCE_DEVICE, SLUICE_CONFIDENCE_CERTAIN};
}

// Kernels that know the bit set it. One that doesn't may still copy: then the guest's own signs
// are all there is.
Finding bounce_of(const Inputs& inputs) {
    if (inputs.live != nullptr && (inputs.live->capabilities.value_or(0) & kDeviceDmaBounce) != 0) {
        return answer(true, SLUICE_SOURCE_DEVICE, SLUICE_CONFIDENCE_CERTAIN);
    }
    if (!inputs.platform.confidential_evidence.empty()) {
        return answer(true, SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_LIKELY);
    }
    return answer(false, SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_ASSUMED);
}

} // namespace

Capabilities find_capabilities(const Inputs& inputs) {
    Capabilities found;
    if (inputs.device.is_software) {
        answer_for_software(found);
    } else {
        ask_pci(inputs, found);
        found.dma_bounce = bounce_of(inputs);
    }
    if (inputs.live != nullptr && inputs.live->capabilities) {
        const std::uint64_t capabilities = *inputs.live->capabilities;
        found.native_atomic_write =
            answer((capabilities & kDeviceAtomicWrite) != 0, SLUICE_SOURCE_DEVICE, SLUICE_CONFIDENCE_CERTAIN);
        found.flush = flush_of(capabilities);
        found.on_demand_paging = paging_of(inputs.live->paging);
    }
    return found;
}

} // namespace sluice::attributes
