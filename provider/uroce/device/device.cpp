// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/device.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "roce/wire/icrc.hpp"
#include "roce/wire/mad.hpp"

namespace sluice::uroce::device {

// The devices that one thread holds while packets go to and fro between them. It starts with one, and takes
// others as packets lead to them, if that needs no waiting.
class Pump {
  public:
    explicit Pump(Device& first) noexcept : now_(monotonic_now) { held_[count_++] = &first; }

    const engine::Moment& now() const noexcept { return now_; }

    // By its home: most packets go to one.
    Device* find(const engine::Address& address) const noexcept {
        return find_if([&](const Device* held) { return held->where().gid == address; });
    }
    Device* find(const Neighbour& neighbour) const noexcept {
        return find_if([&](const Device* held) { return held == &neighbour; });
    }
    // DEVICE's lock was taken by this thread just now.
    void add(Device& device) noexcept { held_[count_++] = &device; }

    // Until nothing moves any more, and nobody has left a note.
    void run() noexcept {
        while (count_ != 0) {
            while (round()) {
            }
            count_ -= held_[count_ - 1]->end_work() ? 1 : 0;
        }
    }

  private:
    template<typename Is>
    Device* find_if(Is&& is_it) const noexcept {
        const auto end = held_.begin() + static_cast<std::ptrdiff_t>(count_);
        const auto found = std::find_if(held_.begin(), end, is_it);
        return found == end ? nullptr : *found;
    }
    bool round() noexcept {
        bool moved = false;
        for (std::size_t i = 0; i < count_; ++i) {
            moved = held_[i]->work(*this) || moved;
        }
        return moved;
    }

