// SPDX-License-Identifier: BSD-3-Clause
//
// Who has which seat: what a member does when another one comes, and when one has ended.
#include <sys/epoll.h>

#include <algorithm>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "roce/group/group.hpp"
#include "roce/group/messages.hpp"

namespace sluice::roce::group {

void Group::take_hello(int descriptor, const Hello& hello, Received& received) noexcept {
    if (hello.seat >= kSeats) {
        return;
    }
    settle(hello.seat);
    if (received.descriptor_count == 1) {
        sockets_[hello.seat] = std::move(received.descriptors[0]);
    }
    {
        const LockGuard guard(changing_lines_);
        const auto line =
            std::ranges::find(lines_, descriptor, [](const Line& one) { return one.socket.get(); });
        line->seat = hello.seat;
        line->holder = hello.holder;
    }
    send_board(descriptor, board());
}

void Group::end_line(int descriptor) noexcept {
    std::uint32_t seat = kSeats;
    {
        const LockGuard guard(changing_lines_);
        const auto line =
            std::ranges::find(lines_, descriptor, [](const Line& one) { return one.socket.get(); });
        if (line == lines_.end()) {
            return;
        }
        seat = line->seat;
        if (seat != kSeats) {
            table_->give_up_seat(seat, line->holder);
        }
        lines_.erase(line);
    }
    look_if_introduced();
    if (seat != kSeats) {
        report_end(seat);
        desert(seat);
        unused_due_ = true;
    }
}

// At each address that the member had.
void Group::report_end(std::uint32_t seat) noexcept {
    const engine::Share its(table_->words(), seat);
    catch_up();
    arrivals_->member_ended(config_.local, its);
    for (const auto& further : further_) {
        if (further != nullptr) {
            arrivals_->member_ended(further->address(), its);
        }
    }
}

// Nobody has the seat: this member reads its sockets with the others. Those that aren't bound belong to a
// process that died before it was a member. A process that found it dead before this one did may have it
// already.
void Group::desert(std::uint32_t seat) noexcept {
    if (has_member_at(seat)) {
        return;
    }
    const Result<void> done = at_boundary("sharing an address", [&]() -> Result<void> {
        Result<void> read = read_for_the_dead(sockets_[seat].get(), config_.local);
        for (const auto& further : further_) {
            if (read && further != nullptr) {
                read = read_for_the_dead(further->descriptor(FurtherAddress::kFirstSeat + seat),
                                         further->address());
            }
        }
        return read;
    });
    if (!done) {
        SLUICE_LOG(kWarning, "uroce", "nobody answers for a process that has ended: %s", done.error().text());
    }
}

Result<void> Group::read_for_the_dead(int socket_fd, const engine::Address& local) {
    if (!is_bound(socket_fd) || deserted_.find(socket_fd) != nullptr) {
        return {};
    }
    deserted_.add(socket_fd, local, config_.recorder);
    Result<void> watched = watch(socket_fd, EPOLLIN);
    if (!watched) {
        deserted_.remove(socket_fd);
    }
    return watched;
}

void Group::desert_all() noexcept {
    for (std::uint32_t seat = 0; seat < kSeats; ++seat) {
        if (seat != share_.which()) {
            desert(seat);
        }
    }
}

bool Group::has_member_at(std::uint32_t seat) noexcept {
    const LockGuard guard(changing_lines_);
    return std::ranges::find(lines_, seat, &Line::seat) != lines_.end();
}

// Somebody takes the seat.
void Group::settle(std::uint32_t seat) noexcept {
    leave_to_member(sockets_[seat].get());
    for (const auto& further : further_) {
        if (further != nullptr) {
            leave_to_member(further->descriptor(FurtherAddress::kFirstSeat + seat));
        }
    }
}

void Group::leave_to_member(int socket_fd) noexcept {
    if (deserted_.find(socket_fd) != nullptr) {
        epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket_fd, nullptr);
        deserted_.remove(socket_fd);
    }
}

// False: DESCRIPTOR is no socket of a seat that nobody has.
bool Group::read_deserted(int descriptor) noexcept {
    socket::Receiver* const receiver = deserted_.find(descriptor);
    if (receiver == nullptr) {
        return false;
    }
    (void)read_common(*receiver);
    return true;
}

} // namespace sluice::roce::group
