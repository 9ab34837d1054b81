// SPDX-License-Identifier: BSD-3-Clause
//
// Which memory is safe to protect, from what the kernel tells of it.
#include "layers/check/pages/rights.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/cmocka.hpp"
#include "tests/unit/layers/buffer.hpp"

using namespace sluice::layers::check::pages;
using sluice::test::Buffer;
using sluice::test::kPage;

namespace {

PageRange pages_of(const void* memory, std::size_t bytes) {
    const auto first = reinterpret_cast<std::uintptr_t>(memory);
    return {.first = first / kPage, .end = (first + bytes + kPage - 1) / kPage};
}

// Of the memory's first page.
Rights rights_of(const void* memory, std::size_t bytes) {
    const auto known = read_rights(pages_of(memory, bytes));
    assert_true(known.ok());
    return known->empty() ? Rights::kUnknown : known->front().rights;
}

void assert_rights(const void* memory, std::size_t bytes, Rights wanted) {
    assert_int_equal(static_cast<int>(rights_of(memory, bytes)), static_cast<int>(wanted));
}

alignas(65536) char of_the_program[65536];

TEST(read_rights__memory_of_each_kind__what_the_program_may_do) {
    const Buffer plain(1);
    assert_rights(plain.data(), plain.bytes(), Rights::kReadWrite);
    const Buffer read_only(1, PROT_READ);
    assert_rights(read_only.data(), read_only.bytes(), Rights::kRead);
    const Buffer forbidden(1, PROT_NONE);
    assert_rights(forbidden.data(), forbidden.bytes(), Rights::kRefused);
    const Buffer code(1, PROT_READ | PROT_EXEC);
    assert_rights(code.data(), code.bytes(), Rights::kRefused);
    std::memset(of_the_program, 1, sizeof of_the_program);
    assert_rights(of_the_program, sizeof of_the_program, Rights::kReadWrite);
    const std::string heap(64, 'x');
    assert_rights(heap.data(), heap.size(), Rights::kReadWrite);
}

TEST(read_rights__the_main_threads_stack__refused) {
    const char here = 0;
    assert_rights(&here, 1, Rights::kRefused);
}

TEST(read_rights__nothing_mapped__nothing_known) {
    const Buffer buffer(1);
    assert_int_equal(munmap(buffer.data(), kPage), 0);
    assert_rights(buffer.data(), kPage, Rights::kUnknown);
    assert_true(mmap(buffer.data(), kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
                MAP_FAILED);
}

TEST(read_rights__several_mappings__in_order_and_cut_to_what_is_asked) {
    const Buffer buffer(4);
    assert_int_equal(mprotect(buffer.page(2), kPage, PROT_READ), 0);
    const PageRange asked = pages_of(buffer.page(1), 2 * kPage);
    const auto known = read_rights(asked);
    assert_true(known.ok() && known->size() == 2);
    assert_int_equal((*known)[0].pages.first, asked.first);
    assert_int_equal((*known)[0].pages.end, asked.first + 1);
    assert_true((*known)[0].rights == Rights::kReadWrite && (*known)[1].rights == Rights::kRead);
    assert_int_equal((*known)[1].pages.end, asked.end);
}

TEST(read_rights__shared_memory_of_a_file__as_other_memory) {
    const int file = memfd_create("rights", MFD_CLOEXEC);
    assert_true(file >= 0 && ftruncate(file, static_cast<off_t>(kPage)) == 0);
    void* const memory = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(memory != MAP_FAILED);
    assert_rights(memory, kPage, Rights::kReadWrite);
    munmap(memory, kPage);
    close(file);
}

// None is touched, so that none is needed.
TEST(read_rights__huge_pages__refused) {
    constexpr std::size_t kBytes = std::size_t{2} << 20;
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        print_message("no hugetlbfs here\n");
        skip();
    }
    assert_rights(memory, kBytes, Rights::kRefused);
    munmap(memory, kBytes);
}

constexpr std::uint64_t kUsual = 0x800000;

void assert_stack(const char* maps, std::uint64_t top, std::uint64_t first, std::uint64_t end) {
    const PageRange stack = stack_below(maps, top, kUsual);
    assert_int_equal(stack.first, first / kPage);
    assert_int_equal(stack.end, end / kPage);
}

TEST(stack_below__a_guard__is_where_it_ends) {
    assert_stack("7f0000000000-7f0000010000 ---p 00000000 00:00 0\n"
                 "7f0000010000-7f0000500000 rw-p 00000000 00:00 0\n",
                 0x7f00004ff908, 0x7f0000010000, 0x7f0000500000);
}

// What the program mapped before lies above in the same mapping.
TEST(stack_below__memory_above__is_none_of_it) {
    assert_stack("7f0000000000-7f0000010000 ---p 00000000 00:00 0\n"
                 "7f0000010000-7f0008000000 rw-p 00000000 00:00 0\n",
                 0x7f0000200910, 0x7f0000010000, 0x7f0000200000 + kPage);
}

TEST(stack_below__a_stack_in_several_mappings__all_of_them) {
    assert_stack("7f0000000000-7f0000010000 ---p 00000000 00:00 0\n"
                 "7f0000010000-7f0000100000 rw-p 00000000 00:00 0\n"
                 "7f0000100000-7f0000110000 r--p 00000000 00:00 0\n"
                 "7f0000110000-7f0000200000 rw-p 00000000 00:00 0\n",
                 0x7f0000150000, 0x7f0000010000, 0x7f0000150000 + kPage);
}

// As where guards aren't mappings.
TEST(stack_below__no_guard__of_the_usual_size) {
    assert_stack("7f0000000000-7f0010000000 rw-p 00000000 00:00 0\n", 0x7f0004000000, 0x7f0004000000 - kUsual,
                 0x7f0004000000 + kPage);
    assert_stack("7f0000000000-7f0000010000 rw-p 00000000 00:00 0\n"
                 "7f0000020000-7f0000030000 rw-p 00000000 00:00 0\n",
                 0x7f0000025000, 0x7f0000020000, 0x7f0000025000 + kPage);
}

TEST(stack_below__a_list_in_the_heap_or_nowhere__no_stack) {
    assert_stack("7f0000000000-7f0010000000 rw-p 00000000 00:00 0 [heap]\n", 0x7f0004000000, 0, 0);
    assert_stack("7f0000000000-7f0010000000 rw-p 00000000 00:00 0\n", 0x7f0010000000, 0, 0);
    assert_stack("7f0000000000-7f0010000000 rw-p 00000000 00:00 0\n", 0x7e0010000000, 0, 0);
    assert_stack("", 0x7e0010000000, 0, 0);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("check.rights");
}