    engine::Moment now_;
    std::size_t count_ = 0;
    // Not initialised: most of the time one is used. Nobody can hold more than there are.
    std::array<Device*, kMaxDevices> held_;
};

namespace {

// When to try again to send what a full socket didn't take: some packets' time on a wire.
constexpr engine::Nanoseconds kFullLinkNs = 50'000;
// What a process that ends waits for another thread of its own.
constexpr engine::Nanoseconds kLongestGoodbyeNs = 20'000'000;
// More than a socket's buffer has.
constexpr int kMostFetches = 128;
// A look at the link is a system call. A program that polls makes it once in so many polls as soon as a
// process of this host may send through memory.
constexpr std::uint64_t kPollsPerLook = 8;

// That it got there, and nothing else: no refusal, no data.
bool is_acknowledgement(const wire::Packet& packet) noexcept {
    return packet.info().operation == wire::Operation::kAcknowledge &&
           wire::ack_kind(packet.aeth.syndrome) == wire::AckKind::kAck;
}

// Without the padding.
std::uint32_t payload_bytes(const engine::OutPacket& out) noexcept {
    return out.payload_bytes - out.packet.bth.pad;
}

// What a received datagram begins with, as if an IP header had carried it.
wire::Grh grh_of(const wire::Packet& packet, const engine::Address& source,
                 const engine::Address& destination) noexcept {
    if (packet.info().transport != wire::Transport::kUd) {
        return {};
    }
    const std::size_t behind_ip = wire::UdpHeader::kBytes + wire::header_bytes(packet.info()) +
                                  packet.payload.size() + packet.bth.pad + wire::kIcrcBytes;
    if (!engine::is_ipv4(source)) {
        wire::Ipv6Header ip;
        ip.payload_bytes = static_cast<std::uint16_t>(behind_ip);
        ip.source = source.gid;
        ip.destination = destination.gid;
        return wire::make_grh(ip);
    }
    wire::Ipv4Header ip;
    ip.total_bytes = static_cast<std::uint16_t>(wire::Ipv4Header::kBytes + behind_ip);
    std::copy_n(source.gid.begin() + 12, ip.source.size(), ip.source.begin());
    std::copy_n(destination.gid.begin() + 12, ip.destination.size(), ip.destination.begin());
    return wire::make_grh(ip);
}

} // namespace

Device::Device(LocalAddress where, const RandomKey& secret, engine::Memory& memory, Neighbours& neighbours,
               DeviceCounters& counters, Report report, engine::Nanoseconds min_silence,
               SysfsDirectory directory, Paths paths, Instrumentation instrumentation)
    : where_(std::move(where)), gids_(where_.gid, where_.further), memory_(memory), neighbours_(neighbours),
      counters_(counters), report_(report),
      share_(paths.link != nullptr ? paths.link->share() : engine::Share()),
      same_host_(std::move(paths.same_host)), engine_({.max_queue_pairs = kMaxQueuePairs,
                                                       .max_regions = kMaxRegions,
                                                       .secret = secret,
                                                       .share = share_,
                                                       .min_silence = min_silence,
                                                       .counters = &counters.transport,
                                                       .neighbourhood = same_host_.get()},
                                                      memory, *this),
      link_(std::move(paths.link)), instrumentation_(std::move(instrumentation)),
      directory_(std::move(directory)), progress_(*this), watch_(*this) {}

Device::~Device() {
    watch_.stop();
    if (link_ != nullptr) {
        link_->stop();
    }
}

Result<Companion*> Device::companion(MakeCompanion make) {
    const LockGuard guard(making_companion_);
    if (companion_ == nullptr) {
        Result<void> started = start_progress();
        if (!started) {
            return std::move(started).error();
        }
        Result<std::unique_ptr<Companion>> made = make(*this);
        if (!made) {
            return std::move(made).error();
        }
        companion_ = *std::move(made);
    }
    return companion_.get();
}

void Device::poison() noexcept {
    poisoned_.store(true, std::memory_order_relaxed);
    progress_.abandon();
    watch_.abandon();
    if (same_host_ != nullptr) {
        same_host_->abandon();
    }
    if (link_ != nullptr) {
        link_->abandon();
    }
}

Result<void> Device::start_link() {
    return link_ != nullptr ? link_->start(*this) : Result<void>();
}

// A system that doesn't tell of changes has none, mostly.
void Device::start_following() {
    const Result<void> started = where_.follows ? watch_.start() : Result<void>();
    if (!started) {
        SLUICE_LOG(kInfo, "uroce", "%s doesn't follow its interface: %s", where_.name.c_str(),
                   started.error().text());
    }
}

// The files first: a program that hears of the change reads them.
void Device::addresses_changed() noexcept {
    const Result<bool> changed = at_boundary("following an interface", [&]() -> Result<bool> {
        const Result<std::vector<engine::Address>> present = present_addresses(where_);
        if (!present) {
            return present.error().clone();
        }
        if (!gids_.follow(*present)) {
            return false;
        }
        directory_.update(gids_, where_.interface);
        return true;
    });
    if (!changed || !*changed) {
        return;
    }
    const ProgressSession session(*this);
    for (GidWatcher* watcher = watchers_; watcher != nullptr; watcher = watcher->next_) {
        watcher->changed_(*watcher);
    }
}

void Device::add_watcher(GidWatcher& watcher) noexcept {
    const ProgressSession session(*this);
    watcher.next_ = std::exchange(watchers_, &watcher);
}

void Device::remove_watcher(GidWatcher& watcher) noexcept {
    const ProgressSession session(*this);
    GidWatcher** at = &watchers_;
    while (*at != nullptr && *at != &watcher) {
        at = &(*at)->next_;
    }
    if (*at != nullptr) {
        *at = watcher.next_;
    }
}

Result<void> Device::start_progress() {
    return progress_.start(link_ != nullptr ? link_->fd() : -1,
                           same_host_ != nullptr ? same_host_->bell().own_end() : -1);
}

// Its further socket is watched as those of multicast groups are.
Result<void> Device::use_address(const engine::Address& address) {
    if (link_ == nullptr || link_->hears(address)) {
        return {};
    }
    Result<void> started = start_progress();
    if (!started) {
        return started;
    }
    const Result<int> opened = link_->use(address);
    if (!opened) {
        return opened.error().clone();
    }
    if (*opened >= 0 && same_host_ != nullptr && link_->is_shared(address)) {
        const ProgressSession session(*this);
        same_host_->add_address(address);
    }
    return *opened < 0 ? Result<void>() : progress_.watch_also(*opened);
}

bool Device::hears(const engine::Address& address) const noexcept {
    return address == where_.gid || (link_ != nullptr && link_->hears(address));
}

void Device::make_progress() noexcept {
    take_from_link(false);
    const ProgressSession session(*this);
    if (same_host_ != nullptr) {
        same_host_->wake_up();
        rings_due_ = true;
    }
    wake_at_.store(engine::kNever,
                   std::memory_order_relaxed); // the timer has fired: arm_timer() sets it anew
    link_full_ = false;
    timer_fired_ = true;
}

// A program that polls looks at the link itself, and a thread of ours beside it would only take its
// core away: that one goes by the count.
bool Device::poll_progress() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    const std::uint64_t polls = polls_.fetch_add(1, std::memory_order_relaxed);
    if (held_back_.load(std::memory_order_relaxed) && lock_.try_lock()) {
        progress_and_unlock();
    }
    bool any = take_from_rings(true);
    if (same_host_ == nullptr || !same_host_->has_rings() || polls % kPollsPerLook == 0) {
        any = take_from_link(true) || any;
    }
    return any || advance_if_due();
}

