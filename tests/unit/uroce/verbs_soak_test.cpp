// SPDX-License-Identifier: BSD-3-Clause
//
// Many operations of all kinds, mixed by a seed, with a ledger: what the peer's memory must hold after
// each, and so what every read and every atomic must bring. A byte that isn't as the ledger says ends
// the test, and so does memory that grows while they flow.
//
//     test_uroce_face_soak OPERATIONS [SEED]
#include <sched.h>

#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>

#include "provider/uroce/verbs/objects.hpp"
#include "tests/unit/uroce/other_process.hpp"

namespace {

using namespace sluice::uroce::test;

constexpr std::size_t kLaneBytes = 16384; // of the peer's memory, for each connection
constexpr std::size_t kMaxBytes = 4096;   // of an operation
constexpr std::size_t kUnderWay = 8;
constexpr std::size_t kLanes = 8;
constexpr std::uint8_t kQuick = 10;   // 4 ms
constexpr std::uint8_t kPatient = 17; // half a second: longer than a busy machine keeps a process waiting

std::size_t operations = 100000;
constexpr const char* kFaults = "seed=5,drop=1%,duplicate=0.5%,delay=0.2%:1ms,recv-drop=0.2%,flip-icrc=0.2%";
std::uint64_t seed = 1;

// What another end must know of this one.
struct Lanes {
    union ibv_gid gid;
    std::uint64_t addr;
    std::uint32_t rkey;
    std::uint32_t qpns[kLanes];
};

// Some queue pairs with one block of memory between them: a lane for each, and behind those, places
// for what is under way.
class Side {
  public:
    explicit Side(ibv_context* its_context)
        : context(its_context), pd(ibv_alloc_pd(context)),
          cq(ibv_create_cq(context, kLanes * kUnderWay * 2, nullptr, nullptr, 0)),
          block(kLanes * (kLaneBytes + kUnderWay * kMaxBytes)) {
        mr = ibv_reg_mr(pd, block.data(), block.size(), kAllAccess);
        assert_non_null(mr);
        card.addr = reinterpret_cast<std::uintptr_t>(block.data());
        card.rkey = mr->rkey;
        assert_int_equal(ibv_query_gid(context, 1, 0, &card.gid), 0);
        for (std::size_t i = 0; i < kLanes; ++i) {
            ibv_qp_init_attr init{};
            init.send_cq = init.recv_cq = cq;
            init.qp_type = IBV_QPT_RC;
            init.cap = {kUnderWay, kUnderWay, 1, 1, 0};
            qps[i] = ibv_create_qp(pd, &init);
            assert_non_null(qps[i]);
            card.qpns[i] = qps[i]->qp_num;
        }
    }
    ~Side() {
        for (ibv_qp* qp : qps) {
            ibv_destroy_qp(qp);
        }
        ibv_dereg_mr(mr);
        ibv_destroy_cq(cq);
        ibv_dealloc_pd(pd);
    }
    Side(const Side&) = delete;
    Side& operator=(const Side&) = delete;

    // A lost packet costs a TIMEOUT; a process that gets no core for its retries costs the test.
    void connect(const Lanes& peer, std::uint8_t timeout) {
        for (std::size_t i = 0; i < kLanes; ++i) {
            bring_up(qps[i], peer.qpns[i], peer.gid, {.timeout = timeout, .retries = 7});
        }
    }
    // Places of lane LANE for what is under way.
    std::size_t place(std::size_t lane, std::uint64_t number) const {
        return kLanes * kLaneBytes + (lane * kUnderWay + number % kUnderWay) * kMaxBytes;
    }

    ibv_context* context;
    ibv_pd* pd;
    ibv_cq* cq;
    ibv_mr* mr = nullptr;
    std::vector<std::uint8_t> block;
    ibv_qp* qps[kLanes] = {};
    Lanes card{};
};

// The asking side, and what it knows of the other's memory.
class Asker {
  public:
    Asker(ibv_context* context, const Lanes& peer, bool with_sends)
        : side_(context), peer_(peer), kinds_(with_sends ? 5 : 4), random_(seed),
          ledger_(kLanes * kLaneBytes), posted_(kLanes), completed_(kLanes), expected_(kLanes) {}

    Side& side() { return side_; }
    // Receives of the peer, for sends: called with the lane and the number before each.
    std::function<void(std::size_t lane, std::uint64_t number)> prepare_receive;
    // And after: with the bytes that it must hold.
    std::function<void(std::size_t lane, std::uint64_t number, const std::vector<std::uint8_t>&)>
        check_receive;

