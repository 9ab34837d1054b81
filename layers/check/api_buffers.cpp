// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libc's functions with buffers (opened.hpp).
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>

#include "layers/check/opened.hpp"
#include "layers/hooks/next.hpp"

namespace {

namespace check = sluice::layers::check;
using check::Opened;
using sluice::layers::hooks::Next;

// Of sendmmsg() and recvmmsg(): all of them, since it isn't known which the kernel gets to.
class OpenedMessages {
  public:
    OpenedMessages(const mmsghdr* messages, unsigned count, bool is_store) noexcept
        : messages_(messages, std::min(count, kMost)) {
        for (const mmsghdr& message : messages_) {
            const Opened opened(message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen, is_store);
            if (opened.is_forbidden() && !forbidden_) {
                forbidden_ = opened;
                number_ = static_cast<int>(&message - messages_.data());
            }
        }
    }

    // DONE is how many messages the call has got through.
    int after(int done) const noexcept {
        if (forbidden_ && number_ < done) {
            (void)forbidden_->after(messages_[static_cast<unsigned>(number_)].msg_len);
        }
        return done;
    }

  private:
    static constexpr unsigned kMost = UIO_MAXIOV; // the kernel's

    std::span<const mmsghdr> messages_;
    std::optional<Opened> forbidden_;
    int number_ = 0;
};

} // namespace

extern "C" {
#pragma GCC visibility push(default)

// For libraries that look for it by its name: LISTENER is called before the kernel gets memory of the
// program's.
void sluice_check_on_buffers(check::BufferListener* listener) { // NOLINT: a name in C
    check::add_buffer_listener(listener);
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

ssize_t preadv2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
    static constinit Next<ssize_t(int, const iovec*, int, off_t, int)> real("preadv2");
    const Opened opened(pieces, static_cast<std::size_t>(count > 0 ? count : 0), true);
    return opened.after(real.get()(fd, pieces, count, offset, flags));
}

ssize_t pwritev2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
    static constinit Next<ssize_t(int, const iovec*, int, off_t, int)> real("pwritev2");
    const Opened opened(pieces, static_cast<std::size_t>(count > 0 ? count : 0), false);
    return opened.after(real.get()(fd, pieces, count, offset, flags));
}

ssize_t preadv64v2(int fd, const iovec* pieces, int count, off64_t offset, int flags) {
    static constinit Next<ssize_t(int, const iovec*, int, off64_t, int)> real("preadv64v2");
    const Opened opened(pieces, static_cast<std::size_t>(count > 0 ? count : 0), true);
    return opened.after(real.get()(fd, pieces, count, offset, flags));
}

ssize_t pwritev64v2(int fd, const iovec* pieces, int count, off64_t offset, int flags) {
    static constinit Next<ssize_t(int, const iovec*, int, off64_t, int)> real("pwritev64v2");
    const Opened opened(pieces, static_cast<std::size_t>(count > 0 ? count : 0), false);
    return opened.after(real.get()(fd, pieces, count, offset, flags));
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

int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
    static constinit Next<int(int, mmsghdr*, unsigned, int)> real("sendmmsg");
    const OpenedMessages opened(messages, count, false);
    return opened.after(real.get()(fd, messages, count, flags));
}

int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
    static constinit Next<int(int, mmsghdr*, unsigned, int, timespec*)> real("recvmmsg");
    const OpenedMessages opened(messages, count, true);
    return opened.after(real.get()(fd, messages, count, flags, timeout));
}

ssize_t getrandom(void* memory, std::size_t bytes, unsigned flags) {
    static constinit Next<ssize_t(void*, std::size_t, unsigned)> real("getrandom");
    const Opened opened(reinterpret_cast<std::uintptr_t>(memory), bytes, true);
    return opened.after(real.get()(memory, bytes, flags));
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
