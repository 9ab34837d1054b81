// SPDX-License-Identifier: BSD-3-Clause
//
// How a process becomes a member.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "core/random.hpp"
#include "roce/group/group.hpp"
#include "roce/group/messages.hpp"
#include "roce/group/steering.hpp"
#include "roce/group/stopwatch.hpp"

namespace sluice::roce::group {

namespace {

// As long as a member that runs takes to answer, on a machine that is busy.
constexpr int kPatienceMs = 3000;
// As long as a process that has ended takes to give its port back.
constexpr int kAftermathMs = 300;

// Of the table's joining lock.
class Joining {
  public:
    static Result<Joining> begin(Table& table) {
        const Stopwatch watch;
        while (!table.try_begin_joining()) {
            if (watch.passed_ms() > kPatienceMs) {
                return Error::format(ErrorKind::kBusy, ETIMEDOUT,
                                     "process %d has begun to share this address and doesn't go on; is it "
                                     "stopped?",
                                     table.joining_process());
            }
            Stopwatch::pause();
        }
        return Joining(table);
    }
    Joining(Joining&& other) noexcept : table_(std::exchange(other.table_, nullptr)) {}
    Joining& operator=(Joining&&) = delete;
    ~Joining() {
        if (table_ != nullptr) {
            table_->end_joining();
        }
    }

