// SPDX-License-Identifier: BSD-3-Clause
#include "tests/soak/traffic.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace sluice::test::soak {

namespace {

constexpr auto kLongest = std::chrono::seconds(60); // nothing happens

unsigned qp_index(const Endpoint& endpoint, std::uint32_t qp_num) {
    for (unsigned i = 0; i < endpoint.step.connections; ++i) {
        if (endpoint.qps[i]->qp_num == qp_num) {
            return i;
        }
    }
    fail("a completion of queue pair 0x%x, which isn't ours", qp_num);
}

std::uint64_t datagram_content(std::uint64_t key, std::uint64_t number) {
    return mix(key, number, 0xda7a);
}

std::size_t datagram_bytes(std::uint64_t key, std::uint64_t number) {
    return sizeof number + datagram_content(key, number) % (kDatagramBytes - sizeof number + 1);
}

// What a datagram begins with: its number, and whose it is of which round.
std::uint64_t datagram_head(std::uint64_t key, std::uint64_t number) {
    return key << 32 | number;
}

} // namespace

Traffic::Traffic(Endpoint& endpoint, std::uint64_t key, std::uint64_t peer_key)
    : endpoint_(endpoint), key_(key), peer_key_(peer_key), random_(key),
      slot_is_posted_(std::size_t{kMaxConnections} * kReceives), datagram_slot_is_posted_(kDatagramReceives) {
    requests_.reserve(endpoint.step.connections);
    receives_.reserve(endpoint.step.connections);
    for (unsigned i = 0; i < endpoint.step.connections; ++i) {
        requests_.emplace_back(endpoint.block, key, i);
        receives_.emplace_back(endpoint.block, peer_key, i);
    }
    if (endpoint.srq != nullptr) {
        for (unsigned slot = 0; slot < endpoint.step.connections * kReceives; ++slot) {
            post_receive(0, slot);
        }
    }
    for (unsigned slot = 0; endpoint.datagrams != nullptr && slot < kDatagramReceives; ++slot) {
        post_datagram_receive(slot);
    }
}

Traffic::~Traffic() {
    if (to_peer_ != nullptr) {
        must_be_zero(ibv_destroy_ah(to_peer_), "ibv_destroy_ah");
    }
}

void Traffic::post_receives(unsigned connection) {
    for (unsigned i = 0; endpoint_.srq == nullptr && i < kReceives; ++i) {
        post_receive(connection, connection * kReceives + i);
    }
}

void Traffic::set_peer(const Card& peer) {
    peer_ = peer;
    if (endpoint_.datagrams != nullptr) {
        ibv_ah_attr attr{};
        attr.is_global = 1;
        attr.port_num = 1;
        attr.grh.dgid = peer.gid;
        attr.grh.hop_limit = 1;
        to_peer_ = must_be(ibv_create_ah(endpoint_.pd, &attr), "ibv_create_ah");
    }
}

void Traffic::post_receive(unsigned connection, unsigned slot) {
    if (slot_is_posted_[slot]) {
        fail("receive %u was given back twice", slot);
    }
    std::memset(endpoint_.block.at(room_at(slot)), kUntouched, kMaxBytes);
    ibv_sge piece{endpoint_.block.address(room_at(slot)), kMaxBytes, endpoint_.mr->lkey};
    ibv_recv_wr request{};
    ibv_recv_wr* bad = nullptr;
    request.wr_id = wr_id(Of::kReceive, connection, slot);
    request.sg_list = &piece;
    request.num_sge = 1;
    slot_is_posted_[slot] = true;
    if (endpoint_.srq != nullptr) {
        must_be_zero(ibv_post_srq_recv(endpoint_.srq, &request, &bad), "ibv_post_srq_recv");
    } else {
        posted_slots_[connection].push_back(slot);
        must_be_zero(ibv_post_recv(endpoint_.qps[connection], &request, &bad), "ibv_post_recv");
    }
}

