// SPDX-License-Identifier: BSD-3-Clause
//
// A group's further addresses: how a member adds one, and what the others do then.
#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "core/boundary.hpp"
#include "core/event_descriptor.hpp"
#include "core/log.hpp"
#include "roce/group/group.hpp"
#include "roce/group/messages.hpp"

namespace sluice::roce::group {

namespace {

Error not_yet() noexcept {
    return Error(ErrorKind::kNotFound, "the processes don't share this further address yet");
}

} // namespace

bool Group::has(const engine::Address& address) const noexcept {
    const LockGuard guard(changing_further_);
    return std::ranges::find(further_addresses_, address) != further_addresses_.end();
}

// All zeros, or an address that isn't the group's, means all.
Place Group::place_of(const engine::Address& address) const noexcept {
    if (address == config_.local) {
        return Place::kHome;
    }
    const LockGuard guard(changing_further_);
    const auto found = std::ranges::find(further_addresses_, address);
    return address == engine::Address{} || found == further_addresses_.end()
               ? Place::kEverywhere
               : further_place(static_cast<std::uint32_t>(found - further_addresses_.begin()));
}

FurtherAddress* Group::find_further(const engine::Address& address) const noexcept {
    const auto found = std::ranges::find_if(
        further_, [&](const auto& one) { return one != nullptr && one->address() == address; });
    return found == further_.end() ? nullptr : found->get();
}

// With the joining lock: this member knows all that there are.
Result<FurtherAddress*> Group::add_further(const engine::Address& address) {
    const auto free = std::ranges::find_if(further_, [](const auto& one) { return one == nullptr; });
    if (free == further_.end()) {
        return Error::format(
            ErrorKind::kInsufficientResources, ENOSPC,
            "the processes at %s use %u further addresses, which is the most; end those that "
            "use others, or open %s as a device of its own",
            socket::to_text(config_.local).data(), kMaxFurther, socket::to_text(address).data());
    }
    return &put_further(static_cast<std::uint32_t>(free - further_.begin()), table_->next_generation(),
                        address);
}

// From the thread that joins, or the group's.
FurtherAddress& Group::put_further(std::uint32_t number, std::uint64_t generation,
                                   const engine::Address& address) {
    auto made = std::make_unique<FurtherAddress>(number, generation, address, config_);
    drop_further(number);
    further_[number] = std::move(made);
    const LockGuard guard(changing_further_);
    further_addresses_[number] = address;
    return *further_[number];
}

void Group::drop_further(std::uint32_t number) noexcept {
    std::unique_ptr<FurtherAddress> dropped = std::move(further_[number]);
    if (dropped == nullptr) {
        return;
    }
    for (std::size_t index = 0; index < FurtherAddress::kSockets; ++index) {
        unwatch_further(*dropped, index);
        leave_to_member(dropped->descriptor(index));
    }
    dropped.reset();
    const LockGuard guard(changing_further_);
    further_addresses_[number] = {};
}

Result<Descriptor> Group::ask_thread(const engine::Address& address, Wish wish) {
    Request request{.address = address, .wish = wish, .socket = Descriptor()};
    const LockGuard guard(asking_);
    request_ = &request;
    ring_eventfd(wake_.get());
    while (!request.done) {
        answered_.wait(asking_);
    }
    return std::move(request.socket);
}

// Nothing that this calls asks for the lock of a request: the thread that waits gives it back.
void Group::answer_request() noexcept {
    (void)quiet_eventfd(wake_.get());
    Request* request = nullptr;
    {
        const LockGuard guard(asking_);
        request = std::exchange(request_, nullptr);
    }
    if (request == nullptr) {
        return;
    }
    Result<Descriptor> socket =
        at_boundary("sharing an address", [&] { return socket_at(request->address, request->wish); });
    const LockGuard guard(asking_);
    request->socket = std::move(socket);
    request->done = true;
    answered_.notify_all();
}

// With the joining lock, what its former holders sent has arrived by now.
Result<Descriptor> Group::socket_at(const engine::Address& address, Wish wish) {
    if (wish != Wish::kWhatIs) {
        look_at_lines(-1);
    }
    FurtherAddress* further = find_further(address);
    if (further == nullptr && wish == Wish::kMade) {
        give_back_unused();
        const Result<FurtherAddress*> made = add_further(address);
        if (!made) {
            return made.error().clone();
        }
        further = *made;
    }
    if (further == nullptr) {
        return not_yet();
    }
    // One that isn't bound would bind itself to any port when something is sent from it.
    const std::size_t own = FurtherAddress::kFirstSeat + share_.which();
    if (wish != Wish::kWhatIs) {
        Result<void> completed = complete_for_use(*further);
        if (!completed) {
            return std::move(completed).error();
        }
    } else if (!is_bound(further->descriptor(own))) {
        return not_yet();
    }
    Descriptor copy(fcntl(further->descriptor(own), F_DUPFD_CLOEXEC, 0));
    if (copy.get() < 0) {
        return Error::from_errno(errno, "no descriptor for a UDP port; raise `ulimit -n`");
    }
    return copy;
}

// An address of an interface stays: its peers may be on other hosts, and hear from a member that a process
// has ended.
bool Group::is_unused(const std::unique_ptr<FurtherAddress>& further) const noexcept {
    return further != nullptr && socket::is_on_loopback_network(further->address()) &&
           !table_->is_used(further->number());
}

// After a member has ended. Others do the same; who has the joining lock does it for all.
void Group::look_for_unused() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    const bool any =
        unused_due_ && std::ranges::any_of(further_, [&](const auto& one) { return is_unused(one); });
    unused_due_ = any;
    if (!any || !opening_.try_lock()) {
        return; // or a thread of this process has the joining lock
    }
    if (table_->try_begin_joining()) {
        look_at_lines(-1);
        give_back_unused();
        table_->end_joining();
        unused_due_ = false;
    }
    opening_.unlock();
}

