// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libc's calls with buffers. The kernel refuses protected pages instead of faulting: they
// are opened for it. Threads may be cancelled in there: nothing on the stack has to be destroyed.
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "layers/check/mappings.hpp"
#include "layers/check/pages/pages.hpp"
#include "layers/hooks/next.hpp"

namespace {

namespace check = sluice::layers::check;
using sluice::layers::hooks::Next;

// Others in this process that protect memory, and open it when they are told.
using Listener = void(const void* memory, std::size_t bytes, int is_store);
constinit std::array<std::atomic<Listener*>, 8> others = {};

// An access of the kernel's to memory that a request forbids, once the kernel has got so far.
struct KernelTouch {
    std::size_t bytes_before = 0;
    check::pages::Touch touch;
};

// By its number, as what read() and its like get is declared as memory that nobody reads: where this is
// inlined, the compiler would warn of reading it. True: a request forbids what the kernel is about to do.
[[gnu::noinline]] bool open_for_kernel(std::uintptr_t address, std::size_t bytes, bool is_store,
                                       check::pages::Touch& touch) noexcept {
    const auto* const memory = reinterpret_cast<const void*>(address); // NOLINT(performance-no-int-to-ptr)
    const bool is_touch = check::may_be_registered(memory, bytes) &&
                          check::pages::lift_for_kernel(memory, bytes, is_store, touch);
    for (const std::atomic<Listener*>& other : others) {
        Listener* const tell = other.load(std::memory_order_relaxed); // code, which is there before us
        if (tell == nullptr) {
            break;
        }
        tell(memory, bytes, is_store ? 1 : 0);
    }
    return is_touch;
}

// While a system call has the program's memory.
class Opened {
  public:
    Opened(const iovec* pieces, std::size_t count, bool is_store) noexcept {
        std::size_t before = 0;
        for (const iovec& piece : std::span(pieces, count)) {
            open(reinterpret_cast<std::uintptr_t>(piece.iov_base), piece.iov_len, is_store, before);
            before += piece.iov_len;
        }
    }
    Opened(std::uintptr_t address, std::size_t bytes, bool is_store) noexcept {
        open(address, bytes, is_store, 0);
    }

    // DONE is what the call answers: how many bytes it has got through, or less than none.
    ssize_t after(ssize_t done) const noexcept {
        if (forbidden_ && done > 0 && static_cast<std::size_t>(done) > forbidden_->bytes_before) {
            check::pages::keep(forbidden_->touch);
        }
        return done;
    }

  private:
    // The first that is forbidden is told.
    void open(std::uintptr_t address, std::size_t bytes, bool is_store, std::size_t bytes_before) noexcept {
        check::pages::Touch touch;
        if (open_for_kernel(address, bytes, is_store, touch) && !forbidden_) {
            touch.stack = sluice::report::capture();
            forbidden_ = KernelTouch{.bytes_before = bytes_before, .touch = touch};
        }
    }

    std::optional<KernelTouch> forbidden_;
};

} // namespace

extern "C" {
#pragma GCC visibility push(default)

// For libraries that look for it by its name: LISTENER is called before the kernel gets memory of the
// program's.
void sluice_check_on_buffers(Listener* listener) { // NOLINT: a name in C
    for (std::atomic<Listener*>& other : others) {
        Listener* free = nullptr;
        if (other.compare_exchange_strong(free, listener) || free == listener) {
            return;
        }
    }
}

ssize_t read(int fd, void* memory, std::size_t bytes) {
    static constinit Next<ssize_t(int, void*, std::size_t)> real("read");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return opened.after(real.get()(fd, memory, bytes));
}

ssize_t write(int fd, const void* memory, std::size_t bytes) {
    static constinit Next<ssize_t(int, const void*, std::size_t)> real("write");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, false);
    return opened.after(real.get()(fd, memory, bytes));
}

ssize_t pread(int fd, void* memory, std::size_t bytes, off_t offset) {
    static constinit Next<ssize_t(int, void*, std::size_t, off_t)> real("pread");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return opened.after(real.get()(fd, memory, bytes, offset));
}

ssize_t pwrite(int fd, const void* memory, std::size_t bytes, off_t offset) {
    static constinit Next<ssize_t(int, const void*, std::size_t, off_t)> real("pwrite");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, false);
    return opened.after(real.get()(fd, memory, bytes, offset));
}

ssize_t pread64(int fd, void* memory, std::size_t bytes, off64_t offset) {
    static constinit Next<ssize_t(int, void*, std::size_t, off64_t)> real("pread64");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return opened.after(real.get()(fd, memory, bytes, offset));
}

ssize_t pwrite64(int fd, const void* memory, std::size_t bytes, off64_t offset) {
    static constinit Next<ssize_t(int, const void*, std::size_t, off64_t)> real("pwrite64");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, false);
    return opened.after(real.get()(fd, memory, bytes, offset));
}

ssize_t readv(int fd, const iovec* pieces, int count) {
    static constinit Next<ssize_t(int, const iovec*, int)> real("readv");
    const Opened opened(pieces, static_cast<std::size_t>(count > 0 ? count : 0), true);
    return opened.after(real.get()(fd, pieces, count));
}

