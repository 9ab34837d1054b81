// SPDX-License-Identifier: BSD-3-Clause
//
// The service behind <sluice/sluice.h>: two of them, joined by a link that delivers at once, in the
// caller's thread, on a clock that the test turns. Queue pairs are of paper: what the service did with
// them is what is looked at. At the end, threads: many connections at once over a link with a thread at
// each end.
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "provider/uroce/cm/service.hpp"
#include "provider/uroce/cm/socket_address.hpp"

#include "tests/cmocka.hpp"

using namespace sluice::uroce;
using namespace sluice::uroce::cm;

namespace {

Address ipv4(std::uint8_t last_byte) {
    Address made;
    made.gid[10] = made.gid[11] = 0xff;
    made.gid[12] = 10;
    made.gid[15] = last_byte;
    return made;
}

sockaddr_storage at(std::uint8_t last_byte, std::uint16_t port) {
    return to_sockaddr(last_byte == 0 ? Address{} : ipv4(last_byte), port);
}
const sockaddr& plain(const sockaddr_storage& address) {
    return reinterpret_cast<const sockaddr&>(address);
}
sockaddr_storage wildcard(std::uint16_t port) {
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

int modify_paper(ibv_qp& qp, const ibv_qp_attr& attr) {
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

    Nanoseconds* clock = nullptr;
    Service* peer = nullptr;
    std::atomic<Nanoseconds> wake = kNever;
    std::function<bool(const OutMad&)> lose;
};

constexpr std::uint16_t kPort = 7174;

struct Bench {
    Bench()
        : left({.guid = 1, .seed = 1}, ipv4(1), left_port),
          right({.guid = 2, .seed = 2}, ipv4(2), right_port) {
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
        auto event = service.get_event(channel, 0);
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

bool readable(const Channel& channel) {
    pollfd waiting = {.fd = channel.fd, .events = POLLIN, .revents = 0};
    return poll(&waiting, 1, 0) == 1;
}

void connect__accepted_with_queue_pairs__both_led_to_rts(void**) {
    Bench bench;
    assert_false(readable(*bench.right_channel));
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.left_qp.state, IBV_QPS_INIT);
    assert_true(readable(*bench.right_channel));
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_false(readable(*bench.right_channel));
    assert_ptr_equal(bench.last.listen_id, bench.listener);
    assert_ptr_equal(bench.last.id_context, &bench.listener_context);
    assert_int_equal(bench.last.private_data_len, 56);
    assert_memory_equal(bench.data.data(), "hello", 6);
    assert_int_equal(bench.last.qp_num, 0x100);
    assert_int_equal(bench.last.responder_resources, 16); // 255 is as many as the device has
    const auto& peer = reinterpret_cast<const sockaddr_in&>(bench.last.peer);
    assert_int_equal(ntohl(peer.sin_addr.s_addr), 0x0a000001);
    assert_int_equal(ntohs(peer.sin_port), bench.left.local_port(*bench.active));
    assert_true(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
    assert_int_equal(bench.right_qp.state, IBV_QPS_RTS);
    assert_int_equal(bench.left_qp.state, IBV_QPS_INIT); // until its program asks for the event
    assert_int_equal(bench.next_left(), SLUICE_CM_ESTABLISHED);
    assert_ptr_equal(bench.last.id_context, &bench.active_context);
    assert_int_equal(bench.last.private_data_len, 196);
    assert_int_equal(bench.left_qp.state, IBV_QPS_RTS);
    assert_int_equal(bench.next_right(), SLUICE_CM_ESTABLISHED);
    const ibv_qp_attr& left_rtr = bench.left_qp.steps[1];
    const ibv_qp_attr& right_rtr = bench.right_qp.steps[1];
    assert_int_equal(left_rtr.dest_qp_num, 0x200);
    assert_int_equal(right_rtr.dest_qp_num, 0x100);
    assert_memory_equal(left_rtr.ah_attr.grh.dgid.raw, ipv4(2).gid.data(), 16);
    assert_int_equal(left_rtr.rq_psn, bench.right_qp.steps[2].sq_psn);
    assert_int_equal(right_rtr.rq_psn, bench.left_qp.steps[2].sq_psn);
    assert_int_equal(left_rtr.path_mtu, IBV_MTU_4096);
    assert_int_equal(bench.left_qp.steps[2].timeout, 19);
    assert_int_equal(bench.next_left() + bench.next_right(), 0);
}

void disconnect__connected__both_in_error_and_time_wait_ends(void**) {
    Bench bench;
    bench.establish();
    assert_true(bench.left.disconnect(*bench.active).ok());
    assert_int_equal(bench.left_qp.state, IBV_QPS_ERR);
    assert_int_equal(bench.next_right(), SLUICE_CM_DISCONNECTED);
    assert_int_equal(bench.right_qp.state, IBV_QPS_ERR);
    assert_int_equal(bench.next_left(), SLUICE_CM_DISCONNECTED);
    assert_int_equal(bench.last.status, 0);
    Id* again = *bench.left.create_id(*bench.left_channel, SLUICE_CM_TCP, nullptr);
    assert_int_equal(
        bench.left.connect(*again, plain(at(2, kPort)), Bench::params(&bench.left_qp)).error().to_errno(),
        EBUSY);
    bench.pass_time();
    assert_int_equal(bench.next_left(), SLUICE_CM_TIMEWAIT_EXIT);
    assert_int_equal(bench.next_right(), SLUICE_CM_TIMEWAIT_EXIT);
    assert_true(bench.left.connect(*again, plain(at(2, kPort)), Bench::params(&bench.left_qp)).ok());
    bench.left.destroy_id(*again);
}

void connect__caller_leads__response_attributes_establish(void**) {
    Bench bench;
    sluice_cm_params with = Bench::params(nullptr);
    with.qp_num = 0x100;
    with.qp_timeout = 14;
    assert_true(bench.connect(with).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    with.qp_num = 0x200;
    assert_true(bench.right.accept(*bench.passive, with).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_CONNECT_RESPONSE);
    assert_int_equal(bench.last.qp_num, 0x200);
    ibv_qp_attr attr{};
    int mask = 0;
    attr.qp_state = IBV_QPS_INIT;
    assert_true(bench.left.qp_attributes(*bench.active, attr, mask).ok());
    assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    assert_true(bench.left.qp_attributes(*bench.active, attr, mask).ok());
    assert_int_equal(attr.dest_qp_num, 0x200);
    attr.qp_state = IBV_QPS_RTS;
    assert_true(bench.left.qp_attributes(*bench.active, attr, mask).ok());
    assert_int_equal(attr.timeout, 14);
    assert_true((mask & IBV_QP_SQ_PSN) != 0);
    attr.qp_state = IBV_QPS_SQD;
    assert_int_equal(bench.left.qp_attributes(*bench.active, attr, mask).error().to_errno(), EINVAL);
    assert_int_equal(bench.next_right(), 0);
    assert_true(bench.left.establish(*bench.active).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_ESTABLISHED);
    assert_int_equal(bench.left.establish(*bench.active).error().to_errno(), EINVAL);
}

void reject__with_data__reason_and_data(void**) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    const std::array<std::uint8_t, 3> why = {'n', 'a', 'y'};
    assert_true(bench.right.reject(*bench.passive, reason::kConsumer, why).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.last.status, SLUICE_CM_STATUS_CONSUMER);
    assert_int_equal(bench.last.private_data_len, 148);
    assert_memory_equal(bench.data.data(), why.data(), why.size());
    assert_int_equal(bench.left_qp.state, IBV_QPS_INIT); // good for another try
}

void connect__nobody_listens__refused(void**) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp), kPort + 1).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.last.status, SLUICE_CM_STATUS_REFUSED);
}

