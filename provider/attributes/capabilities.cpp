// SPDX-License-Identifier: BSD-3-Clause
#include "provider/attributes/capabilities.hpp"

#include "core/verbs_values.hpp"
#include "provider/attributes/pci_config.hpp"

namespace sluice::attributes {

namespace {

Finding no_of_software() {
    return yes_or_no(false, SLUICE_SOURCE_SOFTWARE_DEVICE, SLUICE_CONFIDENCE_CERTAIN);
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
            return yes_or_no(allowed, SLUICE_SOURCE_PCI,
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

// 0 is nothing.
Finding known(std::uint64_t value) {
    return value == 0 ? Finding{} : Finding{value, SLUICE_SOURCE_DEVICE, SLUICE_CONFIDENCE_CERTAIN};
}

// Kernels that know the bit set it. One that doesn't may still copy: then the guest's own signs
// are all there is.
Finding bounce_of(const Inputs& inputs) {
    if (inputs.live != nullptr && (inputs.live->capabilities.value_or(0) & kDeviceDmaBounce) != 0) {
        return yes_or_no(true, SLUICE_SOURCE_DEVICE, SLUICE_CONFIDENCE_CERTAIN);
    }
    if (!inputs.platform.confidential_evidence.empty()) {
        return yes_or_no(true, SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_LIKELY);
    }
    return yes_or_no(false, SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_ASSUMED);
}

} // namespace

Capabilities find_capabilities(const Inputs& inputs) {
    Capabilities found;
    if (inputs.device.is_software) {
        answer_for_software(found);
    } else {
        ask_pci(inputs, found);
        found.dma_bounce = bounce_of(inputs);
        if (inputs.live != nullptr && inputs.live->in_order) {
            found.in_order_placement =
                yes_or_no(*inputs.live->in_order, SLUICE_SOURCE_DEVICE, SLUICE_CONFIDENCE_CERTAIN);
        }
    }
    if (inputs.live != nullptr && inputs.live->max_inline) {
        found.max_inline = {*inputs.live->max_inline, SLUICE_SOURCE_DEVICE, SLUICE_CONFIDENCE_CERTAIN};
    }
    if (inputs.live != nullptr && inputs.live->capabilities) {
        const std::uint64_t capabilities = *inputs.live->capabilities;
        found.native_atomic_write = yes_or_no((capabilities & kDeviceAtomicWrite) != 0, SLUICE_SOURCE_DEVICE,
                                              SLUICE_CONFIDENCE_CERTAIN);
        found.flush = flush_of(capabilities);
        found.on_demand_paging = paging_of(inputs.live->paging);
        found.atomics = known(inputs.live->atomics);
        found.max_sge = known(inputs.live->max_sge);
    }
    return found;
}

} // namespace sluice::attributes
