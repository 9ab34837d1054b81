// SPDX-License-Identifier: BSD-3-Clause
//
// What the answers are on the machines of tests/fixtures.
#include <cstring>
#include <map>

#include "core/coherence/cacheflush.hpp"
#include "provider/attributes/cpu_cache.hpp"
#include "provider/attributes/query.hpp"
#include "tests/cmocka.hpp"
#include "tests/machine.hpp"

using sluice::FileTree;
using sluice::attributes::LiveFacts;
using sluice::test::Machine;
namespace attributes = sluice::attributes;

namespace {

sluice_device_attributes ask(const Machine& machine, const char* name) {
    auto result = attributes::query(FileTree(machine.root()), name, nullptr, nullptr);
    if (!result) {
        fail_msg("%s", result.error().text());
    }
    return *result;
}

sluice_device_attributes ask_live(const Machine& machine, const char* name, LiveFacts facts) {
    const auto give = [](void* context, attributes::Trials) {
        return std::optional(*static_cast<LiveFacts*>(context));
    };
    auto result = attributes::query(FileTree(machine.root()), name, give, &facts);
    if (!result) {
        fail_msg("%s", result.error().text());
    }
    return *result;
}

void assert_attribute(const sluice_attribute& attribute, std::uint64_t value, sluice_source source,
                      sluice_confidence confidence) {
    assert_int_equal(attribute.value, value);
    assert_int_equal(attribute.source, source);
    assert_int_equal(attribute.confidence, confidence);
}

TEST(x86__every_device__is_coherent_by_architecture) {
    const Machine machine("x86-server");
    for (const char* name : {"mlx5_0", "irdma0"}) {
        const auto device = ask(machine, name);
        assert_attribute(device.cpu_coherence, SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_ARCHITECTURE,
                         SLUICE_CONFIDENCE_CERTAIN);
        assert_attribute(device.io_coherence, SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_ARCHITECTURE,
                         SLUICE_CONFIDENCE_LIKELY);
        assert_attribute(device.line_bytes, 64, SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_LIKELY);
    }
}

TEST(x86__driver__is_that_of_the_pci_function) {
    const Machine machine("x86-server");
    assert_string_equal(ask(machine, "mlx5_0").kernel_driver.value, "mlx5_core");
    assert_string_equal(ask(machine, "irdma0").kernel_driver.value, "ice");
}

TEST(x86__pci_control_bits__tell_ordering_and_snooping) {
    const Machine machine("x86-server");
    const auto mlx5 = ask(machine, "mlx5_0");
    assert_attribute(mlx5.relaxed_ordering, SLUICE_ANSWER_YES, SLUICE_SOURCE_PCI, SLUICE_CONFIDENCE_LIKELY);
    assert_attribute(mlx5.no_snoop, SLUICE_ANSWER_YES, SLUICE_SOURCE_PCI, SLUICE_CONFIDENCE_LIKELY);
    const auto irdma = ask(machine, "irdma0");
    assert_attribute(irdma.relaxed_ordering, SLUICE_ANSWER_NO, SLUICE_SOURCE_PCI, SLUICE_CONFIDENCE_CERTAIN);
    assert_attribute(irdma.no_snoop, SLUICE_ANSWER_NO, SLUICE_SOURCE_PCI, SLUICE_CONFIDENCE_CERTAIN);
}

TEST(arm64__dma_coherent_at_the_host_bridge__is_coherent) {
    const Machine machine("arm64-coherent");
    const auto device = ask(machine, "hns_0");
    assert_attribute(device.cpu_coherence, SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_DEVICE_TREE,
                     SLUICE_CONFIDENCE_LIKELY);
    assert_string_equal(device.coherence_evidence,
                        "/sys/firmware/devicetree/base/pcie@a0000000/dma-coherent");
}

TEST(arm64__no_property__is_noncoherent) {
    for (const auto& [machine, name] :
         std::map<const char*, const char*>{{"arm64-noncoherent", "mlx5_0"}, {"raspberry-pi", "mlx4_0"}}) {
        const auto device = ask(Machine(machine), name);
        assert_attribute(device.cpu_coherence, SLUICE_COHERENCE_NONCOHERENT, SLUICE_SOURCE_DEVICE_TREE,
                         SLUICE_CONFIDENCE_LIKELY);
    }
}

TEST(arm64__acpi__is_unknown_and_says_why) {
    const auto device = ask(Machine("arm64-acpi"), "efa_0");
    assert_attribute(device.cpu_coherence, SLUICE_COHERENCE_UNKNOWN, SLUICE_SOURCE_NONE,
                     SLUICE_CONFIDENCE_NONE);
    assert_non_null(std::strstr(device.coherence_evidence, "_CCA"));
}

TEST(arm64__firmware_hidden__is_unknown_not_noncoherent) {
    Machine machine("raspberry-pi");
    machine.remove("/sys/firmware");
    assert_int_equal(ask(machine, "mlx4_0").cpu_coherence.value, SLUICE_COHERENCE_UNKNOWN);
    machine.add("/sys/firmware/devicetree/base/compatible = raspberrypi,4-compute-module");
    const auto device = ask(machine, "mlx4_0");
    assert_int_equal(device.cpu_coherence.value, SLUICE_COHERENCE_UNKNOWN);
    assert_non_null(std::strstr(device.coherence_evidence, "hidden"));
}

TEST(arm64__nearest_property__wins_over_those_above) {
    Machine machine("arm64-noncoherent");
    machine.add("/sys/firmware/devicetree/base/dma-coherent =");
    assert_int_equal(ask(machine, "mlx5_0").cpu_coherence.value, SLUICE_COHERENCE_COHERENT);
    machine.add("/sys/firmware/devicetree/base/pcie@fe150000/dma-noncoherent =");
    assert_int_equal(ask(machine, "mlx5_0").cpu_coherence.value, SLUICE_COHERENCE_NONCOHERENT);
    machine.add("/sys/firmware/devicetree/base/pcie@fe150000/pcie@0,0/dma-coherent =");
    assert_int_equal(ask(machine, "mlx5_0").cpu_coherence.value, SLUICE_COHERENCE_COHERENT);
}

TEST(arm64__memory_reached_another_way__is_only_assumed) {
    Machine machine("arm64-noncoherent");
    machine.add("/sys/firmware/devicetree/base/pcie@fe150000/interconnect-names = dma-mem");
    assert_attribute(ask(machine, "mlx5_0").cpu_coherence, SLUICE_COHERENCE_NONCOHERENT,
                     SLUICE_SOURCE_DEVICE_TREE, SLUICE_CONFIDENCE_ASSUMED);
}

TEST(arm64__no_node_at_all__is_the_cautious_default) {
    Machine machine("arm64-noncoherent");
    machine.remove("/sys/devices/platform/fe150000.pcie/of_node");
    machine.remove("/sys/devices/platform/fe150000.pcie/pci0000:00/0000:00:00.0/of_node");
    assert_attribute(ask(machine, "mlx5_0").cpu_coherence, SLUICE_COHERENCE_NONCOHERENT,
                     SLUICE_SOURCE_DEFAULT, SLUICE_CONFIDENCE_ASSUMED);
}

TEST(arm64__software_device__is_coherent) {
    for (const auto& [tree, name] :
         std::map<std::string, std::string>{{"arm64-rxe", "rxe0"}, {"arm64-siw", "siw0"}}) {
        const Machine machine(tree);
        assert_attribute(ask(machine, name.c_str()).cpu_coherence, SLUICE_COHERENCE_COHERENT,
                         SLUICE_SOURCE_SOFTWARE_DEVICE, SLUICE_CONFIDENCE_CERTAIN);
    }
}

TEST(riscv64__dma_noncoherent_above__is_noncoherent) {
    Machine machine("riscv64-noncoherent");
    assert_attribute(ask(machine, "mlx5_0").cpu_coherence, SLUICE_COHERENCE_NONCOHERENT,
                     SLUICE_SOURCE_DEVICE_TREE, SLUICE_CONFIDENCE_LIKELY);
    machine.remove("/sys/firmware/devicetree/base/soc/dma-noncoherent");
    assert_attribute(ask(machine, "mlx5_0").cpu_coherence, SLUICE_COHERENCE_COHERENT,
                     SLUICE_SOURCE_DEVICE_TREE, SLUICE_CONFIDENCE_LIKELY);
}

TEST(ppc64le__silent_device_tree__is_coherent_by_architecture) {
    const auto device = ask(Machine("ppc64le-server"), "mlx5_0");
    assert_attribute(device.cpu_coherence, SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_ARCHITECTURE,
                     SLUICE_CONFIDENCE_CERTAIN);
    assert_int_equal(device.line_bytes.value, 128);
}

TEST(s390x__secure_execution__bounces) {
    Machine machine("s390x-guest");
    assert_attribute(ask(machine, "mlx5_0").dma_bounce, SLUICE_ANSWER_YES, SLUICE_SOURCE_KERNEL,
                     SLUICE_CONFIDENCE_LIKELY);
    machine.write("/sys/firmware/uv/prot_virt_guest", "0\n");
    assert_attribute(ask(machine, "mlx5_0").dma_bounce, SLUICE_ANSWER_NO, SLUICE_SOURCE_KERNEL,
                     SLUICE_CONFIDENCE_ASSUMED);
}

TEST(unknown_architecture__is_unknown) {
    Machine machine("x86-server");
    machine.remove("/proc");
    const auto device = ask(machine, "mlx5_0");
    assert_attribute(device.cpu_coherence, SLUICE_COHERENCE_UNKNOWN, SLUICE_SOURCE_NONE,
                     SLUICE_CONFIDENCE_NONE);
    assert_attribute(device.io_coherence, SLUICE_COHERENCE_UNKNOWN, SLUICE_SOURCE_NONE,
                     SLUICE_CONFIDENCE_NONE);
}

TEST(architecture_that_nobody_listed__is_coherent_by_default) {
    Machine machine("x86-server");
    machine.write("/proc/sys/kernel/arch", "sparc64\n");
    assert_attribute(ask(machine, "mlx5_0").cpu_coherence, SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_DEFAULT,
                     SLUICE_CONFIDENCE_ASSUMED);
}

TEST(software_devices__are_known_and_have_no_bus) {
    for (const auto& [name, driver] :
         std::map<std::string, std::string>{{"rxe", "rdma_rxe"}, {"siw", "siw"}}) {
        const auto device = ask(Machine(name), (name + "0").c_str());
        assert_string_equal(device.kernel_driver.value, driver.c_str());
        for (const sluice_attribute& attribute :
             {device.relaxed_ordering, device.no_snoop, device.in_order_placement, device.dma_bounce}) {
            assert_attribute(attribute, SLUICE_ANSWER_NO, SLUICE_SOURCE_SOFTWARE_DEVICE,
                             SLUICE_CONFIDENCE_CERTAIN);
        }
    }
}

TEST(recorded_machine__what_only_an_open_device_tells__is_unknown) {
    const auto device = ask(Machine("x86-server"), "mlx5_0");
    for (const sluice_attribute& attribute :
         {device.native_atomic_write, device.flush, device.on_demand_paging, device.in_order_placement,
          device.granule_bytes}) {
        assert_attribute(attribute, 0, SLUICE_SOURCE_NONE, SLUICE_CONFIDENCE_NONE);
    }
    assert_string_equal(device.provider.value, "");
    assert_int_equal(device.provider.source, SLUICE_SOURCE_NONE);
    assert_string_equal(device.clean.value, "");
}

TEST(open_device__capability_bits__become_answers) {
    const Machine machine("x86-server");
    const auto none =
        ask_live(machine, "mlx5_0", {.provider_path = "/lib/libmlx5-rdmav34.so", .capabilities = 0});
    assert_attribute(none.native_atomic_write, SLUICE_ANSWER_NO, SLUICE_SOURCE_DEVICE,
                     SLUICE_CONFIDENCE_CERTAIN);
    assert_int_equal(none.flush.value, SLUICE_FLUSH_NONE);
    assert_int_equal(none.on_demand_paging.value, SLUICE_PAGING_NONE);
    assert_int_equal(none.dma_bounce.value, SLUICE_ANSWER_NO);
    assert_string_equal(none.provider.value, "/lib/libmlx5-rdmav34.so");
    assert_int_equal(none.provider.source, SLUICE_SOURCE_PROCESS);
    const auto all =
        ask_live(machine, "mlx5_0", {.provider_path = "", .capabilities = 0xfULL << 38, .paging = 3});
    assert_int_equal(all.native_atomic_write.value, SLUICE_ANSWER_YES);
    assert_int_equal(all.flush.value, SLUICE_FLUSH_BOTH);
    assert_int_equal(all.on_demand_paging.value, SLUICE_PAGING_IMPLICIT);
    assert_attribute(all.dma_bounce, SLUICE_ANSWER_YES, SLUICE_SOURCE_DEVICE, SLUICE_CONFIDENCE_CERTAIN);
    const auto some =
        ask_live(machine, "mlx5_0", {.provider_path = "", .capabilities = 1ULL << 39, .paging = 1});
    assert_int_equal(some.flush.value, SLUICE_FLUSH_PERSISTENT);
    assert_int_equal(some.on_demand_paging.value, SLUICE_PAGING_EXPLICIT);
    assert_int_equal(some.native_atomic_write.value, SLUICE_ANSWER_NO);
    const auto atomic = ask_live(machine, "mlx5_0", {.provider_path = "", .capabilities = 1ULL << 40});
    assert_int_equal(atomic.native_atomic_write.value, SLUICE_ANSWER_YES);
    assert_int_equal(atomic.dma_bounce.value, SLUICE_ANSWER_NO);
    assert_int_equal(atomic.flush.value, SLUICE_FLUSH_NONE);
}

TEST(registration__on_linux_7__proves_coherence) {
    Machine machine("raspberry-pi");
    const LiveFacts registered{.provider_path = "", .registered = true};
    assert_int_equal(ask_live(machine, "mlx4_0", registered).cpu_coherence.value,
                     SLUICE_COHERENCE_NONCOHERENT);
    machine.write("/proc/sys/kernel/osrelease", "7.0.3-v8+\n");
    assert_attribute(ask_live(machine, "mlx4_0", registered).cpu_coherence, SLUICE_COHERENCE_COHERENT,
                     SLUICE_SOURCE_REGISTRATION, SLUICE_CONFIDENCE_CERTAIN);
    const LiveFacts refused{.provider_path = "", .registered = false};
    assert_int_equal(ask_live(machine, "mlx4_0", refused).cpu_coherence.value, SLUICE_COHERENCE_NONCOHERENT);
}

TEST(registration__is_tried_only_where_it_proves_something) {
    static bool tried;
    const auto note = [](void*, attributes::Trials trials) {
        tried = trials.registration;
        return std::optional<LiveFacts>();
    };
    const std::map<std::string, bool> expected{
        {"6.19.2", false}, {"7.0.0-rc1", true}, {"10.1", true}, {"7", false}};
    for (const auto& [release, expect] : expected) {
        Machine machine("raspberry-pi");
        machine.write("/proc/sys/kernel/osrelease", release + "\n");
        assert_true(attributes::query(FileTree(machine.root()), "mlx4_0", note, nullptr).ok());
        assert_int_equal(tried, expect);
    }
    Machine machine("rxe");
    machine.write("/proc/sys/kernel/osrelease", "7.0\n");
    assert_true(attributes::query(FileTree(machine.root()), "rxe0", note, nullptr).ok());
    assert_false(tried);
}

TEST(this_machine__cpu__is_what_the_engine_uses) {
    const attributes::CpuCache cache = attributes::find_cpu_cache(FileTree());
    const auto ops = sluice::coherence::native_ops();
    assert_int_equal(cache.clean.source, SLUICE_SOURCE_CPU);
    if (!ops) {
        assert_string_equal(cache.clean.value.c_str(), "none");
        assert_string_equal(cache.invalidate.value.c_str(), "none");
        assert_int_equal(cache.granule_bytes.value, 0);
        return;
    }
    assert_string_equal(cache.clean.value.c_str(), (*ops)->clean.name);
    assert_string_equal(cache.invalidate.value.c_str(), (*ops)->invalidate.name);
    assert_int_equal(cache.line_bytes.value, (*ops)->line_bytes);
    assert_int_equal(cache.granule_bytes.value, (*ops)->granule_bytes);
    assert_int_equal(cache.granule_bytes.confidence, SLUICE_CONFIDENCE_CERTAIN);
}

void assert_text(const sluice_text_attribute& attribute, const char* value, sluice_source source) {
    assert_string_equal(attribute.value, value);
    assert_int_equal(attribute.source, source);
}

constexpr sluice_attribute kUnknown{};

void assert_unknown(const sluice_attribute& attribute) {
    assert_memory_equal(&attribute, &kUnknown, sizeof attribute);
}

TEST(pvrdma__it_is_a_conventional_pci_function) {
    const Machine machine("pvrdma");
    const auto device = ask(machine, "vmw_pvrdma0");
    assert_text(device.pci_address, "0000:00:10.1", SLUICE_SOURCE_KERNEL);
    assert_text(device.kernel_driver, "vmw_pvrdma", SLUICE_SOURCE_KERNEL);
    assert_text(device.netdev, "eth0", SLUICE_SOURCE_KERNEL);
    assert_text(device.firmware, "0.0.14", SLUICE_SOURCE_KERNEL);
    assert_text(device.iommu, "none", SLUICE_SOURCE_KERNEL);
    // It has neither what PCI Express has, nor a node, nor a port above it.
    assert_attribute(device.ats, SLUICE_ANSWER_NO, SLUICE_SOURCE_PCI, SLUICE_CONFIDENCE_CERTAIN);
    assert_text(device.pci_link, "", SLUICE_SOURCE_NONE);
    for (const sluice_attribute& attribute :
         {device.relaxed_ordering, device.no_snoop, device.numa_node, device.iommu_group, device.acs}) {
        assert_unknown(attribute);
    }
}

TEST(software_devices__nothing_stands_below_them) {
    for (const auto& [tree, name] : std::map<std::string, std::string>{
             {"rxe", "rxe0"}, {"siw", "siw0"}, {"arm64-rxe", "rxe0"}, {"arm64-siw", "siw0"}}) {
        const Machine machine(tree);
        const auto device = ask(machine, name.c_str());
        for (const sluice_text_attribute& attribute : {device.pci_address, device.pci_link, device.iommu}) {
            assert_text(attribute, "none", SLUICE_SOURCE_SOFTWARE_DEVICE);
        }
        for (const sluice_attribute& attribute : {device.ats, device.acs}) {
            assert_attribute(attribute, SLUICE_ANSWER_NO, SLUICE_SOURCE_SOFTWARE_DEVICE,
                             SLUICE_CONFIDENCE_CERTAIN);
        }
        assert_unknown(device.numa_node);
        assert_text(device.firmware, "none", SLUICE_SOURCE_SOFTWARE_DEVICE);
        // siw of Linux 6.1 names its interface by no file.
        assert_string_equal(device.netdev.value, name == "rxe0" ? "veth0" : "");
    }
}

constexpr const char* kFunction = "/sys/devices/pci0000:80/0000:80:03.0/0000:81:00.0";

TEST(pci__what_the_kernel_shows__is_told) {
    Machine machine("x86-server");
    const std::string function = kFunction;
    machine.add(function + "/numa_node = 0");
    machine.add(function + "/iommu_group -> ../../../../kernel/iommu_groups/14");
    machine.add("/sys/kernel/iommu_groups/14/type = DMA-FQ");
    machine.add(function + "/current_link_speed = 8.0 GT/s PCIe");
    machine.add(function + "/current_link_width = 8");
    machine.add(function + "/max_link_speed = 16.0 GT/s PCIe");
    machine.add(function + "/max_link_width = 16");
    machine.add(function + "/net/enp129s0/");
    auto device = ask(machine, "mlx5_0");
    assert_text(device.pci_address, "0000:81:00.0", SLUICE_SOURCE_KERNEL);
    assert_text(device.iommu, "DMA-FQ", SLUICE_SOURCE_KERNEL);
    assert_attribute(device.iommu_group, 14, SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_CERTAIN);
    assert_attribute(device.numa_node, 0, SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_CERTAIN);
    assert_text(device.pci_link, "8.0 GT/s PCIe x8 of 16.0 GT/s PCIe x16", SLUICE_SOURCE_KERNEL);
    assert_text(device.netdev, "enp129s0", SLUICE_SOURCE_KERNEL);
    machine.write(function + "/max_link_speed", "8.0 GT/s PCIe\n");
    machine.write(function + "/max_link_width", "8\n");
    machine.add(function + "/net/enp129s1/"); // now nobody knows which
    device = ask(machine, "mlx5_0");
    assert_text(device.pci_link, "8.0 GT/s PCIe x8", SLUICE_SOURCE_KERNEL);
    assert_text(device.netdev, "", SLUICE_SOURCE_NONE);
}

TEST(pci__nothing_there_or_not_understood__is_unknown) {
    Machine machine("x86-server");
    const std::string function = kFunction;
    machine.add(function + "/numa_node = -1");
    machine.add(function + "/iommu_group -> ../../../../kernel/iommu_groups/x4");
    machine.add("/sys/kernel/iommu_groups/x4/");
    machine.add(function + "/current_link_speed = Unknown");
    machine.add(function + "/current_link_width = 0");
    const auto device = ask(machine, "mlx5_0");
    assert_unknown(device.numa_node);
    assert_unknown(device.iommu_group);
    assert_text(device.iommu, "", SLUICE_SOURCE_NONE);
    assert_text(device.pci_link, "", SLUICE_SOURCE_NONE);
}

// An extended capability of that number at 0x100, with a word at its offset 6.
std::string extended(const std::string& path, const char* capability, const char* low, const char* high) {
    return path + "/config bytes 1000 100=" + capability + " 102=1 106=" + low + " 107=" + high;
}

TEST(ats__enabled__may_keep_translations) {
    Machine machine("x86-server");
    machine.add(extended(kFunction, "f", "0", "80"));
    assert_attribute(ask(machine, "mlx5_0").ats, SLUICE_ANSWER_YES, SLUICE_SOURCE_PCI,
                     SLUICE_CONFIDENCE_CERTAIN);
    machine.add(extended(kFunction, "f", "ff", "7f"));
    assert_attribute(ask(machine, "mlx5_0").ats, SLUICE_ANSWER_NO, SLUICE_SOURCE_PCI,
                     SLUICE_CONFIDENCE_CERTAIN);
    machine.add(std::string(kFunction) + "/config bytes 40 6=10"); // without privileges
    assert_unknown(ask(machine, "mlx5_0").ats);
}

TEST(acs__each_port_redirects__or_one_does_not) {
    const std::string root = "/sys/devices/pci0000:16/0000:16:02.0";
    Machine machine("x86-server");
    assert_unknown(ask(machine, "irdma0").acs); // its port wasn't recorded
    machine.add(extended(root, "d", "4", "0"));
    assert_attribute(ask(machine, "irdma0").acs, SLUICE_ANSWER_YES, SLUICE_SOURCE_PCI,
                     SLUICE_CONFIDENCE_CERTAIN);
    machine.add(extended(root, "d", "fb", "ff"));
    assert_attribute(ask(machine, "irdma0").acs, SLUICE_ANSWER_NO, SLUICE_SOURCE_PCI,
                     SLUICE_CONFIDENCE_CERTAIN);
}

TEST(device_asked__limits_and_firmware_are_told) {
    const Machine machine("x86-server");
    LiveFacts facts;
    facts.capabilities = 0;
    facts.atomics = SLUICE_ATOMICS_DEVICE;
    facts.max_sge = 30;
    facts.max_inline = 0;
    facts.in_order = true;
    facts.firmware = "20.31.1014";
    const auto device = ask_live(machine, "mlx5_0", facts);
    assert_attribute(device.atomics, SLUICE_ATOMICS_DEVICE, SLUICE_SOURCE_DEVICE, SLUICE_CONFIDENCE_CERTAIN);
    assert_attribute(device.max_sge, 30, SLUICE_SOURCE_DEVICE, SLUICE_CONFIDENCE_CERTAIN);
    assert_attribute(device.max_inline, 0, SLUICE_SOURCE_DEVICE, SLUICE_CONFIDENCE_CERTAIN);
    assert_attribute(device.in_order_placement, SLUICE_ANSWER_YES, SLUICE_SOURCE_DEVICE,
                     SLUICE_CONFIDENCE_CERTAIN);
    assert_text(device.firmware, "20.31.1014", SLUICE_SOURCE_DEVICE);
    const auto unasked = ask(machine, "mlx5_0");
    assert_unknown(unasked.atomics);
    assert_unknown(unasked.max_sge);
    assert_unknown(unasked.max_inline);
    assert_unknown(unasked.in_order_placement);
}

TEST(unknown_device__error_names_those_that_there_are) {
    const Machine machine("x86-server");
    auto result = attributes::query(FileTree(machine.root()), "mlx5_9", nullptr, nullptr);
    assert_false(result.ok());
    assert_int_equal(result.error().to_errno(), ENODEV);
    assert_non_null(std::strstr(result.error().text(), "irdma0, mlx5_0"));
}

TEST(no_device_at_all__error_says_how_to_make_one) {
    const Machine machine;
    auto result = attributes::query(FileTree(machine.root()), "rxe0", nullptr, nullptr);
    assert_false(result.ok());
    assert_non_null(std::strstr(result.error().text(), "rdma link add"));
}

} // namespace

int main() {
    return sluice::test::run_all_tests("attributes.machines");
}
