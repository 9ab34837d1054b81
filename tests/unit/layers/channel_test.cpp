// SPDX-License-Identifier: BSD-3-Clause
//
// A channel that is destroyed while another thread takes events from it, as rping and many that learned from
// it do.
#include "layers/preload/channel.hpp"

#include <fcntl.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "layers/preload/events.hpp"
#include "tests/cmocka.hpp"
#include "tests/unit/layers/own_device.hpp"

using namespace sluice;
using namespace sluice::layers::preload;
using namespace sluice::layers::preload::test;

namespace {

// Twenty repetitions by night come to 100,000; TEST_CHANNELS=100000 makes as many in one process.
int channels_to_destroy() {
    constexpr int kByDay = 5'000;
    const char* const wanted = std::getenv("TEST_CHANNELS");
    return wanted != nullptr ? static_cast<int>(std::strtol(wanted, nullptr, 10)) : kByDay;
}

// The thread asks again and again, and never sleeps, so that it is found at every place of its way.
class Taker {
  public:
    ~Taker() {
        ends_ = true;
        thread_.join();
    }
    void take_from(const std::shared_ptr<Channel>& channel) {
        {
            const LockGuard guard(mutex_);
            channel_ = channel;
        }
        const unsigned before = asked_;
        while (asked_ == before) {
            std::this_thread::yield();
        }
    }

  private:
    void run() {
        while (!ends_) {
            if (const std::shared_ptr<Channel> channel = current(); channel != nullptr) {
                (void)channel->next(translate);
                ++asked_;
            }
        }
    }
    std::shared_ptr<Channel> current() {
        const LockGuard guard(mutex_);
        return channel_;
    }

    Mutex mutex_;
    std::shared_ptr<Channel> channel_ SLUICE_TSA(guarded_by(mutex_));
    std::atomic<unsigned> asked_ = 0;
    std::atomic<bool> ends_ = false;
    std::thread thread_{[this] { run(); }};
};

TEST(channel__destroyed_while_an_event_is_taken__nothing_dangles) {
    int count = 0;
    ibv_context** const devices = rdma_get_devices(&count);
    assert_non_null(devices);
    ibv_context* const uroce = devices[count - 1];
    {
        Taker taker;
        for (int i = channels_to_destroy(); i > 0; --i) {
            const std::shared_ptr<Channel> channel = *Channel::make(nullptr);
            assert_int_equal(fcntl(channel->visible()->fd, F_SETFL, O_NONBLOCK), 0);
            assert_true(channel->of(uroce).ok());
            taker.take_from(channel);
            channel->close();
        }
    }
    rdma_free_devices(devices);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("preload.channel", use_own_device);
}
