// SPDX-License-Identifier: BSD-3-Clause
//
// What something takes of memory: the resident size of a process of its own, before and after.
#pragma once

#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <type_traits>

#include "tests/bench/uroce_end.hpp"

namespace sluice::bench {

inline double resident_bytes() {
    malloc_trim(0);
    std::ifstream status("/proc/self/statm");
    double total = 0;
    double resident = 0;
    status >> total >> resident;
    return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// What MEASURE returns, in a child that has nothing of what this process has made since it began: a device
// that is open here is dead there.
template<typename Measure>
auto in_own_process(Measure&& measure) {
    using Sizes = std::invoke_result_t<Measure>;
    static_assert(std::is_trivially_copyable_v<Sizes>);
    auto* const shared = static_cast<Sizes*>(
        mmap(nullptr, sizeof(Sizes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (shared == MAP_FAILED) {
        die("mmap");
    }
    const pid_t child = fork();
    if (child == 0) {
        *shared = measure();
        _exit(0);
    }
    int status = -1;
    if (waitpid(child, &status, 0) != child || status != 0) {
        die("the process whose memory is measured");
    }
    const Sizes sizes = *shared;
    munmap(shared, sizeof(Sizes));
    return sizes;
}

} // namespace sluice::bench