bool Device::fall_asleep() noexcept {
    if (same_host_ == nullptr) {
        return true;
    }
    const ProgressSession session(*this);
    return same_host_->fall_asleep();
}

// The thread that has the device's lock reads what peers of this host have written; no other one waits for
// it.
bool Device::take_from_rings(bool polled) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    if (same_host_ == nullptr || !same_host_->has_rings() || !lock_.try_lock()) {
        return false;
    }
    const bool has_news = same_host_->has_news();
    if (!has_news && lock_.try_unlock()) {
        return false;
    }
    rings_due_ = has_news;
    polled_ = polled;
    progress_and_unlock();
    return has_news;
}

bool Device::read_rings(const engine::Moment& now) noexcept {
    if (!std::exchange(rings_due_, false)) {
        return false;
    }
    bool any = false;
    same_host_->read_packets(
        [&](const wire::Packet& packet, const engine::Address& source, const engine::Address& destination) {
            const wire::Grh grh = grh_of(packet, source, destination);
            receive({.packet = packet,
                     .source = source,
                     .destination = destination,
                     .grh = grh,
                     .through_memory = true},
                    counters_.memory, now);
            any = true;
        });
    if (same_host_->room_again()) {
        engine_.room_again();
        any = true;
    }
    return any;
}

bool Device::advance_if_due() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    if (wake_at_.load(std::memory_order_relaxed) <= coarse_now() && lock_.try_lock()) {
        link_full_ = false;
        progress_and_unlock();
    }
    return false;
}

// Packets are taken and checked without the device's lock, and delivered by the thread that has it next: us,
// or the thread that holds it now and finds our note. Only then may the next ones be taken.
bool Device::take_from_link(bool polled) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    if (link_ == nullptr || link_taken_.load(std::memory_order_relaxed) ||
        link_taken_.exchange(true, std::memory_order_acquire)) { // partner: release in read_link()
        return false;
    }
    if (!link_->fetch()) {
        link_taken_.store(false, std::memory_order_release);
        return false;
    }
    link_fetched_.store(true, std::memory_order_release); // partner: acquire in read_link()
    if (lock_.leave_note()) {
        polled_ = polled;
        progress_and_unlock();
    }
    return true;
}

bool Device::read_link(const engine::Moment& now) noexcept {
    // Partner: release in take_from_link().
    if (!link_fetched_.load(std::memory_order_relaxed) ||
        !link_fetched_.exchange(false, std::memory_order_acquire)) {
        return false;
    }
    link_time_ = &now;
    link_->deliver(*this);
    link_taken_.store(false, std::memory_order_release); // partner: acquire in take_from_link()
    return true;
}

// The short way out is for calls that gave the engine nothing to do.
void Device::progress_and_unlock() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    if (!engine_.has_ready() && engine_.next_deadline() == engine::kNever && !queues_failed_ &&
        !batch_open_ && wakeups_ == nullptr && !rings_due_ && instrumentation_.faults == nullptr &&
        !link_fetched_.load(std::memory_order_relaxed) && lock_.try_unlock()) {
        return;
    }
    Pump(*this).run();
}

