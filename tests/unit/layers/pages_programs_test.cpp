// SPDX-License-Identifier: BSD-3-Clause
//
// What programs do beside: handlers of their own, threads, stacks, children, and more buffers than there are
// mappings.
#include <csetjmp>
#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "layers/check/pages/pages.hpp"
#include "tests/cmocka.hpp"
#include "tests/unit/layers/buffer.hpp"

using namespace sluice::layers::check::pages;
using namespace sluice::test;

namespace {

constexpr int kHandled = 42;
constexpr int kWrong = 43;

void must(bool holds) {
    if (!holds) {
        _exit(kWrong);
    }
}

// What changes handlers has a process of its own. Nothing may have been protected before: a child of fork()
// protects nothing. Returns its wait status.
template<typename Body>
int in_child(Body&& body) {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        body();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

bool is_told(std::uint64_t tag, const void* address) {
    Touch touch;
    return take_touch(touch) && touch.tag == tag && touch.address == address;
}

bool is_told_nothing() {
    Touch touch;
    return !take_touch(touch);
}

std::uint8_t* own_page = nullptr;

void expect_own_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
    must(info->si_addr == own_page && is_told_nothing());
    _exit(kHandled);
}

void install(void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction action = {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    must(sigaction(SIGSEGV, &action, nullptr) == 0);
}

TEST(touch__with_a_handler_of_the_program__each_gets_its_own) {
    const int status = in_child([] {
        const Buffer buffer(1);
        const Buffer own(1, PROT_NONE);
        own_page = own.data();
        install(expect_own_fault);
        must(protects(1, buffer.data(), buffer.bytes(), Forbidden::kEverything));
        store(buffer.data());
        must(is_told(1, buffer.data()));
        store(own_page);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

TEST(touch__after_the_program_installed_a_handler__caught_from_the_next_request_on) {
    const int status = in_child([] {
        const Buffer buffer(2);
        const Buffer own(1, PROT_NONE);
        own_page = own.data();
        must(protects(1, buffer.page(0), kPage, Forbidden::kEverything));
        install(expect_own_fault);
        must(protects(2, buffer.page(1), kPage, Forbidden::kEverything));
        store(buffer.page(0));
        must(is_told(1, buffer.page(0)));
        store(own_page);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

sigjmp_buf way_out;

void leave_by_jump(int, siginfo_t*, void*) {
    siglongjmp(way_out, 1); // NOLINT(cert-err52-cpp): as programs do
}

TEST(touch__a_handler_that_leaves_by_siglongjmp__both_work_again_and_again) {
    const int status = in_child([] {
        const Buffer buffer(1);
        const Buffer own(1, PROT_NONE);
        install(leave_by_jump);
        static int jumps = 0; // what is on the stack may be lost by a jump
        static std::uint64_t tag = 1;
        for (; tag <= 5; ++tag) {
            must(protects(tag, buffer.data(), buffer.bytes(), Forbidden::kStores));
            if (sigsetjmp(way_out, 1) == 0) { // NOLINT(cert-err52-cpp)
                store(own.data());
            } else {
                ++jumps;
            }
            store(buffer.data());
            must(is_told(tag, buffer.data()));
            lift(tag);
        }
        _exit(jumps == 5 ? kHandled : kWrong);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

TEST(touch__a_store_to_what_the_program_may_only_read__is_its_own_fault) {
    const int status = in_child([] {
        const Buffer buffer(1, PROT_READ);
        own_page = buffer.data();
        install(expect_own_fault);
        must(protects(1, buffer.data(), buffer.bytes(), Forbidden::kStores));
        store(buffer.data());
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

TEST(touch__no_handler_and_a_fault_of_the_programs_where_a_page_was_opened__kills) {
    const int status = in_child([] {
        struct sigaction action = {};
        action.sa_handler = SIG_DFL; // a sanitizer has its own
        must(sigaction(SIGSEGV, &action, nullptr) == 0);
        const Buffer buffer(1);
        must(protects(1, buffer.data(), buffer.bytes(), Forbidden::kStores));
        store(buffer.data());
        must(is_told(1, buffer.data()));
        // We aren't told, and may not repeat it for ever.
        must(mprotect(buffer.data(), buffer.bytes(), PROT_READ) == 0);
        store(buffer.data());
    });
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

TEST(protect__in_a_child_of_fork__nothing_is_protected_or_told) {
    const Buffer buffer(2);
    assert_true(protects(1, buffer.data(), buffer.bytes(), Forbidden::kEverything));
    const int status = in_child([&] {
        store(buffer.page(0));
        must(is_told_nothing());
        must(!protects(2, buffer.data(), buffer.bytes(), Forbidden::kEverything));
        lift(1);
        _exit(kHandled);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
    store(buffer.page(1));
    assert_true(is_told(1, buffer.page(1)));
    lift(1);
}

#ifndef SLUICE_UNDER_SANITIZER // a sanitizer makes it a fork()
TEST(touch__in_a_child_of_vfork__goes_on_and_is_not_told) {
    const Buffer buffer(1);
    assert_true(protects(1, buffer.data(), buffer.bytes(), Forbidden::kEverything));
    const pid_t child = vfork(); // NOLINT: programs use it
    if (child == 0) {
        store(buffer.data(), 9); // NOLINT(clang-analyzer-unix.Vfork): what isn't allowed is the test
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(is_told_nothing());
    assert_int_equal(buffer.data()[0], 9);
    lift(1);
}
#endif

// Of all threads that meet a page, one is told of.
TEST(touch__by_threads_at_the_same_page__told_once_and_all_go_on) {
    const Buffer buffer(1);
    constexpr int kRounds = 300;
    constexpr int kThreads = 3;
    std::atomic<int> round = 0;
    std::atomic<int> arrived = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
            for (int mine = 1; mine <= kRounds; ++mine) {
                while (round.load() < mine) {
                    std::this_thread::yield();
                }
                store(buffer.data() + i);
                ++arrived;
            }
        });
    }
    int told = 0;
    for (int each = 1; each <= kRounds; ++each) {
        const auto tag = static_cast<std::uint64_t>(each);
        assert_true(protects(tag, buffer.data(), buffer.bytes(), Forbidden::kEverything));
        round = each;
        while (arrived.load() < kThreads * each) {
            std::this_thread::yield();
        }
        Touch touch;
        while (take_touch(touch)) {
            told += touch.tag == tag ? 1 : 1000;
        }
        lift(tag);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    assert_int_equal(told, kRounds);
}

// The request ends while an access is on its way into the handler.
TEST(touch__while_requests_come_and_go__each_access_goes_on) {
    const Buffer buffer(4);
    std::atomic<bool> stop = false;
    std::thread other([&] {
        while (!stop.load()) {
            for (std::size_t page = 0; page < 4; ++page) {
                store(buffer.page(page));
            }
        }
    });
    Touch touch;
    for (std::uint64_t tag = 1; tag <= 5000; ++tag) {
        assert_true(protects(tag, buffer.data(), buffer.bytes(), Forbidden::kStores));
        lift(tag);
        while (take_touch(touch)) {
        }
    }
    stop = true;
    other.join();
}

TEST(protect__memory_of_stacks__refused) {
    std::uint8_t* other = nullptr;
    std::atomic<int> step = 0;
    std::thread thread([&] {
        std::uint8_t memory[64 << 10];
        std::memset(memory, 5, sizeof memory);
        other = memory;
        step = 1;
        while (step.load() != 2) {
            std::this_thread::yield();
        }
    });
    while (step.load() != 1) {
        std::this_thread::yield();
    }
    std::uint8_t own[64 << 10];
    std::memset(own, 5, sizeof own);
    assert_false(protects(1, own, sizeof own, Forbidden::kEverything));
    assert_false(protects(2, other, 64 << 10, Forbidden::kEverything));
    step = 2;
    thread.join();
}

// A thread's stack is often mapped right below.
TEST(protect__memory_beside_stacks__protected) {
    constexpr std::size_t kBytes = std::size_t{1} << 20;
    std::atomic<bool> stop = false;
    std::vector<void*> memory;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        memory.push_back(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        assert_true(memory.back() != MAP_FAILED);
        threads.emplace_back([&] {
            while (!stop.load()) {
                std::this_thread::yield();
            }
        });
    }
    for (void* each : memory) {
        assert_true(protects(1, each, kBytes, Forbidden::kEverything));
    }
    stop = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (void* each : memory) {
        lift_range(each, kBytes);
        munmap(each, kBytes);
    }
    lift(1);
}

// Of the 65530 mappings that the kernel allows a process, unless it was told otherwise.
TEST(protect__more_pieces_than_mappings_are_allowed__refused_until_others_end) {
    constexpr std::size_t kMost = 40'000;
    const Buffer buffer(2 * kMost);
    learn(buffer.data(), buffer.bytes());
    std::size_t count = 0;
    while (count < kMost && protects(count, buffer.page(2 * count), kPage, Forbidden::kEverything)) {
        ++count;
    }
    if (count == kMost) {
        print_message("vm.max_map_count is too large here for a test\n");
    } else {
        assert_in_range(count, 1000, kMost - 1);
        lift(0);
        assert_true(protects(0, buffer.page(0), kPage, Forbidden::kEverything));
        assert_false(protects(count, buffer.page(2 * count), kPage, Forbidden::kEverything));
    }
    for (std::size_t tag = 0; tag < count; ++tag) {
        lift(tag);
    }
    for (std::size_t page = 0; page < 2 * kMost; ++page) {
        store(buffer.page(page));
    }
    assert_true(is_told_nothing());
}

} // namespace

int main() {
    return run_all_tests("check.pages_programs");
}
