// SPDX-License-Identifier: BSD-3-Clause
//
// Another process's memory and its sign of life, with real processes.
#include <csignal>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <thread>

#include "core/life_sign.hpp"
#include "roce/near/process_memory.hpp"
#include "roce/near/same_host.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice;
using namespace sluice::roce;

namespace {

// What this process and its children share.
struct Shared {
    std::atomic<std::uint32_t> life{0};
    std::atomic<std::uint32_t> stage{0};
};

Shared& make_shared() {
    void* const at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    return *new (at) Shared;
}

void wait_for(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
    while (word.load() != value) {
        sched_yield();
    }
}

// A child that is ready when stage is 1, and goes on at 2.
template<typename Run>
pid_t start(Shared& shared, Run&& run) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(shared);
        _exit(0);
    }
    wait_for(shared.stage, 1);
    return child;
}

void end(pid_t child) {
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, nullptr, 0), child);
}

void be_ready(Shared& shared) {
    shared.stage = 1;
    wait_for(shared.stage, 2);
}

// Not where user-mode emulation has no such list.
bool system_tells_of_ends() {
    Shared& shared = make_shared();
    bool tells = false;
    std::thread([&] {
        LifeSign sign(shared.life);
        tells = sign.begin();
        sign.end();
    }).join();
    return tells;
}

TEST(life__of_a_thread_that_says_so__ends_when_it_says_so) {
    if (!system_tells_of_ends()) {
        skip();
    }
    Shared& shared = make_shared();
    assert_false(LifeSign::lives(shared.life));
    std::thread([&] {
        LifeSign sign(shared.life);
        assert_true(sign.begin());
        assert_true(LifeSign::lives(shared.life));
        sign.end();
    }).join();
    assert_false(LifeSign::lives(shared.life));
}

void live(Shared& shared) {
    static LifeSign sign(shared.life);
    (void)sign.begin();
    be_ready(shared);
}

TEST(life__of_a_process_that_is_killed__ends_with_it) {
    if (!system_tells_of_ends()) {
        skip();
    }
    Shared& shared = make_shared();
    const pid_t child = start(shared, live);
    assert_true(LifeSign::lives(shared.life));
    end(child);
    assert_false(LifeSign::lives(shared.life));
}

TEST(life__of_a_process_that_ends_by_itself__ends_with_it) {
    if (!system_tells_of_ends()) {
        skip();
    }
    Shared& shared = make_shared();
    const pid_t child = start(shared, live);
    shared.stage = 2;
    assert_int_equal(waitpid(child, nullptr, 0), child);
    assert_false(LifeSign::lives(shared.life));
}

// Its addresses are another program's then.
TEST(life__of_a_process_that_executes_another_program__ends) {
    if (!system_tells_of_ends()) {
        skip();
    }
    Shared& shared = make_shared();
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = start(shared, [&](Shared& its) {
        live(its);
        dup2(ends[0], 0);
        close(ends[1]);
        execlp("cat", "cat", nullptr); // until the pipe ends
    });
    assert_true(LifeSign::lives(shared.life));
    shared.stage = 2;
    while (LifeSign::lives(shared.life)) {
        sched_yield(); // for ever, if it isn't so: the test's time is limited
    }
    assert_int_equal(kill(child, 0), 0);
    end(child);
    close(ends[0]);
    close(ends[1]);
}

std::vector<std::uint8_t>& block() {
    static std::vector<std::uint8_t> bytes(1 << 20);
    return bytes;
}

bool kernel_lets_us() {
    char byte = 1;
    char copy = 0;
    const iovec here{.iov_base = &copy, .iov_len = 1};
    const iovec there{.iov_base = &byte, .iov_len = 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

TEST(memory__of_another_process__is_written_and_read) {
    if (!kernel_lets_us()) {
        skip();
    }
    Shared& shared = make_shared();
    block().assign(block().size(), 0x11);
    const pid_t child = start(shared, [](Shared& its) {
        be_ready(its);
        const bool came = block()[5] == 0x77 && block()[(1 << 20) - 1] == 0x77 && block()[4] == 0x11;
        _exit(came ? 0 : 1);
    });
    near::ProcessMemory memory(child);
    const auto there = reinterpret_cast<std::uintptr_t>(block().data());
    assert_true(memory.may_touch(there));
    std::vector<std::uint8_t> mine(1 << 20, 0x77);
    const iovec pieces[] = {{mine.data(), 1000}, {mine.data() + 1000, mine.size() - 1005}};
    assert_true(memory.write(there + 5, pieces, mine.size() - 5));
    assert_int_equal(block()[5], 0x11); // ours is another
    std::vector<std::uint8_t> back(mine.size());
    const iovec into{back.data(), back.size()};
    assert_true(memory.read({&into, 1}, there, back.size()));
    assert_int_equal(back[4], 0x11);
    assert_memory_equal(back.data() + 5, mine.data(), mine.size() - 5);
    assert_false(memory.write(8, {pieces, 1}, 1000)); // nothing is there
    assert_false(memory.read({&into, 1}, 8, back.size()));
    shared.stage = 2;
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(memory.may_touch(there)); // it has ended
}

TEST(memory__of_a_process_that_may_not_be_traced__is_refused) {
    if (!kernel_lets_us() || geteuid() == 0) {
        skip(); // who may trace everything may do that, too
    }
    Shared& shared = make_shared();
    const pid_t child = start(shared, [](Shared& its) {
        prctl(PR_SET_DUMPABLE, 0);
        be_ready(its);
    });
    near::ProcessMemory memory(child);
    assert_false(memory.may_touch(reinterpret_cast<std::uintptr_t>(block().data())));
    end(child);
}

TEST(memory__of_no_process__is_refused) {
    near::ProcessMemory nobody(0); // this process itself, for the kernel
    assert_false(nobody.may_touch(reinterpret_cast<std::uintptr_t>(block().data())));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
