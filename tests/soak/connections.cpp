// SPDX-License-Identifier: BSD-3-Clause
#include "tests/soak/connections.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

namespace sluice::test::soak {

namespace {

constexpr std::size_t kRequestBytes = 56; // of private data
constexpr std::size_t kAnswerBytes = 196;
constexpr std::uint8_t kRefuseMe = 0xff; // in the place of a connection's number
constexpr const char* kRefusal = "not this one";

sockaddr_in address_of(const std::string& text, std::uint16_t port) {
    sockaddr_in made{};
    made.sin_family = AF_INET;
    made.sin_port = htons(port);
    if (inet_pton(AF_INET, text.c_str(), &made.sin_addr) != 1) {
        fail("'%s' is no address", text.c_str());
    }
    return made;
}

const sockaddr* plain(const sockaddr_in& address) {
    return reinterpret_cast<const sockaddr*>(&address);
}

template<std::size_t kBytes>
std::array<std::uint8_t, kBytes> private_data(std::uint64_t key, std::uint8_t index) {
    std::array<std::uint8_t, kBytes> made{};
    fill(made.data(), kBytes, mix(key, index, kBytes));
    made[0] = index;
    return made;
}

template<std::size_t kBytes>
void check_private_data(const sluice_cm_event& event, std::uint64_t key, std::uint8_t index) {
    const auto expected = private_data<kBytes>(key, index);
    if (event.private_data_len != kBytes || std::memcmp(event.private_data, expected.data(), kBytes) != 0) {
        fail("event %u of connection %u: %u bytes of private data that nobody sent", event.type, index,
             event.private_data_len);
    }
}

} // namespace

Connections::~Connections() {
    for (sluice_cm_id* id : ids_) {
        must_be_zero(sluice_cm_destroy_id(id), "sluice_cm_destroy_id");
    }
}

sluice_cm_id* Connections::make_id(int port_space) {
    sluice_cm_id* id = nullptr;
    must_be_zero(sluice_cm_create_id(endpoint_.cm, port_space, nullptr, &id), "sluice_cm_create_id");
    ids_.push_back(id);
    return id;
}

// A message that is lost costs half a second, and a busy machine may need many.
sluice_cm_params Connections::params(ibv_qp* qp) const {
    sluice_cm_params made;
    sluice_cm_default_params(&made, sizeof made);
    made.qp = qp;
    made.min_rnr_timer = 1;
    made.qp_timeout = endpoint_.step.way == Way::kFaults ? 10 : 14; // 4 ms, 67 ms
    made.response_timeout = 17;
    made.packet_lifetime = 14;
    return made;
}

Ports Connections::listen() {
    const sockaddr_in here = address_of(endpoint_.address, 0);
    Ports ports;
    listener_ = make_id(SLUICE_CM_TCP);
    must_be_zero(sluice_cm_listen(listener_, plain(here), 0), "sluice_cm_listen");
    ports.connections = sluice_cm_local_port(listener_);
    if (endpoint_.step.with_datagrams) {
        datagram_listener_ = make_id(SLUICE_CM_UDP);
        must_be_zero(sluice_cm_listen(datagram_listener_, plain(here), 0), "sluice_cm_listen for datagrams");
        ports.datagrams = sluice_cm_local_port(datagram_listener_);
    }
    return ports;
}

void Connections::until(const bool& is_done, const char* what) {
    // A peer that was told to be patient (MRA) repeats its answer after 69 s, if what followed was lost.
    constexpr auto kLongest = std::chrono::seconds(150);
    Patience patience(kLongest, what);
    while (!is_done) {
        (void)take_event(10);
        patience.look();
    }
}

void Connections::to_init(sluice_cm_id* id, ibv_qp* qp) const {
    ibv_qp_attr attr{};
    int mask = 0;
    attr.qp_state = IBV_QPS_INIT;
    must_be_zero(sluice_cm_qp_attr(id, &attr, &mask), "sluice_cm_qp_attr for INIT");
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    must_be_zero(ibv_modify_qp(qp, &attr, mask | IBV_QP_ACCESS_FLAGS), "INIT");
}

void Connections::be_refused(const std::string& peer, std::uint16_t port) {
    ibv_qp* const qp = endpoint_.make_queue_pair();
    wants_refusal_ = make_id(SLUICE_CM_TCP);
    const auto data = private_data<kRequestBytes>(key_, kRefuseMe);
    sluice_cm_params with = params(qp);
    with.private_data = data.data();
    with.private_data_len = kRequestBytes;
    const sockaddr_in to = address_of(peer, port);
    must_be_zero(sluice_cm_connect(wants_refusal_, plain(to), &with, sizeof with), "sluice_cm_connect");
    was_refused_ = false;
    until(was_refused_, "a refusal");
    std::erase(ids_, wants_refusal_);
    must_be_zero(sluice_cm_destroy_id(wants_refusal_), "sluice_cm_destroy_id");
    must_be_zero(ibv_destroy_qp(qp), "ibv_destroy_qp after a refusal");
}

void Connections::connect(unsigned index, const std::string& peer, std::uint16_t port) {
    sluice_cm_id* const id = make_id(SLUICE_CM_TCP);
    connected_[index] = id;
    to_init(id, endpoint_.qps[index]);
    prepare_(index);
    const auto data = private_data<kRequestBytes>(key_, static_cast<std::uint8_t>(index));
    sluice_cm_params with = params(endpoint_.qps[index]);
    with.private_data = data.data();
    with.private_data_len = kRequestBytes;
    const sockaddr_in to = address_of(peer, port);
    must_be_zero(sluice_cm_connect(id, plain(to), &with, sizeof with), "sluice_cm_connect");
}

void Connections::ask_for_datagrams(const std::string& peer, std::uint16_t port) {
    asks_for_datagrams_ = make_id(SLUICE_CM_UDP);
    sluice_cm_params with = params(nullptr);
    with.qp_num = endpoint_.datagrams->qp_num;
    const sockaddr_in to = address_of(peer, port);
    must_be_zero(sluice_cm_connect(asks_for_datagrams_, plain(to), &with, sizeof with),
                 "sluice_cm_connect for datagrams");
}

void Connections::connect_all(const std::string& peer, const Ports& ports) {
    for (unsigned i = 0; i < endpoint_.step.refused; ++i) {
        be_refused(peer, ports.connections);
    }
    if (endpoint_.step.with_datagrams) {
        ask_for_datagrams(peer, ports.datagrams);
    }
    for (unsigned i = 0; i < endpoint_.step.connections; ++i) {
        connect(i, peer, ports.connections);
    }
    until(all_established_, "connections are established");
}

void Connections::accept_all() {
    until(all_established_, "connections are established");
}

unsigned Connections::index_of(const sluice_cm_id* id) const {
    const auto found = std::ranges::find(connected_, id);
    if (found == connected_.end()) {
        fail("an event for a connection that isn't ours");
    }
    return static_cast<unsigned>(found - connected_.begin());
}

bool Connections::take_event(int timeout_ms) {
    sluice_cm_event* event = nullptr;
    const int error = sluice_cm_get_event(endpoint_.cm, timeout_ms, &event);
    if (error == EAGAIN || error == EINTR) {
        return false;
    }
    must_be_zero(error, "sluice_cm_get_event");
    const sluice_cm_event copy = *event;
    on(copy);
    sluice_cm_ack_event(event);
    return true;
}

void Connections::on(const sluice_cm_event& event) {
    switch (event.type) {
    case SLUICE_CM_CONNECT_REQUEST:
        on_request(event);
        break;
    case SLUICE_CM_ESTABLISHED:
        on_established(event);
        break;
    case SLUICE_CM_REJECTED:
        on_rejected(event);
        break;
    case SLUICE_CM_DISCONNECTED:
        on_disconnected(event);
        break;
    case SLUICE_CM_TIMEWAIT_EXIT:
        break;
    default:
        fail("event %u with status %d while connecting", event.type, event.status);
    }
    const bool has_datagrams = !endpoint_.step.with_datagrams || datagrams_of_peer_ != 0;
    all_established_ = established_ == endpoint_.step.connections && has_datagrams;
}

void Connections::on_request(const sluice_cm_event& event) {
    sluice_cm_id* const id = event.id;
    ids_.push_back(id);
    if (event.listen_id == datagram_listener_) {
        sluice_cm_params with = params(nullptr);
        with.qp_num = endpoint_.datagrams->qp_num;
        with.qkey = kQkey;
        must_be_zero(sluice_cm_accept(id, &with, sizeof with), "sluice_cm_accept for datagrams");
        datagrams_of_peer_ = 1; // the number itself comes with the card
        return;
    }
    if (event.private_data == nullptr) {
        fail("a request without private data");
    }
    const std::uint8_t index = *static_cast<const std::uint8_t*>(event.private_data);
    check_private_data<kRequestBytes>(event, key_, index);
    if (index == kRefuseMe) {
        must_be_zero(sluice_cm_reject(id, 0, kRefusal, std::strlen(kRefusal)), "sluice_cm_reject");
        return;
    }
    if (index >= endpoint_.step.connections || connected_[index] != nullptr) {
        fail("a second request for connection %u", index);
    }
    connected_[index] = id;
    to_init(id, endpoint_.qps[index]);
    prepare_(index);
    const auto data = private_data<kAnswerBytes>(key_, index);
    sluice_cm_params with = params(endpoint_.qps[index]);
    with.private_data = data.data();
    with.private_data_len = kAnswerBytes;
    must_be_zero(sluice_cm_accept(id, &with, sizeof with), "sluice_cm_accept");
}

void Connections::on_established(const sluice_cm_event& event) {
    if (event.id == asks_for_datagrams_) {
        if (event.qkey != kQkey) {
            fail("a datagram service with the key 0x%x", event.qkey);
        }
        datagrams_of_peer_ = event.qp_num;
        return;
    }
    const unsigned index = index_of(event.id);
    if (listener_ == nullptr) {
        check_private_data<kAnswerBytes>(event, key_, static_cast<std::uint8_t>(index));
    }
    ++established_;
}

void Connections::on_rejected(const sluice_cm_event& event) {
    if (event.id != wants_refusal_ || event.status != SLUICE_CM_STATUS_CONSUMER ||
        event.private_data == nullptr ||
        std::memcmp(event.private_data, kRefusal, std::strlen(kRefusal)) != 0) {
        fail("a connection is rejected with status %d", event.status);
    }
    was_refused_ = true;
}

void Connections::on_disconnected(const sluice_cm_event& event) {
    const unsigned index = index_of(event.id);
    if (end_status_ == kNoEnd) {
        fail("connection %u ends with status %d, and nobody has ended it", index, event.status);
    }
    if (event.status != end_status_) {
        fail("connection %u ends with status %d, not %d", index, event.status, end_status_);
    }
    if (has_ended_[index]) {
        fail("connection %u ends twice", index);
    }
    has_ended_[index] = true;
    ++ended_;
}

void Connections::disconnect_all() {
    for (unsigned i = 0; i < endpoint_.step.connections; ++i) {
        must_be_zero(sluice_cm_disconnect(connected_[i]), "sluice_cm_disconnect");
    }
}

} // namespace sluice::test::soak
