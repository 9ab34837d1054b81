// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that may be closed at any moment, copied as far as it can be read, also where a sandbox refuses the
// call that is made for it.
#include "core/own_memory.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "tests/cmocka.hpp"
#include "tests/sandbox.hpp"

using sluice::copy_own_memory;

namespace {

// Two pages of which the second one is closed.
class HalfClosed {
  public:
    HalfClosed()
        : bytes_(static_cast<char*>(
              mmap(nullptr, 2 * page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        assert_ptr_not_equal(bytes_, MAP_FAILED);
        std::memset(bytes_, 'a', 2 * page());
        assert_int_equal(mprotect(bytes_ + page(), page(), PROT_NONE), 0);
    }
    ~HalfClosed() { munmap(bytes_, 2 * page()); }
    HalfClosed(const HalfClosed&) = delete;
    HalfClosed& operator=(const HalfClosed&) = delete;

    static std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
    std::uintptr_t before_the_end(std::size_t bytes) const {
        return reinterpret_cast<std::uintptr_t>(bytes_) + page() - bytes;
    }

  private:
    char* bytes_;
};

void must_copy_what_is_open() {
    const HalfClosed memory;
    std::array<std::byte, 64> to{};
    assert_int_equal(copy_own_memory(memory.before_the_end(64), to).value(), 64);
    for (const std::byte byte : to) {
        assert_int_equal(byte, 'a');
    }
    to = {};
    assert_int_equal(copy_own_memory(memory.before_the_end(24), to).value(), 24);
    assert_int_equal(to[23], 'a');
    assert_int_equal(to[24], 0);
    assert_int_equal(copy_own_memory(memory.before_the_end(0), to).value(), 0);
    assert_int_equal(copy_own_memory(8, to).value(), 0);
}

void must_not_copy_without(unsigned system_call) {
    assert_true(test::is_true_in_child([&] {
        std::byte to{};
        return test::refuse(system_call) &&
               !copy_own_memory(reinterpret_cast<std::uintptr_t>(&to), std::span(&to, 1)).has_value();
    }));
}

TEST(memory__closed_in_part__copied_up_to_there) {
    must_copy_what_is_open();
}

// For good, hence the last test.
TEST(memory__where_calls_are_refused__copied_by_a_pipe_or_not_at_all) {
    if (!test::refuse(SYS_process_vm_readv)) {
        skip(); // an emulator has neither the call nor filters
    }
    assert_int_equal(process_vm_readv(getpid(), nullptr, 0, nullptr, 0, 0), -1);
    const rlimit no_files{.rlim_cur = 0, .rlim_max = 0};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &no_files), 0);
    must_copy_what_is_open();
    must_not_copy_without(SYS_read);
    must_not_copy_without(SYS_write);
    must_not_copy_without(SYS_pipe2);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