bool Device::end_work() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    end_failed_queues();
    wake_programs();
    arm_timer();
    polled_ = timer_fired_ = false;
    return lock_.try_unlock();
}

bool Device::work(Pump& pump) noexcept {
    bool moved = read_inbox(pump.now());
    moved = read_rings(pump.now()) || moved;
    moved = read_link(pump.now()) || moved;
    if (is_due(pump)) {
        engine_.advance(pump.now());
        moved = true;
    }
    if (DeviceFaults* const faults = instrumentation_.faults.get()) {
        faults->release_queues(pump.now());
        while (faults->delayed().release(out_, pump.now())) {
            deliver(pump, false);
            moved = true;
        }
    }
    do {
        while (engine_.transmit(out_, pump.now())) {
            dispatch(pump);
            moved = true;
        }
        flush_link();
    } while (!link_full_ && engine_.settle()); // what a full link holds hasn't left
    wake_programs();
    return moved;
}

// Without a timer's event, check the coarse clock first, and the exact one only when that says so. The
// answer is the pump's own time, which stands: by a clock that goes on, it would have work without end.
bool Device::is_due(const Pump& pump) const noexcept {
    const engine::Nanoseconds next = engine_.next_deadline();
    return next != engine::kNever && (timer_fired_ || next <= coarse_now()) && next <= pump.now();
}

bool Device::read_inbox(const engine::Moment& now) noexcept {
    bool any = false;
    for (const Inbox::Entry* entry = inbox_.front(); entry != nullptr; entry = inbox_.front()) {
        const wire::Grh grh = grh_of(entry->packet, entry->source, entry->destination);
        receive({entry->packet, entry->source, entry->destination, grh}, counters_.loop, now);
        inbox_.pop();
        any = true;
    }
    return any;
}

// out_ goes to where it is addressed to, if nobody has ordered something else.
void Device::dispatch(Pump& pump) noexcept {
    DeviceFaults* const faults = instrumentation_.faults.get();
    if (faults == nullptr) {
        deliver(pump, false);
        return;
    }
    const socket::SendVerdict verdict = faults->schedule().on_send({out_.header.data(), out_.header_bytes});
    const std::uint32_t qpn = out_.source_qpn;
    const engine::Nanoseconds due = pump.now() + verdict.delay;
    if (verdict.duplicate && !verdict.drop) {
        (void)faults->delayed().hold(out_, memory_, due);
    }
    if (!verdict.drop && !verdict.flip_icrc && verdict.delay != 0) {
        (void)faults->delayed().hold(out_, memory_, due);
    } else if (!verdict.drop) {
        deliver(pump, verdict.flip_icrc);
    }
    if (verdict.kill_qp) {
        end_queue_pair(qpn);
    }
}

void Device::end_queue_pair(std::uint32_t qpn) noexcept {
    engine::QueuePair* const qp = engine_.find(qpn);
    if (qp != nullptr && qp->modify(engine::QpState::kError, {})) {
        event(engine::AsyncEvent::kQpFatal, qpn);
    }
}

void Device::receive(const engine::InPacket& in, PathCounters& path, const engine::Moment& now) noexcept {
    path.received(in.packet.payload.size());
    if (instrumentation_.faults == nullptr) {
        engine_.receive(in, now);
        return;
    }
    const socket::ReceiveVerdict verdict = instrumentation_.faults->schedule().on_receive(in.packet);
    if (verdict.drop) {
        return;
    }
    engine::InPacket taken = in;
    taken.not_ready = verdict.rnr;
    engine_.receive(taken, now);
    if (verdict.duplicate) {
        engine_.receive(in, now);
    }
}