void Traffic::post_datagram_receive(unsigned slot) {
    std::uint8_t* const room = endpoint_.block.at(kDatagramRoomsAt + slot * kDatagramRoom);
    std::memset(room, kUntouched, kDatagramRoom);
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(room), kGrhBytes + kDatagramBytes, endpoint_.mr->lkey};
    ibv_recv_wr request{};
    ibv_recv_wr* bad = nullptr;
    request.wr_id = wr_id(Of::kDatagramReceive, 0, slot);
    request.sg_list = &piece;
    request.num_sge = 1;
    datagram_slot_is_posted_[slot] = true;
    must_be_zero(ibv_post_recv(endpoint_.datagrams, &request, &bad), "ibv_post_recv of a datagram service");
}

void Traffic::post_on(unsigned connection, ibv_send_wr& request, ibv_sge& piece) {
    piece.lkey = endpoint_.mr->lkey;
    request.sg_list = &piece;
    if (request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        request.wr.atomic.remote_addr += peer_.block;
        request.wr.atomic.rkey = peer_.rkey;
    } else {
        request.wr.rdma.remote_addr += peer_.block;
        request.wr.rdma.rkey = peer_.rkey;
    }
    ibv_send_wr* bad = nullptr;
    must_be_zero(ibv_post_send(endpoint_.qps[connection], &request, &bad), "ibv_post_send");
}

void Traffic::post_datagram() {
    const std::uint64_t number = datagrams_sent_++;
    std::uint8_t* const place = endpoint_.block.at(kDatagramPlacesAt + number % kUnderWay * kDatagramRoom);
    const std::size_t bytes = datagram_bytes(key_, number);
    const std::uint64_t head = datagram_head(key_, number);
    std::memcpy(place, &head, sizeof head);
    fill(place + sizeof number, bytes - sizeof number, datagram_content(key_, number));
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(place), static_cast<std::uint32_t>(bytes),
                  endpoint_.mr->lkey};
    ibv_send_wr request{};
    request.wr_id = wr_id(Of::kDatagram, 0, number);
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.wr.ud.ah = to_peer_;
    request.wr.ud.remote_qpn = peer_.datagrams;
    request.wr.ud.remote_qkey = kQkey;
    datagrams_under_way_.push_back(number);
    ibv_send_wr* bad = nullptr;
    must_be_zero(ibv_post_send(endpoint_.datagrams, &request, &bad), "ibv_post_send of a datagram");
}

bool Traffic::poll() {
    ibv_wc completions[16];
    const int count = ibv_poll_cq(endpoint_.cq, 16, completions);
    if (count < 0) {
        fail("ibv_poll_cq: %d", count);
    }
    for (int i = 0; i < count; ++i) {
        on(completions[i]);
    }
    return count != 0;
}

void Traffic::on(const ibv_wc& completion) {
    const unsigned connection = connection_of(completion.wr_id);
    switch (kind_of(completion.wr_id)) {
    case Of::kRequest: {
        if (connection >= requests_.size()) {
            break;
        }
        const auto ended = requests_[connection].complete(completion, ends_);
        totals_.operations += ended.requests;
        totals_.bytes += ended.bytes;
        return;
    }
    case Of::kReceive:
        return on_receive(completion);
    case Of::kDatagram:
        return on_datagram(completion);
    case Of::kDatagramReceive:
        return on_datagram_receive(completion);
    }
    fail("a completion of work request 0x%llx, which nobody has posted",
         static_cast<unsigned long long>(completion.wr_id));
}

// Of a shared queue the one alone that held the beginning of a message when the peer died.
bool Traffic::may_be_flushed(unsigned connection) {
    if (endpoint_.srq == nullptr) {
        return is_ending_;
    }
    const bool had_one = std::exchange(has_flushed_shared_[connection], true);
    return ends_ == Ends::kPeerIsDead && !had_one;
}

