// SPDX-License-Identifier: BSD-3-Clause
//
// Trees that somebody made to hurt: nothing hangs, nothing is read outside, and the answer is an
// error or "unknown".
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "provider/attributes/pci_config.hpp"
#include "provider/attributes/query.hpp"
#include "provider/attributes/sysfs_device.hpp"
#include "tests/cmocka.hpp"
#include "tests/machine.hpp"

using sluice::FileTree;
using sluice::attributes::is_pci_address;
using sluice::attributes::parse_ats;
using sluice::attributes::parse_pci_control;
using sluice::attributes::parse_request_redirect;
using sluice::test::Machine;
namespace attributes = sluice::attributes;

namespace {

constexpr const char* kConfig = "/sys/devices/pci0000:80/0000:80:03.0/0000:81:00.0/config";

TEST(link__to_itself__is_an_error) {
    Machine machine;
    machine.add("/a -> a");
    machine.add("/b -> c");
    machine.add("/c -> b");
    const FileTree tree(machine.root());
    for (const char* path : {"/a", "/b", "/a/x", "/c"}) {
        assert_false(tree.exists(path));
        assert_int_equal(tree.resolve(path).error().to_errno(), ELOOP);
    }
    assert_true(tree.has_entry("/a"));
}

TEST(link__that_grows__is_an_error) {
    Machine machine;
    machine.add("/a -> a/" + std::string(200, 'x') + "/" + std::string(200, 'y'));
    assert_false(FileTree(machine.root()).exists("/a"));
}

TEST(link__out_of_the_tree__stays_inside) {
    Machine machine;
    machine.add("/absolute -> /etc/passwd");
    machine.add("/relative -> ../../../../../../etc/passwd");
    machine.add("/up -> ..");
    const FileTree tree(machine.root());
    assert_false(tree.read("/absolute", 1 << 20).ok());
    assert_false(tree.read("/relative", 1 << 20).ok());
    assert_string_equal(tree.resolve("/up/up/up")->c_str(), "/");
    machine.add("/etc/passwd = inside");
    assert_string_equal(tree.read_line("/absolute").c_str(), "inside");
    assert_string_equal(tree.read_line("/relative").c_str(), "inside");
    assert_string_equal(tree.resolve("/up/etc/./../etc//passwd")->c_str(), "/etc/passwd");
}

TEST(path__too_long__is_an_error) {
    const Machine machine;
    std::string path;
    for (int i = 0; i < 2000; ++i) {
        path += "/abc";
    }
    const FileTree tree(machine.root());
    assert_false(tree.exists(path));
    assert_false(tree.has_entry(path));
    assert_false(tree.read(path, 10).ok());
}

TEST(file__huge_or_endless__is_not_read) {
    Machine machine;
    machine.write("/huge", std::string(100000, 'x'));
    const FileTree tree(machine.root());
    assert_int_equal(tree.read("/huge", 99999).error().to_errno(), ERANGE);
    assert_true(tree.read("/huge", 100000).ok());
    assert_string_equal(tree.read_line("/huge").c_str(), "");
    assert_false(FileTree().read("/dev/zero", 10).ok());
}

TEST(file__that_is_none__is_refused_without_waiting) {
    const Machine machine;
    assert_int_equal(mkfifo((machine.root() + "/pipe").c_str(), 0600), 0);
    machine.write("/directory/file", "");
    const FileTree tree(machine.root());
    assert_false(tree.read("/pipe", 10).ok());
    assert_false(tree.read("/directory", 10).ok());
    assert_false(tree.read("/missing", 10).ok());
    assert_false(tree.list("/directory/file").ok());
}

TEST(directory__with_too_many_entries__is_an_error) {
    const Machine machine;
    for (int i = 0; i <= 4096; ++i) {
        machine.write("/many/" + std::to_string(i), "");
    }
    assert_int_equal(FileTree(machine.root()).list("/many").error().to_errno(), ERANGE);
}

TEST(binary_line__ends_at_the_zero_byte) {
    const Machine machine;
    machine.write("/binary", std::string(" \t v\x01l \0rest\n", 13));
    assert_string_equal(FileTree(machine.root()).read_line("/binary").c_str(), "v\x01l");
}

TEST(device__that_is_a_loop_or_no_directory__is_no_device) {
    Machine machine;
    machine.add("/sys/class/infiniband/loop0 -> loop0");
    machine.add("/sys/class/infiniband/file0 = x");
    const FileTree tree(machine.root());
    assert_false(attributes::query(tree, "loop0", nullptr, nullptr).ok());
    auto file = attributes::query(tree, "file0", nullptr, nullptr);
    assert_true(!file || file->cpu_coherence.value == SLUICE_COHERENCE_UNKNOWN);
}

TEST(device_name__impossible__is_no_device) {
    const Machine machine("x86-server");
    const FileTree tree(machine.root());
    for (const std::string& name :
         {std::string(), std::string("."), std::string(".."), std::string("../../.."), std::string("a\nb"),
          std::string(64, 'x'), std::string(100000, 'x')}) {
        auto result = attributes::query(tree, name, nullptr, nullptr);
        assert_false(result.ok());
        assert_int_equal(result.error().to_errno(), ENODEV);
    }
}

TEST(driver_name__with_control_characters__is_made_printable) {
    Machine machine("x86-server");
    machine.remove("/sys/devices/pci0000:80/0000:80:03.0/0000:81:00.0/driver");
    machine.add("/sys/devices/pci0000:80/0000:80:03.0/0000:81:00.0/driver -> /\x1b[31mred");
    machine.add("/\x1b[31mred/");
    auto device = attributes::query(FileTree(machine.root()), "mlx5_0", nullptr, nullptr);
    assert_string_equal(device->kernel_driver.value, "?[31mred");
}

TEST(release_and_sizes__that_are_no_numbers__are_unknown) {
    for (const char* release : {"", "x", "7", "7.", "-7.0", "99999999999999.1", "7.x"}) {
        const Machine machine("rxe");
        machine.write("/proc/sys/kernel/osrelease", std::string(release) + "\n");
        assert_true(attributes::query(FileTree(machine.root()), "rxe0", nullptr, nullptr).ok());
    }
    for (const char* size : {"", "0", "-64", "63", "8192", "64x4", "99999999999999999999"}) {
        const Machine machine("x86-server");
        machine.write("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size",
                      std::string(size) + "\n");
        auto device = attributes::query(FileTree(machine.root()), "mlx5_0", nullptr, nullptr);
        const bool parsed = std::strcmp(size, "64x4") == 0;
        assert_int_equal(device->line_bytes.value, parsed ? 64 : 0);
    }
}

std::string config(std::initializer_list<std::pair<int, int>> bytes, std::size_t size = 256) {
    std::string content(size, '\0');
    for (const auto& [offset, byte] : bytes) {
        content[static_cast<std::size_t>(offset)] = static_cast<char>(byte);
    }
    return content;
}

TEST(pci_config__capability_found__bits_are_told) {
    const auto control = parse_pci_control(config({{6, 0x10}, {0x34, 0x40}, {0x40, 0x10}, {0x48, 0x10}}));
    assert_true(control.has_value() && control->relaxed_ordering && !control->no_snoop);
}

TEST(pci_config__short_or_without_list__is_unknown) {
    assert_false(parse_pci_control("").has_value());
    assert_false(parse_pci_control(config({{6, 0x10}, {0x34, 0x3c}}, 64)).has_value());
    assert_false(parse_pci_control(config({{0x34, 0x40}, {0x40, 0x10}})).has_value());
}

TEST(pci_config__list_that_loops_or_leaves__is_unknown) {
    assert_false(parse_pci_control(config({{6, 0x10}, {0x34, 0x40}, {0x40, 1}, {0x41, 0x40}})).has_value());
    assert_false(parse_pci_control(config({{6, 0x10}, {0x34, 0x10}, {0x10, 0x10}})).has_value());
    assert_false(parse_pci_control(config({{6, 0x10}, {0x34, 0xfc}, {0xfc, 0x10}})).has_value());
    assert_false(parse_pci_control(config({{6, 0x10}, {0x34, 0x44}, {0x44, 0x10}}, 0x4d)).has_value());
    assert_true(parse_pci_control(config({{6, 0x10}, {0x34, 0x44}, {0x44, 0x10}}, 0x4e)).has_value());
}

// A PCI Express function's space, with bytes of extended capabilities.
std::string extended(std::initializer_list<std::pair<int, int>> bytes, std::size_t size = 4096) {
    return config(bytes, size);
}

TEST(extended_config__chain__is_followed) {
    // A capability that nobody asks for at 0x100, and behind it ATS at 0x140.
    const auto chain = extended({{0x100, 1}, {0x102, 0x01}, {0x103, 0x14}, {0x140, 0x0f}, {0x147, 0x80}});
    assert_true(parse_ats(chain).value());
    assert_false(parse_request_redirect(chain).value());
}

TEST(extended_config__list_that_loops_or_leaves__is_no_capability) {
    assert_false(parse_ats(extended({{0x100, 1}, {0x103, 0x10}})).value()); // to itself
    assert_false(parse_ats(extended({{0x100, 1}, {0x103, 0x02}, {0x20, 0x0f}, {0x27, 0x80}}))
                     .value()); // among the conventional
    assert_false(
        parse_ats(extended({{0x100, 1}, {0x102, 0xc0}, {0x103, 0xff}, {0xffc, 0x0f}})).value()); // cut off
    assert_false(parse_ats(extended({{0x100, 0x0f}, {0x107, 0x80}}, 0x107)).value());
    assert_true(parse_ats(extended({{0x100, 0x0f}, {0x107, 0x80}}, 0x108)).value());
}

TEST(extended_config__not_given__is_unknown) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{64}, std::size_t{255}}) {
        assert_false(parse_ats(std::string(size, '\0')).has_value());
        assert_false(parse_request_redirect(std::string(size, '\0')).has_value());
    }
    assert_false(parse_ats(std::string(256, '\0')).value()); // a conventional function has none
}

TEST(pci_address__shape) {
    for (const char* name : {"0000:81:00.0", "ffff:ff:1f.7", "10000:00:01.0"}) {
        assert_true(is_pci_address(name));
    }
    for (const char* name : {"", "0000:81:00", "0000:81:00.00", "000:81:00.0", "0000:8:00.0", "0000:81:00:0",
                             "0000:8g:00.0", "pci0000:80", "123456789:81:00.0", "::."}) {
        assert_false(is_pci_address(name));
    }
}

TEST(pci_config__huge__is_unknown) {
    const Machine machine("x86-server");
    machine.write(kConfig, std::string(1 << 20, '\x10'));
    auto device = attributes::query(FileTree(machine.root()), "mlx5_0", nullptr, nullptr);
    assert_int_equal(device->relaxed_ordering.value, SLUICE_ANSWER_UNKNOWN);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("attributes.hostile");
}
