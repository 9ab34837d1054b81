// SPDX-License-Identifier: BSD-3-Clause
//
// A hostile peer against a reliable, an unreliable and a datagram queue pair, and against both of XRC: the
// input is a list of what it and the program do. Packets are what the input says, except that some get a
// queue pair number, a sequence number, a shared receive queue's number, a key or an address that exists:
// otherwise nearly all would die at the first check.
//
// Whatever comes: no byte outside of the registered range changes or is sent, completions stay in
// bounds, each request completes at most once, and every loop ends.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "roce/engine/engine.hpp"
#include "tests/fuzz/input.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using sluice::fuzz::Input;
using sluice::fuzz::must;

namespace {

constexpr std::size_t kGuardBytes = 1024, kOpenBytes = 4096;
constexpr std::uint8_t kGuard = 0xa5;
constexpr std::uint32_t kPd = 1;

class Events final : public EventSink {
  public:
    void event(AsyncEvent, std::uint32_t) noexcept override {}
};

Address address(std::uint8_t last) {
    Address made;
    made.gid[15] = last;
    return made;
}

// Nothing outside of what is open is read. What is written elsewhere is found by its guards.
class OpenMemory final : public Memory {
  public:
    void open(const std::uint8_t* bytes) noexcept { open_ = reinterpret_cast<std::uintptr_t>(bytes); }

    bool copy_in(std::uint64_t to, const void* from, std::size_t len) noexcept override {
        return plain_.copy_in(to, from, len);
    }
    bool copy_out(void* to, std::uint64_t from, std::size_t len) noexcept override {
        return readable(from, len) && plain_.copy_out(to, from, len);
    }
    bool readable(std::uint64_t addr, std::size_t len) noexcept override {
        must(len == 0 || (addr >= open_ && addr + len <= open_ + kOpenBytes));
        return true;
    }
    bool fetch_add(std::uint64_t addr, std::uint64_t add, std::uint64_t& original) noexcept override {
        return plain_.fetch_add(addr, add, original);
    }
    bool compare_swap(std::uint64_t addr, std::uint64_t compare, std::uint64_t swap,
                      std::uint64_t& original) noexcept override {
        return plain_.compare_swap(addr, compare, swap, original);
    }
    bool store(std::uint64_t addr, std::uint64_t value) noexcept override {
        return plain_.store(addr, value);
    }
    bool flush(std::uint64_t addr, std::size_t len, std::uint8_t placement) noexcept override {
        return plain_.flush(addr, len, placement);
    }

  private:
    PlainMemory plain_;
    std::uintptr_t open_ = 0;
};

class Device {
  public:
    Device()
        : engine_({.max_queue_pairs = 8, .max_regions = 8, .secret = sluice::RandomKey::repeatable(5)},
                  memory_, events_),
          cq_(4096) {
        block_.fill(kGuard);
        std::fill_n(open(), kOpenBytes, std::uint8_t{0});
        memory_.open(open());
        const auto addr = reinterpret_cast<std::uintptr_t>(open());
        key_ = *engine_.regions().add_region(kPd, addr, addr, kOpenBytes,
                                             kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic |
                                                 kFlushGlobal);
        connected_ = make(QpType::kRc);
        unreliable_ = make(QpType::kUc);
        datagram_ = make(QpType::kUd);
        srqn_ = *engine_.next_srq_number();
        domain_.add({.number = srqn_, .pd = kPd, .receives = &shared_, .cq = &cq_});
        xrc_sender_ = make(QpType::kXrcSend);
        xrc_receiver_ = make(QpType::kXrcReceive);
    }

    void play(Input& input) {
        while (!input.empty()) {
            switch (input.byte() % 5) {
            case 0:
            case 1:
                packet(input);
                break;
            case 2:
                request(input);
                break;
            case 3:
                drain();
                break;
            default:
                now_ += Nanoseconds{input.word()} * 100;
                engine_.advance(now_);
            }
        }
        drain();
        Completion completion;
        std::uint32_t completions = 0;
        while (cq_.poll(completion)) {
            ++completions;
        }
        must(completions <= posted_);
        must(std::all_of(block_.begin(), block_.begin() + kGuardBytes,
                         [](std::uint8_t b) { return b == kGuard; }));
        must(std::all_of(block_.end() - kGuardBytes, block_.end(),
                         [](std::uint8_t b) { return b == kGuard; }));
    }

