// SPDX-License-Identifier: BSD-3-Clause
#include "roce/group/door.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "core/not_cancelled.hpp"
#include "roce/group/arrivals.hpp"
#include "roce/group/messages.hpp"
#include "roce/socket/address.hpp"

namespace sluice::roce::group {

namespace {

constexpr int kWaitingCallers = 256;
constexpr int kWelcomeMs = 300; // a process that is stopped has its address all the same

struct Name {
    sockaddr_un address{};
    socklen_t bytes = 0;
};

// An abstract name begins with a zero and has no end but its length.
Name to_socket_name(const SocketName& name) noexcept {
    Name made;
    made.address.sun_family = AF_UNIX;
    const std::size_t len = strnlen(name.data(), name.size());
    std::memcpy(made.address.sun_path + 1, name.data(), len);
    made.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + len);
    return made;
}
static_assert(SocketName().size() < sizeof(sockaddr_un::sun_path));

// Of the process that called listen(), or connect().
bool read_peer(int socket_fd, ucred& peer) noexcept {
    socklen_t bytes = sizeof peer;
    return getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0;
}

union Control {
    cmsghdr header;
    std::array<std::uint8_t, CMSG_SPACE(kMaxDescriptors * sizeof(int))> bytes;
};

void take_descriptors(msghdr& message, Received& out) noexcept {
    for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
        if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const std::size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count && out.descriptor_count < kMaxDescriptors; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(one) + i * sizeof fd, sizeof fd);
            out.descriptors[out.descriptor_count++] = Descriptor(fd);
        }
    }
}

} // namespace

SocketName door_name(const engine::Address& address) noexcept {
    SocketName name{};
    std::snprintf(name.data(), name.size(), "sluice-uroce/%u/%s", geteuid(), socket::to_text(address).data());
    return name;
}

SocketName line_name(std::uint64_t group, Holder holder) noexcept {
    SocketName name{};
    std::snprintf(name.data(), name.size(), "sluice-uroce-member/%016llx/%016llx",
                  static_cast<unsigned long long>(group), static_cast<unsigned long long>(holder));
    return name;
}

Result<Descriptor> make_name_socket() {
    Descriptor made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (made.get() < 0) {
        return Error::from_errno(errno, "no descriptor for sharing an address; raise `ulimit -n`");
    }
    return made;
}

Result<void> bind_name(int socket_fd, const SocketName& name) {
    const Name to = to_socket_name(name);
    if (bind(socket_fd, reinterpret_cast<const sockaddr*>(&to.address), to.bytes) != 0) {
        return errno == EADDRINUSE
                   ? Error(ErrorKind::kExists, "the name for sharing an address is taken", EADDRINUSE)
                   : Error::from_errno(errno, "can't take the name for sharing an address");
    }
    return {};
}

Result<Descriptor> bind_name(const SocketName& name) {
    Result<Descriptor> made = make_name_socket();
    if (!made) {
        return made;
    }
    Result<void> bound = bind_name(made->get(), name);
    return bound ? std::move(made) : std::move(bound).error();
}

Result<void> listen_at(int socket_fd) {
    if (listen(socket_fd, kWaitingCallers) != 0) {
        return Error::from_errno(errno, "can't listen at the name for sharing an address");
    }
    return {};
}

Result<Descriptor> call(const SocketName& name) {
    Result<Descriptor> made = make_name_socket();
    if (!made) {
        return made;
    }
    const Name to = to_socket_name(name);
    if (connect(made->get(), reinterpret_cast<const sockaddr*>(&to.address), to.bytes) != 0) {
        return errno == ECONNREFUSED ? Error(ErrorKind::kNotFound, "nobody shares this address yet")
               : errno == EAGAIN
                   ? Error(ErrorKind::kBusy, "too many processes want to share this address")
                   : Error::from_errno(errno, "can't reach the processes that share this address");
    }
    ucred peer{};
    if (!read_peer(made->get(), peer) || peer.uid != geteuid()) {
        return Error::format(ErrorKind::kPermission, EPERM,
                             "process %d of user %u has the name under which this user's processes share an "
                             "address",
                             peer.pid, peer.uid);
    }
    return made;
}

