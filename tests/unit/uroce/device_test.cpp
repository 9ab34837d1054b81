// SPDX-License-Identifier: BSD-3-Clause
//
// The parts of a device that programs don't see: its lock with notes, the inbox, the link's place, the
// directory, the event socket.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "provider/uroce/device/device.hpp"
#include "provider/uroce/device/registry.hpp"
#include "provider/uroce/verbs/event_socket.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice;
using namespace sluice::roce;
using namespace sluice::uroce::device;
using namespace sluice::uroce::verbs;
using namespace sluice::roce::engine;

namespace {

TEST(lock__with_a_note__isnt_given_back_before_it_is_read) {
    DeviceLock lock;
    assert_true(lock.try_lock());
    assert_false(lock.try_lock());
    assert_false(lock.leave_note()); // the holder will look
    assert_false(lock.leave_note());
    assert_false(lock.try_unlock());
    assert_true(lock.try_unlock());
    assert_true(lock.leave_note()); // nobody holds it: now we do
    assert_false(lock.try_lock());
    assert_true(lock.try_unlock());
}

TEST(lock__several_threads__one_at_a_time) {
    DeviceLock lock;
    int count = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&]() SLUICE_TSA(no_thread_safety_analysis) {
            for (int i = 0; i < 2000; ++i) {
                lock.lock();
                ++count;
                while (!lock.try_unlock()) {
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    assert_int_equal(count, 6000);
}

Address address(std::uint8_t last) {
    Address made;
    made.gid[10] = made.gid[11] = 0xff;
    made.gid[12] = 127;
    made.gid[13] = 99;
    made.gid[15] = last;
    return made;
}

TEST(inbox__filled_and_emptied__keeps_order_and_copies) {
    Inbox inbox;
    assert_null(inbox.front());
    OutPacket packet;
    std::vector<std::uint8_t> payload(kMaxPayloadBytes);
    std::uint32_t put = 0;
    for (;; ++put) {
        packet.packet.bth.psn = put;
        packet.source = address(1);
        payload[0] = payload[4095] = static_cast<std::uint8_t>(put);
        if (!inbox.put(packet, payload)) {
            break;
        }
    }
    assert_int_equal(put, 256);
    payload.assign(payload.size(), 0);
    for (std::uint32_t i = 0; i < put; ++i) {
        const Inbox::Entry* entry = inbox.front();
        assert_non_null(entry);
        assert_int_equal(entry->packet.bth.psn, i);
        assert_true(entry->source == address(1));
        assert_int_equal(entry->packet.payload.size(), kMaxPayloadBytes);
        assert_int_equal(entry->packet.payload[4095], i & 0xff);
        inbox.pop();
    }
    assert_null(inbox.front());
    assert_true(inbox.put(packet, {}));
}

// Keeps what a device sends; hands over what a test puts in.
class FakeLink final : public Link {
  public:
    FakeLink() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
    ~FakeLink() override { close(event_); }

    bool append(const OutPacket& packet, bool /*damaged*/) noexcept override {
        ++appended;
        unflushed.push_back(packet.packet.bth.psn);
        return accepts;
    }
    bool flush() noexcept override {
        ++flushes;
        if (has_room) {
            unflushed.clear();
        }
        return has_room;
    }
    bool fetch() noexcept override {
        ++receives;
        eventfd_t value = 0;
        eventfd_read(event_, &value);
        const std::lock_guard guard(mutex_);
        fetched_.swap(incoming_);
        incoming_.clear();
        return !fetched_.empty();
    }
    void deliver(Receiver& receiver) noexcept override {
        receiver_ = &receiver;
        for (const wire::Packet& packet : fetched_) {
            receiver.packet({packet, address(9), address(1), {}, wire::kRocePort});
        }
    }
    int fd() const noexcept override { return event_; }
    void abandon() noexcept override {}
    bool is_empty(const Address& /*address*/, std::uint32_t /*seat*/) noexcept override { return !is_taken; }

    void arrive(const wire::Packet& packet) {
        {
            const std::lock_guard guard(mutex_);
            incoming_.push_back(packet);
        }
        eventfd_write(event_, 1);
    }

    // As if another process had got PACKET from its socket. Something has been delivered before.
    void hand_on(const wire::Packet& packet) {
        receiver_->arrived({packet, address(9), address(1), {}, wire::kRocePort});
    }

    void hear(const Address& /*address*/, std::uint32_t /*peer_qpn*/) noexcept override { ++peers_heard; }

    // No process was at the peer's address.
    void find_nobody() { receiver_->nobody_at(address(9)); }

    std::atomic<bool> is_taken{false};
    std::atomic<int> peers_heard{0};
    std::atomic<int> appended{0};
    std::atomic<int> flushes{0};
    bool accepts = true;
    std::atomic<bool> has_room{true};
    std::atomic<int> receives{0};
    std::vector<std::uint32_t> unflushed;

  private:
    const int event_;
    std::mutex mutex_;
    std::vector<wire::Packet> incoming_;
    std::vector<wire::Packet> fetched_; // between fetch() and deliver()
    Receiver* receiver_ = nullptr;
};

PlainMemory& memory() {
    static PlainMemory plain;
    return plain;
}

std::atomic<int> reported{0};

// No neighbour has any address.
class Nobody final : public Neighbours {
  public:
    Neighbour* find(const Address& /*address*/) noexcept override { return nullptr; }
};

Nobody& nobody() {
    static Nobody none;
    return none;
}

// A device that no registry knows, with a link, and a queue pair to a peer behind it.
struct Linked {
    explicit Linked(Nanoseconds min_silence = 0, std::uint8_t timeout = 8) // a millisecond
        : where{.name = "test", .gid = address(1), .interface = "lo", .interface_mtu = 65536},
          link(new FakeLink), device(
                                  where, RandomKey::repeatable(7), memory(), nobody(), counters, nullptr,
                                  [](void*, AsyncEvent) noexcept { ++reported; },
                                  {.min_silence = min_silence}, std::move(*SysfsDirectory::make(where)),
                                  {.link = std::unique_ptr<Link>(link)}, Device::Instrumentation{}),
          cq(64) {
        const Device::ProgressSession session(device);
        qp = *session.engine().create_queue_pair(
            {.pd = 1, .send_cq = &cq, .recv_cq = &cq, .max_send_wr = 8, .max_recv_wr = 8, .owner = this});
        key = *session.engine().regions().add_region(1, reinterpret_cast<std::uintptr_t>(block.data()),
                                                     reinterpret_cast<std::uintptr_t>(block.data()),
                                                     block.size(), kLocalWrite | kRemoteWrite);
        attributes.access = kRemoteWrite;
        attributes.dest_qpn = 77;
        attributes.local = address(1);
        attributes.remote = address(9);
        attributes.timeout = timeout;
        attributes.retry_count = 1;
        for (const QpState state : {QpState::kInit, QpState::kReadyToReceive, QpState::kReadyToSend}) {
            assert_true(qp->modify(state, attributes).ok());
        }
    }
    ~Linked() {
        const Device::ProgressSession session(device);
        session.engine().destroy_queue_pair(*qp);
    }
    void post_write(std::uint32_t len) {
        const Device::ProgressSession session(device, Device::Purpose::kPost);
        const Sge sge{reinterpret_cast<std::uintptr_t>(block.data()), len, key};
        SendWr wr;
        wr.opcode = WrOpcode::kWrite;
        wr.flags = kSignaled;
        wr.sges = {&sge, 1};
        assert_true(qp->post_send(wr) == Post::kPosted);
        session.engine().posted(*qp);
    }
    wire::Packet acknowledgement(std::uint32_t psn) const {
        wire::Packet packet;
        packet.bth.opcode = wire::kRcAcknowledge;
        packet.bth.dest_qpn = qp->qpn();
        packet.bth.psn = psn;
        packet.aeth.syndrome = 0x1f;
        return packet;
    }
    // One byte for the block, with a key that may be wrong.
    wire::Packet write(std::uint32_t psn, std::uint32_t rkey) const {
        static constexpr std::uint8_t kByte = 0x5a;
        wire::Packet packet;
        packet.bth.opcode = wire::kRcWriteOnly;
        packet.bth.dest_qpn = qp->qpn();
        packet.bth.psn = psn;
        packet.bth.ack_request = true;
        packet.bth.pad = 3;
        packet.reth = {
            .remote_addr = reinterpret_cast<std::uintptr_t>(block.data()), .rkey = rkey, .len_bytes = 1};
        packet.payload = {&kByte, 1};
        return packet;
    }
    // Until a write's acknowledgement is held back, which needs the thread to have seen polls.
    void poll_until_held_back(std::uint32_t& psn) {
        for (;;) {
            const int appended = link->appended;
            link->arrive(write(psn++, key));
            while (link->appended == appended) {
                (void)device.poll_progress();
                if (device.has_held_back()) {
                    return;
                }
            }
        }
    }
    Completion wait() {
        Completion completion;
        while (!cq.poll(completion)) {
        }
        return completion;
    }

    LocalAddress where;
    FakeLink* link;
    DeviceCounters counters;
    Device device;
    CompletionQueue cq;
    QueuePair* qp = nullptr;
    std::uint32_t key = 0;
    QpAttributes attributes;
    std::vector<std::uint8_t> block = std::vector<std::uint8_t>(8192);
};

// Nothing is repeated, however slowly this runs.
TEST(link__packets_for_strangers__appended_and_flushed_before_the_lock_goes) {
    Linked one(0, 0);
    one.post_write(4096); // four packets
    assert_int_equal(one.link->appended, 4);
    assert_int_equal(one.link->flushes, 1);
    assert_int_equal(one.counters.udp.packets_sent, 4);
    assert_int_equal(one.counters.udp.bytes_sent, 4096);
    assert_int_equal(one.counters.loop.packets_sent, 0);
    assert_true(one.link->unflushed.empty());
    assert_int_equal(one.device.deliveries().no_route, 0);
    one.link->accepts = false;
    one.post_write(8);
    assert_int_equal(one.device.deliveries().no_route, 1);
    assert_int_equal(one.counters.udp.bytes_sent, 4096); // what didn't leave isn't sent
}

TEST(link__what_arrives__reaches_the_engine_by_polling_or_by_itself) {
    Linked one;
    one.post_write(8);
    one.link->arrive(one.acknowledgement(0));
    assert_true(one.device.may_progress());
    assert_true(one.device.try_progress());
    assert_true(one.wait().status == Status::kSuccess);
    assert_false(one.device.try_progress());
    assert_true(one.device.start_progress().ok());
    assert_true(one.device.start_progress().ok()); // runs already
    one.post_write(8);
    one.link->arrive(one.acknowledgement(1));
    assert_true(one.wait().status == Status::kSuccess); // nobody here calls the device
}

// Its program allows it two milliseconds.
TEST(silence__of_a_peer_that_nobody_knows__is_borne_for_as_long_as_the_device_wants) {
    constexpr Nanoseconds kSilence = 50'000'000;
    Linked one(kSilence);
    assert_true(one.device.start_progress().ok());
    const Nanoseconds began = monotonic_now();
    one.post_write(8);
    assert_true(one.wait().status == Status::kRetryExceeded);
    assert_true(monotonic_now() - began >= kSilence);
}

// An address may be used from its first connection on, which begins at one end before the other.
TEST(address__of_nobody__a_peer_that_has_not_been_heard_may_come) {
    Linked one(0, 0);
    one.link->arrive(one.acknowledgement(500)); // not expected: of a former connection, or forged
    (void)one.device.try_progress();
    one.link->find_nobody();
    assert_int_equal(one.link->peers_heard, 0);
    one.post_write(8);
    one.link->arrive(one.acknowledgement(0));
    assert_true(one.device.try_progress());
    assert_true(one.wait().status == Status::kSuccess);
}

TEST(address__of_nobody__a_peer_that_has_been_heard_is_gone) {
    Linked one(0, 0);
    for (const std::uint32_t psn : {0, 1}) {
        one.post_write(8);
        one.link->arrive(one.acknowledgement(psn));
        assert_true(one.device.try_progress());
        assert_true(one.wait().status == Status::kSuccess);
        one.link->is_taken = psn == 0; // somebody has come meanwhile
        one.link->find_nobody();
    }
    assert_int_equal(one.link->peers_heard, 1);
    one.post_write(8);
    assert_true(one.wait().status == Status::kRetryExceeded);
}

TEST(address__of_nobody__a_peer_is_unheard_again_after_reset) {
    Linked one(0, 0);
    for (const int times_heard : {1, 2}) {
        one.post_write(8);
        one.link->arrive(one.acknowledgement(0));
        assert_true(one.device.try_progress());
        assert_true(one.wait().status == Status::kSuccess);
        assert_int_equal(one.link->peers_heard, times_heard);
        const Device::ProgressSession session(one.device);
        for (const QpState state :
             {QpState::kReset, QpState::kInit, QpState::kReadyToReceive, QpState::kReadyToSend}) {
            assert_true(one.qp->modify(state, one.attributes).ok());
        }
    }
    one.link->find_nobody();
    one.post_write(8);
    one.link->arrive(one.acknowledgement(0));
    assert_true(one.device.try_progress());
    assert_true(one.wait().status == Status::kSuccess);
}

TEST(deadline__nobody_calls__the_thread_repeats_and_gives_up) {
    Linked one;
    assert_true(one.device.start_progress().ok());
    one.post_write(8);
    assert_true(one.wait().status == Status::kRetryExceeded);
    const Device::ProgressSession session(one.device);
    assert_int_equal(one.link->appended, 2);
    assert_int_equal(session.engine().counters().timeouts, 2);
}

TEST(try_progress__somebody_at_it__leaves_what_came_to_the_holder) {
    Linked one;
    one.link->arrive(one.acknowledgement(0));
    {
        const Device::ProgressSession session(one.device);
        assert_true(one.device.try_progress());
        assert_int_equal(one.device.counters().udp.packets_received, 0);
        const int before = one.link->receives;
        assert_false(one.device.try_progress()); // not before the first are delivered
        assert_int_equal(one.link->receives, before);
    }
    const Device::ProgressSession session(one.device);
    assert_int_equal(one.device.counters().udp.packets_received, 1);
}

TEST(poll__a_write_arrives__its_acknowledgement_leaves_with_the_next_request) {
    Linked one;
    assert_true(one.device.start_progress().ok());
    std::uint32_t psn = 0;
    one.poll_until_held_back(psn);
    assert_int_equal(one.block[0], 0x5a); // the program has it already
    one.post_write(8);
    assert_int_equal(one.link->appended, psn + 1);
    assert_false(one.device.has_held_back());
    const Device::ProgressSession session(one.device);
    assert_true(one.link->unflushed.empty());
}

TEST(poll__no_call_follows__the_thread_sends_the_acknowledgement) {
    Linked one;
    assert_true(one.device.start_progress().ok());
    std::uint32_t psn = 0;
    one.poll_until_held_back(psn);
    while (one.device.has_held_back()) { // nobody here calls the device
    }
    assert_int_equal(one.link->appended, psn);
}

// As UCX does, which arms one of its queues when it begins and polls others.
void poll_beside_an_armed_queue(Linked& one) {
    one.device.queue_armed();
    assert_true(one.device.may_sleep());
    for (int polls = 0; polls < 100'000; ++polls) {
        (void)one.device.poll_progress();
    }
    assert_false(one.device.may_sleep());
}

TEST(poll__beside_an_armed_queue_without_events__acknowledgements_are_held_back) {
    Linked one;
    assert_true(one.device.start_progress().ok());
    poll_beside_an_armed_queue(one);
    std::uint32_t psn = 0;
    one.poll_until_held_back(psn);
}

TEST(poll__no_more_beside_an_armed_queue__program_may_sleep) {
    Linked one;
    assert_true(one.device.start_progress().ok());
    poll_beside_an_armed_queue(one);
    std::uint32_t psn = 0;
    one.poll_until_held_back(psn);
    while (!one.device.may_sleep()) {
        sched_yield();
    }
}

TEST(arm__after_polls_beside_another_queue__program_may_sleep) {
    Linked one;
    poll_beside_an_armed_queue(one);
    one.device.queue_armed();
    assert_true(one.device.may_sleep());
    one.device.queue_disarmed();
    assert_true(one.device.may_sleep());
    one.device.queue_disarmed();
    assert_false(one.device.may_sleep());
}

// A program that waits for bytes in its memory, and polls once in between.
std::chrono::steady_clock::duration write_to_a_program_that_polls_seldom(Linked& one, std::uint32_t& psn) {
    constexpr int kWrites = 100;
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < kWrites; ++i) {
        const int appended = one.link->appended;
        (void)one.device.poll_progress();
        one.link->arrive(one.write(psn++, one.key));
        while (one.link->appended == appended) {
            sched_yield();
        }
    }
    return (std::chrono::steady_clock::now() - began) / kWrites;
}

// As soon as one time is quick: a busy machine may take the thread's core. The test's time limit is the
// limit.
TEST(poll__once_between_writes__the_thread_takes_each_as_it_comes) {
    constexpr std::chrono::microseconds kHalfOfTheShortestPause{250};
    Linked one;
    assert_true(one.device.start_progress().ok());
    std::uint32_t psn = 0;
    while (write_to_a_program_that_polls_seldom(one, psn) > kHalfOfTheShortestPause) {
    }
}

// It might end the queue pair.
TEST(poll__a_change_follows__the_acknowledgement_leaves_before) {
    Linked one;
    assert_true(one.device.start_progress().ok());
    std::uint32_t psn = 0;
    one.poll_until_held_back(psn);
    const Device::ProgressSession session(one.device);
    assert_int_equal(one.link->appended, psn);
    assert_true(one.link->unflushed.empty());
}

TEST(poll__again__sends_the_acknowledgement) {
    Linked one;
    assert_true(one.device.start_progress().ok());
    std::uint32_t psn = 0;
    one.poll_until_held_back(psn);
    (void)one.device.poll_progress();
    assert_false(one.device.has_held_back());
}

TEST(poll__a_refusal__leaves_at_once) {
    Linked one;
    assert_true(one.device.start_progress().ok());
    std::uint32_t psn = 0;
    one.poll_until_held_back(psn); // from here on the thread watches, as long as we poll
    while (one.device.has_held_back()) {
        (void)one.device.poll_progress();
    }
    const int appended = one.link->appended;
    one.link->arrive(one.write(psn, one.key ^ 1));
    while (one.link->appended == appended) {
        (void)one.device.poll_progress();
        assert_false(one.device.has_held_back());
    }
    const Device::ProgressSession session(one.device);
    assert_int_equal(one.link->appended, appended + 1);
    assert_true(one.link->unflushed.empty());
    assert_int_equal(one.device.counters().udp.packets_received, psn + 1);
}

// Nobody polls for it.
TEST(packet__handed_on_by_another_process__is_acknowledged_at_once) {
    Linked one;
    one.link->arrive(one.write(0, one.key));
    assert_true(one.device.poll_progress());
    one.link->hand_on(one.write(1, one.key));
    assert_int_equal(one.link->appended, 2);
    assert_int_equal(one.link->flushes, 2);
}

// Without the thread nobody would send it later.
TEST(poll__no_thread__nothing_is_held_back) {
    Linked one;
    for (std::uint32_t psn = 0; psn < 100; ++psn) {
        one.link->arrive(one.write(psn, one.key));
        assert_true(one.device.poll_progress());
        assert_int_equal(one.link->flushes, psn + 1);
    }
}

// A look is a system call. The count of ticks may be off by two.
TEST(poll__of_a_silent_link__looks_twice_in_a_microsecond_at_most) {
    Linked one;
    const auto began = std::chrono::steady_clock::now();
    std::chrono::steady_clock::duration time{};
    while (time < std::chrono::milliseconds(5)) {
        assert_false(one.device.poll_progress());
        time = std::chrono::steady_clock::now() - began;
    }
    assert_true(one.link->receives > 0);
    assert_true(one.link->receives <=
                2 * std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

TEST(poll__beside_traffic__looks_each_time) {
    Linked one;
    for (std::uint32_t psn = 0; psn < 100; ++psn) {
        one.link->arrive(one.acknowledgement(psn));
        assert_true(one.device.poll_progress());
    }
}

TEST(link__full__the_rest_leaves_when_there_is_room) {
    Linked one;
    one.link->has_room = false;
    one.post_write(8);
    assert_int_equal(one.link->unflushed.size(), 1);
    assert_true(one.device.start_progress().ok());
    one.link->has_room = true;
    one.post_write(8); // sets the timer, which nobody did before there was a thread
    one.link->arrive(one.acknowledgement(1));
    assert_true(one.wait().status == Status::kSuccess);
    assert_true(one.wait().status == Status::kSuccess);
    // The test's time limit is the limit.
    for (bool left = true; left;) {
        const Device::ProgressSession session(one.device);
        left = !one.link->unflushed.empty();
    }
}

// Two devices of the process; a thread holds one of them while another one sends to it.
TEST(delivery__the_other_is_held__waits_in_the_inbox_for_its_holder) {
    Registry& registry = Registry::instance();
    const LocalAddress wheres[2] = {{"a", address(21), "lo", 65536}, {"b", address(22), "lo", 65536}};
    const Device::Report report = [](void*, AsyncEvent) noexcept { ++reported; };
    Device* devices[2] = {*registry.acquire(wheres[0], report), *registry.acquire(wheres[1], report)};
    CompletionQueue cqs[2] = {CompletionQueue(16), CompletionQueue(16)};
    QueuePair* qps[2];
    std::uint64_t words[2] = {5, 0};
    std::uint32_t keys[2];
    for (int i = 0; i < 2; ++i) {
        const Device::ProgressSession session(*devices[i]);
        qps[i] = *session.engine().create_queue_pair({.pd = 1, .send_cq = &cqs[i], .recv_cq = &cqs[i]});
        const auto at = reinterpret_cast<std::uintptr_t>(&words[i]);
        keys[i] = *session.engine().regions().add_region(1, at, at, 8, kLocalWrite | kRemoteWrite);
    }
    for (int i = 0; i < 2; ++i) {
        const Device::ProgressSession session(*devices[i]);
        QpAttributes attributes;
        attributes.access = kRemoteWrite;
        attributes.dest_qpn = qps[1 - i]->qpn();
        attributes.local = wheres[i].gid;
        attributes.remote = wheres[1 - i].gid;
        for (const QpState state : {QpState::kInit, QpState::kReadyToReceive, QpState::kReadyToSend}) {
            assert_true(qps[i]->modify(state, attributes).ok());
        }
    }
    const auto post = [&] {
        const Device::ProgressSession session(*devices[0]);
        const Sge sge{reinterpret_cast<std::uintptr_t>(&words[0]), 8, keys[0]};
        SendWr wr;
        wr.opcode = WrOpcode::kWrite;
        wr.flags = kSignaled;
        wr.remote_addr = reinterpret_cast<std::uintptr_t>(&words[1]);
        wr.rkey = keys[1];
        wr.sges = {&sge, 1};
        assert_true(qps[0]->post_send(wr) == Post::kPosted);
        session.engine().posted(*qps[0]);
    };
    {
        const Device::ProgressSession held(*devices[1]);
        std::thread(post).join(); // doesn't wait for us
        assert_int_equal(devices[0]->deliveries().posted, 1);
        assert_int_equal(words[1], 0);
        assert_int_equal(cqs[0].size(), 0);
        words[0] = 6; // too late: it was copied
    }
    assert_int_equal(words[1], 5);
    assert_int_equal(cqs[0].size(), 1); // and so is the answer there
    words[0] = 7;
    post();
    assert_int_equal(words[1], 7);
    assert_int_equal(devices[0]->deliveries().posted, 1);
    assert_int_equal(devices[0]->counters().loop.bytes_sent, 16);
    assert_int_equal(devices[1]->counters().loop.bytes_received, 16);
    assert_int_equal(devices[0]->counters().loop.packets_received, 2); // acknowledgements
    assert_int_equal(devices[0]->counters().transport.messages_sent, 2);
    assert_int_equal(devices[1]->counters().transport.messages_received, 2);
    assert_int_equal(devices[0]->counters().udp.packets_sent, 0);
    for (int i = 0; i < 2; ++i) {
        {
            const Device::ProgressSession session(*devices[i]);
            session.engine().destroy_queue_pair(*qps[i]);
        }
        registry.release(*devices[i]);
    }
}

bool exists(const std::string& path) {
    struct stat status {};
    return stat(path.c_str(), &status) == 0;
}

// Where nobody else looks for what the dead have left: every program that opens a device does.
class OwnBase {
  public:
    OwnBase() {
        const char* const before = getenv("XDG_RUNTIME_DIR"); // NOLINT(concurrency-mt-unsafe): no thread yet
        before_ = before == nullptr ? "" : before;
        assert_non_null(mkdtemp(path_.data()));
        setenv("XDG_RUNTIME_DIR", path_.c_str(), 1); // NOLINT(concurrency-mt-unsafe)
    }
    const std::string& path() const { return path_; }
    ~OwnBase() {
        // NOLINTNEXTLINE(concurrency-mt-unsafe)
        before_.empty() ? unsetenv("XDG_RUNTIME_DIR") : setenv("XDG_RUNTIME_DIR", before_.c_str(), 1);
        assert_int_equal(rmdir(path_.c_str()), 0); // nothing is left in it
    }
    OwnBase(const OwnBase&) = delete;
    OwnBase& operator=(const OwnBase&) = delete;

  private:
    std::string path_ = "/tmp/device-test-XXXXXX";
    std::string before_;
};

TEST(directory__of_a_killed_process__removed_by_the_next) {
    const OwnBase base;
    LocalAddress where{"test", address(30), "lo", 65536};
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    const pid_t child = fork();
    if (child == 0) {
        auto made = SysfsDirectory::make(where);
        const std::string path = made ? made->path() : "";
        (void)!write(pipe_fds[1], path.c_str(), path.size() + 1);
        _exit(0); // without removing anything
    }
    char path[256] = "";
    assert_true(read(pipe_fds[0], path, sizeof path) > 1);
    assert_int_equal(waitpid(child, nullptr, 0), child);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    assert_true(exists(path));
    auto living = SysfsDirectory::make(where);
    assert_true(living.ok());
    assert_false(exists(path));
    const auto another = SysfsDirectory::make(where);
    assert_true(exists(living->path() + "/ports/1/gids/0")); // what lives stays
    struct stat status {};
    assert_int_equal(stat(living->path().c_str(), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
}

void make_file(const std::string& path) {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

// What somebody else has put where directories of ours are looked for.
TEST(directory__link_to_files_of_the_user__left_alone) {
    const OwnBase base;
    const OwnBase files; // of the user's, called as ours are
    const std::string planted = base.path() + "/sluice-uroce-abcdef";
    make_file(files.path() + "/lock");
    make_file(files.path() + "/node_guid");
    assert_int_equal(symlink(files.path().c_str(), planted.c_str()), 0);
    setenv("XDG_RUNTIME_DIR", base.path().c_str(), 1); // NOLINT(concurrency-mt-unsafe): no thread yet
    assert_true(SysfsDirectory::make({"test", address(34), "lo", 65536}).ok());
    assert_int_equal(unlink((files.path() + "/lock").c_str()), 0);
    assert_int_equal(unlink((files.path() + "/node_guid").c_str()), 0);
    assert_int_equal(unlink(planted.c_str()), 0);
}

TEST(directory__that_others_can_write_to__left_alone) {
    const OwnBase base;
    const std::string planted = base.path() + "/sluice-uroce-abcdef";
    assert_int_equal(mkdir(planted.c_str(), 0700), 0);
    assert_int_equal(chmod(planted.c_str(), 0777), 0);
    make_file(planted + "/lock");
    assert_true(SysfsDirectory::make({"test", address(35), "lo", 65536}).ok());
    assert_int_equal(unlink((planted + "/lock").c_str()), 0);
    assert_int_equal(rmdir(planted.c_str()), 0);
}

TEST(directory__program_ends_without_closing__removed_and_no_other) {
    const OwnBase base;
    const auto ours = SysfsDirectory::make({"test", address(32), "lo", 65536});
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    const pid_t child = fork();
    if (child == 0) {
        static auto made = new auto(SysfsDirectory::make({"test", address(33), "lo", 65536}));
        const std::string path = *made ? (*made)->path() : "";
        (void)!write(pipe_fds[1], path.c_str(), path.size() + 1);
        exit(0); // NOLINT(concurrency-mt-unsafe): handlers run, destructors don't
    }
    char path[256] = "";
    assert_true(read(pipe_fds[0], path, sizeof path) > 1);
    assert_int_equal(waitpid(child, nullptr, 0), child);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    assert_false(exists(path));
    assert_true(exists(ours->path() + "/ports/1/gids/0")); // the parent's
}

TEST(directory__nowhere_to_write__says_so) {
    setenv("XDG_RUNTIME_DIR", "/proc/self", 1);
    setenv("TMPDIR", "relative", 1);
    const auto made = SysfsDirectory::make({"test", address(31), "lo", 65536});
    assert_true(made.ok()); // in /tmp, after all
    assert_true(made->path().starts_with("/tmp/"));
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("TMPDIR");
}

TEST(event_socket__filled_and_searched__keeps_what_isnt_wanted) {
    const int fd = *make_event_socket();
    int objects[2] = {};
    std::uint32_t sent = 0;
    for (;; ++sent) {
        const std::uint64_t record[2] = {reinterpret_cast<std::uintptr_t>(&objects[sent % 2]), sent};
        if (!send_event(fd, record, sizeof record)) {
            break;
        }
    }
    assert_true(sent >= 200 && sent <= 512);
    const std::uint32_t taken = take_back_events(fd, &objects[0]);
    assert_int_equal(taken, (sent + 1) / 2);
    for (std::uint64_t i = 1; i < sent; i += 2) {
        std::uint64_t record[2] = {};
        assert_int_equal(read(fd, record, sizeof record), sizeof record);
        assert_int_equal(record[1], i);
    }
    assert_int_equal(take_back_events(fd, &objects[0]), 0);
    close(fd);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.device");
}