void Traffic::on_receive(const ibv_wc& completion) {
    const auto slot = static_cast<unsigned>(number_of(completion.wr_id));
    if (slot >= slot_is_posted_.size() || !slot_is_posted_[slot]) {
        fail("receive %u completes, and isn't posted", slot);
    }
    slot_is_posted_[slot] = false;
    const unsigned connection = qp_index(endpoint_, completion.qp_num);
    if (endpoint_.srq == nullptr) {
        if (connection != connection_of(completion.wr_id) || posted_slots_[connection].front() != slot) {
            fail("receive %u completes on connection %u before others that were posted earlier", slot,
                 connection);
        }
        posted_slots_[connection].pop_front();
    }
    if (completion.status == IBV_WC_WR_FLUSH_ERR && may_be_flushed(connection)) {
        return;
    }
    if (completion.status != IBV_WC_SUCCESS) {
        fail("a receive of connection %u ends with %s", connection, ibv_wc_status_str(completion.status));
    }
    receives_[connection].arrived(completion, slot);
    ++totals_.messages;
    post_receive(connection, slot);
}

void Traffic::on_datagram(const ibv_wc& completion) {
    if (datagrams_under_way_.empty() || number_of(completion.wr_id) != datagrams_under_way_.front() ||
        completion.status != IBV_WC_SUCCESS) {
        fail("datagram %llu completes with %s, out of order or twice",
             static_cast<unsigned long long>(number_of(completion.wr_id)),
             ibv_wc_status_str(completion.status));
    }
    datagrams_under_way_.pop_front();
    ++totals_.operations;
}

// A datagram may be lost; one that comes is one that was sent, and comes once unless faults double it.
void Traffic::on_datagram_receive(const ibv_wc& completion) {
    if (completion.qp_num != endpoint_.datagrams->qp_num) {
        fail("a completion of queue pair %#x, which a former round destroyed", completion.qp_num);
    }
    const auto slot = static_cast<unsigned>(number_of(completion.wr_id));
    if (slot >= kDatagramReceives || !datagram_slot_is_posted_[slot] || completion.status != IBV_WC_SUCCESS) {
        fail("receive %u for a datagram ends with %s, or twice", slot, ibv_wc_status_str(completion.status));
    }
    const std::uint8_t* const bytes = endpoint_.block.at(kDatagramRoomsAt + slot * kDatagramRoom) + kGrhBytes;
    std::uint64_t head = 0;
    std::memcpy(&head, bytes, sizeof head);
    const std::uint64_t number = head & 0xffffffff;
    if (head != datagram_head(peer_key_, number) && endpoint_.step.way == Way::kFaults) {
        post_datagram_receive(slot); // delayed in a former round, to a queue pair of the same number
        return;
    }
    constexpr std::uint64_t kMost = 1 << 20;
    if (head != datagram_head(peer_key_, number) || number >= kMost || completion.src_qp != peer_.datagrams ||
        completion.byte_len != kGrhBytes + datagram_bytes(peer_key_, number)) {
        fail("a datagram of %u bytes from queue pair 0x%x that nobody has sent", completion.byte_len,
             completion.src_qp);
    }
    std::array<std::uint8_t, kDatagramBytes> expected{};
    fill(expected.data(), completion.byte_len - kGrhBytes - sizeof number,
         datagram_content(peer_key_, number));
    if (std::memcmp(bytes + sizeof number, expected.data(),
                    completion.byte_len - kGrhBytes - sizeof number) != 0) {
        fail("datagram %llu hasn't the bytes that were sent", static_cast<unsigned long long>(number));
    }
    datagram_has_come_.resize(std::max<std::size_t>(datagram_has_come_.size(), number + 1));
    if (datagram_has_come_[number] && endpoint_.step.way != Way::kFaults) {
        fail("datagram %llu comes twice", static_cast<unsigned long long>(number));
    }
    datagram_has_come_[number] = true;
    ++totals_.datagrams;
    post_datagram_receive(slot);
}