void connect__no_answer_in_time__unreachable(void**) {
    Bench bench;
    bench.left_port.lose = [](const OutMad&) { return true; };
    sluice_cm_params with = Bench::params(&bench.left_qp);
    with.timeout_ms = 300;
    const Nanoseconds began = bench.clock;
    assert_true(bench.connect(with).ok());
    bench.pass_time();
    assert_int_equal(bench.next_left(), SLUICE_CM_UNREACHABLE);
    assert_int_equal(bench.last.status, ETIMEDOUT);
    assert_int_equal(bench.clock - began, 300'000'000);
}

void connect__queue_pair_refuses__error_here_and_rejected_there(void**) {
    Bench bench;
    bench.left_qp.refuses = IBV_QPS_RTR;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_true(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_CONNECT_ERROR);
    assert_int_equal(bench.last.status, ENOMEM);
    assert_int_equal(bench.next_right(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.right_qp.state, IBV_QPS_ERR);
}

void accept__queue_pair_refuses__errno_and_still_unanswered(void**) {
    Bench bench;
    bench.right_qp.refuses = IBV_QPS_RTR;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_int_equal(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).error().to_errno(),
                     ENOMEM);
    bench.right_qp.refuses = IBV_QPS_UNKNOWN;
    assert_true(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_ESTABLISHED);
}

