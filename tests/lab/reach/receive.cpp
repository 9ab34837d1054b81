// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <chrono>

#include "cases.hpp"

namespace reach {

namespace {

constexpr std::size_t kSlot = 8192;
constexpr std::size_t kSent = 5000; // more than one packet
constexpr unsigned kMessages = 32;

std::size_t slot(std::uint64_t number) {
    return kGuard + number * kSlot;
}

// Whoever sends first waits for the receives, which one queue serves in the order of arrival.
unsigned shared_queue(const Pair& pair, bool sends) {
    place().step = std::string("shared receive queue, ") + (sends ? "sender" : "receiver");
    Options options;
    options.queue_pairs = 2;
    options.with_srq = true;
    End end(pair.device, options);
    end.connect(pair.talk);
    if (sends) {
        (void)pair.talk.hear<char>();
        for (std::uint64_t i = 0; i < kMessages; ++i) {
            end.paint(slot(i), kSent, i << 20);
            const ibv_sge list = end.sge(slot(i), kSent);
            ibv_send_wr wr = end.request(IBV_WR_SEND_WITH_IMM, list, 0);
            wr.imm_data = static_cast<std::uint32_t>(i);
            end.post(wr, i % 3 == 0 ? 0 : 1);
        }
        for (unsigned i = 0; i < kMessages; ++i) {
            (void)end.wait_for_success("send to a shared queue");
        }
    } else {
        for (std::uint64_t i = 0; i < kMessages; ++i) {
            end.paint(slot(i), kSent, ~i);
            end.receive(end.sge(slot(i), kSent), i);
        }
        pair.talk.tell('r');
        std::array<bool, kMessages> filled{};
        for (unsigned i = 0; i < kMessages; ++i) {
            const ibv_wc wc = end.wait_for_success("receive from a shared queue");
            require(wc.imm_data < kMessages && wc.wr_id < kMessages && !filled[wc.wr_id],
                    "each is used once");
            filled[wc.wr_id] = true;
            equal(wc.qp_num, end.qps[wc.imm_data % 3 == 0 ? 0 : 1]->qp_num, "the queue pair that received");
            end.expect(slot(wc.wr_id), kSent, std::uint64_t{wc.imm_data} << 20, ~wc.wr_id, "the message");
        }
    }
    require(end.idle(), "a completion too many");
    pair.talk.meet();
    return 1;
}

// The receive is posted once the message has been refused; the sender repeats it by itself.
unsigned late_receiver(const Pair& pair, bool sends) {
    place().step = std::string("late receiver, ") + (sends ? "sender" : "receiver");
    End end(pair.device, {});
    end.connect(pair.talk);
    if (sends) {
        end.paint(slot(0), kSent, 1);
        const ibv_sge list = end.sge(slot(0), kSent);
        ibv_send_wr wr = end.request(IBV_WR_SEND, list, 0);
        end.post(wr);
        // Time for some refusals, of which none may show here.
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
        while (std::chrono::steady_clock::now() < until) {
            require(end.idle(), "completed although nobody received");
        }
        pair.talk.tell('s');
        (void)end.wait_for_success("send to a late receiver");
    } else {
        end.paint(slot(0), kSent, 2);
        (void)pair.talk.hear<char>();
        end.receive(end.sge(slot(0), kSent));
        equal<std::size_t>(end.wait_for_success("receive late").byte_len, kSent, "the received length");
        end.expect(slot(0), kSent, 1, 2, "the message");
    }
    pair.talk.meet();
    return 1;
}

} // namespace

unsigned run_receive(const Pair& pair) {
    unsigned count = 0;
    for (const bool first_sends : {true, false}) {
        const bool sends = first_sends == pair.first;
        count += shared_queue(pair, sends) + late_receiver(pair, sends);
    }
    return count;
}

} // namespace reach
