// SPDX-License-Identifier: BSD-3-Clause
//
// Sixty-four threads on a thousand queue pairs, which share a few completion queues and receive queues:
// whatever is posted completes once, and each message arrives once. TEST_CROWD_SECONDS says for how long.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/unit/uroce/opened.hpp"

using namespace sluice::uroce::test;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPairs = 500;
constexpr std::size_t kThreads = 64;
constexpr std::size_t kShared = 8;     // queues of each kind, on each side
constexpr std::size_t kUnderWay = 4;   // requests of a queue pair
constexpr std::size_t kReceives = 256; // of a receive queue
constexpr std::uint64_t kIsReceive = std::uint64_t{1} << 63;
constexpr auto kPatience = std::chrono::seconds(60);

// What is posted and hasn't completed.
class Ledger {
  public:
    explicit Ledger(std::size_t size) : open_(size) {}
    // False: it is posted already.
    bool open(std::size_t number) { return !open_[number].exchange(true); }
    // False: it isn't posted.
    bool close(std::size_t number) { return open_[number].exchange(false); }
    std::size_t count() const {
        return static_cast<std::size_t>(
            std::count_if(open_.begin(), open_.end(), [](const auto& one) { return one.load(); }));
    }

  private:
    std::vector<std::atomic<bool>> open_;
};

// Which numbers there were, in whatever order: that two of them are wrong and this is as it should be is
// next to impossible.
struct Numbers {
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::uint64_t> squares{0};

    void add(std::uint64_t number) {
        ++count;
        squares += (number + 1) * (number + 1);
    }
};

struct Message {
    std::uint64_t pair;
    std::uint64_t number;
};

// One end of all pairs.
class Side {
  public:
    explicit Side(ibv_context* context)
        : pd_(ibv_alloc_pd(context)), messages_(kShared * kReceives), sends_(kPairs * kUnderWay),
          receives_(kShared * kReceives), posted_(kPairs), arrived_(kPairs) {
        mr_ = ibv_reg_mr(pd_, messages_.data(), messages_.size() * sizeof(Message), kAllAccess);
        assert_non_null(mr_);
        assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
        for (std::size_t i = 0; i < kShared; ++i) {
            cqs_[i] = ibv_create_cq(context, kPairs * kUnderWay + kReceives, nullptr, nullptr, 0);
            ibv_srq_init_attr attr{.srq_context = nullptr, .attr = {kReceives, 1, 0}};
            srqs_[i] = ibv_create_srq(pd_, &attr);
            assert_non_null(cqs_[i]);
            assert_non_null(srqs_[i]);
            for (std::size_t number = i; number < receives(); number += kShared) {
                assert_true(post_receive(number));
            }
        }
        for (std::size_t i = 0; i < kPairs; ++i) {
            ibv_qp_init_attr init{};
            init.send_cq = init.recv_cq = cqs_[i % kShared];
            init.srq = srqs_[i % kShared];
            init.qp_type = IBV_QPT_RC;
            init.cap = {kUnderWay, 0, 1, 0, sizeof(Message)};
            qps[i] = ibv_create_qp(pd_, &init);
            assert_non_null(qps[i]);
        }
    }
    ~Side() {
        for (ibv_qp* const qp : qps) {
            assert_int_equal(ibv_destroy_qp(qp), 0);
        }
        for (std::size_t i = 0; i < kShared; ++i) {
            assert_int_equal(ibv_destroy_srq(srqs_[i]), 0);
            assert_int_equal(ibv_destroy_cq(cqs_[i]), 0);
        }
        assert_int_equal(ibv_dereg_mr(mr_), 0);
        assert_int_equal(ibv_dealloc_pd(pd_), 0);
    }
    Side(const Side&) = delete;
    Side& operator=(const Side&) = delete;

    static constexpr std::size_t receives() { return kShared * kReceives; }

    void connect(const Side& peer) {
        for (std::size_t i = 0; i < kPairs; ++i) {
            bring_up(qps[i], peer.qps[i]->qp_num, peer.gid, {.timeout = 17});
        }
    }

