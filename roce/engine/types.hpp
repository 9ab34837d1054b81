// SPDX-License-Identifier: BSD-3-Clause
//
// The words of the engine: work requests, completions, attributes. Numbers that verbs also has
// (statuses, access flags) are the same as in verbs, so that the face above converts by a cast.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>

namespace sluice::roce::engine {

// The engine knows no clock: its caller says what time it is, in any monotonic nanoseconds.
using Nanoseconds = std::uint64_t;
inline constexpr Nanoseconds kNever = ~Nanoseconds{0};

// What time it is, for calls that seldom need it: a clock that is read when first asked, and then stands.
class Moment {
  public:
    using Clock = Nanoseconds (*)() noexcept;

    constexpr Moment(Nanoseconds at) noexcept : at_(at) {} // NOLINT(google-explicit-constructor): it is one
    explicit constexpr Moment(Clock clock) noexcept : clock_(clock) {}

    operator Nanoseconds() const noexcept { // NOLINT(google-explicit-constructor): it is one
        if (at_ == kNever) {
            at_ = clock_();
        }
        return at_;
    }

  private:
    Clock clock_ = nullptr;
    mutable Nanoseconds at_ = kNever;
};

inline constexpr std::uint32_t kMaxSge = 32;
// A quarter of the sequence space at the smallest MTU: what is in flight stays comparable.
inline constexpr std::uint32_t kMaxMessageBytes = std::uint32_t{1} << 30;

struct Address {
    std::array<std::uint8_t, 16> gid{};
    // As two numbers: addresses are compared for each packet.
    constexpr bool operator==(const Address& other) const noexcept {
        return std::bit_cast<std::array<std::uint64_t, 2>>(gid) ==
               std::bit_cast<std::array<std::uint64_t, 2>>(other.gid);
    }
};

// What an IPv4 address, in the last four bytes, is led by: ::ffff:a.b.c.d.
inline constexpr std::array<std::uint8_t, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

constexpr bool is_ipv4(const Address& address) noexcept {
    return std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), address.gid.begin());
}

// This machine's alone: 127.0.0.0/8.
constexpr bool is_loopback(const Address& address) noexcept {
    return is_ipv4(address) && address.gid[kMappedPrefix.size()] == 127;
}

// ibv_wc_status.
enum class Status : std::uint8_t {
    kSuccess = 0,
    kLocalLength = 1,
    kLocalQpOperation = 2,
    kLocalProtection = 4,
    kFlushed = 5,
    kMwBind = 6,
    kBadResponse = 7,
    kLocalAccess = 8,
    kRemoteInvalidRequest = 9,
    kRemoteAccess = 10,
    kRemoteOperation = 11,
    kRetryExceeded = 12,
    kRnrRetryExceeded = 13,
};
inline constexpr std::size_t kStatuses = 14;

// ibv_access_flags.
enum Access : std::uint32_t {
    kLocalWrite = 1,
    kRemoteWrite = 2,
    kRemoteRead = 4,
    kRemoteAtomic = 8,
    kMwBindAllowed = 16,
    kOnDemand = 64, // its pages may come later
    kFlushGlobal = 1 << 8,
    kFlushPersistent = 1 << 9,
};

enum class WrOpcode : std::uint8_t {
    kSend,
    kSendImm,
    kSendInv,
    kWrite,
    kWriteImm,
    kRead,
    kCompareSwap,
    kFetchAdd,
    kAtomicWrite,
    kFlush,
    kLocalInv,
    kBindMw,
};

constexpr bool is_atomic(WrOpcode opcode) noexcept {
    return opcode == WrOpcode::kCompareSwap || opcode == WrOpcode::kFetchAdd;
}

// Whether data come from the peer's memory.
constexpr bool is_fetching(WrOpcode opcode) noexcept {
    return opcode == WrOpcode::kRead || is_atomic(opcode);
}

enum class WcOpcode : std::uint8_t {
    kSend,
    kWrite,
    kRead,
    kCompareSwap,
    kFetchAdd,
    kAtomicWrite,
    kFlush,
    kLocalInv,
    kBindMw,
    kRecv,
    kRecvWriteImm,
};

enum WrFlags : std::uint8_t { kSignaled = 1, kSolicited = 2, kFence = 4, kInline = 8 };

// The layout of struct ibv_sge; a list of those may be passed as it is.
struct [[gnu::may_alias]] Sge {
    std::uint64_t addr = 0;
    std::uint32_t len_bytes = 0;
    std::uint32_t lkey = 0;
};

struct MwBind {
    std::uint32_t mw_rkey = 0;  // as it is now
    std::uint32_t new_rkey = 0; // same window, other low byte
    std::uint32_t mr_key = 0;
    std::uint64_t addr = 0;
    std::uint64_t len_bytes = 0; // 0 unbinds a window of type 1
    std::uint32_t access = 0;
    bool zero_based = false; // addresses count from the window's start
};