// A checksum is only there on a wire. What would have been refused for it doesn't arrive.
void Device::deliver(Pump& pump, bool damaged) noexcept {
    Neighbour* const to = find_here(pump);
    if (to != nullptr && damaged) {
        ++counters_.deliveries.damaged;
    } else if (to != nullptr) {
        deliver_here(*to, pump);
    } else if (out_.through_memory && same_host_ != nullptr && same_host_->send(out_)) {
        counters_.memory.sent(payload_bytes(out_));
    } else if (link_ != nullptr && link_->append(out_, damaged)) {
        counters_.udp.sent(payload_bytes(out_));
        batch_open_ = true;
        only_acks_ = only_acks_ && is_acknowledgement(out_.packet);
    } else {
        ++counters_.deliveries.no_route;
    }
}

// This device or a neighbour, if out_ is for one of them.
Neighbour* Device::find_here(Pump& pump) noexcept {
    Neighbour* to = out_.destination == where_.gid ? this : pump.find(out_.destination);
    if (to == nullptr) {
        to = neighbours_.find(out_.destination);
    }
    return to != nullptr && to->takes_from(*this) ? to : nullptr;
}

bool Device::takes_from(Device& from) noexcept {
    const wire::Packet& packet = from.out_.packet;
    if (packet.bth.dest_qpn > wire::kGsiQpn || link_ == nullptr) {
        return share_.owns(packet.bth.dest_qpn);
    }
    wire::Packet whole = packet;
    return from.payload_of(from.out_, whole.payload) && link_->owns(whole);
}

void Device::deliver_here(Neighbour& to, Pump& pump) noexcept {
    if (instrumentation_.recorder != nullptr) {
        instrumentation_.recorder->record(out_, memory_);
    }
    counters_.loop.sent(payload_bytes(out_));
    if (&to == this) {
        ++counters_.deliveries.own;
        take_in(out_, pump.now());
    } else if (Device* const held = pump.find(to)) {
        ++counters_.deliveries.direct;
        held->take_in(out_, pump.now());
    } else {
        give_to_neighbour(to, pump);
    }
}

void Device::give_to_neighbour(Neighbour& to, Pump& pump) noexcept {
    switch (to.take_from(*this, pump)) {
    case Taken::kNow:
        ++counters_.deliveries.direct;
        break;
    case Taken::kLater:
        ++counters_.deliveries.posted;
        break;
    case Taken::kLost:
        ++counters_.deliveries.lost;
        break;
    }
}

// FROM is a device that the calling thread holds, and this one isn't yet.
Neighbour::Taken Device::take_from(Device& from, Pump& pump) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    if (lock_.try_lock()) {
        pump.add(*this);
        take_in(from.out_, pump.now());
        return Taken::kNow;
    }
    wire::ConstBytes payload;
    const bool copied = from.payload_of(from.out_, payload) && inbox_.put(from.out_, payload);
    if (lock_.leave_note()) {
        pump.add(*this); // given back meanwhile: then this thread reads the inbox
    }
    return copied ? Taken::kLater : Taken::kLost;
}

void Device::take_in(engine::OutPacket& out, const engine::Moment& now) noexcept {
    if (!payload_of(out, out.packet.payload)) {
        return; // its memory is gone since the engine looked: the packet is lost
    }
    const wire::Grh grh = grh_of(out.packet, out.source, out.destination);
    receive({out.packet, out.source, out.destination, grh}, counters_.loop, now);
}

// What lies in one piece, as most does, is read where it is.
bool Device::payload_of(const engine::OutPacket& out, wire::ConstBytes& payload) noexcept {
    const std::uint32_t len = payload_bytes(out);
    payload = {static_cast<const std::uint8_t*>(out.pieces[0].iov_base), len};
    if (len == 0 || out.pieces[0].iov_len == len) {
        return true;
    }
    std::uint32_t at = 0;
    for (std::uint32_t i = 0; at < len; ++i) {
        const iovec& piece = out.pieces[i];
        if (!memory_.copy_out(gathered_.data() + at, reinterpret_cast<std::uintptr_t>(piece.iov_base),
                              piece.iov_len)) {
            return false;
        }
        at += static_cast<std::uint32_t>(piece.iov_len);
    }
    payload = {gathered_.data(), len};
    return true;
}