// Sleeps until something may have come, or lets another process run.
void Traffic::wait_or_yield(const Talk* talk) {
    if (endpoint_.channel == nullptr) {
        sched_yield();
        return;
    }
    must_be_zero(ibv_req_notify_cq(endpoint_.cq, 0), "ibv_req_notify_cq");
    if (poll()) {
        return;
    }
    constexpr int kLookMs = 10;
    pollfd waiting[] = {{.fd = endpoint_.channel->fd, .events = POLLIN, .revents = 0},
                        {.fd = sluice_cm_channel_fd(endpoint_.cm), .events = POLLIN, .revents = 0},
                        {.fd = talk != nullptr ? talk->fd() : -1, .events = POLLIN, .revents = 0}};
    (void)::poll(waiting, std::size(waiting), kLookMs);
    if ((waiting[0].revents & POLLIN) != 0) {
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        must_be_zero(ibv_get_cq_event(endpoint_.channel, &cq, &context), "ibv_get_cq_event");
        ibv_ack_cq_events(cq, 1);
    }
}

// Whether something came.
bool Traffic::look(Connections& connections, const Talk* talk) {
    if (poll()) {
        return true;
    }
    connections.look();
    wait_or_yield(talk);
    return false;
}

template<typename Holds>
bool Traffic::until(Holds holds, Connections& connections, const Talk* talk, const Watch& watch,
                    const char* what) {
    Patience patience(kLongest, what);
    while (!holds()) {
        if (watch(nullptr) == Peer::kDead) {
            return false;
        }
        if (look(connections, talk)) {
            patience = Patience(kLongest, what);
        }
        patience.look();
    }
    return true;
}

// Each tenth operation, where there are datagrams.
bool Traffic::is_for_datagram(std::uint64_t operation) const {
    return endpoint_.datagrams != nullptr && operation % 10 == 9;
}

void Traffic::post_next(unsigned connection) {
    ibv_sge piece{};
    ibv_send_wr request = requests_[connection].next(random_, piece);
    post_on(connection, request, piece);
}

bool Traffic::post_all(Connections& connections, const Watch& watch) {
    for (std::uint64_t operation = 0; operation < endpoint_.step.operations; ++operation) {
        if (watch(&operation) == Peer::kDead) {
            return false;
        }
        const bool is_datagram = is_for_datagram(operation);
        const unsigned connection = random_.below(endpoint_.step.connections);
        const auto has_room = [&] {
            return is_datagram ? datagrams_under_way_.size() < kUnderWay : requests_[connection].has_room();
        };
        if (!until(has_room, connections, nullptr, watch, "no request completes")) {
            return false;
        }
        is_datagram ? post_datagram() : post_next(connection);
        if (operation % kUnderWay == 0) {
            (void)poll(); // what comes from the peer isn't to wait for a full queue
        }
    }
    return true;
}

bool Traffic::read_all_back(Connections& connections, const Watch& watch) {
    for (unsigned i = 0; i < requests_.size(); ++i) {
        for (std::size_t at = 0; at < kTargetBytes; at += kMaxBytes) {
            if (!until([&] { return requests_[i].has_room(); }, connections, nullptr, watch,
                       "no Read completes")) {
                return false;
            }
            ibv_sge piece{};
            ibv_send_wr request = requests_[i].read_back(at, kMaxBytes, piece);
            post_on(i, request, piece);
        }
    }
    return until([&] { return requests_have_ended(); }, connections, nullptr, watch,
                 "the last requests don't complete");
}

bool Traffic::requests_have_ended() const {
    return datagrams_under_way_.empty() &&
           std::ranges::all_of(requests_, [](const RequestLedger& of_one) { return of_one.is_empty(); });
}

bool Traffic::receives_have_ended() const {
    return std::ranges::all_of(posted_slots_, [](const auto& slots) { return slots.empty(); });
}

Done Traffic::done() const {
    Done made;
    for (unsigned i = 0; i < requests_.size(); ++i) {
        made.messages[i] = requests_[i].messages();
        made.hashes[i] = requests_[i].hash_of_target();
    }
    made.datagrams = datagrams_sent_;
    return made;
}

bool Traffic::all_messages_have_come(const Done& peer) const {
    for (unsigned i = 0; i < receives_.size(); ++i) {
        if (receives_[i].messages() < peer.messages[i]) {
            return false;
        }
    }
    return true;
}

