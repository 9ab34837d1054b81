// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/verbs/event_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/not_cancelled.hpp"

namespace sluice::uroce::verbs {

namespace {

// The longest record: element, type, reserved.
constexpr std::size_t kRecordBytes = 16;
// More than the system lets a socket hold of them, by its default limit for unsent bytes.
constexpr std::size_t kMostRecords = 512;

bool connect_to_itself(int fd) noexcept {
    // An address of one field asks the system for a free name.
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    socklen_t len = sizeof name.sun_family;
    if (bind(fd, reinterpret_cast<const sockaddr*>(&name), len) != 0) {
        return false;
    }
    len = sizeof name;
    return getsockname(fd, reinterpret_cast<sockaddr*>(&name), &len) == 0 &&
           connect(fd, reinterpret_cast<const sockaddr*>(&name), len) == 0;
}

} // namespace

Result<int> make_event_socket() {
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return Error::from_errno(errno, "no socket for events; raise `ulimit -n`");
    }
    if (!connect_to_itself(fd)) {
        Error error = Error::from_errno(errno, "a socket for events can't be connected to itself");
        close(fd);
        return error;
    }
    return fd;
}

bool send_event(int fd, const void* record, std::size_t len_bytes) noexcept {
    const NotCancelled guard;
    return send(fd, record, len_bytes, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(len_bytes);
}

// Everything out, and what isn't wanted in again. The writer and the caller hold the same lock.
std::uint32_t take_back_events(int fd, const void* element) noexcept {
    struct Record {
        std::uint64_t words[kRecordBytes / sizeof(std::uint64_t)];
        std::size_t len_bytes;
    };
    const NotCancelled guard;
    std::array<Record, kMostRecords> kept;
    std::size_t count = 0;
    std::uint32_t taken = 0;
    while (count < kept.size()) {
        Record& record = kept[count];
        const ssize_t len = recv(fd, record.words, sizeof record.words, MSG_DONTWAIT);
        if (len <= 0) {
            break;
        }
        record.len_bytes = static_cast<std::size_t>(len);
        const bool wanted = record.words[0] == reinterpret_cast<std::uintptr_t>(element);
        taken += wanted ? 1 : 0;
        count += wanted ? 0 : 1;
    }
    for (std::size_t i = 0; i < count; ++i) {
        (void)send_event(fd, kept[i].words, kept[i].len_bytes);
    }
    return taken;
}

} // namespace sluice::uroce::verbs
