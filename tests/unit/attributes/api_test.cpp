// SPDX-License-Identifier: BSD-3-Clause
//
// <sluice/sluice.h> as a program sees it: through the shared library.
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "sluice/sluice.h"
#include "tests/cmocka.hpp"
#include "tests/machine.hpp"

using sluice::test::Machine;

namespace {

std::string last_error;

int capture_log(void**) {
    last_error.clear();
    sluice_set_log_sink([](void*, int, const char*, const char* message) { last_error = message; }, nullptr);
    return 0;
}

int release_log(void**) {
    sluice_set_log_sink(nullptr, nullptr);
    return 0;
}

TEST(query_name__recorded_machine__answers) {
    const Machine machine("raspberry-pi");
    sluice_device_attributes attributes;
    assert_int_equal(sluice_query_name(machine.root().c_str(), "mlx4_0", &attributes, sizeof attributes), 0);
    assert_string_equal(attributes.name, "mlx4_0");
    assert_int_equal(attributes.cpu_coherence.value, SLUICE_COHERENCE_NONCOHERENT);
}

TEST(query_name__unknown__is_enodev_and_the_log_names_the_others, capture_log, release_log) {
    const Machine machine("raspberry-pi");
    sluice_device_attributes attributes;
    std::memset(&attributes, 7, sizeof attributes);
    const sluice_device_attributes before = attributes;
    assert_int_equal(sluice_query_name(machine.root().c_str(), "nope", &attributes, sizeof attributes),
                     ENODEV);
    assert_non_null(std::strstr(last_error.c_str(), "mlx4_0"));
    assert_memory_equal(&attributes, &before, sizeof before);
}

// What the struct of the first version had.
constexpr std::size_t kFirstVersion = offsetof(sluice_device_attributes, atomics);

TEST(query__program_of_the_first_version__gets_what_it_knows) {
    const Machine machine("pvrdma");
    sluice_device_attributes attributes;
    std::memset(&attributes, 7, sizeof attributes);
    assert_int_equal(sluice_query_name(machine.root().c_str(), "vmw_pvrdma0", &attributes, kFirstVersion), 0);
    assert_string_equal(attributes.kernel_driver.value, "vmw_pvrdma");
    assert_int_equal(attributes.pci_address.value[0], 7);
    assert_int_equal(sluice_query_name(machine.root().c_str(), "vmw_pvrdma0", &attributes, sizeof attributes),
                     0);
    assert_string_equal(attributes.pci_address.value, "0000:00:10.1");
}

TEST(query__null_or_wrong_size__is_einval, capture_log, release_log) {
    const Machine machine("raspberry-pi");
    const char* root = machine.root().c_str();
    sluice_device_attributes attributes{};
    const std::size_t size = sizeof attributes;
    assert_int_equal(sluice_query_name(root, nullptr, &attributes, size), EINVAL);
    assert_int_equal(sluice_query_name(root, "mlx4_0", nullptr, size), EINVAL);
    assert_int_equal(sluice_query_name(root, "mlx4_0", &attributes, 0), EINVAL);
    assert_int_equal(sluice_query_name(root, "mlx4_0", &attributes, kFirstVersion - 1), EINVAL);
    assert_int_equal(sluice_query_name(root, "mlx4_0", &attributes, ~std::size_t{0}), EINVAL);
    assert_int_equal(sluice_query_context(nullptr, &attributes, size), EINVAL);
    assert_int_equal(sluice_query_device(nullptr, &attributes, size), EINVAL);
    assert_int_equal(sluice_list_devices(root, nullptr, nullptr), EINVAL);
    sluice_attribute_description description;
    assert_int_equal(sluice_describe_attribute(nullptr, size, 0, &description, sizeof description), EINVAL);
    assert_int_equal(sluice_describe_attribute(&attributes, size, 0, nullptr, sizeof description), EINVAL);
    assert_int_equal(sluice_describe_attribute(&attributes, size, 0, &description, 8), EINVAL);
}

TEST(query__program_newer_than_the_library__rest_is_unknown) {
    const Machine machine("raspberry-pi");
    struct {
        sluice_device_attributes known;
        sluice_attribute of_a_later_version;
    } newer;
    std::memset(&newer, 7, sizeof newer);
    assert_int_equal(sluice_query_name(machine.root().c_str(), "mlx4_0", &newer.known, sizeof newer), 0);
    assert_int_equal(newer.known.cpu_coherence.value, SLUICE_COHERENCE_NONCOHERENT);
    assert_int_equal(newer.of_a_later_version.value, 0);
    assert_int_equal(newer.of_a_later_version.confidence, SLUICE_CONFIDENCE_NONE);
    sluice_attribute_description description;
    assert_int_equal(
        sluice_describe_attribute(&newer.known, sizeof newer, 0, &description, sizeof description), 0);
}

TEST(list__recorded_machine__gives_sorted_names) {
    const Machine machine("x86-server");
    std::vector<std::string> names;
    const auto add = [](void* context, const char* name) {
        static_cast<std::vector<std::string>*>(context)->emplace_back(name);
    };
    assert_int_equal(sluice_list_devices(machine.root().c_str(), add, &names), 0);
    assert_int_equal(names.size(), 2);
    assert_string_equal(names[0].c_str(), "irdma0");
    assert_string_equal(names[1].c_str(), "mlx5_0");
    names.clear();
    assert_int_equal(sluice_list_devices(Machine().root().c_str(), add, &names), 0);
    assert_int_equal(names.size(), 0);
}

TEST(names__are_never_null) {
    assert_string_equal(sluice_coherence_name(SLUICE_COHERENCE_SIMULATED), "simulated");
    assert_string_equal(sluice_source_name(SLUICE_SOURCE_PCI), "pci");
    assert_string_equal(sluice_confidence_name(SLUICE_CONFIDENCE_CERTAIN), "certain");
    assert_string_equal(sluice_coherence_name(~0ULL), "unknown");
    assert_string_equal(sluice_source_name(~0U), "unknown");
    assert_string_equal(sluice_confidence_name(99), "unknown");
}

TEST(describe__iterates_until_enoent) {
    const sluice_device_attributes attributes{};
    sluice_attribute_description description;
    unsigned index = 0;
    int result = 0;
    while ((result = sluice_describe_attribute(&attributes, sizeof attributes, index, &description,
                                               sizeof description)) == 0) {
        ++index;
    }
    assert_int_equal(result, ENOENT);
    assert_true(index >= 15);
}

// A device that sysfs doesn't know, as a device that was unplugged a moment ago.
TEST(query_context__device_gone__is_enodev, capture_log, release_log) {
    ibv_device device{};
    std::strcpy(device.name, "sluice_test_gone");
    ibv_context context{};
    context.device = &device;
    sluice_device_attributes attributes;
    assert_int_equal(sluice_query_context(&context, &attributes, sizeof attributes), ENODEV);
    assert_int_equal(sluice_query_device(&device, &attributes, sizeof attributes), ENODEV);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("attributes.api");
}