struct SendWr {
    std::uint64_t wr_id = 0;
    WrOpcode opcode = WrOpcode::kSend;
    std::uint8_t flags = 0;
    std::uint32_t imm_or_rkey = 0; // immediate data as a number, or the rkey to invalidate
    std::uint64_t remote_addr = 0;
    std::uint32_t rkey = 0;
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
    std::uint32_t flush_bytes = 0;
    std::uint8_t flush_placement = 0;
    std::uint8_t flush_selectivity = 0;
    MwBind bind;
    Address source;         // UD; all zeros: the queue pair's
    Address destination;    // UD
    std::uint32_t srqn = 0; // XRC: the peer's shared receive queue
    std::uint32_t dest_qpn = 0;
    std::uint32_t qkey = 0; // with its top bit set, the queue pair's own is meant
    std::span<const Sge> sges;
};

struct RecvWr {
    std::uint64_t wr_id = 0;
    std::span<const Sge> sges;
};

// A full queue is no error.
enum class Post : std::uint8_t { kPosted, kFull, kInvalid };

// kWithGrhOfIpv6 stands beside kWithGrh.
enum CompletionFlags : std::uint8_t {
    kWithImm = 1,
    kWithInv = 2,
    kWithGrh = 4,
    kSolicitedEvent = 8,
    kWithGrhOfIpv6 = 16,
};

struct Completion {
    std::uint64_t wr_id = 0;
    Status status = Status::kSuccess;
    WcOpcode opcode = WcOpcode::kSend;
    std::uint8_t flags = 0;
    std::uint32_t len_bytes = 0;
    std::uint32_t imm_or_rkey = 0;
    std::uint32_t qpn = 0;
    std::uint32_t src_qpn = 0; // UD, XRC
};

enum class QpState : std::uint8_t {
    kReset,
    kInit,
    kReadyToReceive,
    kReadyToSend,
    kSendDrained, // or about to be
    kSendError,
    kError
};

// XRC's two ends are of different types: one asks, the other one answers.
enum class QpType : std::uint8_t { kRc, kUc, kUd, kXrcSend, kXrcReceive };

constexpr bool is_xrc(QpType type) noexcept {
    return type == QpType::kXrcSend || type == QpType::kXrcReceive;
}
constexpr bool is_reliable(QpType type) noexcept {
    return type == QpType::kRc || is_xrc(type);
}
// Whether it sends requests whose answers it waits for.
constexpr bool awaits_answers(QpType type) noexcept {
    return type == QpType::kRc || type == QpType::kXrcSend;
}

enum class AsyncEvent : std::uint8_t {
    kCqError,        // more completions than the queue holds
    kQpFatal,        // this side failed
    kQpRequestError, // the peer sent what makes no sense
    kQpAccessError,  // the peer asked for what it may not
    kSrqLimit,
    kLastWqeReached,
    kSendQueueDrained,
};

// What is known of a peer that doesn't answer.
enum class Peer : std::uint8_t {
    kUnknown, // nothing: it may be starved, or lost
    kGone,    // it won't answer any more
    kLives,   // its process is there, and may be stopped
    kAnswers, // it has the connection, and is at work
};

// Whether a peer has its RoCE port, as far as a hint says that anybody may have forged.
enum class Port : std::uint8_t {
    kNotAsked, // this peer is known otherwise, or there is no way to ask
    kSilent,   // it is there, or its host is away
    kRefused,  // nobody has it
};

// The two ends of a connection.
struct Ends {
    Address local;
    std::uint32_t qpn = 0;
    Address remote;
    std::uint32_t peer_qpn = 0;
};

// What is outside of the engine. Called from within the engine: must not call back.
class EventSink {
  public:
    EventSink() = default;
    EventSink(const EventSink&) = delete;
    EventSink& operator=(const EventSink&) = delete;
    virtual void event(AsyncEvent event, std::uint32_t qpn) noexcept = 0;
    // For the first time since the queue pair got ready to receive.
    virtual void peer_heard(const Ends& /*ends*/) noexcept {}
    // The peer has been silent for as long as the program lets it.
    virtual Peer silent_peer(const Ends& /*ends*/) noexcept { return Peer::kUnknown; }
    // What came of a datagram that the last call sent to the peer's address; this call sends another one.
    virtual Port look_at_port(const Ends& /*ends*/) noexcept { return Port::kNotAsked; }

  protected:
    ~EventSink() = default;
};

// What a queue pair is told on its way to "ready to send" (IBTA vol 1, 10.3 and 11.2).
struct QpAttributes {
    std::uint32_t access = 0;
    std::uint32_t path_mtu = 1024;
    std::uint32_t dest_qpn = 0;
    std::uint32_t recv_psn = 0;
    std::uint32_t send_psn = 0;
    std::uint8_t max_rd_atomic = 0;
    std::uint8_t max_dest_rd_atomic = 0;
    std::uint8_t min_rnr_timer = 0;
    std::uint8_t timeout = 0;
    std::uint8_t retry_count = 0;
    std::uint8_t rnr_retry = 0;
    std::uint32_t qkey = 0;
    bool tell_drained = false; // by an event
    Address local;
    Address remote;
};

} // namespace sluice::roce::engine
