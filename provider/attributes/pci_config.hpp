// SPDX-License-Identifier: BSD-3-Clause
//
// What is set in the configuration space of a PCI function, from the bytes of its file "config" in /sys.
// Without privileges the kernel gives only the first 64 of them: then there is no answer.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace sluice::attributes {

constexpr std::size_t kPciConfigBytes = 4096;

// What the Device Control register of a PCI Express function allows it to do.
struct PciControl {
    bool relaxed_ordering;
    bool no_snoop;
};
std::optional<PciControl> parse_pci_control(std::string_view config) noexcept;

// Whether the function may keep translations of its own (ATS). One without the capability may not.
std::optional<bool> parse_ats(std::string_view config) noexcept;

// Whether a port sends requests between functions below it up to the root first (ACS, request redirect). One
// without the capability does not.
std::optional<bool> parse_request_redirect(std::string_view config) noexcept;

// "0000:81:00.0": a directory of /sys/devices with such a name is a PCI function.
bool is_pci_address(std::string_view name) noexcept;

} // namespace sluice::attributes