void accept__too_much_data__nothing_done(void**) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    const std::array<char, 197> much{};
    sluice_cm_params with = Bench::params(&bench.right_qp);
    with.private_data = much.data();
    with.private_data_len = much.size();
    assert_int_equal(bench.right.accept(*bench.passive, with).error().to_errno(), EINVAL);
    assert_int_equal(bench.right_qp.steps.size(), 0);
}

void accept__fewer_reads_than_offered__led_with_fewer(void**) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    sluice_cm_params with = Bench::params(&bench.right_qp);
    with.responder_resources = 3;
    with.initiator_depth = 2;
    assert_true(bench.right.accept(*bench.passive, with).ok());
    assert_int_equal(bench.right_qp.steps[1].max_dest_rd_atomic, 3);
    assert_int_equal(bench.right_qp.steps[2].max_rd_atomic, 2);
    assert_int_equal(bench.next_left(), SLUICE_CM_ESTABLISHED);
    assert_int_equal(bench.left_qp.steps[1].max_dest_rd_atomic, 2);
    assert_int_equal(bench.left_qp.steps[2].max_rd_atomic, 3);
}

void disconnect__before_the_answer__one_event(void**) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_true(bench.left.disconnect(*bench.active).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_DISCONNECTED);
    assert_int_equal(bench.next_left(), 0);
    assert_int_equal(bench.left_qp.state, IBV_QPS_ERR);
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_int_equal(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).error().to_errno(),
                     EINVAL);
    assert_int_equal(bench.right_qp.steps.size(), 0);
    assert_int_equal(bench.next_right(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.last.status, SLUICE_CM_STATUS_TIMEOUT);
}

// The answer is there, but the program disconnects before it has asked for it.
void disconnect__answer_not_taken__answer_dropped(void**) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_true(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
    assert_true(bench.left.disconnect(*bench.active).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_DISCONNECTED);
    assert_int_equal(bench.next_left(), 0);
    assert_int_equal(bench.next_right(), SLUICE_CM_REJECTED);
}

void destroy__connected__peer_is_told(void**) {
    Bench bench;
    bench.establish();
    bench.left.destroy_id(*bench.active);
    bench.active = nullptr;
    assert_int_equal(bench.next_right(), SLUICE_CM_DISCONNECTED);
    bench.pass_time();
    assert_int_equal(bench.next_left(), 0);
}

void destroy__listener_with_requests_not_taken__refused(void**) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    bench.right.destroy_id(*bench.listener);
    bench.listener = nullptr;
    assert_int_equal(bench.next_left(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.last.status, SLUICE_CM_STATUS_REFUSED);
    assert_int_equal(bench.next_right(), 0);
    assert_false(readable(*bench.right_channel));
    assert_true(bench.right.destroy_channel(*bench.right_channel).ok());
    bench.right_channel = *bench.right.create_channel();
}

void destroy__event_not_acknowledged__waits_for_it(void**) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_true(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
    sluice_cm_event* event = *bench.left.get_event(*bench.left_channel, 0);
    assert_int_equal(bench.next_right(), SLUICE_CM_ESTABLISHED);
    std::atomic<bool> destroyed{false};
    std::thread destroyer([&] {
        bench.left.destroy_id(*bench.active);
        destroyed = true;
    });
    // The peer hears of the end before the destroyer waits.
    sluice_cm_event* end = *bench.right.get_event(*bench.right_channel, -1);
    assert_int_equal(end->type, SLUICE_CM_DISCONNECTED);
    Service::acknowledge(*end);
    for (int turns = 0; turns < 2000; ++turns) {
        std::this_thread::yield();
        assert_false(destroyed);
    }
    Service::acknowledge(*event);
    destroyer.join();
    bench.active = nullptr;
}

