// SPDX-License-Identifier: BSD-3-Clause
//
// The system calls that the provider makes when no test stands in for the kernel.
#include "provider/abi/uverbs.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/cmocka.hpp"

namespace {

using sluice::abi::kRealKernelCalls;

struct Pipe {
    Pipe() { assert_int_equal(pipe2(ends, O_CLOEXEC), 0); }
    ~Pipe() {
        close(ends[0]);
        close(ends[1]);
    }
    int ends[2] = {-1, -1};
};

TEST(write__to_a_pipe__arrives) {
    const Pipe pipe;
    assert_int_equal(kRealKernelCalls.write(pipe.ends[1], "bell", 4), 4);
    char read_back[8] = {};
    assert_int_equal(read(pipe.ends[0], read_back, sizeof read_back), 4);
    assert_string_equal(read_back, "bell");
}

TEST(write__to_nothing__fails_with_errno) {
    errno = 0;
    assert_int_equal(kRealKernelCalls.write(-1, "bell", 4), -1);
    assert_int_equal(errno, EBADF);
}

void* write_while_cancelled(void* argument) {
    const int fd = *static_cast<int*>(argument);
    pthread_cancel(pthread_self()); // takes effect at the next place where a thread may be cancelled
    const bool written = kRealKernelCalls.write(fd, "bell", 4) == 4;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    return written ? argument : nullptr;
}

TEST(write__thread_is_being_cancelled__goes_through) {
    Pipe pipe;
    pthread_t thread{};
    assert_int_equal(pthread_create(&thread, nullptr, write_while_cancelled, &pipe.ends[1]), 0);
    void* result = nullptr;
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &pipe.ends[1]);
}

sluice::abi::SendDoorbell doorbell() {
    return {IB_USER_VERBS_CMD_POST_SEND, {}, 4};
}

TEST(send__small_command__is_written_whole) {
    const Pipe pipe;
    sluice::abi::Uverbs uverbs(pipe.ends[1], 0, kRealKernelCalls);
    const auto command = doorbell();
    errno = 0;
    assert_int_equal(uverbs.send(command, nullptr, 0), 0);
    assert_int_equal(errno, 0);
    char read_back[2 * sizeof command] = {};
    assert_int_equal(read(pipe.ends[0], read_back, sizeof read_back), sizeof command);
    assert_memory_equal(read_back, &command, sizeof command);
}

TEST(send__to_nothing_and_to_something_full__answers_the_errno) {
    sluice::abi::Uverbs nothing(-1, 0, kRealKernelCalls);
    assert_int_equal(nothing.send(doorbell(), nullptr, 0), EBADF);
    const int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    sluice::abi::Uverbs full(fd, 0, kRealKernelCalls);
    assert_int_equal(full.send(doorbell(), nullptr, 0), ENOSPC);
    close(fd);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
