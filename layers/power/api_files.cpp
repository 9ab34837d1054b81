// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libc: the calls after which a file's bytes survive. Each does what it did, and is a step
// for simulated files.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "layers/hooks/next.hpp"
#include "layers/power/pending.hpp"
#include "layers/power/simulation.hpp"

namespace {

using sluice::Result;
using sluice::layers::hooks::Next;
using sluice::layers::power::Parts;
using sluice::layers::power::Simulation;

// A step by CALL for what PARTS_OF(simulation) gives.
template<typename PartsOf>
void persist_files(const char* call, PartsOf&& parts_of) noexcept {
    Simulation* const simulation = Simulation::find();
    if (simulation == nullptr) {
        return;
    }
    const int former_errno = errno;
    const Result<void> done = sluice::at_boundary(call, [&]() -> Result<void> {
        simulation->persist(parts_of(*simulation), call);
        return {};
    });
    if (!done) {
        SLUICE_LOG(kError, "power", "%s isn't simulated: %s", call, done.error().text());
    }
    errno = former_errno;
}

int sync_descriptor(Next<int(int)>& real, const char* call, int descriptor) noexcept {
    const int status = real.call(-1, descriptor);
    if (status == 0) {
        persist_files(call, [descriptor](Simulation& simulation) { return simulation.parts_of(descriptor); });
    }
    return status;
}

// The kernel writes whole pages.
sluice::coherence::Range in_pages(const void* address, std::size_t length) noexcept {
    static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    return {reinterpret_cast<std::uintptr_t>(address), (length + page - 1) / page * page};
}

} // namespace

extern "C" {
#pragma GCC visibility push(default)

int msync(void* address, size_t length, int flags) {
    static constinit Next<int(void*, size_t, int)> real("msync");
    const int status = real.call(-1, address, length, flags);
    if (status == 0 && (flags & MS_SYNC) != 0) {
        sluice::layers::power::persist_range(in_pages(address, length), "msync");
    }
    return status;
}

int fsync(int descriptor) {
    static constinit Next<int(int)> real("fsync");
    return sync_descriptor(real, "fsync", descriptor);
}

int fdatasync(int descriptor) {
    static constinit Next<int(int)> real("fdatasync");
    return sync_descriptor(real, "fdatasync", descriptor);
}

int syncfs(int descriptor) noexcept {
    static constinit Next<int(int)> real("syncfs");
    const int status = real.call(-1, descriptor);
    if (status == 0) {
        persist_files("syncfs", [](Simulation& simulation) { return simulation.all_parts(); });
    }
    return status;
}

// The kernel's own would wait for every disk of the machine.
void sync() noexcept {
    persist_files("sync", [](Simulation& simulation) { return simulation.all_parts(); });
}

#pragma GCC visibility pop
} // extern "C"
