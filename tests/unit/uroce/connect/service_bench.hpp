// SPDX-License-Identifier: BSD-3-Clause
//
// Two services behind <sluice/sluice.h>, joined by a link that delivers at once, in the caller's thread, on a
// clock that the test turns. Queue pairs are of paper: what the service did with them is what is looked at.
#pragma once

#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <vector>

#include "provider/uroce/connect/service.hpp"
#include "provider/uroce/connect/socket_address.hpp"
#include "tests/unit/roce/ipv4.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace sluice::uroce::connect::test {

using namespace roce::cm;
using namespace roce::engine;

using roce::test::ipv4;

inline sockaddr_storage at(std::uint8_t last_byte, std::uint16_t port) {
    return to_sockaddr(last_byte == 0 ? Address{} : ipv4(last_byte), port);
}
inline const sockaddr& plain(const sockaddr_storage& address) {
    return reinterpret_cast<const sockaddr&>(address);
}
inline sockaddr_storage wildcard(std::uint16_t port) {
    sockaddr_storage made{};
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&made, &in, sizeof in);
    return made;
}

struct PaperQp : ibv_qp {
    explicit PaperQp(std::uint32_t number) : ibv_qp{} {
        qp_num = number;
        state = IBV_QPS_RESET;
    }
    std::vector<ibv_qp_attr> steps;
    ibv_qp_state refuses = IBV_QPS_UNKNOWN;
};

inline int modify_paper(ibv_qp& qp, const ibv_qp_attr& attr) {
    auto& paper = static_cast<PaperQp&>(qp);
    if (paper.refuses == attr.qp_state) {
        return ENOMEM;
    }
    paper.steps.push_back(attr);
    paper.state = attr.qp_state;
    return 0;
}

// Delivers at once.
class DirectPort final : public ManagementPort {
  public:
    Nanoseconds now() noexcept override { return *clock; }
    void send(const OutMad& mad) noexcept override {
        if (!(lose && lose(mad))) {
            peer->receive(mad.source, mad.destination, mad.bytes);
        }
    }
    void wake_at(Nanoseconds when) noexcept override { wake = std::min(wake.load(), when); }
    int modify_qp(ibv_qp& qp, ibv_qp_attr& attr, int) noexcept override { return modify_paper(qp, attr); }
    bool gone() const noexcept override { return false; }
    bool is_anybody_at(const Address&) noexcept override { return is_peer_there; }
    bool is_seat_empty(const Address&, std::uint32_t) noexcept override { return !is_seat_taken; }
    void peer_is_gone(const Ends& ends) noexcept override { bereaved.push_back(ends); }

    std::vector<Ends> bereaved;
    bool is_peer_there = true;
    bool is_seat_taken = false;
    Nanoseconds* clock = nullptr;
    Service* peer = nullptr;
    std::atomic<Nanoseconds> wake = kNever;
    std::function<bool(const OutMad&)> lose;
};

inline constexpr std::uint16_t kPort = 7174;

inline Result<sluice_cm_event*> event_of(Service& service, Channel& channel, int timeout_ms) {
    sluice_cm_event* event = nullptr;
    if (const int error = service.get_event(channel, timeout_ms, event); error != 0) {
        return Error::from_errno(error, "waiting for an event");
    }
    return event;
}

struct Bench {
    Bench()
        : left({.guid = 1, .secret = RandomKey::repeatable(1)}, ipv4(1), left_port),
          right({.guid = 2, .secret = RandomKey::repeatable(2)}, ipv4(2), right_port) {
        left_port.clock = right_port.clock = &clock;
        left_port.peer = &right;
        right_port.peer = &left;
        left_channel = *left.create_channel();
        right_channel = *right.create_channel();
        listener = *right.create_id(*right_channel, SLUICE_CM_TCP, &listener_context);
        assert_true(right.listen(*listener, plain(at(2, kPort)), 0).ok());
    }
    ~Bench() {
        for (Id* id : {active, passive, listener}) {
            if (id != nullptr) {
                id->service.destroy_id(*id);
            }
        }
        (void)left.destroy_channel(*left_channel).ok();
        (void)right.destroy_channel(*right_channel).ok();
    }

    static sluice_cm_params params(ibv_qp* qp) {
        sluice_cm_params made = default_params();
        made.qp = qp;
        made.private_data = "hello";
        made.private_data_len = 5;
        return made;
    }
    sluice::Result<void> connect(const sluice_cm_params& with, std::uint16_t port = kPort) {
        active = *left.create_id(*left_channel, SLUICE_CM_TCP, &active_context);
        return left.connect(*active, plain(at(2, port)), with);
    }
    // What type the next event is, or 0; takes it.
    std::uint32_t next(Service& service, Channel& channel) {
        auto event = event_of(service, channel, 0);
        if (!event) {
            assert_int_equal(event.error().os_errno(), EAGAIN);
            return 0;
        }
        last = **event;
        data.assign(static_cast<const std::uint8_t*>(last.private_data),
                    static_cast<const std::uint8_t*>(last.private_data) + last.private_data_len);
        Service::acknowledge(**event);
        return last.type;
    }
    std::uint32_t next_left() { return next(left, *left_channel); }
    std::uint32_t next_right() {
        const std::uint32_t type = next(right, *right_channel);
        if (type == SLUICE_CM_CONNECT_REQUEST) {
            passive = reinterpret_cast<Id*>(last.id);
        }
        return type;
    }
    void establish() {
        assert_true(connect(params(&left_qp)).ok());
        assert_int_equal(next_right(), SLUICE_CM_CONNECT_REQUEST);
        assert_true(right.accept(*passive, params(&right_qp)).ok());
        assert_int_equal(next_left(), SLUICE_CM_ESTABLISHED);
        assert_int_equal(next_right(), SLUICE_CM_ESTABLISHED);
    }
    // Until nothing is due any more.
    void pass_time() {
        while (std::min(left_port.wake.load(), right_port.wake.load()) != kNever) {
            clock = std::max(clock, std::min(left_port.wake.load(), right_port.wake.load()));
            left_port.wake = right_port.wake = kNever;
            left.advance();
            right.advance();
        }
    }

    Nanoseconds clock = 1000;
    DirectPort left_port, right_port;
    Service left, right;
    Channel* left_channel;
    Channel* right_channel;
    Id* listener;
    Id* active = nullptr;
    Id* passive = nullptr;
    PaperQp left_qp{0x100}, right_qp{0x200};
    int active_context = 0, listener_context = 0;
    sluice_cm_event last{};
    std::vector<std::uint8_t> data;
};

inline bool readable(const Channel& channel) {
    pollfd waiting = {.fd = channel.fd, .events = POLLIN, .revents = 0};
    return poll(&waiting, 1, 0) == 1;
}

} // namespace sluice::uroce::connect::test
