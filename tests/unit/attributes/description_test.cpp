// SPDX-License-Identifier: BSD-3-Clause
#include "provider/attributes/description.hpp"

#include <cerrno>
#include <cstring>
#include <set>
#include <string>

#include "core/versioned.hpp"
#include "tests/cmocka.hpp"

using sluice::copy_versioned;
using sluice::attributes::describe;

namespace {

sluice_device_attributes example() {
    sluice_device_attributes attributes{};
    std::strcpy(attributes.provider.value, "/lib/libmlx5-rdmav34.so");
    attributes.provider.source = SLUICE_SOURCE_PROCESS;
    attributes.cpu_coherence = {SLUICE_COHERENCE_NONCOHERENT, SLUICE_SOURCE_DEVICE_TREE,
                                SLUICE_CONFIDENCE_LIKELY};
    attributes.line_bytes = {64, SLUICE_SOURCE_CPU, SLUICE_CONFIDENCE_CERTAIN};
    return attributes;
}

sluice_attribute_description find(const sluice_device_attributes& attributes, const char* name) {
    for (unsigned i = 0;; ++i) {
        auto description = describe(attributes, sizeof attributes, i);
        if (!description) {
            fail_msg("no attribute '%s'", name);
        }
        if (std::strcmp(description->name, name) == 0) {
            return *description;
        }
    }
}

TEST(iteration__ends_and_names_every_attribute_once) {
    const sluice_device_attributes attributes = example();
    std::set<std::string> names;
    unsigned index = 0;
    while (auto description = describe(attributes, sizeof attributes, index)) {
        assert_true(names.insert(description->name).second);
        assert_true(std::strlen(description->meaning) > 10);
        ++index;
    }
    // One for each field besides the name and the evidence.
    const std::size_t earlier =
        offsetof(sluice_device_attributes, iommu) - offsetof(sluice_device_attributes, cpu_coherence);
    const std::size_t later = sizeof attributes - offsetof(sluice_device_attributes, iommu);
    const std::size_t fields = 4 + earlier / sizeof(sluice_attribute) + later / sizeof(sluice_text_attribute);
    assert_int_equal(index, fields);
    assert_int_equal(describe(attributes, sizeof attributes, index).error().to_errno(), ENOENT);
    assert_false(describe(attributes, sizeof attributes, ~0U).ok());
}

TEST(description__has_value_source_and_confidence_in_words) {
    const auto coherence = find(example(), "cpu-coherence");
    assert_string_equal(coherence.value, "noncoherent");
    assert_string_equal(coherence.source, "device-tree");
    assert_string_equal(coherence.confidence, "likely");
    assert_int_equal(coherence.number, SLUICE_COHERENCE_NONCOHERENT);
    const auto line = find(example(), "line");
    assert_string_equal(line.value, "64");
    assert_int_equal(line.kind, SLUICE_ATTRIBUTE_BYTES);
    assert_string_equal(find(example(), "provider").value, "/lib/libmlx5-rdmav34.so");
}

TEST(description__of_nothing__is_unknown_everywhere) {
    const sluice_device_attributes nothing{};
    for (unsigned i = 0; auto description = describe(nothing, sizeof nothing, i); ++i) {
        assert_string_equal(description->value, "unknown");
        assert_string_equal(description->source, "unknown");
        assert_string_equal(description->confidence, "unknown");
    }
}

TEST(description__of_garbage__stays_inside) {
    sluice_device_attributes garbage;
    std::memset(&garbage, 0xff, sizeof garbage);
    for (unsigned i = 0; auto description = describe(garbage, sizeof garbage, i); ++i) {
        assert_true(std::memchr(description->value, '\0', sizeof description->value) != nullptr);
        assert_string_equal(description->source, "unknown");
    }
}

TEST(number__zero_is_a_value__unless_nobody_told_it) {
    sluice_device_attributes attributes{};
    const auto node = [&attributes] {
        for (unsigned i = 0; auto description = describe(attributes, sizeof attributes, i); ++i) {
            if (std::strcmp(description->name, "numa-node") == 0) {
                return std::string(description->value);
            }
        }
        return std::string("there is no such attribute");
    };
    assert_string_equal(node().c_str(), "unknown");
    attributes.numa_node = {0, SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_CERTAIN};
    assert_string_equal(node().c_str(), "0");
}

TEST(older_attributes__later_fields_are_not_described) {
    const sluice_device_attributes attributes = example();
    const std::size_t before_bounce = offsetof(sluice_device_attributes, dma_bounce);
    unsigned count = 0;
    while (describe(attributes, before_bounce, count)) {
        ++count;
    }
    assert_false(describe(attributes, before_bounce, count).ok());
    assert_true(describe(attributes, sizeof attributes, count).ok());
}

struct Newer {
    std::uint32_t first;
    std::uint32_t second;
};

TEST(copy__caller_knows_less__gets_what_it_knows) {
    const Newer from{1, 2};
    std::uint32_t to[2] = {7, 7};
    assert_true(copy_versioned(from, to, 4, 4).ok());
    assert_int_equal(to[0], 1);
    assert_int_equal(to[1], 7);
}

TEST(copy__caller_knows_more__the_rest_is_zero) {
    const Newer from{1, 2};
    std::uint32_t to[4] = {7, 7, 7, 7};
    assert_true(copy_versioned(from, to, 12, 4).ok());
    assert_int_equal(to[1], 2);
    assert_int_equal(to[2], 0);
    assert_int_equal(to[3], 7);
}

TEST(copy__impossible_size__is_an_error_and_writes_nothing) {
    const Newer from{1, 2};
    std::uint32_t to[1] = {7};
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{3}, (std::size_t{1} << 16) + 1, ~std::size_t{0}}) {
        auto result = copy_versioned(from, to, size, 4);
        assert_int_equal(result.error().to_errno(), EINVAL);
    }
    assert_false(copy_versioned(from, nullptr, 8, 4).ok());
    assert_int_equal(to[0], 7);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("attributes.description");
}