bool is_shared(const engine::Address& address) noexcept {
    const Result<Descriptor> door = call(door_name(address));
    if (!door) {
        return false;
    }
    std::array<std::uint8_t, sizeof(Welcome)> bytes{};
    Received received;
    const Receipt receipt = receive_within(kWelcomeMs, door->get(), bytes, received);
    const auto welcome = read_as<Welcome>({bytes.data(), received.bytes});
    return receipt != Receipt::kEnd && (!welcome || welcome->is_further == 0);
}

Descriptor accept_caller(int socket_fd) noexcept {
    for (;;) {
        Descriptor caller(accept4(socket_fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        ucred peer{};
        if (caller.get() < 0 && (errno == EINTR || errno == ECONNABORTED)) {
            continue;
        }
        if (caller.get() < 0 || (read_peer(caller.get(), peer) && peer.uid == geteuid())) {
            return caller;
        }
    }
}

pid_t process_at(int socket_fd) noexcept {
    ucred peer{};
    return read_peer(socket_fd, peer) ? peer.pid : 0;
}

bool send(int socket_fd, std::span<const iovec> pieces, std::span<const int> descriptors) noexcept {
    Control control{};
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = pieces.size();
    if (!descriptors.empty()) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(&control.header), descriptors.data(), descriptors.size_bytes());
    }
    const NotCancelled guard;
    return sendmsg(socket_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

// One that doesn't get it sends packets.
void send_board(int socket_fd, int board) noexcept {
    Board message;
    const iovec piece{.iov_base = &message, .iov_len = sizeof message};
    if (board >= 0) {
        (void)send(socket_fd, {&piece, 1}, {&board, 1});
    }
}

void answer_board(int socket_fd, const Received& received, Arrivals& arrivals) noexcept {
    const Arrivals::Admission taken =
        received.descriptor_count == 1 ? arrivals.board_came(received.descriptors[0], process_at(socket_fd))
                                       : Arrivals::Admission();
    BoardTaken answer{.taken = taken.is_taken ? 1U : 0U, .id = arrivals.board_id(), .place = taken.place};
    const iovec piece{.iov_base = &answer, .iov_len = sizeof answer};
    const std::array<int, 2> descriptors{taken.ring, taken.bell};
    (void)send(socket_fd, {&piece, 1}, taken.ring >= 0 ? std::span(descriptors) : std::span<const int>());
}

void take_answer(int socket_fd, const BoardTaken& answer, Received& received, Arrivals& arrivals) noexcept {
    if (answer.taken == 0) {
        return;
    }
    const bool has_ring = received.descriptor_count == 2;
    arrivals.board_taken(process_at(socket_fd),
                         {.id = answer.id,
                          .ring = has_ring ? std::move(received.descriptors[0]) : Descriptor(),
                          .bell = has_ring ? std::move(received.descriptors[1]) : Descriptor(),
                          .place = answer.place});
}

Receipt receive(int socket_fd, std::span<std::uint8_t> buffer, Received& out) noexcept {
    out = {};
    Control control{};
    iovec whole{.iov_base = buffer.data(), .iov_len = buffer.size()};
    msghdr message{};
    message.msg_iov = &whole;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    const NotCancelled guard;
    ssize_t got = 0;
    do {
        got = recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        return got < 0 && errno == EAGAIN ? Receipt::kNothing : Receipt::kEnd;
    }
    take_descriptors(message, out);
    out.bytes = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 ? static_cast<std::size_t>(got) : 0;
    return Receipt::kMessage;
}

Receipt receive_within(int milliseconds, int socket_fd, std::span<std::uint8_t> buffer,
                       Received& out) noexcept {
    const NotCancelled guard;
    pollfd readable{.fd = socket_fd, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, milliseconds) < 0 && errno != EINTR) {
        return Receipt::kEnd;
    }
    return receive(socket_fd, buffer, out);
}

} // namespace sluice::roce::group
