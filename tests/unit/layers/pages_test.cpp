// SPDX-License-Identifier: BSD-3-Clause
//
// Which accesses to memory in use are caught, and that all of them go on.
#include "layers/check/pages/pages.hpp"

#include <string>

#include "core/file_tree.hpp"
#include "core/mappings.hpp"
#include "tests/cmocka.hpp"
#include "tests/unit/layers/buffer.hpp"

using namespace sluice::layers::check::pages;
using namespace sluice::test;
using sluice::FileTree;
using sluice::Mapping;
using sluice::take_mapping;

namespace {

// As /proc/self/maps has them: "rw".
std::string rights_of(const void* address) {
    const std::string maps = *FileTree().read("/proc/self/maps", sluice::kLargestMappings);
    std::string_view text = maps;
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    for (Mapping mapping; take_mapping(text, mapping);) {
        if (mapping.first <= at && at < mapping.end) {
            return std::string(mapping.is_readable ? "r" : "-") + (mapping.is_writable ? "w" : "-");
        }
    }
    return "";
}

void assert_rights(const void* address, const char* wanted) {
    assert_string_equal(rights_of(address).c_str(), wanted);
}

void assert_no_touch() {
    Touch touch;
    assert_false(take_touch(touch));
}

void assert_touch(std::uint64_t tag, const void* address, bool is_store) {
    Touch touch;
    assert_true(take_touch(touch));
    assert_int_equal(touch.tag, tag);
    assert_ptr_equal(touch.address, address);
#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv)
    assert_true(touch.is_known_kind);
#endif
    if (touch.is_known_kind) {
        assert_int_equal(touch.is_store, is_store);
    }
}

TEST(protect__everything__a_load_is_told_once_and_goes_on) {
    const Buffer buffer(3);
    store(buffer.page(1), 42);
    assert_true(protects(7, buffer.data(), buffer.bytes(), Forbidden::kEverything));
    assert_rights(buffer.page(1), "--");
    assert_int_equal(load(buffer.page(1)), 42);
    assert_touch(7, buffer.page(1), false);
    assert_int_equal(load(buffer.page(1)), 42);
    store(buffer.page(1));
    assert_no_touch();
    assert_rights(buffer.page(0), "--");
    assert_rights(buffer.page(1), "rw");
    lift(7);
    assert_rights(buffer.page(0), "rw");
}

TEST(protect__everything__a_store_is_told_as_one) {
    const Buffer buffer(1);
    assert_true(protects(7, buffer.data(), buffer.bytes(), Forbidden::kEverything));
    store(buffer.data() + 9, 3);
    assert_int_equal(buffer.data()[9], 3);
    assert_touch(7, buffer.data() + 9, true);
    lift(7);
}

TEST(protect__stores__a_load_is_allowed_and_a_store_told) {
    const Buffer buffer(2);
    assert_true(protects(8, buffer.data(), buffer.bytes(), Forbidden::kStores));
    assert_rights(buffer.data(), "r-");
    (void)load(buffer.page(0));
    (void)load(buffer.page(1));
    assert_no_touch();
    store(buffer.page(1));
    assert_touch(8, buffer.page(1), true);
    assert_rights(buffer.page(0), "r-");
    lift(8);
    assert_rights(buffer.page(0), "rw");
}

[[gnu::noinline]] void touch_here(std::uint8_t* at) {
    store(at);
}

TEST(touch__its_stack__begins_where_the_access_is) {
    const Buffer buffer(1);
    assert_true(protects(1, buffer.data(), buffer.bytes(), Forbidden::kEverything));
    touch_here(buffer.data());
    Touch touch;
    assert_true(take_touch(touch));
    assert_in_range(touch.stack.count, 2, sluice::report::Stack::kMost);
    const auto innermost = reinterpret_cast<std::uintptr_t>(touch.stack.addresses[0]);
    // store() is inlined or a function of its own.
    bool is_found = false;
    const auto here = reinterpret_cast<std::uintptr_t>(&touch_here);
    for (const void* frame : touch.stack.frames().first(2)) {
        const auto address = reinterpret_cast<std::uintptr_t>(frame);
        is_found = is_found || (here < address && address < here + 200);
    }
    assert_true(is_found);
    assert_true(innermost != 0);
    lift(1);
}

TEST(protect__memory_without_a_whole_page__refused) {
    const Buffer buffer(3);
    assert_false(protects(1, buffer.data(), kPage - 1, Forbidden::kEverything));
    assert_false(protects(1, buffer.data() + 1, 2 * kPage - 2, Forbidden::kEverything));
    assert_false(protects(1, buffer.data(), 0, Forbidden::kEverything));
    assert_false(protects(1, nullptr, SIZE_MAX, Forbidden::kEverything));
    assert_false(protects(1, buffer.data(), SIZE_MAX, Forbidden::kEverything));
    assert_rights(buffer.data(), "rw");
}

TEST(protect__memory_that_begins_within_a_page__edges_stay) {
    const Buffer buffer(3);
    assert_true(protects(1, buffer.data() + 1, 3 * kPage - 2, Forbidden::kEverything));
    assert_rights(buffer.page(0), "rw");
    assert_rights(buffer.page(1), "--");
    assert_rights(buffer.page(2), "rw");
    store(buffer.page(0) + 1);
    store(buffer.page(2));
    assert_no_touch();
    lift(1);
}

TEST(protect__a_page_of_two_requests__protected_until_both_end) {
    const Buffer buffer(1);
    assert_true(protects(1, buffer.data(), buffer.bytes(), Forbidden::kStores));
    assert_true(protects(2, buffer.data(), buffer.bytes(), Forbidden::kStores));
    lift(1);
    assert_rights(buffer.data(), "r-");
    lift(2);
    assert_rights(buffer.data(), "rw");
}

TEST(protect__requests_of_both_kinds__the_strictest_holds) {
    const Buffer buffer(1);
    assert_true(protects(1, buffer.data(), buffer.bytes(), Forbidden::kStores));
    assert_true(protects(2, buffer.data(), buffer.bytes(), Forbidden::kEverything));
    assert_rights(buffer.data(), "--");
    lift(2);
    assert_rights(buffer.data(), "r-");
    assert_true(protects(2, buffer.data(), buffer.bytes(), Forbidden::kEverything));
    lift(1);
    assert_rights(buffer.data(), "--");
    lift(2);
}

TEST(touch__a_load_from_a_page_of_both_kinds__of_the_request_that_forbids_it) {
    const Buffer buffer(1);
    assert_true(protects(2, buffer.data(), buffer.bytes(), Forbidden::kEverything));
    assert_true(protects(1, buffer.data(), buffer.bytes(), Forbidden::kStores));
    (void)load(buffer.data());
    assert_touch(2, buffer.data(), false);
    // Open for both; each ends without a trace.
    assert_rights(buffer.data(), "rw");
    lift(1);
    lift(2);
    assert_rights(buffer.data(), "rw");
    assert_true(protects(3, buffer.data(), buffer.bytes(), Forbidden::kStores));
    assert_rights(buffer.data(), "r-");
    lift(3);
}

TEST(touch__of_two_requests_that_forbid_it__told_for_the_later_one) {
    const Buffer buffer(1);
    assert_true(protects(1, buffer.data(), buffer.bytes(), Forbidden::kStores));
    assert_true(protects(2, buffer.data(), buffer.bytes(), Forbidden::kStores));
    store(buffer.data());
    assert_touch(2, buffer.data(), true);
    assert_no_touch();
    lift(1);
    lift(2);
}

TEST(protect__several_pieces_for_one_request__lifted_together) {
    const Buffer buffer(4);
    assert_true(protects(1, buffer.page(0), kPage, Forbidden::kEverything));
    assert_true(protects(1, buffer.page(2), kPage, Forbidden::kEverything));
    assert_rights(buffer.page(0), "--");
    assert_rights(buffer.page(1), "rw");
    assert_rights(buffer.page(2), "--");
    lift(1);
    assert_rights(buffer.page(0), "rw");
    assert_rights(buffer.page(2), "rw");
}

TEST(change__to_stores__loads_are_allowed_from_then_on) {
    const Buffer buffer(2);
    assert_true(protects(1, buffer.data(), buffer.bytes(), Forbidden::kEverything));
    (void)load(buffer.page(1));
    assert_touch(1, buffer.page(1), false);
    change(1, Forbidden::kStores);
    assert_rights(buffer.page(0), "r-");
    assert_rights(buffer.page(1), "rw");
    change(1, Forbidden::kEverything);
    assert_rights(buffer.page(0), "--");
    assert_rights(buffer.page(1), "rw");
    change(99, Forbidden::kStores);
    lift(1);
    assert_rights(buffer.page(0), "rw");
}

TEST(lift__a_mapping_that_is_read_only__stays_so) {
    const Buffer buffer(1, PROT_READ);
    assert_true(protects(1, buffer.data(), buffer.bytes(), Forbidden::kStores));
    assert_true(protects(2, buffer.data(), buffer.bytes(), Forbidden::kEverything));
    assert_rights(buffer.data(), "--");
    (void)load(buffer.data());
    assert_touch(2, buffer.data(), false);
    assert_rights(buffer.data(), "r-");
    lift(1);
    lift(2);
    assert_rights(buffer.data(), "r-");
}

TEST(protect__memory_of_mixed_rights__only_what_is_safe) {
    const Buffer buffer(5);
    assert_int_equal(mprotect(buffer.page(1), kPage, PROT_READ), 0);
    assert_int_equal(mprotect(buffer.page(2), kPage, PROT_NONE), 0);
    assert_int_equal(mprotect(buffer.page(3), kPage, PROT_READ | PROT_EXEC), 0);
    assert_true(protects(1, buffer.data(), buffer.bytes(), Forbidden::kEverything));
    assert_rights(buffer.page(1), "--");
    assert_rights(buffer.page(3), "r-");
    assert_rights(buffer.page(4), "--");
    lift(1);
    assert_rights(buffer.page(0), "rw");
    assert_rights(buffer.page(1), "r-");
    assert_rights(buffer.page(2), "--");
    assert_rights(buffer.page(3), "r-");
    assert_rights(buffer.page(4), "rw");
    assert_false(protects(1, buffer.page(2), 2 * kPage, Forbidden::kEverything));
}

TEST(lift_range__protected_pages__open_and_looked_up_anew) {
    const Buffer buffer(3);
    assert_true(protects(1, buffer.data(), buffer.bytes(), Forbidden::kEverything));
    lift_range(buffer.page(1) + 5, 1);
    assert_rights(buffer.page(0), "--");
    assert_rights(buffer.page(1), "rw");
    assert_int_equal(mprotect(buffer.page(1), kPage, PROT_READ), 0);
    assert_true(protects(2, buffer.data(), buffer.bytes(), Forbidden::kEverything));
    lift(1);
    assert_rights(buffer.page(1), "--");
    lift(2);
    assert_rights(buffer.page(0), "rw");
    assert_rights(buffer.page(1), "r-");
    lift_range(nullptr, SIZE_MAX);
    lift_range(buffer.data(), 0);
}

TEST(lift_for_kernel__what_a_request_forbids__told_when_kept) {
    const Buffer buffer(3);
    Touch touch;
    assert_true(protects(7, buffer.page(1), kPage, Forbidden::kStores));
    assert_false(lift_for_kernel(buffer.page(1), kPage, false, touch)); // loads aren't forbidden
    assert_rights(buffer.page(1), "rw");
    lift(7);
    assert_true(protects(8, buffer.page(1), kPage, Forbidden::kStores));
    assert_true(lift_for_kernel(buffer.page(0) + 5, 2 * kPage, true, touch));
    assert_rights(buffer.page(1), "rw");
    assert_no_touch(); // the kernel may do nothing in the end
    keep(touch);
    assert_touch(8, buffer.page(1), true);
    lift(8);
    assert_true(protects(9, buffer.page(1), kPage, Forbidden::kEverything));
    assert_true(lift_for_kernel(buffer.page(1) + 9, 1, false, touch));
    keep(touch);
    assert_touch(9, buffer.page(1), false);
    lift(9);
    assert_false(lift_for_kernel(buffer.page(1), kPage, true, touch));
    assert_false(lift_for_kernel(buffer.page(1), 0, true, touch));
}

TEST(protect__shared_memory__protected_and_restored) {
    auto* const memory = static_cast<std::uint8_t*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    assert_true(memory != MAP_FAILED);
    assert_true(protects(1, memory, 2 * kPage, Forbidden::kStores));
    store(memory);
    assert_touch(1, memory, true);
    assert_rights(memory + kPage, "r-");
    lift(1);
    assert_rights(memory + kPage, "rw");
    lift_range(memory, 2 * kPage);
    munmap(memory, 2 * kPage);
}

TEST(learn__memory_that_is_known__protected_without_a_look) {
    const Buffer buffer(2);
    learn(buffer.data(), buffer.bytes());
    // What isn't said isn't seen.
    assert_int_equal(mprotect(buffer.page(1), kPage, PROT_READ), 0);
    assert_true(protects(1, buffer.data(), buffer.bytes(), Forbidden::kEverything));
    assert_rights(buffer.page(1), "--");
    lift_range(buffer.data(), buffer.bytes());
    lift(1);
}

} // namespace

int main() {
    return run_all_tests("check.pages");
}