void Device::flush_link() noexcept {
    if (!batch_open_ || link_full_ || (polled_ && only_acks_ && hold_back())) {
        return;
    }
    link_full_ = !link_->flush();
    batch_open_ = link_full_;
    only_acks_ = !batch_open_;
    held_back_.store(false, std::memory_order_relaxed);
}

// Only while the progress thread will look: either it sees our mark when it stops doing so, or we see that
// it has stopped. Partner: the pair of accesses at the end of ProgressThread::wait_while_polled().
bool Device::hold_back() noexcept {
    held_back_.store(true, std::memory_order_seq_cst);
    return progress_.watches_polls();
}

void Device::wake_later(Wakeup& wakeup) noexcept {
    if (!wakeup.waits_) {
        wakeup.waits_ = true;
        wakeup.next_ = wakeups_;
        wakeups_ = &wakeup;
    }
}

void Device::wake_programs() noexcept {
    while (wakeups_ != nullptr) {
        Wakeup& wakeup = *std::exchange(wakeups_, wakeups_->next_);
        wakeup.waits_ = false;
        wakeup.wake_(wakeup);
    }
}

void Device::queue_armed() noexcept {
    if (armed_queues_.fetch_add(1, std::memory_order_seq_cst) == 0) {
        progress_.program_may_sleep();
    }
}

// Whoever holds the lock may be the thread that ends the process, interrupted by a signal.
void Device::send_rest() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    const engine::Nanoseconds end = monotonic_now() + kLongestGoodbyeNs;
    while (!poisoned() && monotonic_now() < end) {
        if (lock_.try_lock()) {
            progress_and_unlock();
            return;
        }
        sched_yield();
    }
}

void Device::packet(const engine::InPacket& in) noexcept {
    receive(in, counters_.udp, *link_time_);
}

// Who has it, gives it back when the device's next holder has delivered: the caller isn't that.
void Device::take_link() noexcept {
    while (link_taken_.exchange(true, std::memory_order_acquire)) { // partner: release in read_link()
        sched_yield();
    }
}

Result<void> Device::attach(engine::QueuePair& qp, const engine::Address& group) {
    const LockGuard guard(changing_groups_);
    Result<void> heard = hear_locked(group);
    if (!heard) {
        return heard;
    }
    const ProgressSession session(*this);
    session.engine().groups().attach(group, qp);
    return {};
}

// The socket comes before the queue pair: what the link hears for nobody is dropped.
Result<void> Device::hear_locked(const engine::Address& group) {
    Result<void> started = start_progress();
    if (!started) {
        return started;
    }
    if (link_ == nullptr) {
        return Error(ErrorKind::kNotSupported, "this device has no way to multicast groups");
    }
    take_link();
    Result<int> joined = link_->join(group);
    link_taken_.store(false, std::memory_order_release);
    has_groups_.store(true, std::memory_order_relaxed);
    if (!joined) {
        return joined.error().kind() == ErrorKind::kExists ? Result<void>() : std::move(joined).error();
    }
    return progress_.watch_also(*joined);
}

bool Device::detach(engine::QueuePair& qp, const engine::Address& group) noexcept {
    const LockGuard guard(changing_groups_);
    bool detached = false;
    {
        const ProgressSession session(*this);
        detached = session.engine().groups().detach(group, qp);
    }
    leave_unheard_groups_locked();
    return detached;
}

void Device::leave_unheard_groups() noexcept {
    if (has_groups_.load(std::memory_order_relaxed)) {
        const LockGuard guard(changing_groups_);
        leave_unheard_groups_locked();
    }
}

void Device::leave_unheard_groups_locked() noexcept {
    if (link_ == nullptr) {
        return;
    }
    take_link();
    {
        const ProgressSession session(*this);
        link_->leave_groups(
            [](const void* groups, const engine::Address& group) noexcept {
                return static_cast<const engine::MulticastGroups*>(groups)->hears(group);
            },
            &session.engine().groups());
    }
    link_taken_.store(false, std::memory_order_release);
}