// With the joining lock. A member that doesn't get the message holds the port until it ends.
void Group::give_back_unused() noexcept {
    for (const auto& further : further_) {
        if (!is_unused(further)) {
            continue;
        }
        GivenBack message{.number = further->number(), .generation = further->generation()};
        const iovec piece{.iov_base = &message, .iov_len = sizeof message};
        (void)tell_members([&](int member) { return send(member, {&piece, 1}, {}); });
        take_given_back(message);
    }
}

// One of a later generation stays: it was made after this was said.
void Group::take_given_back(const GivenBack& given_back) noexcept {
    if (given_back.number >= kMaxFurther) {
        return;
    }
    std::uint64_t& ended = ended_[given_back.number];
    ended = std::max(ended, given_back.generation);
    if (const auto& further = further_[given_back.number];
        further != nullptr && further->generation() <= ended) {
        drop_further(given_back.number);
    }
}

std::size_t Group::bound_seats() const noexcept {
    const auto unbound =
        std::ranges::find_if(sockets_, [](const Descriptor& one) { return !is_bound(one.get()); });
    return static_cast<std::size_t>(unbound - sockets_.begin());
}

// Used before others hear of it: what nobody uses they give back.
Result<void> Group::complete_for_use(FurtherAddress& further) {
    const bool is_new = table_->use_further(further.number(), share_.which(), holder_);
    Result<void> completed = complete(further);
    if (!completed && is_new) {
        table_->disuse_further(further.number(), share_.which());
    }
    return completed;
}

// So many sockets as the group's own address has. With the joining lock.
Result<void> Group::complete(FurtherAddress& further) {
    const std::size_t bound = further.bound();
    const std::size_t wanted = FurtherAddress::kFirstSeat + bound_seats();
    if (bound >= wanted) {
        return {};
    }
    for (std::size_t index = bound; index < wanted; ++index) {
        unwatch_further(further, index);
    }
    Result<void> done = further.make(bound, wanted);
    if (done) {
        done = tell_members([&](int member) { return send_further(member, further, bound, wanted); });
    }
    if (done) {
        done = further.bind(bound, wanted, table_->words());
    }
    for (std::size_t index = bound; done && index < wanted; ++index) {
        done = watch_further(further, index);
    }
    return done;
}