    void run(std::size_t count) {
        std::size_t done = 0;
        for (std::size_t posted = 0; done < count;) {
            const std::size_t lane = random_.below(kLanes);
            if (posted < count && posted_[lane] - completed_[lane] < kUnderWay) {
                post(lane);
                ++posted;
            } else {
                done += poll();
            }
        }
    }
    void compare_with(const std::uint8_t* peers_memory) const {
        assert_memory_equal(peers_memory, ledger_.data(), ledger_.size());
    }
    // All of the peer's memory, asked for.
    void read_back() {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            for (std::size_t at = 0; at < kLaneBytes; at += kMaxBytes) {
                post_read(lane, at, kMaxBytes);
                while (poll() == 0) {
                }
            }
        }
    }

  private:
    enum class Kind : std::uint8_t { kWrite, kRead, kAdd, kSwap, kSend };
    struct Expected {
        Kind kind;
        std::vector<std::uint8_t> bytes; // that its place must hold at its end
    };

    std::uint8_t* ledger(std::size_t lane, std::size_t at) { return ledger_.data() + lane * kLaneBytes + at; }

    void post(std::size_t lane) {
        const auto kind = static_cast<Kind>(random_.below(kinds_));
        // Mostly small, as programs are; sometimes of several packets.
        const std::size_t len = random_.below(8) == 0 ? random_.below(kMaxBytes + 1) : random_.below(200);
        const std::size_t at = random_.below(static_cast<std::uint32_t>(kLaneBytes - len + 1));
        switch (kind) {
        case Kind::kWrite:
            post_write(lane, at, len, kind);
            break;
        case Kind::kRead:
            post_read(lane, at, len);
            break;
        case Kind::kSend:
            prepare_receive(lane, posted_[lane]);
            post_write(lane, at, len, kind);
            break;
        case Kind::kAdd:
        case Kind::kSwap:
            post_atomic(lane, random_.below(kLaneBytes / 8) * std::size_t{8}, kind);
            break;
        }
    }
    void post_write(std::size_t lane, std::size_t at, std::size_t len, Kind kind) {
        std::uint8_t* const place = side_.block.data() + side_.place(lane, posted_[lane]);
        std::uint64_t value = random_.next();
        for (std::size_t i = 0; i < len; ++i) {
            place[i] = static_cast<std::uint8_t>(value >> (i % 8 * 8)) ^ static_cast<std::uint8_t>(i >> 3);
        }
        if (kind == Kind::kWrite) {
            std::memcpy(ledger(lane, at), place, len);
        }
        request(lane, kind == Kind::kWrite ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, at, len, 0, 0,
                {kind, {place, place + len}});
    }
    void post_read(std::size_t lane, std::size_t at, std::size_t len) {
        const std::uint8_t* const from = ledger(lane, at);
        request(lane, IBV_WR_RDMA_READ, at, len, 0, 0, {Kind::kRead, {from, from + len}});
    }
    void post_atomic(std::size_t lane, std::size_t at, Kind kind) {
        std::uint64_t before = 0;
        std::memcpy(&before, ledger(lane, at), sizeof before);
        const std::uint64_t value = random_.next();
        const std::uint64_t compare = random_.below(2) == 0 ? before : before + 1;
        const std::uint64_t after = kind == Kind::kAdd ? before + value : compare == before ? value : before;
        std::memcpy(ledger(lane, at), &after, sizeof after);
        const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&before);
        request(lane, kind == Kind::kAdd ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP, at, 8,
                kind == Kind::kAdd ? value : compare, value, {kind, {bytes, bytes + sizeof before}});
    }
    void request(std::size_t lane, ibv_wr_opcode opcode, std::size_t at, std::size_t len,
                 std::uint64_t compare_add, std::uint64_t swap, Expected expected) {
        const std::uint64_t number = posted_[lane]++;
        ibv_sge sge{side_.card.addr + side_.place(lane, number), static_cast<std::uint32_t>(len),
                    side_.mr->lkey};
        ibv_send_wr wr{};
        wr.wr_id = lane;
        wr.opcode = opcode;
        // A write may overtake the answer to a read before it, unless it is told not to (10.8.3.3).
        const bool changes_memory = opcode != IBV_WR_RDMA_READ && opcode != IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED | (changes_memory ? unsigned{IBV_SEND_FENCE} : 0U);
        wr.sg_list = &sge;
        wr.num_sge = 1;
        const std::uint64_t remote = peer_.addr + lane * kLaneBytes + at;
        if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
            wr.wr.atomic.remote_addr = remote;
            wr.wr.atomic.rkey = peer_.rkey;
            wr.wr.atomic.compare_add = compare_add;
            wr.wr.atomic.swap = swap;
        } else {
            wr.wr.rdma.remote_addr = remote;
            wr.wr.rdma.rkey = peer_.rkey;
        }
        ibv_send_wr* bad = nullptr;
        assert_int_equal(ibv_post_send(side_.qps[lane], &wr, &bad), 0);
        expected_[lane].push_back(std::move(expected));
    }
    std::size_t poll() {
        ibv_wc wcs[16];
        const int count = ibv_poll_cq(side_.cq, 16, wcs);
        assert_true(count >= 0);
        for (int i = 0; i < count; ++i) {
            complete(wcs[i]);
        }
        if (count == 0) {
            sched_yield(); // another process may be needed
        }
        return static_cast<std::size_t>(count);
    }
    void complete(const ibv_wc& wc) {
        if (wc.status != IBV_WC_SUCCESS) {
            fail_msg("seed %llu: an operation ended with %s", static_cast<unsigned long long>(seed),
                     ibv_wc_status_str(wc.status));
        }
        const std::size_t lane = wc.wr_id;
        const std::uint64_t number = completed_[lane]++;
        const Expected expected = std::move(expected_[lane].front());
        expected_[lane].pop_front();
        assert_memory_equal(side_.block.data() + side_.place(lane, number), expected.bytes.data(),
                            expected.bytes.size());
        if (expected.kind == Kind::kSend) {
            check_receive(lane, number, expected.bytes);
        }
    }

    Side side_;
    Lanes peer_;
    std::uint32_t kinds_;
    Random random_;
    std::vector<std::uint8_t> ledger_;
    std::vector<std::uint64_t> posted_;
    std::vector<std::uint64_t> completed_;
    std::vector<std::deque<Expected>> expected_;
};

