// SPDX-License-Identifier: BSD-3-Clause
//
// How the processes that share an address find and reach each other: Unix sockets with abstract names, which
// belong to a network namespace as addresses do, need no file, and end with the last process that has them.
//
// Messages keep their borders, and carry descriptors. Nobody waits for a peer here, but in receive_within().
#pragma once

#include <sys/uio.h>

#include <array>
#include <span>

#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "roce/engine/types.hpp"
#include "roce/group/messages.hpp"
#include "roce/group/table.hpp"

namespace sluice::roce::group {

// Ends with a zero.
using SocketName = std::array<char, 100>;
// Where a process knocks that wants to share ADDRESS. This user's alone.
SocketName door_name(const engine::Address& address) noexcept;
// Where the other members reach HOLDER.
SocketName line_name(std::uint64_t group, Holder holder) noexcept;

// Takes the name; callers come when listen_at() says so. kExists: somebody has it.
Result<Descriptor> bind_name(const SocketName& name);
// The same in two steps.
Result<Descriptor> make_name_socket();
Result<void> bind_name(int socket, const SocketName& name);
Result<void> listen_at(int socket);
// kNotFound: nobody has the name, or not yet. kBusy: too many call at once. kPermission: another user has it.
Result<Descriptor> call(const SocketName& name);
// Whether processes of this user share ADDRESS, so that one more can. A door that is closed while this one
// waits at it is nobody's any more.
bool is_shared(const engine::Address& address) noexcept;
// The next caller, if it is this user's. None: nobody waits any more.
Descriptor accept_caller(int socket) noexcept;

// The process at the other end, as this one sees it; 0: it doesn't.
pid_t process_at(int socket) noexcept;

// False: the peer is gone, or has no room; nothing was sent.
bool send(int socket, std::span<const iovec> pieces, std::span<const int> descriptors) noexcept;

// The most that one message carries; the kernel's own limit is 253.
inline constexpr std::size_t kMaxDescriptors = kSeats + 4; // a further address's all

struct Received {
    std::size_t bytes = 0; // 0: it didn't fit
    std::array<Descriptor, kMaxDescriptors> descriptors;
    std::size_t descriptor_count = 0;
};
enum class Receipt : std::uint8_t { kMessage, kNothing, kEnd };
// A message that doesn't fit in BUFFER is none.
Receipt receive(int socket, std::span<std::uint8_t> buffer, Received& out) noexcept;
// The same, and waits so long for it.
Receipt receive_within(int milliseconds, int socket, std::span<std::uint8_t> buffer, Received& out) noexcept;

class Arrivals;

// Of what BOARD says, unless that is -1.
void send_board(int socket, int board) noexcept;
// RECEIVED has come from SOCKET with a Board.
void answer_board(int socket, const Received& received, Arrivals& arrivals) noexcept;
// RECEIVED has come from SOCKET with ANSWER.
void take_answer(int socket, const BoardTaken& answer, Received& received, Arrivals& arrivals) noexcept;

} // namespace sluice::roce::group
