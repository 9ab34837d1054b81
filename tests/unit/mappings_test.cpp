// SPDX-License-Identifier: BSD-3-Clause
#include "core/mappings.hpp"

#include <sys/mman.h>

#include <cinttypes>
#include <cstdio>
#include <string>

#include "core/file_tree.hpp"
// Last: its macros are common words.
#include "tests/cmocka.hpp"

using sluice::FileTree;
using sluice::Mapping;
using sluice::take_mapping;

namespace {

constexpr std::string_view kMaps = "55d0c0a00000-55d0c0a02000 r-xp 00001000 08:02 173521     /usr/bin/a b\n"
                                   "7f2c1a000000-7f2c1a021000 rw-s 00000000 00:01 1035 /dev/zero (deleted)\n"
                                   "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]\n";

constexpr std::string_view kSmaps = "7f2c1a000000-7f2c1a200000 rw-s 00200000 103:01 12 /mnt/log\n"
                                    "Size:               2048 kB\n"
                                    "VmFlags: rd wr sh mr mw me ms sf \n"
                                    "7f2c1a200000-7f2c1a400000 rw-s 00400000 103:01 12 /mnt/log\n"
                                    "Size:               2048 kB\n"
                                    "VmFlags: rd wr sh mr mw me ms sfx\n";

void assert_text(std::string_view text, const char* wanted) {
    assert_string_equal(std::string(text).c_str(), wanted);
}

TEST(take_mapping__maps__each_in_turn) {
    std::string_view text = kMaps;
    Mapping mapping;
    assert_true(take_mapping(text, mapping));
    assert_true(mapping.first == 0x55d0c0a00000 && mapping.end == 0x55d0c0a02000);
    assert_false(mapping.is_shared);
    assert_true(mapping.is_executable);
    assert_true(mapping.offset == 0x1000 && mapping.inode == 173521);
    assert_text(mapping.device, "08:02");
    assert_true(mapping.is_readable && !mapping.is_writable);
    assert_text(mapping.path, "/usr/bin/a b");
    assert_true(take_mapping(text, mapping));
    assert_true(mapping.is_shared && mapping.is_readable && mapping.is_writable);
    assert_false(mapping.is_executable);
    assert_text(mapping.path, "/dev/zero (deleted)");
    assert_true(take_mapping(text, mapping));
    assert_true(mapping.first == 0xffffffffff600000 && mapping.inode == 0);
    assert_false(mapping.is_readable);
    assert_false(take_mapping(text, mapping));
    assert_true(text.empty());
}

TEST(take_mapping__smaps__flags_belong_to_their_mapping) {
    std::string_view text = kSmaps;
    Mapping mapping;
    assert_true(take_mapping(text, mapping));
    assert_true(mapping.is_synchronous);
    assert_true(take_mapping(text, mapping));
    assert_true(mapping.offset == 0x400000);
    assert_false(mapping.is_synchronous);
    assert_false(take_mapping(text, mapping));
}

TEST(take_mapping__smaps_of_devices_and_huge_pages__special) {
    std::string_view text = "7f2c1a000000-7f2c1a200000 rw-s 00200000 00:05 12 /dev/mem\n"
                            "VmFlags: rd wr sh mr mw me ms io dc\n"
                            "7f2c1a200000-7f2c1a400000 rw-s 00400000 00:05 13 /dev/infiniband/uverbs0\n"
                            "VmFlags: rd wr pf\n"
                            "7f2c1a400000-7f2c1a600000 rw-p 00000000 00:0f 14 /anon_hugepage (deleted)\n"
                            "VmFlags: rd wr mr mw me de ht sd\n"
                            "7f2c1a600000-7f2c1a800000 rw-p 00000000 00:00 0\n"
                            "VmFlags: rd wr mr mw me ac sd hg\n";
    Mapping mapping;
    for (const bool is_special : {true, true, true, false}) {
        assert_true(take_mapping(text, mapping));
        assert_int_equal(mapping.is_special, is_special);
    }
}

// Nothing of another mapping stays behind.
TEST(take_mapping__same_object_again__all_is_new) {
    std::string_view text = kSmaps.substr(0, kSmaps.find("Size:"));
    Mapping mapping;
    mapping.is_synchronous = true;
    assert_true(take_mapping(text, mapping));
    assert_false(mapping.is_synchronous);
}

TEST(take_mapping__nonsense__is_passed_over) {
    for (const std::string_view nonsense :
         {"", "\n\n", "no mapping at all", "1000 r-xp 0 08:02 1 /a", "1000-2g00 r-xp 0 08:02 1 /a",
          "-2000 r-xp 0 08:02 1 /a", "1000-2000 r-xp 0 08:02", "1000-2000 r-xp 0 08:02 x /a",
          "10000000000000000-2 r-xp 0 08:02 1 /a", "VmFlags: sf\n"}) {
        std::string_view text = nonsense;
        Mapping mapping;
        assert_false(take_mapping(text, mapping));
        assert_true(text.empty());
    }
}

TEST(take_mapping__of_this_process__finds_its_own) {
    void* const mine = mmap(nullptr, 8192, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(mine != MAP_FAILED);
    for (const char* file : {"/proc/self/maps", "/proc/self/smaps"}) {
        const auto told = FileTree().read(file, sluice::kLargestMappings);
        assert_true(told.ok());
        std::string_view text = *told;
        bool found = false;
        for (Mapping mapping; take_mapping(text, mapping);) {
            found =
                found || (mapping.first <= reinterpret_cast<std::uintptr_t>(mine) &&
                          mapping.end >= reinterpret_cast<std::uintptr_t>(mine) + 8192 && mapping.is_shared);
        }
        assert_true(found);
    }
    munmap(mine, 8192);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