std::size_t resident_bytes() {
    std::ifstream status("/proc/self/statm");
    std::size_t total = 0;
    std::size_t resident = 0;
    status >> total >> resident;
    return resident * 4096;
}

// Nothing grows: what is allocated once is there after a tenth.
void run_and_weigh(Asker& asker, std::size_t count) {
    asker.run(count / 10);
    const std::size_t before = resident_bytes();
    asker.run(count - count / 10);
#ifndef SLUICE_UNDER_SANITIZER
    const std::size_t after = resident_bytes();
    assert_true(after <= before + (std::size_t{512} << 10));
#else
    (void)before;
#endif
}

// Two devices of this process, with everything that there is.
void soak_here(const char* faults, std::size_t count) {
    if (faults != nullptr) {
        setenv("SLUICE_UROCE_FAULTS", faults, 1);
    }
    const OpenContext first(open_uroce(own_address(0)));
    const OpenContext second(open_uroce(own_address(1)));
    unsetenv("SLUICE_UROCE_FAULTS");
    Side peer(second.get());
    Asker asker(first.get(), peer.card, true);
    peer.connect(asker.side().card, kQuick);
    asker.side().connect(peer.card, kQuick);
    asker.prepare_receive = [&](std::size_t lane, std::uint64_t number) {
        ibv_sge sge{peer.card.addr + peer.place(lane, number), kMaxBytes, peer.mr->lkey};
        ibv_recv_wr wr{};
        wr.wr_id = peer.place(lane, number);
        wr.sg_list = &sge;
        wr.num_sge = 1;
        ibv_recv_wr* bad = nullptr;
        assert_int_equal(ibv_post_recv(peer.qps[lane], &wr, &bad), 0);
    };
    // The receive's own completion came before the send's; those of several lanes are in one queue.
    std::vector<std::uint32_t> arrived(peer.block.size() / kMaxBytes + 1, ~std::uint32_t{0});
    asker.check_receive = [&](std::size_t lane, std::uint64_t number,
                              const std::vector<std::uint8_t>& bytes) {
        const std::size_t place = peer.place(lane, number);
        while (arrived[place / kMaxBytes] == ~std::uint32_t{0}) {
            ibv_wc wc{};
            if (ibv_poll_cq(peer.cq, 1, &wc) == 1) {
                assert_int_equal(wc.status, IBV_WC_SUCCESS);
                arrived[wc.wr_id / kMaxBytes] = wc.byte_len;
            }
        }
        assert_int_equal(arrived[place / kMaxBytes], bytes.size());
        arrived[place / kMaxBytes] = ~std::uint32_t{0};
        assert_memory_equal(peer.block.data() + place, bytes.data(), bytes.size());
    };
    run_and_weigh(asker, count);
    asker.compare_with(peer.block.data());
}

