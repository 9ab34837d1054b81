// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <chrono>

#include "cases.hpp"

namespace reach {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kWriteBytes = 65536;
constexpr unsigned kWrites = 64;
constexpr unsigned kDepth = 16;
constexpr unsigned kPings = 200;
constexpr std::size_t kPingBytes = 64;
constexpr std::size_t kSource = 4096;
constexpr std::size_t kTarget = 8192 + kWriteBytes;

void post_write(End& end, std::size_t len) {
    const ibv_sge list = end.sge(kSource, len);
    ibv_send_wr wr = end.request(IBV_WR_RDMA_WRITE, list, kTarget);
    end.post(wr);
}

// Megabytes per second of one round.
double write_round(End& end) {
    const auto begin = Clock::now();
    unsigned posted = 0;
    for (unsigned done = 0; done < kWrites; ++done) {
        while (posted < kWrites && posted - done < kDepth) {
            post_write(end, kWriteBytes);
            ++posted;
        }
        (void)end.wait_for_success("write");
    }
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    return static_cast<double>(kWriteBytes) * kWrites / took.count();
}

// The last byte of what is written counts the rounds, and its change is the message.
std::uint8_t ping_byte(End& end) {
    return std::atomic_ref<std::uint8_t>(*end.bytes(kTarget + kPingBytes - 1))
        .load(std::memory_order_acquire);
}

// Microseconds for one way, over one round of pings.
double ping_round(End& end, bool begins, std::uint8_t& count) {
    const auto begin = Clock::now();
    for (unsigned i = 0; i < kPings; ++i) {
        ++count;
        if (!begins) {
            while (ping_byte(end) != count) {
                (void)end.idle(); // a program that waits for memory polls beside it
            }
        }
        *end.bytes(kSource + kPingBytes - 1) = count;
        post_write(end, kPingBytes);
        (void)end.wait_for_success("ping");
        while (begins && ping_byte(end) != count) {
            (void)end.idle();
        }
    }
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    return took.count() / kPings / 2;
}

} // namespace

unsigned run_speed(const Pair& pair) {
    place().step = "speed";
    Options options;
    options.block_bytes = 1 << 20;
    End end(pair.device, options);
    end.connect(pair.talk);
    double bandwidth = 0;
    if (pair.first) {
        bandwidth = write_round(end);
    }
    pair.talk.meet();
    std::uint8_t count = *end.bytes(kTarget + kPingBytes - 1) = 0;
    pair.talk.meet();
    const double latency = ping_round(end, pair.first, count);
    pair.talk.meet();
    if (pair.first) {
        std::printf("write_64k_MB_per_s %.1f\nping_64_us %.1f\n", bandwidth, latency);
    }
    return 1;
}

} // namespace reach