// Its door and its common socket, once the thread runs. A door may be here before a member listens at it:
// that looks like a hangup, which must be reported once only.
Result<void> Group::watch_further(const FurtherAddress& further, std::size_t index) const {
    if (epoll_.get() < 0 || index > FurtherAddress::kCommon || further.descriptor(index) < 0) {
        return {};
    }
    return watch(further.descriptor(index), index == FurtherAddress::kDoor ? EPOLLIN | EPOLLET : EPOLLIN);
}

void Group::unwatch_further(const FurtherAddress& further, std::size_t index) const noexcept {
    if (epoll_.get() >= 0 && index <= FurtherAddress::kCommon && further.descriptor(index) >= 0) {
        epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, further.descriptor(index), nullptr);
    }
}

// For one that joins. An address that an interface hasn't any more keeps nobody out.
void Group::complete_all() {
    for (const auto& further : further_) {
        const Result<void> completed = further != nullptr ? complete(*further) : Result<void>();
        if (!completed) {
            SLUICE_LOG(kInfo, "uroce", "%s isn't shared: %s", socket::to_text(further->address()).data(),
                       completed.error().text());
        }
    }
}

bool Group::send_further(int to, const FurtherAddress& further, std::size_t from,
                         std::size_t end) const noexcept {
    const Further head{.first = static_cast<std::uint32_t>(from),
                       .number = further.number(),
                       .address = further.address(),
                       .generation = further.generation()};
    const iovec piece{.iov_base = const_cast<Further*>(&head), .iov_len = sizeof head};
    std::array<int, FurtherAddress::kSockets> descriptors{};
    for (std::size_t i = from; i < end; ++i) {
        descriptors[i - from] = further.descriptor(i);
    }
    return send(to, {&piece, 1}, {descriptors.data(), end - from});
}
static_assert(FurtherAddress::kSockets <= kMaxDescriptors);

// All that live, each by SEND_TO. By a line of its own where the usual one has no room.
Result<void> Group::tell_members(const std::function<bool(int)>& send_to) {
    for (std::uint32_t seat = 0; seat < kSeats; ++seat) {
        const Holder holder = table_->holder(seat);
        if (holder == kNobody || holder == holder_) {
            continue;
        }
        {
            const LockGuard guard(changing_lines_);
            const auto line = std::ranges::find(lines_, holder, &Line::holder);
            if (line != lines_.end() && send_to(line->socket.get())) {
                continue;
            }
        }
        Result<Descriptor> once = call(line_name(table_->group(), holder));
        if (!once && once.error().kind() == ErrorKind::kNotFound) {
            continue; // it has ended
        }
        if (!once || !send_to(once->get())) {
            return once ? Error(ErrorKind::kBusy,
                                "a process that shares this address takes nothing; is it "
                                "stopped?",
                                ETIMEDOUT)
                        : std::move(once).error();
        }
    }
    return {};
}

// What another member has made. It may have died before it could bind that: then the next one's replaces it.
Result<void> Group::take_further(const Further& head, Received& received) {
    if (head.number >= kMaxFurther || head.generation <= ended_[head.number]) {
        return {};
    }
    FurtherAddress* further = further_[head.number].get();
    if (further != nullptr && further->generation() > head.generation) {
        return {};
    }
    if (further == nullptr || further->generation() < head.generation) {
        further = &put_further(head.number, head.generation, head.address);
        unused_due_ = true; // the process that adds it may have ended
    }
    for (std::size_t i = 0; i < received.descriptor_count; ++i) {
        const std::size_t index = head.first + i;
        if (index >= FurtherAddress::kSockets || is_bound(further->descriptor(index))) {
            continue;
        }
        unwatch_further(*further, index);
        further->take(index, std::move(received.descriptors[i]));
        Result<void> done = watch_further(*further, index);
        if (!done) {
            return done;
        }
    }
    return {};
}

// False: DESCRIPTOR is no door and no common socket of a further address.
bool Group::read_further(int descriptor) noexcept {
    for (const auto& further : further_) {
        if (further != nullptr && further->descriptor(FurtherAddress::kDoor) == descriptor) {
            answer_door(descriptor);
            return true;
        }
        if (further != nullptr && further->descriptor(FurtherAddress::kCommon) == descriptor) {
            (void)read_common(*further->receiver());
            return true;
        }
    }
    return false;
}

} // namespace sluice::roce::group