// Once the rings, and the link until it has nothing; but a sender that goes on and on must not keep the
// caller for ever, and has sent what it sent before with the first socketfuls.
void Device::catch_up() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    if (same_host_ != nullptr) {
        const ProgressSession session(*this);
        rings_due_ = true;
    }
    for (int fetches = 0; fetches < kMostFetches; ++fetches) {
        take_link();
        if (!link_->fetch()) {
            link_taken_.store(false, std::memory_order_release);
            return;
        }
        link_fetched_.store(true, std::memory_order_release); // partner: acquire in read_link()
        if (lock_.leave_note()) {
            progress_and_unlock();
        }
    }
}

void Device::arrived(const engine::InPacket& in) noexcept {
    const engine::Moment now(monotonic_now);
    const ProgressSession session(*this);
    receive(in, counters_.udp, now);
}

bool Device::is_connected(std::uint32_t qpn, const engine::Address& peer, std::uint32_t peer_qpn) noexcept {
    const ProgressSession session(*this);
    return engine_.is_connected(qpn, peer, peer_qpn);
}

void Device::peer_told(std::uint32_t qpn, bool connected) noexcept {
    const ProgressSession session(*this);
    connected ? engine_.peer_answers(qpn) : engine_.peer_is_gone(qpn);
}

// A process that has taken the seat since may have connections with us: their queue pairs ask it.
void Device::member_ended(const engine::Address& address, const engine::Share& its) noexcept {
    {
        const ProgressSession session(*this);
        if (same_host_ != nullptr) {
            same_host_->forget_the_dead();
        }
        engine_.for_each([&](const engine::QueuePair& qp) {
            const engine::QpAttributes& attr = qp.attributes();
            if (qp.type() == engine::QpType::kRc && attr.remote == address && its.owns(attr.dest_qpn) &&
                link_->ask(qp.ends()) == engine::Peer::kGone) {
                engine_.peer_is_gone(qp.qpn());
            }
        });
    }
    const LockGuard guard(making_companion_);
    if (companion_ != nullptr && link_->is_empty(address, its.which())) {
        companion_->process_ended(address, its);
    }
}

void Device::thread_begins() noexcept {
    if (same_host_ != nullptr && !same_host_->begin_life()) {
        SLUICE_LOG(kInfo, "uroce",
                   "%s: other processes of this host send packets, since this system doesn't "
                   "tell them of the end of this one",
                   where_.name.c_str());
    }
}

void Device::thread_ends() noexcept {
    if (same_host_ != nullptr) {
        same_host_->end_life();
    }
}

// A process that gets it tries at once to read this process's memory.
int Device::board() const noexcept {
    if (same_host_ == nullptr) {
        return -1;
    }
    // Where Yama lets nobody but a parent do so. Elsewhere it is an error, and needless.
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    return same_host_->board().descriptor();
}

std::uint64_t Device::board_id() const noexcept {
    return same_host_ != nullptr ? same_host_->board().id() : 0;
}

// Of a board that isn't taken, the owner sends its packets over UDP.
Device::Admission Device::board_came(const Descriptor& board, pid_t pid) noexcept {
    if (same_host_ == nullptr) {
        return {};
    }
    const Result<Admission> added = at_boundary("a process of this host", [&]() -> Result<Admission> {
        Result<near::Peer> peer = near::SameHost::open(board, pid, memory_);
        if (!peer) {
            return std::move(peer).error();
        }
        if (peer->memory == nullptr) {
            SLUICE_LOG(kInfo, "uroce",
                       "%s: packets go to process %d of this host, whose memory this one may not touch",
                       where_.name.c_str(), pid);
        }
        const ProgressSession session(*this);
        const near::Peer* const known = same_host_->add(*std::move(peer));
        return known == nullptr || known->from_it == nullptr
                   ? Admission{.is_taken = known != nullptr}
                   : Admission{.is_taken = true,
                               .ring = known->from_it->descriptor(),
                               .bell = same_host_->bell().far_end()};
    });
    if (!added) {
        SLUICE_LOG(kInfo, "uroce", "%s: packets come from process %d of this host: %s", where_.name.c_str(),
                   pid, added.error().text());
    }
    return added ? *added : Admission();
}

