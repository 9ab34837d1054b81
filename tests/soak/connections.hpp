// SPDX-License-Identifier: BSD-3-Clause
//
// The connections of a round, made and ended by rdma_cm's protocol.
#pragma once

#include <functional>

#include "tests/soak/endpoint.hpp"
#include "tests/soak/talk.hpp"

namespace sluice::test::soak {

// Where a side listens.
struct Ports {
    std::uint16_t connections = 0;
    std::uint16_t datagrams = 0;
};

class Connections {
  public:
    // PREPARE posts receives on a queue pair that is in INIT. KEY is of the round, common to both sides.
    Connections(Endpoint& endpoint, std::uint64_t key, std::function<void(unsigned)> prepare)
        : endpoint_(endpoint), key_(key), prepare_(std::move(prepare)) {}
    ~Connections();
    Connections(const Connections&) = delete;
    Connections& operator=(const Connections&) = delete;

    Ports listen();
    // Returns when all are established. The other side calls accept_all().
    void connect_all(const std::string& peer, const Ports& ports);
    void accept_all();

    // Takes events that are there. A connection that ends fails the process, unless it may.
    void look() { (void)take_event(0); }
    void allow_end(int status) { end_status_ = status; }
    void disconnect_all();
    bool has_ended(unsigned connection) const { return has_ended_[connection]; }
    bool all_ended() const { return ended_ == endpoint_.step.connections; }
    // Queue pair number of the peer's datagram service, as rdma_cm tells the active side.
    std::uint32_t datagrams_of_peer() const { return datagrams_of_peer_; }

  private:
    static constexpr int kNoEnd = -1;

    sluice_cm_id* make_id(int port_space);
    sluice_cm_params params(ibv_qp* qp) const;
    bool take_event(int timeout_ms);
    void on(const sluice_cm_event& event);
    void on_request(const sluice_cm_event& event);
    void on_established(const sluice_cm_event& event);
    void on_rejected(const sluice_cm_event& event);
    void on_disconnected(const sluice_cm_event& event);
    void connect(unsigned index, const std::string& peer, std::uint16_t port);
    void be_refused(const std::string& peer, std::uint16_t port);
    void ask_for_datagrams(const std::string& peer, std::uint16_t port);
    void to_init(sluice_cm_id* id, ibv_qp* qp) const;
    unsigned index_of(const sluice_cm_id* id) const;
    void until(const bool& is_done, const char* what);

    Endpoint& endpoint_;
    std::uint64_t key_;
    std::function<void(unsigned)> prepare_;
    std::vector<sluice_cm_id*> ids_{}; // to be destroyed
    std::array<sluice_cm_id*, kMaxConnections> connected_{};
    std::array<bool, kMaxConnections> has_ended_{};
    sluice_cm_id* listener_ = nullptr;
    sluice_cm_id* datagram_listener_ = nullptr;
    sluice_cm_id* asks_for_datagrams_ = nullptr;
    sluice_cm_id* wants_refusal_ = nullptr;
    unsigned established_ = 0;
    unsigned ended_ = 0;
    bool all_established_ = false;
    bool was_refused_ = false;
    std::uint32_t datagrams_of_peer_ = 0;
    int end_status_ = kNoEnd;
};

} // namespace sluice::test::soak
