// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libc's functions that hand a buffer of the program's to the kernel by themselves, if it
// is larger than a stream's own (opened.hpp).
#include <cstdint>
#include <cstdio>
#include <optional>

#include "layers/check/opened.hpp"
#include "layers/hooks/next.hpp"

namespace {

using sluice::layers::check::Opened;
using sluice::layers::hooks::Next;

// COUNT elements of BYTES each.
class OpenedElements {
  public:
    OpenedElements(std::uintptr_t address, std::size_t bytes, std::size_t count, bool is_store) noexcept
        : bytes_(bytes) {
        std::size_t all = 0;
        if (!__builtin_mul_overflow(bytes, count, &all) && all != 0) {
            opened_ = Opened(address, all, is_store);
        }
    }
    // DONE is how many elements the function has got through.
    std::size_t after(std::size_t done) const noexcept {
        (void)opened_.after(static_cast<ssize_t>(done * bytes_));
        return done;
    }

  private:
    Opened opened_;
    std::size_t bytes_;
};

} // namespace

extern "C" {
#pragma GCC visibility push(default)

std::size_t fread(void* memory, std::size_t bytes, std::size_t count, FILE* stream) {
    static constinit Next<std::size_t(void*, std::size_t, std::size_t, FILE*)> real("fread");
    const OpenedElements opened(reinterpret_cast<std::uintptr_t>(memory), bytes, count, true);
    return opened.after(real.get()(memory, bytes, count, stream));
}

std::size_t fwrite(const void* memory, std::size_t bytes, std::size_t count, FILE* stream) {
    static constinit Next<std::size_t(const void*, std::size_t, std::size_t, FILE*)> real("fwrite");
    const OpenedElements opened(reinterpret_cast<std::uintptr_t>(memory), bytes, count, false);
    return opened.after(real.get()(memory, bytes, count, stream));
}

std::size_t fread_unlocked(void* memory, std::size_t bytes, std::size_t count, FILE* stream) {
    static constinit Next<std::size_t(void*, std::size_t, std::size_t, FILE*)> real("fread_unlocked");
    const OpenedElements opened(reinterpret_cast<std::uintptr_t>(memory), bytes, count, true);
    return opened.after(real.get()(memory, bytes, count, stream));
}

std::size_t fwrite_unlocked(const void* memory, std::size_t bytes, std::size_t count, FILE* stream) {
    static constinit Next<std::size_t(const void*, std::size_t, std::size_t, FILE*)> real("fwrite_unlocked");
    const OpenedElements opened(reinterpret_cast<std::uintptr_t>(memory), bytes, count, false);
    return opened.after(real.get()(memory, bytes, count, stream));
}

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming):
// glibc's names
std::size_t __fread_chk(void* memory, std::size_t room, std::size_t bytes, std::size_t count, FILE* stream) {
    static constinit Next<std::size_t(void*, std::size_t, std::size_t, std::size_t, FILE*)> real(
        "__fread_chk");
    const OpenedElements opened(reinterpret_cast<std::uintptr_t>(memory), bytes, count, true);
    return opened.after(real.get()(memory, room, bytes, count, stream));
}

std::size_t __fread_unlocked_chk(void* memory, std::size_t room, std::size_t bytes, std::size_t count,
                                 FILE* stream) {
    static constinit Next<std::size_t(void*, std::size_t, std::size_t, std::size_t, FILE*)> real(
        "__fread_unlocked_chk");
    const OpenedElements opened(reinterpret_cast<std::uintptr_t>(memory), bytes, count, true);
    return opened.after(real.get()(memory, room, bytes, count, stream));
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)

#pragma GCC visibility pop
} // extern "C"