void Traffic::compare() const {
    const Done& peer = peer_done_;
    for (unsigned i = 0; i < receives_.size(); ++i) {
        if (receives_[i].messages() != peer.messages[i]) {
            fail("connection %u: %llu messages have come, and %llu were sent", i,
                 static_cast<unsigned long long>(receives_[i].messages()),
                 static_cast<unsigned long long>(peer.messages[i]));
        }
        if (hash(endpoint_.block.at(target_at(i)), kTargetBytes) != peer.hashes[i]) {
            fail("connection %u: the target isn't what the peer's ledger has", i);
        }
    }
    if (datagram_has_come_.size() > peer.datagrams) {
        fail("datagram %zu has come, and %llu were sent", datagram_has_come_.size() - 1,
             static_cast<unsigned long long>(peer.datagrams));
    }
}

Traffic::Result Traffic::run(Connections& connections, const Talk& talk, const Watch& watch) {
    if (!post_all(connections, watch) || !read_all_back(connections, watch)) {
        return Result::kPeerIsDead;
    }
    talk.tell(done());
    const auto is_said = [&] { return talk.has_something(0); };
    if (!until(is_said, connections, &talk, watch, "the other side doesn't end its part")) {
        return Result::kPeerIsDead;
    }
    const auto peer = talk.hear<Done>();
    // Injected faults may keep a receive's completion back when the peer has its own already.
    (void)until([&] { return all_messages_have_come(peer); }, connections, nullptr, watch,
                "messages that were acknowledged don't come");
    // A peer that has done its part before it was stopped goes on before this side does.
    (void)until([&] { return watch(nullptr) == Peer::kThere; }, connections, nullptr, watch,
                "the peer was stopped and doesn't go on");
    peer_done_ = peer;
    is_ending_ = true;
    return Result::kDone;
}

void Traffic::await_end(Connections& connections) {
    const Watch nobody = [](const std::uint64_t*) { return Peer::kThere; };
    (void)until([&] { return connections.all_ended() && receives_have_ended(); }, connections, nullptr,
                nobody, "the connections don't end, or their receives");
    while (poll()) { // nothing but datagrams: of all else the ledgers await nothing more
    }
}

// A request that wasn't signaled has no completion of its own, if it was executed before the death.
void Traffic::post_markers(const Connections& connections) {
    for (unsigned i = 0; i < requests_.size(); ++i) {
        if (connections.has_ended(i) && !marker_is_posted_[i]) {
            marker_is_posted_[i] = true;
            ibv_sge nothing{};
            ibv_send_wr request = requests_[i].marker();
            post_on(i, request, nothing);
        }
    }
}

std::string Traffic::what_lives(const Connections& connections) const {
    std::string text;
    for (unsigned i = 0; i < requests_.size(); ++i) {
        if (!connections.has_ended(i) || !requests_[i].is_empty() || !posted_slots_[i].empty()) {
            text += ", connection " + std::to_string(i) + (connections.has_ended(i) ? " has" : " hasn't") +
                    " ended, with " + std::to_string(requests_[i].under_way()) + " requests and " +
                    std::to_string(posted_slots_[i].size()) + " receives";
        }
    }
    return text;
}

// What is late is waited for, for a while, so that the failure can tell how late it was.
std::chrono::microseconds Traffic::await_death(Connections& connections, std::chrono::milliseconds limit) {
    constexpr auto kMuchLonger = std::chrono::seconds(20);
    ends_ = Ends::kPeerIsDead;
    is_ending_ = true;
    Patience patience(kMuchLonger, "the peer was killed, and nothing tells of it");
    std::string late;
    while (!connections.all_ended() || !requests_have_ended() || !receives_have_ended()) {
        (void)look(connections, nullptr);
        post_markers(connections);
        patience.look();
        if (late.empty() && patience.counted() > limit) {
            late = what_lives(connections);
        }
    }
    const std::chrono::microseconds took = patience.counted();
    if (took > limit) {
        fail("the peer was killed, and it took %lld ms until everything had ended; after %lld ms%s",
             static_cast<long long>(took.count() / 1000), static_cast<long long>(limit.count()),
             late.c_str());
    }
    return took;
}

} // namespace sluice::test::soak
