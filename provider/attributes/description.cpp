// SPDX-License-Identifier: BSD-3-Clause
#include "provider/attributes/description.hpp"

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>

namespace sluice::attributes {

namespace {

constexpr const char* kUnknown = "unknown";

constexpr std::array kCoherence{kUnknown, "coherent", "noncoherent", "simulated"};
constexpr std::array kAnswers{kUnknown, "no", "yes"};
constexpr std::array kFlushes{kUnknown, "none", "global", "persistent", "global+persistent"};
constexpr std::array kPagings{kUnknown, "none", "explicit", "implicit"};
constexpr std::array kAtomics{kUnknown, "none", "device", "global"};
constexpr std::array kSources{kUnknown,      "environment",     "config",  "registration", "architecture",
                              "device-tree", "software-device", "default", "device",       "pci",
                              "cpu",         "kernel",          "process"};
constexpr std::array kConfidences{kUnknown, "assumed", "likely", "certain"};
static_assert(kCoherence.size() == SLUICE_COHERENCE_SIMULATED + 1);
static_assert(kFlushes.size() == SLUICE_FLUSH_BOTH + 1);
static_assert(kPagings.size() == SLUICE_PAGING_IMPLICIT + 1);
static_assert(kAtomics.size() == SLUICE_ATOMICS_GLOBAL + 1);
static_assert(kSources.size() == SLUICE_SOURCE_PROCESS + 1);
static_assert(kConfidences.size() == SLUICE_CONFIDENCE_CERTAIN + 1);

const char* name_in(std::span<const char* const> names, std::uint64_t value) noexcept {
    return value < names.size() ? names[value] : kUnknown;
}

struct Row {
    const char* name;
    const char* meaning;
    std::size_t offset;
    sluice_attribute_kind kind;
    std::span<const char* const> values;
};

using Fields = sluice_device_attributes;

// In the order in which a person wants to read them. A field that a later version adds comes
// last here too, because INDEX is part of the interface.
constexpr std::array kRows{
    Row{"provider",
        "the file whose code drives the device in this process",
        offsetof(Fields, provider),
        SLUICE_ATTRIBUTE_TEXT,
        {}},
    Row{"kernel-driver",
        "the kernel's module for it",
        offsetof(Fields, kernel_driver),
        SLUICE_ATTRIBUTE_TEXT,
        {}},
    Row{"cpu-coherence", "does the device see what is in the CPU's caches?", offsetof(Fields, cpu_coherence),
        SLUICE_ATTRIBUTE_CHOICE, kCoherence},
    Row{"io-coherence", "does the CPU see what the device's side has taken over?",
        offsetof(Fields, io_coherence), SLUICE_ATTRIBUTE_CHOICE, kCoherence},
    Row{"line",
        "bytes that the CPU's caches move at a time",
        offsetof(Fields, line_bytes),
        SLUICE_ATTRIBUTE_BYTES,
        {}},
    Row{"granule",
        "bytes that two owners of memory must not share",
        offsetof(Fields, granule_bytes),
        SLUICE_ATTRIBUTE_BYTES,
        {}},
    Row{"clean",
        "this CPU's instruction that writes a line back",
        offsetof(Fields, clean),
        SLUICE_ATTRIBUTE_TEXT,
        {}},
    Row{"invalidate",
        "this CPU's instruction that drops a line",
        offsetof(Fields, invalidate),
        SLUICE_ATTRIBUTE_TEXT,
        {}},
    Row{"relaxed-ordering", "may the device's writes be seen out of order, if asked for?",
        offsetof(Fields, relaxed_ordering), SLUICE_ATTRIBUTE_CHOICE, kAnswers},
    Row{"no-snoop", "may the device bypass the CPU's caches for single accesses?", offsetof(Fields, no_snoop),
        SLUICE_ATTRIBUTE_CHOICE, kAnswers},
    Row{"in-order-placement", "do the bytes of a message land in the order of their addresses?",
        offsetof(Fields, in_order_placement), SLUICE_ATTRIBUTE_CHOICE, kAnswers},
    Row{"atomic-write", "does the device know RDMA atomic write?", offsetof(Fields, native_atomic_write),
        SLUICE_ATTRIBUTE_CHOICE, kAnswers},
    Row{"flush", "what can an RDMA flush promise?", offsetof(Fields, flush), SLUICE_ATTRIBUTE_CHOICE,
        kFlushes},
    Row{"on-demand-paging", "can memory be registered without being pinned?",
        offsetof(Fields, on_demand_paging), SLUICE_ATTRIBUTE_CHOICE, kPagings},
    Row{"dma-bounce", "is DMA copied through unencrypted pages, as in confidential guests?",
        offsetof(Fields, dma_bounce), SLUICE_ATTRIBUTE_CHOICE, kAnswers},
    Row{"atomics", "what is an RDMA atomic operation atomic against?", offsetof(Fields, atomics),
        SLUICE_ATTRIBUTE_CHOICE, kAtomics},
    Row{"max-sge",
        "segments of memory that one request may have",
        offsetof(Fields, max_sge),
        SLUICE_ATTRIBUTE_NUMBER,
        {}},
    Row{"max-inline",
        "bytes that one request may have in itself",
        offsetof(Fields, max_inline),
        SLUICE_ATTRIBUTE_NUMBER,
        {}},
    Row{"numa-node",
        "the node of memory and processors that it is near to",
        offsetof(Fields, numa_node),
        SLUICE_ATTRIBUTE_NUMBER,
        {}},
    Row{"iommu",
        "how an IOMMU translates what it reads and writes",
        offsetof(Fields, iommu),
        SLUICE_ATTRIBUTE_TEXT,
        {}},
    Row{"iommu-group",
        "the number of the group that it shares an IOMMU's domain with",
        offsetof(Fields, iommu_group),
        SLUICE_ATTRIBUTE_NUMBER,
        {}},
    Row{"ats", "may it keep an IOMMU's translations?", offsetof(Fields, ats), SLUICE_ATTRIBUTE_CHOICE,
        kAnswers},
    Row{"acs", "do requests to its neighbours on PCI pass the root?", offsetof(Fields, acs),
        SLUICE_ATTRIBUTE_CHOICE, kAnswers},
    Row{"pci-address",
        "the function that it is on PCI",
        offsetof(Fields, pci_address),
        SLUICE_ATTRIBUTE_TEXT,
        {}},
    Row{"pci-link", "how fast it is connected there", offsetof(Fields, pci_link), SLUICE_ATTRIBUTE_TEXT, {}},
    Row{"netdev",
        "the network interface that it sends by",
        offsetof(Fields, netdev),
        SLUICE_ATTRIBUTE_TEXT,
        {}},
    Row{"firmware", "the version of what runs on it", offsetof(Fields, firmware), SLUICE_ATTRIBUTE_TEXT, {}},
};

std::size_t size_of(const Row& row) {
    return row.kind == SLUICE_ATTRIBUTE_TEXT ? sizeof(sluice_text_attribute) : sizeof(sluice_attribute);
}

template<typename T>
T field_at(const sluice_device_attributes& attributes, std::size_t offset) {
    T field;
    std::memcpy(&field, reinterpret_cast<const char*>(&attributes) + offset, sizeof field);
    return field;
}

void describe_text(const sluice_text_attribute& attribute, sluice_attribute_description& description) {
    const auto length = static_cast<int>(strnlen(attribute.value, sizeof attribute.value));
    std::snprintf(description.value, sizeof description.value, "%.*s", length == 0 ? 7 : length,
                  length == 0 ? kUnknown : attribute.value);
    description.source = source_name(attribute.source);
    description.confidence = confidence_name(attribute.confidence);
}

void describe_number(const Row& row, const sluice_attribute& attribute,
                     sluice_attribute_description& description) {
    const bool is_number = row.kind == SLUICE_ATTRIBUTE_BYTES ? attribute.value != 0
                                                              : row.kind == SLUICE_ATTRIBUTE_NUMBER &&
                                                                    attribute.source != SLUICE_SOURCE_NONE;
    if (is_number) {
        std::snprintf(description.value, sizeof description.value, "%llu",
                      static_cast<unsigned long long>(attribute.value));
    } else {
        std::snprintf(description.value, sizeof description.value, "%s",
                      name_in(row.values, attribute.value));
    }
    description.number = attribute.value;
    description.source = source_name(attribute.source);
    description.confidence = confidence_name(attribute.confidence);
}

} // namespace

Result<sluice_attribute_description> describe(const sluice_device_attributes& attributes,
                                              std::size_t attributes_size, unsigned index) {
    if (index >= kRows.size() || kRows[index].offset + size_of(kRows[index]) > attributes_size) {
        return Error(ErrorKind::kNotFound, "there are no more attributes");
    }
    const Row& row = kRows[index];
    sluice_attribute_description description{};
    description.name = row.name;
    description.meaning = row.meaning;
    description.kind = row.kind;
    if (row.kind == SLUICE_ATTRIBUTE_TEXT) {
        describe_text(field_at<sluice_text_attribute>(attributes, row.offset), description);
    } else {
        describe_number(row, field_at<sluice_attribute>(attributes, row.offset), description);
    }
    return description;
}

const char* coherence_name(std::uint64_t coherence) noexcept {
    return name_in(kCoherence, coherence);
}

const char* source_name(std::uint32_t source) noexcept {
    return name_in(kSources, source);
}

const char* confidence_name(std::uint32_t confidence) noexcept {
    return name_in(kConfidences, confidence);
}

} // namespace sluice::attributes
