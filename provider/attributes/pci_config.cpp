// SPDX-License-Identifier: BSD-3-Clause
#include "provider/attributes/pci_config.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice::attributes {

namespace {

constexpr std::size_t kHeader = 64;
constexpr std::size_t kConventional = 256; // behind these bytes PCI Express has more

std::uint32_t byte_at(std::string_view config, std::size_t offset) {
    return static_cast<unsigned char>(config[offset]);
}

std::uint32_t word_at(std::string_view config, std::size_t offset) {
    return byte_at(config, offset) | byte_at(config, offset + 1) << 8U;
}

// Where the capability begins; 0: it isn't there, or its first LENGTH bytes aren't.
std::size_t find_capability(std::string_view config, std::uint32_t wanted, std::size_t length) {
    constexpr std::size_t kStatus = 0x06; // bit 4: there is a list of capabilities
    constexpr std::size_t kFirstCapability = 0x34;
    constexpr int kMaxCapabilities = 48; // that many fit, so a longer list is a loop
    if (config.size() <= kHeader || (byte_at(config, kStatus) & 0x10U) == 0) {
        return 0;
    }
    std::size_t at = byte_at(config, kFirstCapability) & ~3U;
    for (int i = 0; i < kMaxCapabilities && at >= kHeader && at + length <= config.size(); ++i) {
        if (byte_at(config, at) == wanted) {
            return at;
        }
        at = byte_at(config, at + 1) & ~3U;
    }
    return 0;
}

// The same for those of PCI Express, in the space behind the conventional one.
std::size_t find_extended_capability(std::string_view config, std::uint32_t wanted, std::size_t length) {
    constexpr int kMaxCapabilities = static_cast<int>((kPciConfigBytes - kConventional) / 8);
    std::size_t at = kConventional;
    for (int i = 0; i < kMaxCapabilities && at >= kConventional && at + length <= config.size(); ++i) {
        if (word_at(config, at) == wanted) {
            return at;
        }
        at = (word_at(config, at + 2) >> 4U) & ~3U;
    }
    return 0;
}

// The bit of the word at OFFSET in an extended capability.
std::optional<bool> extended_bit(std::string_view config, std::uint32_t capability, std::size_t offset,
                                 unsigned bit) {
    if (config.size() < kConventional) {
        return std::nullopt;
    }
    const std::size_t at = find_extended_capability(config, capability, offset + 2);
    return at != 0 && (word_at(config, at + offset) & 1U << bit) != 0;
}

bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

} // namespace

std::optional<PciControl> parse_pci_control(std::string_view config) noexcept {
    constexpr std::uint32_t kPciExpress = 0x10;
    constexpr std::size_t kDeviceControl = 8;
    const std::size_t at = find_capability(config, kPciExpress, kDeviceControl + 2);
    if (at == 0) {
        return std::nullopt;
    }
    const std::uint32_t control = word_at(config, at + kDeviceControl);
    return PciControl{(control & (1U << 4U)) != 0, (control & (1U << 11U)) != 0};
}

std::optional<bool> parse_ats(std::string_view config) noexcept {
    return extended_bit(config, 0x0f, 6, 15);
}

std::optional<bool> parse_request_redirect(std::string_view config) noexcept {
    return extended_bit(config, 0x0d, 6, 2);
}

// DOMAIN:BUS:DEVICE.FUNCTION, where a domain may have more than four digits.
bool is_pci_address(std::string_view name) noexcept {
    constexpr std::string_view kShape = "hh:hh.h";
    const std::size_t domain = name.find(':');
    if (domain < 4 || domain > 8 || name.size() != domain + 1 + kShape.size()) {
        return false;
    }
    const std::string_view rest = name.substr(domain + 1);
    return std::ranges::all_of(name.substr(0, domain), is_hex) &&
           std::equal(rest.begin(), rest.end(), kShape.begin(),
                      [](char c, char shape) { return shape == 'h' ? is_hex(c) : c == shape; });
}

} // namespace sluice::attributes
