// SPDX-License-Identifier: BSD-3-Clause
//
// Many connections at once, over a link with a thread at each end.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "tests/unit/uroce/connect/service_bench.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::cm;
using namespace sluice::uroce::connect;
using namespace sluice::uroce::connect::test;

namespace {

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
    bool is_anybody_at(const Address&) noexcept override { return true; }

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

TEST(threads__many_connections__each_lives_once) {
    constexpr std::uint32_t kThreads = 4, kEach = 50;
    ThreadedPort left_port;
    ThreadedPort right_port;
    Service left({.guid = 1, .secret = sluice::RandomKey::repeatable(1)}, ipv4(1), left_port);
    Service right({.guid = 2, .secret = sluice::RandomKey::repeatable(2)}, ipv4(2), right_port);
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
            auto event = event_of(right, *server_channel, 10);
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
                sluice_cm_event* event = *event_of(left, *channel, -1);
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
    return sluice::test::run_all_tests("uroce.connect.service_threads");
}