  private:
    explicit Joining(Table& table) noexcept : table_(&table) {}
    Table* table_;
};

Result<Descriptor> open_shared(const socket::PortConfig& config, const socket::NetworkDevice& device) {
    Result<Descriptor> made = socket::make_socket(config, socket::Sharing::kGroup);
    if (!made) {
        return made;
    }
    Result<void> bound = socket::bind_socket(made->get(), config.local, device);
    return bound ? std::move(made) : std::move(bound).error();
}

// An error that says by whom, if the port isn't free.
Result<void> check_port_is_free(const socket::PortConfig& config, const socket::NetworkDevice& device) {
    const Result<Descriptor> alone = socket::make_socket(config, socket::Sharing::kNone);
    return alone ? socket::bind_socket(alone->get(), config.local, device) : alone.error().clone();
}

// Also one that many knock at.
bool is_door_open(const engine::Address& address) {
    const Result<Descriptor> door = call(door_name(address));
    return door || door.error().kind() == ErrorKind::kBusy;
}

Error no_answer(int door, const engine::Address& local) {
    ucred peer{};
    socklen_t bytes = sizeof peer;
    (void)getsockopt(door, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
    return Error::format(
        ErrorKind::kExists, ETIMEDOUT,
        "process %d shares %s and doesn't answer; is it stopped? Let it go on or end it, or use "
        "another address",
        peer.pid, socket::to_text(local).data());
}

// The name is bound, and nothing listens there: the process that has it will listen soon, or is ending.
Error has_begun(const engine::Address& local) {
    return Error::format(ErrorKind::kBusy, ETIMEDOUT,
                         "a process has begun to share %s and doesn't go on; is it stopped? `ss -xap | grep "
                         "@%s` names it",
                         socket::to_text(local).data(), door_name(local).data());
}

Error name_is_taken(const engine::Address& local) {
    return Error::format(ErrorKind::kExists, EADDRINUSE,
                         "%s is one of several addresses of a device that processes of yours have open; open "
                         "that device, end them, or use another address",
                         socket::to_text(local).data());
}

Error is_gone() noexcept {
    return Error(ErrorKind::kBusy, "the process that shares this address ended just now", EAGAIN);
}

template<typename Message>
bool send_message(int to, const Message& message, std::span<const int> descriptors) noexcept {
    const iovec piece{.iov_base = const_cast<Message*>(&message), .iov_len = sizeof message};
    return send(to, {&piece, 1}, descriptors);
}

} // namespace

Result<std::unique_ptr<Group>> Group::join(const socket::PortConfig& config) {
    const Result<socket::NetworkDevice> device = socket::usable_device(config);
    if (!device) {
        return device.error().clone();
    }
    for (const Stopwatch watch;; Stopwatch::pause()) {
        Result<Descriptor> door = call(door_name(config.local));
        Result<std::unique_ptr<Group>> made = door ? enter(config, *device, door->get())
                                              : door.error().kind() == ErrorKind::kNotFound
                                                  ? found(config, *device)
                                                  : std::move(door).error();
        const ErrorKind kind = made ? ErrorKind::kInternal : made.error().kind();
        const bool again = (kind == ErrorKind::kBusy && watch.passed_ms() < kPatienceMs) ||
                           (kind == ErrorKind::kExists && watch.passed_ms() < kAftermathMs);
        if (!again) {
            return made;
        }
    }
}

// Whoever has the door's name is alone with the address until it listens there.
Result<std::unique_ptr<Group>> Group::found(const socket::PortConfig& config,
                                            const socket::NetworkDevice& device) {
    Result<Descriptor> door = bind_name(door_name(config.local));
    if (!door) {
        return door.error().kind() == ErrorKind::kExists ? has_begun(config.local) : std::move(door).error();
    }
    Result<void> is_free = check_port_is_free(config, device);
    if (!is_free) {
        return std::move(is_free).error();
    }
    Result<Descriptor> common = open_shared(config, device);
    if (!common) {
        return std::move(common).error();
    }
    Result<Descriptor> first = open_shared(config, device);
    if (!first) {
        return std::move(first).error();
    }
    Result<std::unique_ptr<Table>> table = Table::create();
    if (!table) {
        return std::move(table).error();
    }
    Result<void> steered = steer(common->get(), (*table)->words());
    if (!steered) {
        return std::move(steered).error();
    }
    std::unique_ptr<Group> group(new Group(config, *std::move(table), *std::move(door), *std::move(common)));
    group->sockets_[0] = *std::move(first);
    Result<void> reachable = group->open_listener();
    if (!reachable) {
        return std::move(reachable).error();
    }
    group->sit_down(0);
    Result<void> open = listen_at(group->door_.get());
    if (!open) {
        return std::move(open).error();
    }
    return group;
}

Result<std::unique_ptr<Group>> Group::enter(const socket::PortConfig& config,
                                            const socket::NetworkDevice& device, int door) {
    std::array<std::uint8_t, sizeof(Welcome)> bytes{};
    Received received;
    switch (receive_within(kPatienceMs, door, bytes, received)) {
    case Receipt::kNothing:
        return no_answer(door, config.local);
    case Receipt::kEnd:
        return is_gone();
    case Receipt::kMessage:
        break;
    }
    const auto welcome = read_as<Welcome>({bytes.data(), received.bytes});
    if (!welcome || welcome->version != Welcome::kVersion || received.descriptor_count != 3) {
        return Error(ErrorKind::kProtocol,
                     "the processes that share this address use another version of this library");
    }
    if (welcome->is_further != 0) {
        return name_is_taken(config.local);
    }
    Result<std::unique_ptr<Table>> table = Table::map(std::move(received.descriptors[0]));
    if (!table) {
        return std::move(table).error();
    }
    std::unique_ptr<Group> group(new Group(config, *std::move(table), std::move(received.descriptors[1]),
                                           std::move(received.descriptors[2])));
    Result<void> in = group->take_part(device, door);
    if (!in) {
        return std::move(in).error();
    }
    return group;
}

Result<void> Group::take_part(const socket::NetworkDevice& device, int door) {
    const Result<Joining> joining = Joining::begin(*table_);
    if (!joining) {
        return joining.error().clone();
    }
    const Result<std::uint32_t> bound = ask_for_sockets(door);
    if (!bound) {
        return bound.error().clone();
    }
    Result<void> reachable = open_listener();
    if (!reachable) {
        return reachable;
    }
    const std::uint32_t seat = find_seat(*bound);
    if (seat == kSeats) {
        return Error::format(ErrorKind::kInsufficientResources, EMFILE,
                             "%u processes share %s, which is the most; use another address", kSeats,
                             socket::to_text(config_.local).data());
    }
    const bool is_new = seat == *bound;
    if (is_new) {
        Result<Descriptor> made = socket::make_socket(config_, socket::Sharing::kGroup);
        if (!made) {
            return std::move(made).error();
        }
        sockets_[seat] = *std::move(made);
    }
    Result<void> called = call_members(seat, is_new);
    if (called && is_new) {
        called = socket::bind_socket(sockets_[seat].get(), config_.local, device);
    }
    if (called) {
        complete_all();
        sit_down(seat);
    }
    return called;
}

Result<void> Group::open_listener() {
    const Result<RandomKey> key = RandomKey::from_system();
    if (!key) {
        return key.error().clone();
    }
    RandomStream random(*key);
    do {
        holder_ = random.draw_64();
    } while (static_cast<std::uint32_t>(holder_) <= 1); // a port's word couldn't name it
    Result<Descriptor> made = bind_name(line_name(table_->group(), holder_));
    if (!made) {
        return std::move(made).error();
    }
    listener_ = *std::move(made);
    return listen_at(listener_.get());
}

// Those that are bound; their number. One that isn't was made by a member that died before it could bind it.
Result<std::uint32_t> Group::ask_for_sockets(int door) {
    std::array<std::uint8_t, sizeof(Sockets)> bytes{};
    Received received;
    if (!send_message(door, AskForSockets{}, {})) {
        return is_gone();
    }
    switch (receive_within(kPatienceMs, door, bytes, received)) {
    case Receipt::kNothing:
        return no_answer(door, config_.local);
    case Receipt::kEnd:
        return is_gone();
    case Receipt::kMessage:
        break;
    }
    const auto sockets = read_as<Sockets>({bytes.data(), received.bytes});
    if (!sockets) {
        return is_gone();
    }
    std::uint32_t bound = 0;
    while (bound < std::min<std::size_t>(received.descriptor_count, kSeats) &&
           is_bound(received.descriptors[bound].get())) {
        sockets_[bound] = std::move(received.descriptors[bound]);
        ++bound;
    }
    for (std::uint32_t i = 0; i < sockets->further; ++i) {
        Result<void> taken = receive_further(door);
        if (!taken) {
            return std::move(taken).error();
        }
    }
    return bound;
}

Result<void> Group::receive_further(int door) {
    std::array<std::uint8_t, sizeof(Further)> bytes{};
    Received received;
    const Receipt receipt = receive_within(kPatienceMs, door, bytes, received);
    if (receipt != Receipt::kMessage) {
        return receipt == Receipt::kNothing ? no_answer(door, config_.local) : is_gone();
    }
    const auto head = read_as<Further>({bytes.data(), received.bytes});
    return head ? take_further(*head, received) : is_gone();
}

// A free one of the BOUND seats that have a socket, or the next one. Seats of the dead are free.
std::uint32_t Group::find_seat(std::uint32_t bound) noexcept {
    for (std::uint32_t seat = 0; seat < bound; ++seat) {
        const Holder holder = table_->holder(seat);
        if (holder == kNobody) {
            return seat;
        }
        const Result<Descriptor> member = call(line_name(table_->group(), holder));
        if (!member && member.error().kind() == ErrorKind::kNotFound) {
            table_->give_up_seat(seat, holder);
            return seat;
        }
    }
    return bound;
}

Result<void> Group::call_members(std::uint32_t seat, bool is_new) {
    const Hello hello{.seat = seat, .holder = holder_};
    const int descriptor = sockets_[seat].get();
    for (std::uint32_t other = 0; other < kSeats; ++other) {
        const Holder holder = table_->holder(other);
        if (holder == kNobody) {
            continue;
        }
        Result<Descriptor> line = call(line_name(table_->group(), holder));
        if (line && send_message(line->get(), hello, {&descriptor, is_new ? 1U : 0U})) {
            const LockGuard guard(changing_lines_);
            lines_.push_back({.socket = *std::move(line), .seat = other, .holder = holder});
        } else if (line || line.error().kind() != ErrorKind::kNotFound) {
            return line ? is_gone() : std::move(line).error();
        } else {
            table_->give_up_seat(other, holder);
        }
    }
    return {};
}

void Group::sit_down(std::uint32_t seat) noexcept {
    // It is free: no other process joins now.
    (void)table_->take_seat(seat, holder_, Stopwatch::now_ms());
    share_ = engine::Share(table_->words(), seat);
}

// Most calls find the address shared already, and need no lock of the group's. One that may be given back
// meanwhile does.
Result<Descriptor> Group::open_at(const engine::Address& address) {
    const LockGuard guard(opening_);
    if (!socket::is_on_loopback_network(address)) {
        Result<Descriptor> known = ask_thread(address, Wish::kWhatIs);
        if (known || known.error().kind() != ErrorKind::kNotFound) {
            return known;
        }
    }
    const Result<Joining> joining = Joining::begin(*table_);
    if (!joining) {
        return joining.error().clone();
    }
    Result<Descriptor> known = ask_thread(address, Wish::kComplete);
    if (known || known.error().kind() != ErrorKind::kNotFound) {
        return known;
    }
    const Result<void> is_free = check_is_free(address);
    return is_free ? ask_thread(address, Wish::kMade) : Result<Descriptor>(is_free.error().clone());
}

// A member that gives the address back may be about to close it.
Result<void> Group::check_is_free(const engine::Address& address) const {
    socket::PortConfig config = config_;
    config.local = address;
    const Result<socket::NetworkDevice> device = socket::usable_device(config);
    if (!device) {
        return device.error().clone();
    }
    for (const Stopwatch watch;; Stopwatch::pause()) {
        // Sockets of a group of its own would let ours in among them.
        if (is_shared(address)) {
            return opened_alone(address);
        }
        // First the door, which whoever gives the address back closes last: if that is closed, the port is
        // free or somebody else's.
        const bool is_open = is_door_open(address);
        Result<void> is_free = check_port_is_free(config, *device);
        if (!is_open || watch.passed_ms() > kAftermathMs) {
            return is_free;
        }
    }
}

} // namespace sluice::roce::group
