// SPDX-License-Identifier: BSD-3-Clause
//
// Processes of one address, each with a connection to each other one.
#pragma once

#include <memory>

#include "tests/bench/peer.hpp"
#include "tests/bench/uroce_end.hpp"

namespace sluice::bench {

inline constexpr std::size_t kCrowd = 16;
using Cards = std::array<Card, kCrowd>;

enum class Kind : std::uint8_t { kWrites, kSends };

// What the process that started the others asks for.
struct Order {
    enum class What : std::uint8_t { kOpen, kMeasure, kConnect, kExchange, kStop } what = What::kStop;
    Kind kind = Kind::kWrites;
    double start = 0; // of an exchange, in seconds of the steady clock
    double end = 0;
    Cards cards{}; // whom to connect to
};

// The process itself.
class CrowdMember {
  public:
    CrowdMember(int fd, std::size_t index, std::string address)
        : fd_(fd), index_(index), address_(std::move(address)) {}
    // Until it is told to stop.
    void serve();

  private:
    void open();
    void connect(const Cards& cards);
    void exchange(const Order& order);
    std::uint64_t exchange_until(const Order& order);
    void post(std::size_t to, Kind kind);
    std::uint64_t take(std::size_t from);
    double memory_bytes() const;
    bool has_order() const;

    int fd_;
    std::size_t index_;
    std::string address_;
    std::unique_ptr<Buffer> memory_{};
    std::unique_ptr<Context> context_{};
    std::array<std::unique_ptr<End>, kCrowd> ends_{}; // one for each other process
    std::array<unsigned, kCrowd> outstanding_{};
};

// All of them, as the process sees them that has started them, and which opens no device itself.
class Crowd {
  public:
    explicit Crowd(const std::string& address);

    // Opens the devices from FIRST to the one before END.
    void open(std::size_t first, std::size_t end);
    void connect();
    // Requests of each process in SECONDS.
    std::vector<double> exchange(Kind kind, double seconds);
    // What the first process has of memory that is its own.
    double memory_bytes_of_first();

  private:
    template<typename Answer>
    Answer ask(std::size_t index, const Order& order);

    std::array<Cards, kCrowd> cards_{}; // of each, those for each other one
    std::vector<std::unique_ptr<Peer>> members_{};
};

} // namespace sluice::bench
