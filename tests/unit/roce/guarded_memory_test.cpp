// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that goes away under the device, by each way in which a program can take it, and what the
// program's own handlers still get to see.
#include "roce/socket/guarded_memory.hpp"

#include <csetjmp>
#include <csignal>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "roce/socket/guard.hpp"
#include "roce/wire/headers.hpp"
#include "tests/cmocka.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::socket;

namespace {

const std::size_t kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

std::uint64_t address_of(const void* at) {
    return reinterpret_cast<std::uintptr_t>(at);
}

// Three pages; tests take the middle one away.
class Pages {
  public:
    explicit Pages(int fd = -1)
        : data_(static_cast<std::uint8_t*>(mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE,
                                                fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0))) {
        assert_true(data_ != MAP_FAILED);
    }
    ~Pages() { munmap(data_, 3 * kPage); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    std::uint8_t* data() const { return data_; }
    std::uint8_t* middle() const { return data_ + kPage; }
    std::uint64_t middle_address() const { return address_of(middle()); }
    void protect(int protection) const { assert_int_equal(mprotect(middle(), kPage, protection), 0); }
    void unmap() const { assert_int_equal(munmap(middle(), kPage), 0); }

  private:
    std::uint8_t* data_;
};

std::unique_ptr<GuardedMemory> memory_by(GuardMethod method) {
    auto memory = GuardedMemory::create(method);
#ifdef TEST_EMULATED
    if (!memory.ok() && method == GuardMethod::kSystemCall) {
        print_message("%s\n", memory.error().text());
        skip(); // user-mode emulation has no process_vm_readv()
    }
#endif
    assert_true(memory.ok());
    return *std::move(memory);
}

// cmocka gives each test its method here.
GuardMethod method_of(void** state) {
    return **reinterpret_cast<GuardMethod**>(state);
}

constexpr std::uint8_t kBytes[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

void copy__page_is_there__bytes_arrive(void** state) {
    const auto memory = memory_by(method_of(state));
    const Pages pages;
    assert_true(memory->copy_in(pages.middle_address() - 8, kBytes, sizeof kBytes));
    std::uint8_t back[16] = {};
    assert_true(memory->copy_out(back, pages.middle_address() - 8, sizeof back));
    assert_memory_equal(back, kBytes, sizeof back);
    assert_true(memory->copy_in(0, kBytes, 0));
    assert_true(memory->copy_out(back, 0, 0));
}

void copy__page_unmapped__false_and_what_came_before_stays(void** state) {
    const auto memory = memory_by(method_of(state));
    const Pages pages;
    pages.unmap();
    std::uint8_t back[16] = {};
    assert_false(memory->copy_in(pages.middle_address(), kBytes, sizeof kBytes));
    assert_false(memory->copy_out(back, pages.middle_address(), sizeof back));
    assert_false(memory->copy_in(pages.middle_address() - 8, kBytes, sizeof kBytes));
    assert_false(memory->copy_out(back, pages.middle_address() - 8, sizeof back));
    assert_true(memory->copy_in(pages.middle_address() - 16, kBytes, sizeof kBytes));
    assert_memory_equal(pages.middle() - 16, kBytes, sizeof kBytes);
}

void copy__page_protected__only_what_it_allows(void** state) {
    const auto memory = memory_by(method_of(state));
    const Pages pages;
    std::memcpy(pages.middle(), kBytes, sizeof kBytes);
    std::uint8_t back[16] = {};
    pages.protect(PROT_READ);
    assert_false(memory->copy_in(pages.middle_address(), kBytes + 1, 15));
    assert_true(memory->copy_out(back, pages.middle_address(), sizeof back));
    assert_memory_equal(back, kBytes, sizeof back);
    pages.protect(PROT_NONE);
    assert_false(memory->copy_out(back, pages.middle_address(), sizeof back));
}

// The kernel sends SIGBUS here, not SIGSEGV.
void copy__file_truncated__false(void** state) {
    const auto memory = memory_by(method_of(state));
    char name[] = "/tmp/sluice-guard-XXXXXX";
    const int fd = mkstemp(name);
    assert_true(fd >= 0);
    unlink(name);
    assert_int_equal(ftruncate(fd, static_cast<off_t>(3 * kPage)), 0);
    const Pages pages(fd);
    assert_true(memory->copy_in(pages.middle_address(), kBytes, sizeof kBytes));
    assert_int_equal(ftruncate(fd, static_cast<off_t>(kPage)), 0);
    std::uint8_t back[16] = {};
    assert_false(memory->copy_in(pages.middle_address(), kBytes, sizeof kBytes));
    assert_false(memory->copy_out(back, pages.middle_address(), sizeof back));
    assert_false(memory->readable(pages.middle_address(), 1));
    std::uint64_t original = 0;
    assert_false(memory->fetch_add(pages.middle_address(), 1, original));
    close(fd);
}

void readable__each_range__true_only_if_all_of_it_is(void** state) {
    const auto memory = memory_by(method_of(state));
    const Pages pages;
    assert_true(memory->readable(address_of(pages.data()), 3 * kPage));
    pages.protect(PROT_NONE);
    assert_false(memory->readable(address_of(pages.data()), 3 * kPage));
    assert_false(memory->readable(pages.middle_address() - 1, 2));
    assert_false(memory->readable(pages.middle_address() + kPage - 1, 1));
    assert_true(memory->readable(pages.middle_address() - 1, 1));
    assert_true(memory->readable(pages.middle_address() + kPage, kPage));
    assert_true(memory->readable(0, 0));
}

void read__each_range__copied_only_if_all_of_it_is_there(void** state) {
    const auto memory = memory_by(method_of(state));
    const Pages pages;
    std::memset(pages.middle(), 7, kPage);
    std::uint8_t bytes[2] = {};
    assert_true(memory->read(bytes, pages.middle_address(), sizeof bytes));
    assert_true(bytes[0] == 7 && bytes[1] == 7);
    pages.protect(PROT_NONE);
    assert_false(memory->read(bytes, pages.middle_address() - 1, sizeof bytes));
    assert_false(memory->read(bytes, pages.middle_address() + kPage - 1, sizeof bytes));
    assert_true(memory->read(bytes, pages.middle_address() + kPage, sizeof bytes));
    assert_true(bytes[0] == 0 && bytes[1] == 0);
}

void atomics__writable_word__executed_and_original_returned(void** state) {
    const auto memory = memory_by(method_of(state));
    const Pages pages;
    auto* const word = reinterpret_cast<std::uint64_t*>(pages.middle());
    *word = 40;
    std::uint64_t original = 0;
    assert_true(memory->fetch_add(address_of(word), 2, original));
    assert_int_equal(original, 40);
    assert_true(memory->compare_swap(address_of(word), 41, 7, original));
    assert_int_equal(original, 42);
    assert_int_equal(*word, 42);
    assert_true(memory->compare_swap(address_of(word), 42, 7, original));
    assert_int_equal(original, 42);
    assert_true(memory->store(address_of(word) + 8, 99));
    assert_int_equal(word[0], 7);
    assert_int_equal(word[1], 99);
}

void atomics__page_not_writable__false_and_word_unchanged(void** state) {
    const auto memory = memory_by(method_of(state));
    const Pages pages;
    auto* const word = reinterpret_cast<std::uint64_t*>(pages.middle());
    *word = 5;
    pages.protect(PROT_READ);
    std::uint64_t original = 77;
    assert_false(memory->fetch_add(address_of(word), 1, original));
    assert_false(memory->compare_swap(address_of(word), 5, 6, original));
    assert_false(memory->store(address_of(word), 6));
    assert_int_equal(original, 77);
    assert_int_equal(*word, 5);
    pages.unmap();
    assert_false(memory->fetch_add(address_of(word), 1, original));
    assert_false(memory->store(address_of(word), 6));
}

void flush__page_gone__false_for_persistence_only(void** state) {
    const auto memory = memory_by(method_of(state));
    const Pages pages;
    constexpr auto kPersistent = wire::Feth::kPersistence;
    assert_true(memory->flush(pages.middle_address() - 100, 200, kPersistent));
    assert_true(memory->flush(0, 0, kPersistent));
    pages.unmap();
#ifndef TEST_EMULATED // where cache instructions do nothing at all, and so don't fault
    assert_false(memory->flush(pages.middle_address() - 100, 200, kPersistent));
#endif
    assert_true(memory->flush(pages.middle_address(), 8, wire::Feth::kGlobalVisibility));
}

// One thread takes a page away and gives it back, all others copy there; each on its own either
// gets the bytes or learns that it doesn't.
void copy__threads_and_a_page_that_comes_and_goes__all_or_false(void** state) {
    const auto memory = memory_by(method_of(state));
    const Pages pages;
    std::memset(pages.data(), 0x5a, 3 * kPage);
    std::atomic<bool> stop = false;
    std::atomic<std::uint64_t> succeeded = 0;
    std::atomic<std::uint64_t> failed = 0;
    std::atomic<std::uint64_t> torn = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] {
            std::vector<std::uint8_t> back(200);
            while (!stop.load(std::memory_order_relaxed)) {
                std::fill(back.begin(), back.end(), std::uint8_t{0});
                if (memory->copy_out(back.data(), pages.middle_address() - 100, back.size())) {
                    ++succeeded;
                    torn += back.front() != 0x5a || back.back() != 0x5a ? 1 : 0;
                } else {
                    ++failed;
                }
            }
        });
    }
    while (succeeded < 100 || failed < 100) {
        pages.protect(PROT_NONE);
        for (const std::uint64_t before = failed; failed == before;) {
            std::this_thread::yield();
        }
        pages.protect(PROT_READ);
        for (const std::uint64_t before = succeeded; succeeded == before;) {
            std::this_thread::yield();
        }
    }
    stop = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
    assert_int_equal(torn, 0);
}

