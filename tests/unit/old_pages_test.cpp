// SPDX-License-Identifier: BSD-3-Clause
//
// Pages with old lines by themselves: which accesses are recorded, and that everything goes on as without
// them.
#include "core/old_pages/old_pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <thread>

#include "core/fault_access.hpp"
#include "tests/cmocka.hpp"

namespace old_pages = sluice::old_pages;
using old_pages::kLineBytes;
using old_pages::kPageBytes;
using sluice::coherence::LineRun;

namespace {

void (*touch_buffer)(const void*, std::size_t, int) = nullptr;

} // namespace

// As the layer of `sluice check` has it.
extern "C" [[gnu::visibility("default")]] void sluice_check_on_buffers(void (*touch)(const void*, std::size_t,
                                                                                     int)) {
    touch_buffer = touch;
}

namespace {

constexpr std::uint64_t kAll = ~std::uint64_t{0};

struct Memory {
    explicit Memory(std::size_t pages = 1)
        : length(pages * kPageBytes),
          bytes(static_cast<std::uint8_t*>(
              mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        assert_ptr_not_equal(bytes, MAP_FAILED);
        std::memset(bytes, 7, length);
    }
    ~Memory() {
        old_pages::open(all());
        old_pages::forget(all());
        munmap(bytes, length);
    }
    std::uintptr_t address(std::size_t offset = 0) const {
        return reinterpret_cast<std::uintptr_t>(bytes) + offset;
    }
    LineRun all() const { return {address(), address(length - 1)}; }
    // The event that says so is the calling thread's.
    void make_old(std::uint64_t lines, std::size_t page = 0) const {
        const std::uint32_t event = old_pages::begin_event();
        old_pages::set_old(address(page * kPageBytes), lines, event);
        old_pages::end_event(event);
    }
    // The first two words of the second line are as they were, and the third is old.
    void make_word_old() const {
        old_pages::OldWords words{};
        words[1] = 0x4;
        const std::uint32_t event = old_pages::begin_event();
        old_pages::set_old_words(address(), words, event);
        old_pages::end_event(event);
    }
    bool is_closed(std::size_t page = 0) const { return old_pages::is_closed(address(page * kPageBytes)); }

    std::size_t length;
    volatile std::uint8_t* volatile_bytes() const { return bytes; }
    std::uint8_t* bytes;
};

// What a fault at AT names.
std::size_t named(std::size_t at) {
    return old_pages::kKnowsAddresses ? at : at & ~(kPageBytes - 1);
}

void must_be_touched(const Memory& memory, std::size_t at, std::size_t first, std::size_t end,
                     bool is_store = false) {
    old_pages::Touch touch;
    assert_true(old_pages::take(touch));
    assert_int_equal(touch.address, memory.address(at));
    assert_int_equal(touch.old.first, memory.address(first));
    assert_int_equal(touch.old.last, memory.address(end) - 1);
    assert_int_equal(touch.is_store, is_store && sluice::kKnowsAccesses);
    assert_true(touch.stack.count > 1);
    assert_false(old_pages::take(touch));
}

void must_be_untouched() {
    old_pages::Touch touch;
    assert_false(old_pages::take(touch));
}

TEST(load__of_an_old_line__recorded_once_and_goes_on) {
    const Memory memory(2);
    memory.make_old(kAll, 0);
    memory.make_old(0x3, 1);
    assert_true(memory.is_closed(0));
    assert_int_equal(memory.volatile_bytes()[100], 7);
    must_be_touched(memory, named(100), 0, kPageBytes + 2 * kLineBytes);
    assert_false(memory.is_closed(0));
    assert_int_equal(memory.volatile_bytes()[300], 7);
    must_be_untouched();
}

TEST(store__to_an_old_line__recorded_as_one) {
    const Memory memory;
    memory.make_old(kAll);
    memory.volatile_bytes()[kLineBytes] = 9;
    must_be_touched(memory, named(kLineBytes), 0, kPageBytes, true);
    assert_int_equal(memory.volatile_bytes()[kLineBytes], 9);
}

TEST(load__of_another_line__not_recorded_and_the_page_stays_closed) {
    const Memory memory;
    memory.make_old(0xF0);
    assert_int_equal(memory.volatile_bytes()[0], 7);
    memory.volatile_bytes()[8 * kLineBytes] = 8;
    assert_int_equal(memory.volatile_bytes()[8 * kLineBytes], 8);
    must_be_untouched();
#if defined(__x86_64__)
    assert_true(memory.is_closed());
    assert_int_equal(memory.volatile_bytes()[5 * kLineBytes], 7);
    must_be_touched(memory, 5 * kLineBytes, 4 * kLineBytes, 8 * kLineBytes);
#endif
}

// Such a move touches two closed pages in one instruction, again and again.
TEST(copy__between_two_pages__not_recorded) {
    const Memory memory(2);
    memory.make_old(1, 0);
    memory.make_old(1, 1);
    std::memset(memory.bytes + 1024, 5, 256);
    std::memcpy(memory.bytes + kPageBytes + 1024, memory.bytes + 1024, 256);
    assert_int_equal(memory.volatile_bytes()[kPageBytes + 1279], 5);
    must_be_untouched();
}

TEST(load__in_a_thread_without_an_event__not_recorded) {
    const Memory memory;
    memory.make_old(kAll);
    int seen = 0;
    std::thread([&] { seen = memory.volatile_bytes()[0]; }).join();
    assert_int_equal(seen, 7);
    must_be_untouched();
}

TEST(lines__forgotten__the_others_are_closed_again) {
    const Memory memory;
    memory.make_old(0x3);
    const LineRun first{memory.address(), memory.address(kLineBytes - 1)};
    old_pages::open(first);
    assert_false(memory.is_closed());
    old_pages::forget(first);
    old_pages::close_again(first);
    assert_true(memory.is_closed());
    const LineRun second{memory.address(kLineBytes), memory.address(2 * kLineBytes - 1)};
    old_pages::open(second);
    old_pages::forget(second);
    old_pages::close_again(second);
    assert_false(memory.is_closed());
}

#if !defined(__s390x__)
TEST(page__touched__closed_again_by_new_lines_alone) {
    const Memory memory;
    memory.make_old(0x1);
    assert_int_equal(memory.volatile_bytes()[0], 7);
    must_be_touched(memory, 0, 0, kLineBytes);
    memory.make_old(0x1);
    assert_false(memory.is_closed());
    memory.make_old(0x3);
    assert_true(memory.is_closed());
}
#endif

TEST(buffer__given_to_libc__as_an_access) {
    const Memory memory;
    memory.make_old(0x2);
    touch_buffer(memory.bytes, kLineBytes, 0); // the line beside
    assert_false(memory.is_closed());
    must_be_untouched();
    memory.make_old(0x2);
    assert_true(memory.is_closed());
    touch_buffer(memory.bytes, 2 * kLineBytes, 0);
    must_be_touched(memory, kLineBytes, kLineBytes, 2 * kLineBytes);
}

#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv) // which know loads
constexpr std::size_t kOldWord = kLineBytes + 2 * old_pages::kWordBytes;

TEST(load__of_an_old_word__recorded_with_what_it_holds) {
    const Memory memory;
    memory.make_word_old();
    assert_int_equal(memory.volatile_bytes()[kOldWord + 3], 7);
    old_pages::Touch touch;
    assert_true(old_pages::take(touch));
    assert_int_equal(touch.address, memory.address(kOldWord + 3));
    assert_int_equal(touch.word, 0x0707070707070707U);
    assert_false(memory.is_closed());
}

TEST(load__of_another_word_of_the_line__not_recorded) {
    const Memory memory;
    memory.make_word_old();
    assert_int_equal(memory.volatile_bytes()[kLineBytes], 7);
    must_be_untouched();
#if defined(__x86_64__)
    assert_true(memory.is_closed());
#endif
}

TEST(store__to_an_old_word__not_recorded) {
    const Memory memory;
    memory.make_word_old();
    memory.volatile_bytes()[kOldWord] = 9;
    must_be_untouched();
    assert_int_equal(memory.volatile_bytes()[kOldWord], 9);
    memory.make_word_old(); // the next event
    assert_true(memory.is_closed());
}

TEST(buffer__with_an_old_word__as_a_load) {
    const Memory memory;
    memory.make_word_old();
    touch_buffer(memory.bytes + kLineBytes, old_pages::kWordBytes, 0);
    must_be_untouched();
    memory.make_word_old();
    touch_buffer(memory.bytes, kPageBytes, 1);
    must_be_untouched();
    memory.make_word_old();
    touch_buffer(memory.bytes, kPageBytes, 0);
    old_pages::Touch touch;
    assert_true(old_pages::take(touch));
    assert_int_equal(touch.address, memory.address(kOldWord));
}
#endif

sigjmp_buf landing;
volatile int caught = 0;

void catch_it(int, siginfo_t* info, void*) {
    caught = info->si_addr == nullptr ? 0 : 1;
    siglongjmp(landing, 1); // NOLINT(cert-err52-cpp): out of a fault
}

TEST(fault__elsewhere__is_the_programs) {
    struct sigaction action = {};
    struct sigaction former = {};
    action.sa_sigaction = catch_it;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    assert_int_equal(sigaction(SIGSEGV, &action, &former), 0);
    const Memory memory;
    memory.make_old(kAll); // in front of that one
    const Memory other;
    assert_int_equal(mprotect(other.bytes, kPageBytes, PROT_NONE), 0);
    if (sigsetjmp(landing, 1) == 0) {
        other.volatile_bytes()[5] = 1;
    }
    assert_int_equal(caught, 1);
    assert_true(memory.is_closed());
    assert_int_equal(memory.volatile_bytes()[0], 7);
    must_be_touched(memory, 0, 0, kPageBytes);
    assert_int_equal(sigaction(SIGSEGV, &former, nullptr), 0);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