    // A message over PAIR, if one of its places is free: every second one a Send, the others a Write of
    // nothing, which only has a number with it.
    void try_send(std::size_t pair, std::size_t place) {
        const std::size_t id = pair * kUnderWay + place;
        if (!sends_.open(id)) {
            return;
        }
        Message message{.pair = pair, .number = next_[pair]++};
        posted_[pair].add(message.number);
        const bool is_send = message.number % 2 == 0;
        ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(&message), .length = sizeof message, .lkey = 0};
        ibv_send_wr wr{};
        wr.wr_id = id;
        wr.opcode = is_send ? IBV_WR_SEND : IBV_WR_RDMA_WRITE_WITH_IMM;
        wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
        wr.imm_data = static_cast<std::uint32_t>(message.number);
        wr.sg_list = &sge;
        wr.num_sge = is_send ? 1 : 0;
        ibv_send_wr* bad = nullptr;
        wrong += ibv_post_send(qps[pair], &wr, &bad) == 0 ? 0 : 1;
    }

    void poll(std::size_t which) {
        std::array<ibv_wc, 8> found{};
        const int count = ibv_poll_cq(cqs_[which % kShared], found.size(), found.data());
        wrong += count < 0 ? 1 : 0;
        for (int i = 0; i < count; ++i) {
            take(found[static_cast<std::size_t>(i)]);
        }
    }

    bool has_sent_all() const { return sends_.count() == 0; }
    bool has_received_all_of(const Side& peer) const {
        for (std::size_t pair = 0; pair < kPairs; ++pair) {
            if (arrived_[pair].count != peer.posted_[pair].count) {
                return false;
            }
        }
        return true;
    }
    void must_have_received_all_of(const Side& peer) const {
        for (std::size_t pair = 0; pair < kPairs; ++pair) {
            assert_int_equal(arrived_[pair].count, peer.posted_[pair].count);
            assert_int_equal(arrived_[pair].squares, peer.posted_[pair].squares);
        }
    }
    void must_be_quiet() const {
        assert_int_equal(wrong, 0);
        assert_int_equal(sends_.count(), 0);
        assert_int_equal(receives_.count(), receives());
        ibv_wc wc{};
        for (ibv_cq* const cq : cqs_) {
            assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
        }
    }
    std::uint64_t sent() const {
        std::uint64_t sum = 0;
        for (const Numbers& numbers : posted_) {
            sum += numbers.count;
        }
        return sum;
    }

    std::array<ibv_qp*, kPairs> qps{};
    union ibv_gid gid {};
    std::atomic<int> wrong{0};

  private:
    bool post_receive(std::size_t number) {
        ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(&messages_[number]),
                    .length = sizeof(Message),
                    .lkey = mr_->lkey};
        ibv_recv_wr wr{.wr_id = kIsReceive | number, .next = nullptr, .sg_list = &sge, .num_sge = 1};
        ibv_recv_wr* bad = nullptr;
        return receives_.open(number) && ibv_post_srq_recv(srqs_[number % kShared], &wr, &bad) == 0;
    }

    void take(const ibv_wc& wc) {
        bool is_right = wc.status == IBV_WC_SUCCESS;
        if ((wc.wr_id & kIsReceive) == 0) {
            is_right = is_right && sends_.close(wc.wr_id);
        } else {
            const std::size_t number = wc.wr_id & ~kIsReceive;
            is_right =
                is_right && note(wc, messages_[number]) && receives_.close(number) && post_receive(number);
        }
        wrong += is_right ? 0 : 1;
    }
    bool note(const ibv_wc& wc, const Message& message) {
        const bool is_send = wc.opcode == IBV_WC_RECV;
        const std::size_t pair = pair_of(wc.qp_num);
        if (pair == kPairs || (is_send && (message.pair != pair || wc.byte_len != sizeof message))) {
            return false;
        }
        arrived_[pair].add(is_send ? message.number : wc.imm_data);
        return true;
    }
    std::size_t pair_of(std::uint32_t qpn) const {
        const auto found = std::ranges::find(qps, qpn, &ibv_qp::qp_num);
        return static_cast<std::size_t>(found - qps.begin());
    }

    ibv_pd* pd_;
    std::vector<Message> messages_;
    ibv_mr* mr_ = nullptr;
    std::array<ibv_cq*, kShared> cqs_{};
    std::array<ibv_srq*, kShared> srqs_{};
    Ledger sends_;
    Ledger receives_;
    std::array<std::atomic<std::uint64_t>, kPairs> next_{};
    std::vector<Numbers> posted_;
    std::vector<Numbers> arrived_;
};

struct Crowd {
    OpenContext first{open_uroce(own_address(0))};
    OpenContext second{open_uroce(own_address(1))};
    Side left{first.get()};
    Side right{second.get()};
    std::atomic<bool> may_send{true};
    std::atomic<int> sending{0};
    std::atomic<bool> is_over{false};

    void work(Random& random) {
        Side& side = random.below(2) == 0 ? left : right;
        ++sending;
        if (may_send) {
            side.try_send(random.below(kPairs), random.below(kUnderWay));
        }
        --sending;
        side.poll(random.below(kShared));
    }
    void work_until_over(std::uint64_t seed) {
        for (Random random(seed); !is_over;) {
            work(random);
        }
    }
    void work_until(Clock::time_point end, std::uint64_t seed) {
        for (Random random(seed); Clock::now() < end;) {
            work(random);
        }
    }
    bool is_complete() const {
        return sending == 0 && left.has_sent_all() && right.has_sent_all() &&
               left.has_received_all_of(right) && right.has_received_all_of(left);
    }
    void complete() {
        may_send = false;
        const auto last = Clock::now() + kPatience;
        for (std::size_t which = 0; !is_complete() && Clock::now() < last; ++which) {
            left.poll(which);
            right.poll(which);
        }
        is_over = true;
    }
};

TEST(crowd__sixty_four_threads_on_a_thousand_queue_pairs__each_completes_once) {
    const char* const asked = std::getenv("TEST_CROWD_SECONDS");
    const auto length = std::chrono::seconds(asked != nullptr ? std::strtol(asked, nullptr, 10) : 2);
    Crowd crowd;
    crowd.left.connect(crowd.right);
    crowd.right.connect(crowd.left);
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < kThreads; ++i) { // and this one
        threads.emplace_back([&crowd, i] { crowd.work_until_over(i); });
    }
    crowd.work_until(Clock::now() + length, 0);
    crowd.complete();
    for (std::thread& thread : threads) {
        thread.join();
    }
    const std::uint64_t sent = crowd.left.sent() + crowd.right.sent();
    print_message("%llu messages\n", static_cast<unsigned long long>(sent));
    assert_true(sent > 2 * kPairs);
    crowd.left.must_have_received_all_of(crowd.right);
    crowd.right.must_have_received_all_of(crowd.left);
    crowd.left.must_be_quiet();
    crowd.right.must_be_quiet();
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