// The program hears of the end while the answer to it is in another thread's hands; who then ends its process
// shall have sent it.
void destroy__answer_on_its_way__waits_until_it_is_sent(void**) {
    Bench bench;
    bench.establish();
    std::atomic<bool> sending{false};
    std::atomic<bool> released{false};
    bench.right_port.lose = [&](const OutMad&) {
        sending = true;
        while (!released) {
            std::this_thread::yield();
        }
        return false;
    };
    std::thread network([&] { assert_true(bench.left.disconnect(*bench.active).ok()); });
    while (!sending) {
        std::this_thread::yield();
    }
    assert_int_equal(bench.next_right(), SLUICE_CM_DISCONNECTED);
    std::atomic<bool> destroyed{false};
    std::thread destroyer([&] {
        bench.right.destroy_id(*bench.passive);
        destroyed = true;
    });
    for (int turns = 0; turns < 2000; ++turns) {
        std::this_thread::yield();
        assert_false(destroyed);
    }
    released = true;
    network.join();
    destroyer.join();
    bench.passive = nullptr;
}

// The other thread may take ours from the manager, too; who ends the process after the call shall have sent
// it.
void reject__another_thread_sends__returns_when_all_has_left(void**) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    std::atomic<bool> sending{false};
    std::atomic<bool> released{false};
    bench.right_port.lose = [&](const OutMad&) {
        sending = true;
        while (!released) {
            std::this_thread::yield();
        }
        return false;
    };
    Id* const other = *bench.left.create_id(*bench.left_channel, SLUICE_CM_TCP, nullptr);
    PaperQp other_qp{0x300};
    std::thread network([&] { // is refused: nobody listens there
        assert_true(bench.left.connect(*other, plain(at(2, kPort + 1)), Bench::params(&other_qp)).ok());
    });
    while (!sending) {
        std::this_thread::yield();
    }
    std::atomic<bool> rejected{false};
    std::thread rejecter([&] {
        assert_true(bench.right.reject(*bench.passive, reason::kConsumer, {}).ok());
        rejected = true;
    });
    for (int turns = 0; turns < 2000; ++turns) {
        std::this_thread::yield();
        assert_false(rejected);
    }
    released = true;
    rejecter.join();
    network.join();
    assert_int_equal(bench.next_left(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.next_left(), SLUICE_CM_REJECTED);
    bench.left.destroy_id(*other);
}

void get_event__nothing_there__waits_as_long_as_told(void**) {
    Bench bench;
    const auto before = std::chrono::steady_clock::now();
    assert_int_equal(bench.left.get_event(*bench.left_channel, 20).error().os_errno(), EAGAIN);
    assert_true(std::chrono::steady_clock::now() - before >= std::chrono::milliseconds(20));
    std::thread connector([&] { assert_true(bench.connect(Bench::params(&bench.left_qp), kPort + 1).ok()); });
    sluice_cm_event* event = *bench.left.get_event(*bench.left_channel, -1);
    connector.join();
    assert_int_equal(event->type, SLUICE_CM_REJECTED);
    Service::acknowledge(*event);
}

void migrate__event_waits__comes_along(void**) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp), kPort + 1).ok());
    Channel* other = *bench.left.create_channel();
    assert_int_equal(bench.left.migrate(*bench.active, *bench.right_channel).error().to_errno(), EINVAL);
    assert_true(bench.left.migrate(*bench.active, *other).ok());
    assert_false(readable(*bench.left_channel));
    assert_int_equal(bench.next_left(), 0);
    assert_int_equal(bench.next(bench.left, *other), SLUICE_CM_REJECTED);
    assert_int_equal(bench.left.destroy_channel(*other).error().to_errno(), EBUSY);
    assert_true(bench.left.migrate(*bench.active, *bench.left_channel).ok());
    assert_true(bench.left.destroy_channel(*other).ok());
}

void migrate__listener_with_requests__they_come_along(void**) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    Channel* other = *bench.right.create_channel();
    assert_true(bench.right.migrate(*bench.listener, *other).ok());
    assert_int_equal(bench.next_right(), 0);
    assert_int_equal(bench.next(bench.right, *other), SLUICE_CM_CONNECT_REQUEST);
    bench.right.destroy_id(*reinterpret_cast<Id*>(bench.last.id));
    assert_true(bench.right.migrate(*bench.listener, *bench.right_channel).ok());
    assert_true(bench.right.destroy_channel(*other).ok());
}