  private:
    std::uint8_t* open() { return block_.data() + kGuardBytes; }
    std::uint64_t open_addr(std::uint32_t offset) {
        return reinterpret_cast<std::uintptr_t>(open()) + offset;
    }

    QueuePair* make(QpType type) {
        QueuePair* qp =
            *engine_.create_queue_pair({.type = type,
                                        .pd = kPd,
                                        .send_cq = &cq_,
                                        .recv_cq = &cq_,
                                        .xrc_domain = type == QpType::kXrcReceive ? &domain_ : nullptr,
                                        .max_send_wr = 8,
                                        .max_recv_wr = 8,
                                        .max_send_sge = 2,
                                        .max_recv_sge = 2,
                                        .max_inline = 16});
        const QpAttributes attributes = {.access = kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal,
                                         .path_mtu = 256,
                                         .dest_qpn = 0x99,
                                         .max_rd_atomic = 2,
                                         .max_dest_rd_atomic = 2,
                                         .timeout = 4,
                                         .retry_count = 3,
                                         .rnr_retry = 7,
                                         .qkey = 7,
                                         .local = address(1),
                                         .remote = address(2)};
        must(qp->modify(QpState::kInit, attributes).ok() &&
             qp->modify(QpState::kReadyToReceive, attributes).ok() &&
             qp->modify(QpState::kReadyToSend, attributes).ok());
        return qp;
    }

    // Who takes packets of this kind; the others are one check from the end.
    const QueuePair* taker_of(const wire::Packet& packet) const noexcept {
        switch (packet.info().transport) {
        case wire::Transport::kUd:
            return datagram_;
        case wire::Transport::kUc:
            return unreliable_;
        case wire::Transport::kXrc:
            return packet.info().is_response() ? xrc_sender_ : xrc_receiver_;
        default:
            return connected_;
        }
    }

    void packet(Input& input) {
        const std::uint8_t help = input.byte();
        const std::uint32_t offset = input.word() % (kOpenBytes + 64);
        std::array<std::uint8_t, 400> bytes{};
        const wire::ConstBytes given = input.take(input.byte() % 80);
        std::ranges::copy(given, bytes.begin());
        const std::size_t len = (help & 1) != 0 ? 276 + given.size() % 28 : given.size();
        wire::Packet packet;
        if (wire::parse({bytes.data(), len}, packet) != wire::Refusal::kNone) {
            return;
        }
        if ((help & 2) == 0) {
            packet.bth.dest_qpn = taker_of(packet)->qpn();
            packet.bth.pkey = 0xffff;
        }
        if ((help & 8) == 0) {
            const auto delta = static_cast<std::uint32_t>(packet.bth.psn % 8);
            const bool over_xrc = packet.info().transport == wire::Transport::kXrc;
            const std::uint32_t near = packet.info().transport == wire::Transport::kUc ? unreliable_psn_
                                       : packet.info().is_response() ? (over_xrc ? xrc_sent_psn_ : sent_psn_)
                                       : over_xrc                    ? xrc_answered_psn_
                                                                     : answered_psn_;
            packet.bth.psn = wire::psn_add(near, delta);
            unreliable_psn_ = packet.info().transport == wire::Transport::kUc
                                  ? wire::psn_add(packet.bth.psn, 1)
                                  : unreliable_psn_;
        }
        if ((help & 16) == 0) {
            packet.reth.rkey = packet.atomic.rkey = key_;
            packet.reth.remote_addr = packet.atomic.remote_addr = open_addr(offset);
        }
        if ((help & 32) == 0) {
            packet.reth.len_bytes %= 1200;
            packet.deth.qkey = 7;
        }
        if ((help & 64) == 0) {
            packet.xrc.srqn = srqn_;
        }
        const wire::Grh grh{};
        engine_.receive({packet, address(2), address(1), grh}, now_);
    }

