// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel behind a uverbs file, as rdma_rxe would answer: it takes ioctls and writes, counts
// what lives, and gives out rings in memory of exactly their size, so that the address sanitizer
// sees each step outside. A test moves packets itself, by looking at the rings.
#pragma once

#include <rdma/rdma_user_rxe.h>
#include <rdma/siw-abi.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "provider/abi/uverbs.hpp"

namespace sluice::provider::testing {

struct FakeRing {
    std::vector<std::uint8_t> memory;
    std::uint32_t shift = 0;
    std::uint32_t mask = 0;

    rxe_queue_buf& header() { return *reinterpret_cast<rxe_queue_buf*>(memory.data()); }
    std::uint8_t* element(std::uint32_t index) {
        return memory.data() + 384 + (std::size_t{index & mask} << shift);
    }
};

class FakeKernel {
  public:
    // The calls to give to the provider; they reach the one instance that lives.
    static const abi::KernelCalls kCalls;

    FakeKernel();
    ~FakeKernel();
    FakeKernel(const FakeKernel&) = delete;
    FakeKernel& operator=(const FakeKernel&) = delete;

    // Answer as siw does: rings without a header, and other words about them.
    bool siw = false;
    std::uint32_t siw_count = 0; // of completions, when it lies

    // What it shall do.
    int write_error = 0;              // of each doorbell by write()
    int ioctl_error = 0;              // of each ioctl
    int mmap_error = 0;               // of each mapping of a ring
    bool removed = false;             // its file says that the device has gone
    std::uint32_t fail_command = ~0U; // the number of a command that fails with EINVAL
    std::uint64_t device_flags = 0;
    std::uint32_t ah_number = 77;
    void (*spoil)(FakeRing& ring) = nullptr; // before a ring is handed out

    // What has happened.
    std::atomic<int> doorbells_by_write{0};
    std::atomic<int> doorbells_by_ioctl{0};
    std::uint32_t last_handle = 0;
    std::map<std::uint32_t, int> live; // by the command that makes the object
    int live_mappings = 0;
    int open_files = 0;
    std::map<std::uint32_t, std::uint32_t> qp_states; // as led by commands, by handle
    std::uint64_t last_cq = 0;                        // the program's name for the CQ made last
    std::uint32_t last_cq_handle = 0;                 // and ours
    std::uint32_t events_of_last_cq = 0;              // asynchronous ones, that the program has read

    // Rings by the order in which they were made; a queue pair makes its receive ring first.
    FakeRing& ring(std::size_t number) { return *rings_.at(number).second; }
    std::size_t rings() const { return rings_.size(); }

    // Appends a completion to a CQ's ring.
    static void complete(FakeRing& cq, const ib_uverbs_wc& wc);

  private:
    static int ioctl(int fd, unsigned long request, void* argument);
    static ssize_t write(int fd, const void* data, std::size_t len_bytes);
    static void* mmap(void* address, std::size_t len_bytes, int protection, int flags, int fd, off_t offset);
    static int munmap(void* address, std::size_t len_bytes);
    static int open(const char* path);
    static ssize_t pread(int fd, void* data, std::size_t len_bytes);
    static int close(int fd);

    int run(std::uint32_t command, const void* in, void* out, const void* driver_in, void* driver_out);
    int run_siw(std::uint32_t command, const void* in, void* out, void* driver_out);
    std::uint64_t make_array(std::size_t bytes);
    mminfo make_ring(std::uint32_t slots, std::size_t element_bytes);

    std::vector<std::pair<std::uint64_t, FakeRing*>> rings_;
};

} // namespace sluice::provider::testing
