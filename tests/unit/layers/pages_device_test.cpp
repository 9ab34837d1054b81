// SPDX-License-Identifier: BSD-3-Clause
//
// A device in this process, which accesses pages that are protected from the program: uroce's guard, by each
// of its methods, and whichever of the two handlers is in front.
#include <csignal>
#include <cstring>

#include "layers/check/pages/pages.hpp"
#include "layers/check/pages/protection.hpp"
#include "roce/near/process_memory.hpp"
#include "roce/socket/guarded_memory.hpp"
#include "tests/cmocka.hpp"
#include "tests/unit/layers/buffer.hpp"

using namespace sluice::layers::check::pages;
using namespace sluice::roce::socket;
using namespace sluice::test;

namespace {

enum class InFront : std::uint8_t { kGuard, kPages };

struct Way {
    GuardMethod method;
    InFront in_front;
};
Way guard_in_front = {GuardMethod::kSignal, InFront::kGuard};
Way pages_in_front = {GuardMethod::kSignal, InFront::kPages};
Way by_system_call = {GuardMethod::kSystemCall, InFront::kPages};

const Way& way_of(void** state) {
    return **reinterpret_cast<Way**>(state);
}

std::uint64_t address_of(const void* at) {
    return reinterpret_cast<std::uintptr_t>(at);
}

void prepare(const Way& way, GuardedMemory& memory) {
    if (way.in_front == InFront::kGuard) {
        assert_true(memory.prepare().ok());
    }
}

void protect_all(const Buffer& buffer, Forbidden forbidden, const Way& way, GuardedMemory& memory) {
    assert_true(protects(1, buffer.data(), buffer.bytes(), forbidden));
    prepare(way, memory);
}

std::unique_ptr<GuardedMemory> memory_of(const Way& way) {
    auto memory = GuardedMemory::create(way.method);
    assert_true(memory.ok());
    return *std::move(memory);
}

void assert_no_touch() {
    Touch touch;
    assert_false(take_touch(touch));
}

void copy_in__to_protected_pages__done_and_no_touch(void** state) {
    const Way& way = way_of(state);
    const auto memory = memory_of(way);
    const Buffer buffer(5);
    std::uint8_t bytes[2 * 4096] = {};
    std::memset(bytes, 0x5a, sizeof bytes);
    for (const Forbidden forbidden : {Forbidden::kEverything, Forbidden::kStores}) {
        assert_true(protects(1, buffer.data(), 4 * kPage, forbidden));
        assert_true(protects(2, buffer.page(4), kPage, forbidden));
        prepare(way, *memory);
        assert_true(memory->copy_in(address_of(buffer.page(1) - 8), bytes, sizeof bytes));
        // All pages are protected as before, from the program.
        for (const std::size_t page : {1, 4}) {
            store(buffer.page(page));
            Touch touch;
            assert_true(take_touch(touch));
            assert_ptr_equal(touch.address, buffer.page(page));
        }
        lift(1);
        lift(2);
        assert_int_equal(load(buffer.page(0) + kPage - 1), 0x5a);
        assert_int_equal(load(buffer.page(2)), 0x5a);
    }
}

void copy_out__of_protected_pages__done_and_no_touch(void** state) {
    const Way& way = way_of(state);
    const auto memory = memory_of(way);
    const Buffer buffer(2);
    std::memset(buffer.data(), 7, buffer.bytes());
    protect_all(buffer, Forbidden::kEverything, way, *memory);
    std::uint8_t back[16] = {};
    assert_true(memory->copy_out(back, address_of(buffer.page(1) - 8), sizeof back));
    for (const std::uint8_t byte : back) {
        assert_int_equal(byte, 7);
    }
    assert_true(memory->readable(address_of(buffer.data()), buffer.bytes()));
    lift(1);
    assert_no_touch();
}

// Between two pieces of memory that are both protected.
void copy_in__from_protected_pages__done_and_no_touch(void** state) {
    const Way& way = way_of(state);
    const auto memory = memory_of(way);
    const Buffer from(1);
    const Buffer to(1);
    store(from.data() + 3, 99);
    assert_true(protects(1, from.data(), from.bytes(), Forbidden::kEverything));
    protect_all(to, Forbidden::kEverything, way, *memory);
    assert_true(memory->copy_in(address_of(to.data()), from.data(), from.bytes()));
    lift(1);
    assert_int_equal(to.data()[3], 99);
    assert_no_touch();
}

void atomics__of_protected_words__executed_and_no_touch(void** state) {
    const Way& way = way_of(state);
    const auto memory = memory_of(way);
    const Buffer buffer(3);
    protect_all(buffer, Forbidden::kEverything, way, *memory);
    std::uint64_t original = 1;
    assert_true(memory->fetch_add(address_of(buffer.page(0)), 5, original));
    assert_int_equal(original, 0);
    assert_true(memory->compare_swap(address_of(buffer.page(1)), 0, 6, original));
    assert_true(memory->store(address_of(buffer.page(2)), 7));
    lift(1);
    assert_int_equal(buffer.page(0)[0], 5);
    assert_int_equal(buffer.page(1)[0], 6);
    assert_int_equal(buffer.page(2)[0], 7);
    assert_no_touch();
}

void copy_in__to_a_page_that_is_gone__still_fails(void** state) {
    const Way& way = way_of(state);
    const auto memory = memory_of(way);
    const Buffer buffer(3);
    const std::uint8_t bytes[16] = {1};
    protect_all(buffer, Forbidden::kEverything, way, *memory);
    lift_range(buffer.page(1), kPage);
    assert_int_equal(mprotect(buffer.page(1), kPage, PROT_READ), 0);
    assert_false(memory->copy_in(address_of(buffer.page(1) - 8), bytes, sizeof bytes));
    lift(1);
    assert_no_touch();
}

// As a process of the same host does it, which then sends packets; and for those the guard is asked.
void process_memory__of_protected_pages__refused_without_a_trace(void** state) {
    const Way& way = way_of(state);
    const auto memory = memory_of(way);
    const Buffer buffer(1);
    const std::uint64_t at = address_of(buffer.data());
    std::uint64_t word = 77;
    const iovec piece{.iov_base = &word, .iov_len = sizeof word};
    sluice::roce::near::ProcessMemory process(getpid());
    protect_all(buffer, Forbidden::kStores, way, *memory);
    assert_false(process.write(at, {&piece, 1}, sizeof word));
    assert_true(process.read({&piece, 1}, at, sizeof word));
    assert_int_equal(word, 0);
    change(1, Forbidden::kEverything);
    assert_false(process.read({&piece, 1}, at, sizeof word));
    // This process's piece may be the protected one, too.
    const iovec forbidden{.iov_base = buffer.data(), .iov_len = sizeof word};
    assert_false(process.read({&forbidden, 1}, address_of(&word), sizeof word));
    assert_no_touch();
    word = 77;
    assert_true(memory->copy_in(at, &word, sizeof word));
    lift(1);
    assert_int_equal(buffer.data()[0], 77);
    assert_no_touch();
}

// Its own access is the program's, also between two of the device's.
void touch__beside_a_device__still_told(void** state) {
    const Way& way = way_of(state);
    const auto memory = memory_of(way);
    const Buffer buffer(2);
    const std::uint8_t byte = 1;
    assert_true(protects(2, buffer.page(1), kPage, Forbidden::kEverything));
    assert_true(protects(1, buffer.page(0), kPage, Forbidden::kEverything));
    prepare(way, *memory);
    assert_true(memory->copy_in(address_of(buffer.page(0)), &byte, 1));
    store(buffer.page(1));
    Touch touch;
    assert_true(take_touch(touch));
    assert_int_equal(touch.tag, 2);
    lift(1);
    lift(2);
}

// The kernel lends its way around protection for private memory only.
void copies__of_protected_shared_memory__done_and_no_touch(void** state) {
    const Way& way = way_of(state);
    const auto memory = memory_of(way);
    auto* const shared = static_cast<std::uint8_t*>(
        mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    assert_true(shared != MAP_FAILED);
    assert_true(protects(1, shared, kPage, Forbidden::kEverything));
    prepare(way, *memory);
    const std::uint8_t byte = 9;
    std::uint8_t back = 0;
    assert_true(memory->copy_in(address_of(shared), &byte, 1));
    assert_true(memory->copy_out(&back, address_of(shared), 1));
    assert_int_equal(back, 9);
    assert_no_touch();
    lift(1);
    lift_range(shared, kPage);
    assert_int_equal(munmap(shared, kPage), 0);
}

// One buffer for many messages: the device works for the request that was posted first.
void atomic__between_requests_that_overlap__opens_the_oldest(void** state) {
    const Way& way = way_of(state);
    const auto memory = memory_of(way);
    const Buffer buffer(4);
    assert_true(protects(1, buffer.data(), 2 * kPage, Forbidden::kEverything));
    assert_true(protects(2, buffer.data(), 4 * kPage, Forbidden::kEverything));
    prepare(way, *memory);
    assert_true(memory->store(address_of(buffer.data()), 1));
    store(buffer.page(1));
    assert_no_touch();
    store(buffer.page(2));
    Touch touch;
    assert_true(take_touch(touch));
    assert_int_equal(touch.tag, 2);
    lift(1);
    lift(2);
}

// A device asks at each copy. The lock that fork() holds here would be waited for without end.
void copies__while_nothing_is_protected__wait_for_no_lock(void** state) {
    const auto memory = memory_of(way_of(state));
    const Buffer buffer(1);
    const std::uint8_t byte = 9;
    std::uint8_t back = 0;
    Protection::instance().before_fork();
    const bool copied = memory->copy_in(address_of(buffer.data()), &byte, 1) &&
                        memory->copy_out(&back, address_of(buffer.data()), 1);
    Protection::instance().after_fork_in_parent();
    assert_true(copied);
    assert_int_equal(back, 9);
}

} // namespace

#define EACH_WAY(test)                                                                                       \
    {#test " (guard in front)", test, nullptr, nullptr, &guard_in_front},                                    \
        {#test " (pages in front)", test, nullptr, nullptr, &pages_in_front}, {                              \
#test " (syscall)", test, nullptr, nullptr, &by_system_call                                          \
    }

int main() {
    const CMUnitTest tests[] = {
        EACH_WAY(copy_in__to_protected_pages__done_and_no_touch),
        EACH_WAY(copy_out__of_protected_pages__done_and_no_touch),
        EACH_WAY(copy_in__from_protected_pages__done_and_no_touch),
        EACH_WAY(atomics__of_protected_words__executed_and_no_touch),
        EACH_WAY(copy_in__to_a_page_that_is_gone__still_fails),
        EACH_WAY(process_memory__of_protected_pages__refused_without_a_trace),
        EACH_WAY(touch__beside_a_device__still_told),
        EACH_WAY(atomic__between_requests_that_overlap__opens_the_oldest),
        EACH_WAY(copies__of_protected_shared_memory__done_and_no_touch),
        EACH_WAY(copies__while_nothing_is_protected__wait_for_no_lock),
    };
    return cmocka_run_group_tests_name("check.pages_device", tests, nullptr, nullptr);
}
