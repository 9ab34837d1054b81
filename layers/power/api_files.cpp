// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libc: the calls after which a file's bytes survive. Each does what it did, and is a step
// for simulated files.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "layers/hooks/next.hpp"
#include "layers/power/pending.hpp"
#include "layers/power/simulation.hpp"
#include "layers/power/undisturbed.hpp"

namespace {

using sluice::layers::hooks::Next;
using sluice::layers::power::Simulation;
using sluice::layers::power::Undisturbed;

// Before anybody can call fsync() in a signal's handler.
[[gnu::constructor]] void find_early() noexcept {
    (void)Simulation::find();
}

// All files survive.
void persist_all(const char* call) noexcept {
    if (Simulation* const simulation = Simulation::find()) {
        const Undisturbed undisturbed;
        simulation->persist_all(call);
    }
}

// May be called in a signal's handler, and its thread may be cancelled in the real one.
int sync_descriptor(Next<int(int)>& real, const char* call, int descriptor) {
    const int status = real.call(-1, descriptor);
    Simulation* const simulation = status == 0 ? Simulation::find() : nullptr;
    if (simulation != nullptr) {
        const Undisturbed undisturbed;
        simulation->persist_file(descriptor, call);
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
        persist_all("syncfs");
    }
    return status;
}

// The kernel's own would wait for every disk of the machine.
void sync() noexcept {
    persist_all("sync");
}

#pragma GCC visibility pop
} // extern "C"
