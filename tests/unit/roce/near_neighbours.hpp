// SPDX-License-Identifier: BSD-3-Clause
//
// Two neighbours on one machine, with queue pairs that are connected, and what their requests are to become.
#pragma once

#include <ctime>

#include <functional>
#include <utility>

#include "tests/unit/roce/bench.hpp"
#include "tests/unit/roce/near_hosts.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace sluice::roce::test {

using namespace engine;

constexpr std::size_t kBlock = 65536;

inline std::uint64_t monotonic_us() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec) / 1000;
}

struct Neighbours {
    explicit Neighbours(const QpAttributes& attributes = usual_attributes(), std::size_t block_bytes = kBlock)
        : bench(attributes, block_bytes, hosts.both) {
        hosts.introduce(bench.net);
    }

    Status run(const SendWr& wr) {
        assert_true(bench.post(wr) == Post::kPosted);
        assert_true(bench.net.run());
        const auto sent = bench.sent();
        assert_true(sent.has_value());
        return sent->status;
    }
    SendWr write(std::size_t from, std::uint32_t len, std::size_t to) {
        return bench.wr(WrOpcode::kWrite, bench.at_left(from, len), to);
    }
    std::uint64_t direct() const { return hosts.left_counters.requests; }
    // As the left one sees them.
    Ends ends() {
        return {.local = bench.net.left.where,
                .qpn = bench.pair.left->qpn(),
                .remote = bench.net.right.where,
                .peer_qpn = bench.pair.right->qpn()};
    }
    // It goes as packets, and ends with STATUS.
    void expect_packets(const SendWr& wr, Status status) {
        const std::uint64_t before = direct();
        const std::uint64_t packets = bench.net.packets;
        assert_int_equal(run(wr), status);
        assert_int_equal(direct(), before);
        assert_true(bench.net.packets > packets);
    }
    void expect_direct(const SendWr& wr) {
        const std::uint64_t before = direct();
        const std::uint64_t packets = bench.net.packets;
        assert_int_equal(run(wr), Status::kSuccess);
        assert_int_equal(direct(), before + 1);
        assert_int_equal(bench.net.packets, packets);
    }

    NearHosts hosts;
    Bench bench;
};

// The right one doesn't read what lies in its ring. The left one repeats after TIMEOUT.
struct WithoutReader : Neighbours {
    static constexpr std::uint32_t kTooMuch = 400'000; // for the ring
    explicit WithoutReader(std::uint8_t timeout = usual_attributes().timeout)
        : Neighbours(long_packets(timeout), std::size_t{1} << 20) {
        hosts.give_rings(bench.net);
        read = std::exchange(bench.net.take_from_memory, nullptr);
    }
    static QpAttributes long_packets(std::uint8_t timeout) {
        QpAttributes attributes = usual_attributes();
        attributes.path_mtu = 4096;
        attributes.timeout = timeout;
        return attributes;
    }

    std::function<bool()> read;
};

} // namespace sluice::roce::test