void Device::board_taken(std::uint64_t id, pid_t pid, Descriptor ring, Descriptor bell) noexcept {
    if (same_host_ == nullptr) {
        return;
    }
    std::unique_ptr<near::RingWriter> writer;
    if (ring.get() >= 0) {
        const Result<void> mapped = at_boundary("a process of this host", [&]() -> Result<void> {
            Result<near::RingWriter> made = near::RingWriter::map(ring);
            if (!made) {
                return std::move(made).error();
            }
            writer = std::make_unique<near::RingWriter>(*std::move(made));
            return {};
        });
        if (!mapped) {
            SLUICE_LOG(kInfo, "uroce", "%s: UDP carries packets to a process of this host: %s",
                       where_.name.c_str(), mapped.error().text());
        }
    }
    const ProgressSession session(*this);
    same_host_->waits_for_us(id, pid, std::move(writer), std::move(bell));
}

bool Device::is_in_this_process(const engine::Address& address, std::uint32_t qpn) noexcept {
    if (address == where_.gid || (link_ != nullptr && link_->is_shared(address))) {
        return share_.owns(qpn);
    }
    const Neighbour* const neighbour = neighbours_.find(address);
    return neighbour != nullptr && neighbour->has_number(qpn);
}

void Device::watch_peer(const engine::QueuePair& qp) noexcept {
    const engine::QpAttributes& attr = qp.attributes();
    if (link_ != nullptr && !is_in_this_process(attr.remote, attr.dest_qpn)) {
        link_->watch(attr.remote, attr.dest_qpn);
    }
}

// In this process nobody starves, and no packet is lost.
engine::Peer Device::silent_peer(const engine::Ends& ends) noexcept {
    if (is_in_this_process(ends.remote, ends.peer_qpn)) {
        return engine::Peer::kGone;
    }
    return link_ != nullptr ? link_->ask(ends) : engine::Peer::kUnknown;
}

// This process's own ports are there.
engine::Port Device::look_at_port(const engine::Ends& ends) noexcept {
    const bool is_here = link_ == nullptr || ends.remote == where_.gid || link_->is_shared(ends.remote) ||
                         neighbours_.find(ends.remote) != nullptr;
    return is_here ? engine::Port::kNotAsked : link_->look_at_port(ends, monotonic_now());
}

void Device::event(engine::AsyncEvent event, std::uint32_t qpn) noexcept {
    queues_failed_ = queues_failed_ || event == engine::AsyncEvent::kCqError;
    engine::QueuePair* qp = engine_.find(qpn);
    if (qp != nullptr && qp->owner() != nullptr) {
        report_(qp->owner(), event);
    }
}

void Device::prepare_queue(engine::CompletionQueue& queue,
                           engine::CompletionQueue::BeforePush ask) const noexcept {
    if (instrumentation_.faults != nullptr) {
        queue.ask_before_push(ask);
    }
}

void Device::before_completion(engine::CompletionQueue& queue) noexcept {
    instrumentation_.faults->before_completion(queue, monotonic_now());
}

void Device::end_queue(engine::CompletionQueue& queue) noexcept {
    if (instrumentation_.faults != nullptr) {
        const ProgressSession session(*this);
        instrumentation_.faults->forget(queue);
    }
}

// 10.10: a completion queue that has lost completions takes its queue pairs with it. The engine
// can't do that when it happens, in the middle of another one.
void Device::end_failed_queues() noexcept {
    if (!queues_failed_) {
        return;
    }
    queues_failed_ = false;
    engine_.for_each([](engine::QueuePair& qp) {
        if (qp.has_failed_queue()) {
            (void)qp.modify(engine::QpState::kError, {});
        }
    });
}

void Device::arm_timer() noexcept {
    engine::Nanoseconds next = engine_.next_deadline();
    if (link_full_) {
        next = std::min(next, monotonic_now() + kFullLinkNs);
    }
    if (instrumentation_.faults != nullptr) {
        next = std::min(next, instrumentation_.faults->next_deadline());
    }
    if (next < wake_at_.load(std::memory_order_relaxed)) {
        wake_at_.store(next, std::memory_order_relaxed);
        progress_.wake_at(next);
    }
}

} // namespace sluice::uroce::device
