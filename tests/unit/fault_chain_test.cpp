// SPDX-License-Identifier: BSD-3-Clause
//
// Which handler gets a fault, where ours stands in front of a program's. What two handlers of ours do to
// each other, as those of two libraries in a process.
#include "core/fault_chain.hpp"

#include <csetjmp>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "tests/cmocka.hpp"

using sluice::FaultChain;

namespace {

constexpr int kHandled = 42;
constexpr int kWrong = 43;

void must(bool holds) {
    if (!holds) {
        _exit(kWrong);
    }
}

// Handlers are a process's: each test has one of its own. Returns its wait status.
template<typename Body>
int in_child(Body&& body) {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL); // a sanitizer has its own
        body();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

// Two pages, each of which belongs to a handler, which opens it; and one of nobody's.
const std::size_t kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
std::uint8_t* page_of_one = nullptr;
std::uint8_t* page_of_two = nullptr;
std::uint8_t* page_of_none = nullptr;
std::atomic<int> calls_of_one{0}; // by a handler, which the compiler sees no call of
std::atomic<int> calls_of_two{0};

void on_fault_of_one(int signal, siginfo_t* info, void* context);
void on_fault_of_two(int signal, siginfo_t* info, void* context);
constinit FaultChain one(SIGSEGV, on_fault_of_one);
constinit FaultChain two(SIGSEGV, on_fault_of_two);
[[gnu::tls_model("initial-exec")]] constinit thread_local FaultChain::Passing passing_one = {};
[[gnu::tls_model("initial-exec")]] constinit thread_local FaultChain::Passing passing_two = {};

bool open_if(std::uint8_t* page, const siginfo_t* info) {
    return info->si_code > 0 && info->si_addr == page && mprotect(page, kPage, PROT_READ | PROT_WRITE) == 0;
}

void on_fault_of_one(int /*signal*/, siginfo_t* info, void* context) {
    must(++calls_of_one < 20);
    if (!open_if(page_of_one, info)) {
        one.pass_on(info, context, passing_one);
    }
}

void on_fault_of_two(int /*signal*/, siginfo_t* info, void* context) {
    must(++calls_of_two < 20);
    if (!open_if(page_of_two, info)) {
        two.pass_on(info, context, passing_two);
    }
}

void store(std::uint8_t* page) {
    *const_cast<volatile std::uint8_t*>(page) = 1;
}

void make_pages() {
    auto* const pages =
        static_cast<std::uint8_t*>(mmap(nullptr, 3 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    must(pages != MAP_FAILED);
    page_of_one = pages;
    page_of_two = pages + kPage;
    page_of_none = pages + 2 * kPage;
}

void expect_fault_of_none(int /*signal*/, siginfo_t* info, void* /*context*/) {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    must(info->si_addr == page_of_none && sigismember(&blocked, SIGSEGV) == 1 &&
         sigismember(&blocked, SIGUSR1) == 1);
    _exit(kHandled);
}

void install(void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction action = {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaddset(&action.sa_mask, SIGUSR1);
    must(sigaction(SIGSEGV, &action, nullptr) == 0);
}

TEST(pass_on__a_fault_of_the_programs__its_handler_gets_it_with_its_mask) {
    const int status = in_child([] {
        make_pages();
        install(expect_fault_of_none);
        must(one.take_front().ok());
        store(page_of_one);
        store(page_of_none);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

TEST(take_front__after_the_programs_handler__in_front_of_it_again) {
    const int status = in_child([] {
        make_pages();
        must(one.take_front().ok());
        install(expect_fault_of_none);
        must(one.take_front().ok());
        store(page_of_one);
        store(page_of_none);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

TEST(take_front__two_chains_in_turn__each_gets_its_own_and_the_program_the_rest) {
    const int status = in_child([] {
        make_pages();
        install(expect_fault_of_none);
        for (int i = 0; i < 10; ++i) {
            must(one.take_front().ok());
            must(two.take_front().ok());
        }
        store(page_of_one);
        store(page_of_two);
        must(calls_of_one == 1 && calls_of_two == 2);
        must(one.take_front().ok());
        must(mprotect(page_of_two, kPage, PROT_NONE) == 0);
        store(page_of_two);
        store(page_of_none);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

TEST(pass_on__two_chains_and_no_handler__the_fault_kills) {
    const int status = in_child([] {
        make_pages();
        must(one.take_front().ok());
        must(two.take_front().ok());
        must(one.take_front().ok());
        store(page_of_none);
    });
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

void count_signal(int /*signal*/) {
    _exit(kHandled);
}

TEST(pass_on__a_signal_that_somebody_sent__goes_to_the_program) {
    const int status = in_child([] {
        make_pages();
        must(signal(SIGSEGV, count_signal) != SIG_ERR);
        must(one.take_front().ok());
        must(raise(SIGSEGV) == 0);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

TEST(pass_on__errno__is_kept) {
    const int status = in_child([] {
        make_pages();
        must(signal(SIGSEGV, [](int) {
                 errno = EIO;
                 must(mprotect(page_of_none, kPage, PROT_READ | PROT_WRITE) == 0);
             }) != SIG_ERR);
        must(one.take_front().ok());
        errno = EXDEV;
        store(page_of_none);
        must(errno == EXDEV);
        _exit(kHandled);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

// As a program does that sets its handler for the time of some calls, and a library that comes in between.
TEST(take_front__the_same_handlers_in_turn__found_again_for_ever) {
    const int status = in_child([] {
        make_pages();
        for (int i = 0; i < 100; ++i) {
            must(signal(SIGSEGV, SIG_DFL) != SIG_ERR);
            must(one.take_front().ok());
            install(expect_fault_of_none);
            must(one.take_front().ok());
            must(two.take_front().ok());
            must(one.take_front().ok());
        }
        must(mprotect(page_of_one, kPage, PROT_NONE) == 0);
        store(page_of_one);
        store(page_of_two);
        store(page_of_none);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

template<int kNumber>
void handler_of_many(int /*signal*/) {
    _exit(kNumber);
}

template<int... kNumbers>
bool takes_all(std::integer_sequence<int, kNumbers...>) {
    return ((signal(SIGSEGV, handler_of_many<kNumbers>) != SIG_ERR && one.take_front().ok()) && ...);
}

TEST(take_front__more_different_handlers_than_are_kept__an_error) {
    const int status = in_child([] {
        must(takes_all(std::make_integer_sequence<int, 7>()));
        _exit(takes_all(std::make_integer_sequence<int, 10>()) ? kWrong : kHandled);
    });
    assert_int_equal(WEXITSTATUS(status), kHandled);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("core.fault_chain");
}