    void request(Input& input) {
        const std::uint8_t kind = input.byte();
        const std::uint32_t place = input.word();
        const bool over_xrc = place >> 14 == 1;
        const Sge sge = {open_addr(place % kOpenBytes), input.word() % 1000, key_};
        if (kind % 16 >= 12 && over_xrc) {
            posted_ += shared_.post({kind, {&sge, 1}}) == Post::kPosted ? 1 : 0;
            return;
        }
        if (kind % 16 >= 12) {
            QueuePair& qp = kind % 32 >= 28 ? *datagram_ : kind % 64 >= 44 ? *unreliable_ : *connected_;
            posted_ += qp.post_receive({kind, {&sge, 1}}) == Post::kPosted ? 1 : 0;
            return;
        }
        const Sge eight = {sge.addr, 8, key_};
        SendWr wr;
        wr.opcode = static_cast<WrOpcode>(kind % 12);
        wr.flags = kind >> 4 & (kSignaled | kFence);
        wr.remote_addr = 4096;
        wr.bind = {key_, key_ ^ 1, key_, sge.addr, sge.len_bytes, kRemoteRead};
        const bool of_eight = wr.opcode == WrOpcode::kCompareSwap || wr.opcode == WrOpcode::kFetchAdd ||
                              wr.opcode == WrOpcode::kAtomicWrite;
        const bool of_none = wr.opcode >= WrOpcode::kFlush;
        wr.sges = {of_eight ? &eight : &sge, of_none ? 0UL : 1UL};
        wr.srqn = srqn_;
        QueuePair& qp = over_xrc ? *xrc_sender_ : (kind & 0x80) != 0 ? *unreliable_ : *connected_;
        posted_ += qp.post_send(wr) == Post::kPosted ? 1 : 0;
        engine_.posted(qp);
    }

    void drain() {
        int packets = 0;
        do {
            give_out(packets);
        } while (engine_.settle());
    }

    void give_out(int& packets) {
        OutPacket out;
        for (; engine_.transmit(out, now_); ++packets) {
            must(packets < 4096);
            wire::Packet packet;
            std::array<std::uint8_t, wire::kMaxHeaderBytes + 4200> bytes{};
            std::size_t at = out.header_bytes;
            std::copy_n(out.header.begin(), at, bytes.begin());
            for (std::uint32_t i = 0; i < out.piece_count; ++i) {
                const auto* from = static_cast<const std::uint8_t*>(out.pieces[i].iov_base);
                const std::size_t len = out.pieces[i].iov_len;
                const bool is_copy = from == out.copied.data() && len <= out.copied.size();
                must(len <= 3 || is_copy || (from >= open() && from + len <= open() + kOpenBytes));
                std::memcpy(bytes.data() + at, from, len);
                at += len;
            }
            must(wire::parse({bytes.data(), at}, packet) == wire::Refusal::kNone);
            must(packet.payload.size() <= 256);
            if (packet.info().transport == wire::Transport::kXrc) {
                (packet.info().is_response() ? xrc_answered_psn_ : xrc_sent_psn_) =
                    wire::psn_add(packet.bth.psn, packet.info().is_response() ? 1 : 0);
            } else if (packet.info().is_response()) {
                answered_psn_ = wire::psn_add(packet.bth.psn, 1);
            } else {
                sent_psn_ = packet.bth.psn;
            }
        }
    }

    OpenMemory memory_;
    Events events_;
    XrcDomain domain_;
    ReceiveQueue shared_{8, 2};
    Engine engine_;
    CompletionQueue cq_;
    alignas(8) std::array<std::uint8_t, kOpenBytes + 2 * kGuardBytes> block_{};
    std::uint32_t key_ = 0;
    QueuePair* connected_ = nullptr;
    QueuePair* unreliable_ = nullptr;
    QueuePair* datagram_ = nullptr;
    Nanoseconds now_ = 0;
    std::uint32_t answered_psn_ = 0;
    std::uint32_t sent_psn_ = 0;
    std::uint32_t unreliable_psn_ = 0;
    QueuePair* xrc_sender_ = nullptr;
    QueuePair* xrc_receiver_ = nullptr;
    std::uint32_t srqn_ = 0;
    std::uint32_t xrc_answered_psn_ = 0;
    std::uint32_t xrc_sent_psn_ = 0;
    std::uint32_t posted_ = 0;
};

} // namespace

// The name is libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input({data, size});
    const auto device = std::make_unique<Device>();
    device->play(input);
    return 0;
}