// What follows changes the handlers of a process, hence in one of its own. Returns its wait status.
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

constexpr int kHandled = 42;
constexpr int kWrong = 43;

void must(bool holds) {
    if (!holds) {
        _exit(kWrong);
    }
}

std::uint8_t* forbidden_page() {
    return static_cast<std::uint8_t*>(mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

std::uint8_t* faulting = nullptr;

void expect_own_fault(int signal, siginfo_t* info, void*) {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    must(signal == SIGSEGV && info->si_addr == faulting && sigismember(&blocked, SIGSEGV) == 1);
    _exit(kHandled);
}

void set_handler(void (*handler)(int, siginfo_t*, void*), struct sigaction* before = nullptr) {
    struct sigaction action = {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    must(sigaction(SIGSEGV, &action, before) == 0);
}

void set_default(int signal, void (*what)(int)) {
    struct sigaction action = {};
    action.sa_handler = what;
    must(sigaction(signal, &action, nullptr) == 0);
}

void touch(std::uint8_t* page) {
    *const_cast<volatile std::uint8_t*>(page) = 1;
}

bool guarded_touch(std::uint8_t* page) {
    return guarded([=] { touch(page); });
}

void handler__of_the_program_before_ours__gets_its_own_faults_only(void**) {
    const int status = in_child([] {
        faulting = forbidden_page();
        set_handler(expect_own_fault);
        must(prepare_guard().ok());
        must(!guarded_touch(faulting));
        must(!guarded_touch(faulting));
        touch(faulting);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

void handler__of_the_program_after_ours__found_again_and_kept(void**) {
    const int status = in_child([] {
        faulting = forbidden_page();
        set_default(SIGSEGV, SIG_DFL);
        must(prepare_guard().ok());
        set_handler(expect_own_fault);
        must(prepare_guard().ok());
        must(!guarded_touch(faulting));
        touch(faulting);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

struct sigaction found_by_second;
int seconds_turn = 0;

void pass_to_who_was_before(int signal, siginfo_t* info, void* context) {
    must(++seconds_turn == 1);
    found_by_second.sa_sigaction(signal, info, context);
}

// A ring of two that pass to each other: each is called once, then the one from before both.
void handler__that_passes_back_to_ours__ends_at_the_first(void**) {
    const int status = in_child([] {
        faulting = forbidden_page();
        set_handler(expect_own_fault);
        must(prepare_guard().ok());
        set_handler(pass_to_who_was_before, &found_by_second);
        must(prepare_guard().ok());
        must(!guarded_touch(faulting));
        touch(faulting);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

sigjmp_buf way_out;
int jumps = 0;

void leave_by_jump(int, siginfo_t*, void*) {
    ++jumps;
    siglongjmp(way_out, 1);
}

void handler__that_leaves_by_longjmp__called_each_time(void**) {
    const int status = in_child([] {
        faulting = forbidden_page();
        set_default(SIGSEGV, SIG_DFL);
        set_handler(leave_by_jump);
        must(prepare_guard().ok());
        for (int i = 0; i < 5; ++i) {
            if (sigsetjmp(way_out, 1) == 0) {
                touch(faulting);
            }
            must(!guarded_touch(faulting));
        }
        _exit(jumps == 5 ? kHandled : kWrong);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

void handler__none__own_fault_still_kills(void**) {
    for (const auto what : {SIG_DFL, SIG_IGN}) {
        const int status = in_child([what] {
            set_default(SIGSEGV, what);
            must(prepare_guard().ok());
            must(!guarded_touch(forbidden_page()));
            touch(forbidden_page());
        });
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSEGV);
    }
}

// A signal that somebody sends is no fault, not even in the middle of an access.
void signal__sent_during_a_guarded_access__goes_to_the_program(void**) {
    int status = in_child([] {
        set_default(SIGBUS, SIG_DFL);
        must(prepare_guard().ok());
        guarded([] { raise(SIGBUS); });
    });
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
    status = in_child([] {
        set_default(SIGBUS, SIG_IGN);
        must(prepare_guard().ok());
        must(guarded([] { raise(SIGBUS); }));
        _exit(kHandled);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

void handler__always_another_one__an_error_that_says_so(void**) {
    const int status = in_child([] {
        bool refused = false;
        for (int i = 0; i < 30; ++i) {
            set_default(SIGSEGV, SIG_DFL);
            must(prepare_guard().ok());
        }
        for (int i = 0; i < 10; ++i) {
            // The same handler with other flags is another one.
            struct sigaction action = {};
            action.sa_handler = SIG_IGN;
            action.sa_flags = (i % 2 != 0 ? SA_RESTART : 0) | (i / 2 % 2 != 0 ? SA_NODEFER : 0) |
                              (i / 4 % 2 != 0 ? SA_ONSTACK : 0) | (i / 8 % 2 != 0 ? SA_SIGINFO : 0);
            must(sigaction(SIGSEGV, &action, nullptr) == 0);
            const auto prepared = prepare_guard();
            refused = refused || !prepared.ok();
            must(prepared.ok() ||
                 std::strstr(prepared.error().text(), "SLUICE_UROCE_GUARD=syscall") != nullptr);
        }
        _exit(refused ? kHandled : kWrong);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

void parse_guard_method__words__known_ones_only(void**) {
    assert_true(*parse_guard_method(nullptr) == GuardMethod::kSignal);
    assert_true(*parse_guard_method("") == GuardMethod::kSignal);
    assert_true(*parse_guard_method("signal") == GuardMethod::kSignal);
    assert_true(*parse_guard_method("syscall") == GuardMethod::kSystemCall);
    const auto wrong = parse_guard_method("Signal");
    assert_false(wrong.ok());
    assert_non_null(std::strstr(wrong.error().text(), "signal or syscall"));
}

GuardMethod by_signal = GuardMethod::kSignal;
GuardMethod by_system_call = GuardMethod::kSystemCall;

} // namespace

#define BOTH_WAYS(test)                                                                                      \
    {#test " (signal)", test, nullptr, nullptr, &by_signal}, {                                               \
#test " (syscall)", test, nullptr, nullptr, &by_system_call                                          \
    }

int main() {
    const CMUnitTest tests[] = {
        BOTH_WAYS(copy__page_is_there__bytes_arrive),
        BOTH_WAYS(copy__page_unmapped__false_and_what_came_before_stays),
        BOTH_WAYS(copy__page_protected__only_what_it_allows),
        BOTH_WAYS(copy__file_truncated__false),
        BOTH_WAYS(readable__each_range__true_only_if_all_of_it_is),
        BOTH_WAYS(read__each_range__copied_only_if_all_of_it_is_there),
        BOTH_WAYS(atomics__writable_word__executed_and_original_returned),
        BOTH_WAYS(atomics__page_not_writable__false_and_word_unchanged),
        BOTH_WAYS(flush__page_gone__false_for_persistence_only),
        BOTH_WAYS(copy__threads_and_a_page_that_comes_and_goes__all_or_false),
        cmocka_unit_test(handler__of_the_program_before_ours__gets_its_own_faults_only),
        cmocka_unit_test(handler__of_the_program_after_ours__found_again_and_kept),
        cmocka_unit_test(handler__that_passes_back_to_ours__ends_at_the_first),
        cmocka_unit_test(handler__that_leaves_by_longjmp__called_each_time),
        cmocka_unit_test(handler__none__own_fault_still_kills),
        cmocka_unit_test(signal__sent_during_a_guarded_access__goes_to_the_program),
        cmocka_unit_test(handler__always_another_one__an_error_that_says_so),
        cmocka_unit_test(parse_guard_method__words__known_ones_only),
    };
    return cmocka_run_group_tests_name("roce.guarded_memory", tests, nullptr, nullptr);
}