void rtu__lost_and_notified__established(void**) {
    Bench bench;
    assert_true(bench.connect(Bench::params(&bench.left_qp)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_true(bench.right.accept(*bench.passive, Bench::params(&bench.right_qp)).ok());
    bench.left_port.lose = [](const OutMad&) { return true; };
    assert_int_equal(bench.next_left(), SLUICE_CM_ESTABLISHED);
    assert_int_equal(bench.next_right(), 0);
    assert_true(bench.right.notify(*bench.passive).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_ESTABLISHED);
    assert_true(bench.right.notify(*bench.passive).ok());
    assert_int_equal(bench.next_right(), 0);
    bench.left_port.lose = nullptr;
}

void datagram_service__asked__queue_pair_and_key(void**) {
    Bench bench;
    Id* service = *bench.right.create_id(*bench.right_channel, SLUICE_CM_UDP, nullptr);
    assert_true(bench.right.listen(*service, plain(wildcard(0)), 5).ok());
    const std::uint16_t port = bench.right.local_port(*service);
    assert_in_range(port, 32768, 60999);
    bench.active = *bench.left.create_id(*bench.left_channel, SLUICE_CM_UDP, nullptr);
    assert_true(bench.left.connect(*bench.active, plain(at(2, port)), Bench::params(nullptr)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_int_equal(bench.last.private_data_len, 180);
    sluice_cm_params with = Bench::params(nullptr);
    with.qp_num = 0x300;
    with.qkey = 0x1234567;
    assert_true(bench.right.accept(*bench.passive, with).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_ESTABLISHED);
    assert_int_equal(bench.last.qp_num, 0x300);
    assert_int_equal(bench.last.qkey, 0x1234567);
    bench.right.destroy_id(*service);
}

void datagram_service__refused__status_as_for_connections(void**) {
    Bench bench;
    Id* service = *bench.right.create_id(*bench.right_channel, SLUICE_CM_UDP, nullptr);
    assert_true(bench.right.listen(*service, plain(at(2, kPort)), 5).ok());
    bench.active = *bench.left.create_id(*bench.left_channel, SLUICE_CM_UDP, nullptr);
    assert_true(bench.left.connect(*bench.active, plain(at(2, kPort)), Bench::params(nullptr)).ok());
    assert_int_equal(bench.next_right(), SLUICE_CM_CONNECT_REQUEST);
    assert_true(bench.right.reject(*bench.passive, reason::kConsumer, {}).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.last.status, SLUICE_CM_STATUS_CONSUMER);
    bench.left.destroy_id(*bench.active);
    bench.right.destroy_id(*service);
    bench.active = *bench.left.create_id(*bench.left_channel, SLUICE_CM_UDP, nullptr);
    assert_true(bench.left.connect(*bench.active, plain(at(2, kPort)), Bench::params(nullptr)).ok());
    assert_int_equal(bench.next_left(), SLUICE_CM_REJECTED);
    assert_int_equal(bench.last.status, SLUICE_CM_STATUS_REFUSED);
}

void calls__that_make_no_sense__errno(void**) {
    Bench bench;
    assert_int_equal(bench.left.create_id(*bench.left_channel, 3, nullptr).error().to_errno(), EINVAL);
    Id* id = *bench.right.create_id(*bench.right_channel, SLUICE_CM_TCP, nullptr);
    const auto listen = [&](const sockaddr_storage& address) {
        const auto result = bench.right.listen(*id, plain(address), 0);
        return result ? 0 : result.error().to_errno();
    };
    assert_int_equal(listen(at(2, kPort)), EADDRINUSE);
    assert_int_equal(listen(at(9, kPort + 1)), EADDRNOTAVAIL);
    sockaddr_storage unix_socket{};
    unix_socket.ss_family = AF_UNIX;
    assert_int_equal(listen(unix_socket), EAFNOSUPPORT);
    assert_int_equal(listen(wildcard(kPort + 1)), 0);
    assert_int_equal(listen(wildcard(kPort + 2)), EINVAL); // once is enough
    assert_int_equal(bench.right.disconnect(*id).error().to_errno(), EINVAL);
    assert_int_equal(bench.right.accept(*id, Bench::params(nullptr)).error().to_errno(), EINVAL);
    assert_int_equal(bench.right.reject(*id, reason::kConsumer, {}).error().to_errno(), EINVAL);
    sockaddr_storage ipv6{};
    ipv6.ss_family = AF_INET6;
    Id* fresh = *bench.right.create_id(*bench.right_channel, SLUICE_CM_TCP, nullptr);
    assert_int_equal(
        bench.right.connect(*fresh, plain(ipv6), Bench::params(&bench.right_qp)).error().to_errno(),
        EAFNOSUPPORT);
    assert_int_equal(bench.right.connect(*fresh, plain(at(1, 1)), Bench::params(nullptr)).error().to_errno(),
                     EINVAL); // no queue pair
    bench.right.destroy_id(*fresh);
    bench.right.destroy_id(*id);
}

// A link with a thread at each end, as a device has it.
class ThreadedPort final : public ManagementPort {
  public:
    ~ThreadedPort() { stop(); }

    void start(Service& its_service, ThreadedPort& its_peer) {
        service_ = &its_service;
        peer_ = &its_peer;
        thread_ = std::thread([this] { loop(); });
    }
    void stop() {
        {
            const std::lock_guard guard(mutex_);
            stopping_ = true;
            changed_.notify_all();
        }
        if (thread_.joinable()) {
            thread_.join();
        }
    }

    Nanoseconds now() noexcept override {
        return static_cast<Nanoseconds>(std::chrono::steady_clock::now().time_since_epoch().count());
    }
    void send(const OutMad& mad) noexcept override { peer_->arrive(mad); }
    void wake_at(Nanoseconds when) noexcept override {
        const std::lock_guard guard(mutex_);
        wake_ = std::min(wake_, when);
        changed_.notify_all();
    }
    int modify_qp(ibv_qp& qp, ibv_qp_attr& attr, int) noexcept override { return modify_paper(qp, attr); }
    bool gone() const noexcept override { return false; }

  private:
    void arrive(const OutMad& mad) {
        const std::lock_guard guard(mutex_);
        // Each seventh is lost, so that timers are at work, too.
        if (++arrived_ % 7 != 0) {
            inbox_.push_back(mad);
            changed_.notify_all();
        }
    }
    void loop() {
        std::unique_lock guard(mutex_);
        while (!stopping_) {
            if (!inbox_.empty()) {
                const OutMad mad = inbox_.front();
                inbox_.pop_front();
                guard.unlock();
                service_->receive(mad.source, mad.destination, mad.bytes);
                guard.lock();
            } else if (wake_ <= now()) {
                wake_ = kNever;
                guard.unlock();
                service_->advance();
                guard.lock();
            } else if (wake_ == kNever) {
                changed_.wait(guard);
            } else {
                changed_.wait_until(guard, std::chrono::steady_clock::time_point(
                                               std::chrono::nanoseconds(static_cast<std::int64_t>(wake_))));
            }
        }
    }

    Service* service_ = nullptr;
    ThreadedPort* peer_ = nullptr;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<OutMad> inbox_;
    std::uint64_t arrived_ = 0;
    Nanoseconds wake_ = kNever;
    bool stopping_ = false;
    std::thread thread_;
};

sluice_cm_params impatient(ibv_qp* qp) {
    sluice_cm_params made = default_params();
    made.qp = qp;
    made.response_timeout = 9; // 2 ms
    made.packet_lifetime = 5;
    return made;
}

void threads__many_connections__each_lives_once(void**) {
    constexpr std::uint32_t kThreads = 4, kEach = 50;
    ThreadedPort left_port;
    ThreadedPort right_port;
    Service left({.guid = 1, .seed = 1}, ipv4(1), left_port);
    Service right({.guid = 2, .seed = 2}, ipv4(2), right_port);
    left_port.start(left, right_port);
    right_port.start(right, left_port);
    Channel* server_channel = *right.create_channel();
    Id* listener = *right.create_id(*server_channel, SLUICE_CM_TCP, nullptr);
    assert_true(right.listen(*listener, plain(at(2, kPort)), 1000).ok());

    std::atomic<std::uint32_t> established{0};
    std::atomic<std::uint32_t> disconnected{0};
    std::atomic<std::uint32_t> server_ended{0};
    std::atomic<std::uint32_t> next_server_qp{0x10000};
    std::atomic<bool> done{false};
    const auto serve = [&] {
        while (!done) {
            auto event = right.get_event(*server_channel, 10);
            if (!event) {
                continue;
            }
            auto* id = reinterpret_cast<Id*>((*event)->id);
            const std::uint32_t type = (*event)->type;
            if (type == SLUICE_CM_CONNECT_REQUEST) {
                sluice_cm_params with = impatient(nullptr);
                with.qp_num = next_server_qp++;
                (void)right.accept(*id, with).ok();
            }
            Service::acknowledge(**event);
            if (type == SLUICE_CM_DISCONNECTED || type == SLUICE_CM_REJECTED ||
                type == SLUICE_CM_UNREACHABLE) {
                right.destroy_id(*id);
                ++server_ended;
            }
        }
    };
    const auto ask = [&](std::uint32_t thread) {
        Channel* channel = *left.create_channel();
        for (std::uint32_t i = 0; i < kEach; ++i) {
            PaperQp qp(0x1000 * (thread + 1) + i);
            Id* id = *left.create_id(*channel, SLUICE_CM_TCP, nullptr);
            assert_true(left.connect(*id, plain(at(2, kPort)), impatient(&qp)).ok());
            bool over = false;
            while (!over) {
                sluice_cm_event* event = *left.get_event(*channel, -1);
                if (event->type == SLUICE_CM_ESTABLISHED) {
                    ++established;
                    (void)left.disconnect(*id).ok(); // or the peer was faster
                } else {
                    disconnected += event->type == SLUICE_CM_DISCONNECTED ? 1 : 0;
                    over = true;
                }
                Service::acknowledge(*event);
            }
            left.destroy_id(*id);
        }
        assert_true(left.destroy_channel(*channel).ok());
    };
    std::vector<std::thread> clients;
    std::vector<std::thread> servers;
    for (std::uint32_t i = 0; i < kThreads; ++i) {
        clients.emplace_back(ask, i);
        servers.emplace_back(serve);
    }
    for (std::thread& client : clients) {
        client.join();
    }
    while (server_ended < disconnected) {
        std::this_thread::yield();
    }
    done = true;
    for (std::thread& server : servers) {
        server.join();
    }
    assert_int_equal(established, kThreads * kEach);
    assert_int_equal(disconnected, kThreads * kEach);
    right.destroy_id(*listener);
    left_port.stop();
    right_port.stop();
    assert_true(right.destroy_channel(*server_channel).ok());
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(connect__accepted_with_queue_pairs__both_led_to_rts),
        cmocka_unit_test(disconnect__connected__both_in_error_and_time_wait_ends),
        cmocka_unit_test(connect__caller_leads__response_attributes_establish),
        cmocka_unit_test(reject__with_data__reason_and_data),
        cmocka_unit_test(connect__nobody_listens__refused),
        cmocka_unit_test(connect__no_answer_in_time__unreachable),
        cmocka_unit_test(connect__queue_pair_refuses__error_here_and_rejected_there),
        cmocka_unit_test(accept__queue_pair_refuses__errno_and_still_unanswered),
        cmocka_unit_test(accept__too_much_data__nothing_done),
        cmocka_unit_test(accept__fewer_reads_than_offered__led_with_fewer),
        cmocka_unit_test(disconnect__before_the_answer__one_event),
        cmocka_unit_test(disconnect__answer_not_taken__answer_dropped),
        cmocka_unit_test(destroy__connected__peer_is_told),
        cmocka_unit_test(destroy__listener_with_requests_not_taken__refused),
        cmocka_unit_test(destroy__event_not_acknowledged__waits_for_it),
        cmocka_unit_test(destroy__answer_on_its_way__waits_until_it_is_sent),
        cmocka_unit_test(reject__another_thread_sends__returns_when_all_has_left),
        cmocka_unit_test(get_event__nothing_there__waits_as_long_as_told),
        cmocka_unit_test(migrate__event_waits__comes_along),
        cmocka_unit_test(migrate__listener_with_requests__they_come_along),
        cmocka_unit_test(rtu__lost_and_notified__established),
        cmocka_unit_test(datagram_service__asked__queue_pair_and_key),
        cmocka_unit_test(datagram_service__refused__status_as_for_connections),
        cmocka_unit_test(calls__that_make_no_sense__errno),
        cmocka_unit_test(threads__many_connections__each_lives_once),
    };
    return cmocka_run_group_tests_name("uroce.cm.service", tests, nullptr, nullptr);
}
