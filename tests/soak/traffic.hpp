// SPDX-License-Identifier: BSD-3-Clause
//
// The traffic of one side in one round: it asks the peer for things, takes what the peer sends, and compares
// both with the ledger.
#pragma once

#include <functional>

#include "tests/soak/connections.hpp"
#include "tests/soak/ledger.hpp"

namespace sluice::test::soak {

// What the peer must know of a side before they connect.
struct Card {
    union ibv_gid gid;
    std::uint64_t block;
    std::uint32_t rkey;
    std::uint32_t datagrams; // queue pair
    Ports ports;             // where it listens; 0 where it doesn't
};

// And when it has done its part.
struct Done {
    std::array<std::uint64_t, kMaxConnections> messages{};
    std::array<std::uint64_t, kMaxConnections> hashes{}; // of the targets that it has written to
    std::uint64_t datagrams = 0;
};

struct Totals {
    std::uint64_t operations = 0;
    std::uint64_t bytes = 0;
    std::uint64_t datagrams = 0; // that arrived
    std::uint64_t messages = 0;  // that arrived
};

class Traffic {
  public:
    // KEY is of this side and the round, PEER_KEY of the other side.
    Traffic(Endpoint& endpoint, std::uint64_t key, std::uint64_t peer_key);
    ~Traffic();
    Traffic(const Traffic&) = delete;
    Traffic& operator=(const Traffic&) = delete;

    void post_receives(unsigned connection);
    void set_peer(const Card& peer);

    // Called with the number of each operation before it is posted, and now and then with none.
    enum class Peer : std::uint8_t { kThere, kStopped, kDead };
    using Watch = std::function<Peer(const std::uint64_t* operation)>;
    enum class Result : std::uint8_t { kDone, kPeerIsDead };
    Result run(Connections& connections, const Talk& talk, const Watch& watch);

    // What is here with what the peer's ledger has. Behind kDone: nothing of the peer's is under way any
    // more.
    void compare() const;

    // What must follow when the connections have been ended by one of the sides: each receive that wasn't
    // used is flushed.
    void await_end(Connections& connections);
    // What must follow a death: within LIMIT all connections have ended, and each request and receive has.
    // Returns how long it took.
    std::chrono::microseconds await_death(Connections& connections, std::chrono::milliseconds limit);

    const Totals& totals() const { return totals_; }

  private:
    bool is_for_datagram(std::uint64_t operation) const;
    void post_next(unsigned connection);
    void post_on(unsigned connection, ibv_send_wr& request, ibv_sge& piece);
    void post_datagram();
    void post_datagram_receive(unsigned slot);
    void post_receive(unsigned connection, unsigned slot);
    bool post_all(Connections& connections, const Watch& watch);
    bool read_all_back(Connections& connections, const Watch& watch);
    Done done() const;
    bool all_messages_have_come(const Done& peer) const;
    bool requests_have_ended() const;
    bool receives_have_ended() const;
    std::string what_lives(const Connections& connections) const;
    void post_markers(const Connections& connections);
    // Until HOLDS; false if the peer is dead before. Fails when nothing comes for a minute.
    template<typename Holds>
    bool until(Holds holds, Connections& connections, const Talk* talk, const Watch& watch, const char* what);

    // Whether something came.
    bool poll();
    void wait_or_yield(const Talk* talk);
    bool look(Connections& connections, const Talk* talk);
    void on(const ibv_wc& completion);
    bool may_be_flushed(unsigned connection);
    void on_receive(const ibv_wc& completion);
    void on_datagram(const ibv_wc& completion);
    void on_datagram_receive(const ibv_wc& completion);

    Endpoint& endpoint_;
    const std::uint64_t key_;
    const std::uint64_t peer_key_;
    Random random_;
    Card peer_{};
    ibv_ah* to_peer_ = nullptr;
    std::vector<RequestLedger> requests_{};
    std::vector<ReceiveLedger> receives_{};
    std::vector<bool> slot_is_posted_;
    std::array<std::deque<unsigned>, kMaxConnections> posted_slots_{}; // without an SRQ: in order
    std::deque<std::uint64_t> datagrams_under_way_{};
    std::uint64_t datagrams_sent_ = 0;
    std::vector<bool> datagram_slot_is_posted_;
    std::vector<bool> datagram_has_come_{};
    Totals totals_{};
    Ends ends_ = Ends::kAllMustSucceed;
    Done peer_done_{};
    bool is_ending_ = false; // receives may be flushed
    std::array<bool, kMaxConnections> has_flushed_shared_{};
    std::array<bool, kMaxConnections> marker_is_posted_{};
};

} // namespace sluice::test::soak