TEST(soak__two_devices__every_byte_as_the_ledger_says) {
    soak_here(nullptr, operations);
}

TEST(soak__one_percent_lost_and_more__every_byte_as_the_ledger_says) {
    soak_here(kFaults, operations / 50);
}

// Holds its memory still until the other side has gone.
void be_written_to(const Talk& talk) {
    const OpenContext context(open_uroce(own_address()));
    Side side(context.get());
    talk.tell(side.card);
    side.connect(talk.hear<Lanes>(), kPatient);
    talk.tell('r');
    (void)talk.hear<char>();
}

// Writes, reads and atomics into another process, over UDP; with that process's memory untouched by
// anything but the device.
void soak_there(const char* faults, std::size_t count) {
    const OtherProcess other(be_written_to);
    {
        if (faults != nullptr) {
            setenv("SLUICE_UROCE_FAULTS", faults, 1);
        }
        const OpenContext context(open_uroce(own_address()));
        unsetenv("SLUICE_UROCE_FAULTS");
        const auto peer = other.talk().hear<Lanes>();
        Asker asker(context.get(), peer, false);
        other.talk().tell(asker.side().card);
        assert_int_equal(other.talk().hear<char>(), 'r');
        asker.side().connect(peer, kPatient);
        run_and_weigh(asker, count);
        asker.read_back();
        if (faults != nullptr) {
            const sluice::uroce::device::Device::ProgressSession session(
                sluice::uroce::verbs::context_of(context.get()).device);
            assert_true(session.engine().counters().rewinds > 0); // something was lost
        }
    }
    other.talk().tell('e');
    assert_int_equal(other.wait_for_end(), 0);
}

TEST(soak__two_processes__every_byte_as_the_ledger_says) {
    soak_there(nullptr, operations / 10);
}

// The damaged packets are on the wire, and the other process throws them away.
TEST(soak__two_processes_that_lose_and_more__every_byte_as_the_ledger_says) {
    soak_there(kFaults, operations / 100);
}

TEST(queue_pairs__a_thousand_in_one_process__all_work) {
    const OpenContext first(open_uroce(own_address(0)));
    const OpenContext second(open_uroce(own_address(1)));
    std::vector<std::unique_ptr<Side>> left;
    std::vector<std::unique_ptr<Side>> right;
    while (left.size() * kLanes < 500) {
        left.push_back(std::make_unique<Side>(first.get()));
        right.push_back(std::make_unique<Side>(second.get()));
        left.back()->connect(right.back()->card, kPatient);
        right.back()->connect(left.back()->card, kPatient);
    }
    for (std::size_t i = 0; i < left.size(); ++i) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            Side& from = *left[i];
            Side& to = *right[i];
            const std::size_t at = lane * kLaneBytes;
            std::memset(from.block.data() + at, static_cast<int>(i + lane + 1), 64);
            ibv_sge sge{from.card.addr + at, 64, from.mr->lkey};
            ibv_send_wr wr{};
            wr.opcode = IBV_WR_RDMA_WRITE;
            wr.send_flags = IBV_SEND_SIGNALED;
            wr.sg_list = &sge;
            wr.num_sge = 1;
            wr.wr.rdma.remote_addr = to.card.addr + at;
            wr.wr.rdma.rkey = to.card.rkey;
            ibv_send_wr* bad = nullptr;
            assert_int_equal(ibv_post_send(from.qps[lane], &wr, &bad), 0);
            ibv_wc wc{};
            while (ibv_poll_cq(from.cq, 1, &wc) == 0) {
            }
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            assert_memory_equal(from.block.data() + at, to.block.data() + at, 64);
        }
    }
}

} // namespace

int main(int argc, char** argv) {
    operations = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : operations;
    seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : seed;
    std::printf("%zu operations, seed %llu\n", operations, static_cast<unsigned long long>(seed));
    return sluice::test::run_all_tests("uroce.verbs_soak");
}