ssize_t writev(int fd, const iovec* pieces, int count) {
    static constinit Next<ssize_t(int, const iovec*, int)> real("writev");
    const Opened opened(pieces, static_cast<std::size_t>(count > 0 ? count : 0), false);
    return opened.after(real.get()(fd, pieces, count));
}

ssize_t preadv(int fd, const iovec* pieces, int count, off_t offset) {
    static constinit Next<ssize_t(int, const iovec*, int, off_t)> real("preadv");
    const Opened opened(pieces, static_cast<std::size_t>(count > 0 ? count : 0), true);
    return opened.after(real.get()(fd, pieces, count, offset));
}

ssize_t pwritev(int fd, const iovec* pieces, int count, off_t offset) {
    static constinit Next<ssize_t(int, const iovec*, int, off_t)> real("pwritev");
    const Opened opened(pieces, static_cast<std::size_t>(count > 0 ? count : 0), false);
    return opened.after(real.get()(fd, pieces, count, offset));
}

ssize_t preadv64(int fd, const iovec* pieces, int count, off64_t offset) {
    static constinit Next<ssize_t(int, const iovec*, int, off64_t)> real("preadv64");
    const Opened opened(pieces, static_cast<std::size_t>(count > 0 ? count : 0), true);
    return opened.after(real.get()(fd, pieces, count, offset));
}

ssize_t pwritev64(int fd, const iovec* pieces, int count, off64_t offset) {
    static constinit Next<ssize_t(int, const iovec*, int, off64_t)> real("pwritev64");
    const Opened opened(pieces, static_cast<std::size_t>(count > 0 ? count : 0), false);
    return opened.after(real.get()(fd, pieces, count, offset));
}

ssize_t send(int fd, const void* memory, std::size_t bytes, int flags) {
    static constinit Next<ssize_t(int, const void*, std::size_t, int)> real("send");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, false);
    return opened.after(real.get()(fd, memory, bytes, flags));
}

ssize_t recv(int fd, void* memory, std::size_t bytes, int flags) {
    static constinit Next<ssize_t(int, void*, std::size_t, int)> real("recv");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return opened.after(real.get()(fd, memory, bytes, flags));
}

ssize_t sendto(int fd, const void* memory, std::size_t bytes, int flags, const sockaddr* to,
               socklen_t length) {
    static constinit Next<ssize_t(int, const void*, std::size_t, int, const sockaddr*, socklen_t)> real(
        "sendto");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, false);
    return opened.after(real.get()(fd, memory, bytes, flags, to, length));
}

ssize_t recvfrom(int fd, void* memory, std::size_t bytes, int flags, sockaddr* from, socklen_t* length) {
    static constinit Next<ssize_t(int, void*, std::size_t, int, sockaddr*, socklen_t*)> real("recvfrom");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return opened.after(real.get()(fd, memory, bytes, flags, from, length));
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
    static constinit Next<ssize_t(int, const msghdr*, int)> real("sendmsg");
    const Opened opened(message->msg_iov, message->msg_iovlen, false);
    return opened.after(real.get()(fd, message, flags));
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
    static constinit Next<ssize_t(int, msghdr*, int)> real("recvmsg");
    const Opened opened(message->msg_iov, message->msg_iovlen, true);
    return opened.after(real.get()(fd, message, flags));
}

// What a compiler that knows the memory's size makes of read() and its like. ROOM is that size.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming):
// glibc's names
ssize_t __read_chk(int fd, void* memory, std::size_t bytes, std::size_t room) {
    static constinit Next<ssize_t(int, void*, std::size_t, std::size_t)> real("__read_chk");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return opened.after(real.get()(fd, memory, bytes, room));
}

ssize_t __pread_chk(int fd, void* memory, std::size_t bytes, off_t offset, std::size_t room) {
    static constinit Next<ssize_t(int, void*, std::size_t, off_t, std::size_t)> real("__pread_chk");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return opened.after(real.get()(fd, memory, bytes, offset, room));
}

ssize_t __pread64_chk(int fd, void* memory, std::size_t bytes, off64_t offset, std::size_t room) {
    static constinit Next<ssize_t(int, void*, std::size_t, off64_t, std::size_t)> real("__pread64_chk");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return opened.after(real.get()(fd, memory, bytes, offset, room));
}

ssize_t __recv_chk(int fd, void* memory, std::size_t bytes, std::size_t room, int flags) {
    static constinit Next<ssize_t(int, void*, std::size_t, std::size_t, int)> real("__recv_chk");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return opened.after(real.get()(fd, memory, bytes, room, flags));
}

ssize_t __recvfrom_chk(int fd, void* memory, std::size_t bytes, std::size_t room, int flags, sockaddr* from,
                       socklen_t* length) {
    static constinit Next<ssize_t(int, void*, std::size_t, std::size_t, int, sockaddr*, socklen_t*)> real(
        "__recvfrom_chk");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return opened.after(real.get()(fd, memory, bytes, room, flags, from, length));
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)

#pragma GCC visibility pop
} // extern "C"
