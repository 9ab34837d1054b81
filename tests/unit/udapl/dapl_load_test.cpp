// SPDX-License-Identifier: BSD-3-Clause
//
// Many endpoints, many regions, many cycles, and threads that free what others use. TEST_DAPL_CYCLES,
// TEST_DAPL_REGIONS, and TEST_DAPL_ENDPOINTS in hundreds, ask for other sizes.
#include <dirent.h>
#include <malloc.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/unit/udapl/dapl_pair.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr std::uint32_t kSeed = 20260611;

int size_of(const char* variable, int otherwise) {
    const char* const text = std::getenv(variable);
    return text != nullptr ? static_cast<int>(std::strtol(text, nullptr, 10)) : otherwise;
}

int open_files() {
    int count = 0;
    DIR* const directory = opendir("/proc/self/fd");
    while (readdir(directory) != nullptr) {
        ++count;
    }
    closedir(directory);
    return count;
}

// Of the heap, all threads' together. A sanitizer's knows nothing of it, and looks for leaks by itself.
std::size_t bytes_in_use() {
    return mallinfo2().uordblks;
}

// What the C library keeps aside for the threads that are left.
constexpr std::size_t kKeptAside = 64 << 10;

// The connection manager keeps for some seconds what has ended, as late packets of it may come.
void must_fall_to(std::size_t bytes, const Opened& opened) {
    const DAT_EVD_HANDLE silent = opened.make_evd();
    for (int i = 0; bytes_in_use() > bytes; ++i) {
        DAT_EVENT event{};
        DAT_COUNT left = 0;
        assert_int_equal(dat_evd_wait(silent, 10'000, 1, &event, &left), coded(DAT_TIMEOUT_EXPIRED));
        if (i == 12'000) {
            fail_msg("%zu bytes are left, and not %zu", bytes_in_use(), bytes);
        }
    }
}

// Many endpoints of one adapter that share their dispatchers.
struct Crowd {
    Crowd(unsigned number, int size)
        : opened(own_device(number)), pz(opened.make_pz()),
          transfers(opened.make_evd(4 * size, DAT_EVD_DTO_FLAG)),
          connections(opened.make_evd(4 * size, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG)),
          block(opened, pz), endpoints(static_cast<std::size_t>(size)) {
        DAT_EP_ATTR attr{};
        attr.max_recv_dtos = attr.max_request_dtos = 2;
        attr.max_recv_iov = attr.max_request_iov = 1;
        attr.srq_soft_hw = DAT_HW_DEFAULT;
        for (DAT_EP_HANDLE& ep : endpoints) {
            assert_int_equal(dat_ep_create(opened.ia, pz, transfers, transfers, connections, &attr, &ep),
                             DAT_SUCCESS);
        }
    }
    DAT_LMR_TRIPLET part() const { return block.part(0, 8); }
    void await(DAT_EVENT_NUMBER number, int count) const {
        for (int i = 0; i < count; ++i) {
            assert_int_equal(next(connections).event_number, number);
        }
    }
    void await_transfers(int count) const {
        for (int i = 0; i < count; ++i) {
            assert_int_equal(next(transfers).event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
        }
    }

    Opened opened;
    DAT_PZ_HANDLE pz;
    DAT_EVD_HANDLE transfers;
    DAT_EVD_HANDLE connections;
    Block block;
    std::vector<DAT_EP_HANDLE> endpoints;
};

// Not more at a time than a connection manager holds: what is lost then is repeated seconds later.
constexpr std::size_t kWindow = 100;

void connect_all(const Crowd& active, const Crowd& passive, DAT_IA_ADDRESS_PTR address,
                 DAT_CONN_QUAL qualifier) {
    const std::size_t size = active.endpoints.size();
    std::size_t asked = 0;
    std::size_t accepted = 0;
    for (std::size_t established = 0; established < size;) {
        for (; asked < size && asked - established < kWindow; ++asked) {
            assert_int_equal(dat_ep_connect(active.endpoints[asked], address, qualifier, DAT_TIMEOUT_INFINITE,
                                            0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
                             DAT_SUCCESS);
        }
        const DAT_EVENT event = next(passive.connections);
        if (event.event_number == DAT_CONNECTION_REQUEST_EVENT) {
            assert_int_equal(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle,
                                           passive.endpoints[accepted++], 0, nullptr),
                             DAT_SUCCESS);
        } else {
            assert_int_equal(event.event_number, DAT_CONNECTION_EVENT_ESTABLISHED);
            ++established;
        }
    }
    active.await(DAT_CONNECTION_EVENT_ESTABLISHED, static_cast<int>(size));
}

TEST(endpoints__a_thousand_at_once__all_transfer_and_none_is_lost) {
    const int size = size_of("TEST_DAPL_ENDPOINTS", 10) * static_cast<int>(kWindow);
    const Crowd active(0, size);
    const Crowd passive(1, size);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier = 0;
    assert_int_equal(
        dat_psp_create_any(passive.opened.ia, &qualifier, passive.connections, DAT_PSP_CONSUMER_FLAG, &psp),
        DAT_SUCCESS);
    DAT_IA_ATTR attr{};
    assert_int_equal(dat_ia_query(passive.opened.ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr),
                     DAT_SUCCESS);
    DAT_LMR_TRIPLET into = passive.part();
    for (const DAT_EP_HANDLE ep : passive.endpoints) {
        assert_int_equal(dat_ep_post_recv(ep, 1, &into, {}, DAT_COMPLETION_DEFAULT_FLAG), DAT_SUCCESS);
    }
    connect_all(active, passive, attr.ia_address_ptr, qualifier);
    DAT_LMR_TRIPLET from = active.part();
    for (const DAT_EP_HANDLE ep : active.endpoints) {
        assert_int_equal(dat_ep_post_send(ep, 1, &from, {}, DAT_COMPLETION_DEFAULT_FLAG), DAT_SUCCESS);
    }
    active.await_transfers(size);
    passive.await_transfers(size);
    int connected = size;
    for (const DAT_EP_HANDLE ep : active.endpoints) {
        assert_int_equal(dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
        if (--connected % static_cast<int>(kWindow) == 0) {
            const int some = static_cast<int>(kWindow);
            active.await(DAT_CONNECTION_EVENT_DISCONNECTED, some);
            passive.await(DAT_CONNECTION_EVENT_DISCONNECTED, some);
        }
    }
    for (const Crowd* crowd : {&active, &passive}) {
        for (const DAT_EP_HANDLE ep : crowd->endpoints) {
            assert_int_equal(dat_ep_free(ep), DAT_SUCCESS);
        }
        DAT_EVENT event{};
        assert_int_equal(dat_evd_dequeue(crowd->opened.async_evd, &event), coded(DAT_QUEUE_EMPTY));
    }
}

TEST(cycles__connect_transfer_disconnect__nothing_lost_or_leaked) {
    const int cycles = size_of("TEST_DAPL_CYCLES", 200);
    Pair pair;
    int files = 0;
    std::size_t bytes = 0;
    for (int cycle = 0; cycle < cycles; ++cycle) {
        const auto number = static_cast<std::uint64_t>(cycle);
        assert_int_equal(pair.passive.receive(0, 64, number), DAT_SUCCESS);
        pair.connect();
        assert_int_equal(pair.active.send(0, 64, number), DAT_SUCCESS);
        pair.active.must_complete(number, DAT_DTO_SUCCESS, 64);
        pair.passive.must_complete(number, DAT_DTO_SUCCESS, 64);
        const DAT_CLOSE_FLAGS flags = cycle % 2 == 0 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG;
        assert_int_equal(dat_ep_disconnect(pair.active.ep, flags), DAT_SUCCESS);
        pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
        pair.passive.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
        assert_int_equal(dat_ep_reset(pair.active.ep), DAT_SUCCESS);
        assert_int_equal(dat_ep_reset(pair.passive.ep), DAT_SUCCESS);
        if (cycle == 0) {
            files = open_files();
            bytes = bytes_in_use();
        }
    }
    assert_int_equal(open_files(), files);
    if (cycles >= 1000) { // fewer don't stand out
        must_fall_to(bytes + kKeptAside, pair.active.opened);
    }
}

// A GiB of addresses, of which nothing is ever touched.
class Field {
  public:
    Field() { assert_ptr_not_equal(start_, MAP_FAILED); }
    ~Field() { munmap(start_, std::size_t{1} << kMostBits); }
    Field(const Field&) = delete;
    Field& operator=(const Field&) = delete;

    void* start() const { return start_; }
    // From a page to all of it, in turn.
    static DAT_VLEN size(int number) {
        return DAT_VLEN{1} << (kLeastBits + number % (kMostBits - kLeastBits + 1));
    }

  private:
    static constexpr int kLeastBits = 12;
    static constexpr int kMostBits = 30;
    void* start_ = mmap(nullptr, std::size_t{1} << kMostBits, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
};

// Regions that come and go in eight threads: each is another one, is there until it is freed, and nothing is
// left of it.
struct Churn {
    void run(int count) {
        DAT_REGION_DESCRIPTION region{};
        region.for_va = field.start();
        DAT_LMR_CONTEXT last = 0;
        for (int i = 0; i < count; ++i) {
            DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
            DAT_LMR_CONTEXT context = 0;
            DAT_RMR_CONTEXT key = 0;
            DAT_VLEN size = 0;
            DAT_VADDR address = 0;
            const bool is_made =
                dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, Field::size(i), pz, DAT_MEM_PRIV_ALL_FLAG,
                               &lmr, &context, &key, &size, &address) == DAT_SUCCESS;
            const DAT_LMR_TRIPLET whole{context, 0, address, size};
            const bool is_right = is_made && size == Field::size(i) && context != last &&
                                  dat_lmr_sync_rdma_read(ia, &whole, 1) == DAT_SUCCESS &&
                                  dat_lmr_free(lmr) == DAT_SUCCESS &&
                                  dat_lmr_sync_rdma_read(ia, &whole, 1) != DAT_SUCCESS;
            wrong += is_right ? 0 : 1;
            last = context;
        }
    }
    void run_in_threads(int count) {
        std::array<std::thread, 8> threads;
        for (std::thread& thread : threads) {
            thread = std::thread([&] { run(count / static_cast<int>(threads.size())); });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        assert_int_equal(wrong, 0);
    }
    DAT_IA_HANDLE ia;
    DAT_PZ_HANDLE pz;
    Field field{};
    std::atomic<int> wrong{0};
};

TEST(lmr__created_and_freed_by_eight_threads__nothing_left) {
    const int count = size_of("TEST_DAPL_REGIONS", 20'000);
    const Opened opened;
    Churn churn{opened.ia, opened.make_pz()};
    churn.run_in_threads(count / 10);
    const std::size_t bytes = bytes_in_use();
    churn.run_in_threads(count);
    print_message("%d regions, %zu bytes, %zu before\n", count, bytes_in_use(), bytes);
    assert_true(bytes_in_use() <= bytes + kKeptAside);
    assert_int_equal(dat_pz_free(churn.pz), DAT_SUCCESS);
}

// Threads that wait for, look at and free the same dispatchers and CNO, as they like: whatever they are
// answered, each wait ends and nothing of what is gone is touched.
struct Chaos {
    void run(std::uint32_t seed) {
        std::mt19937 random(seed);
        for (int i = 0; i < 400; ++i) {
            std::atomic<DAT_HANDLE>& evd = evds[random() % std::size(evds)];
            DAT_EVENT event{};
            DAT_COUNT left = 0;
            DAT_EVD_HANDLE hint = DAT_HANDLE_NULL;
            switch (random() % 8) {
            case 0: {
                DAT_HANDLE fresh = DAT_HANDLE_NULL;
                (void)dat_evd_create(ia, 4, cno, DAT_EVD_SOFTWARE_FLAG, &fresh); // the CNO may be gone
                (void)dat_evd_free(evd.exchange(fresh));
                break;
            }
            case 1:
                (void)dat_evd_wait(evd, random() % 200, 1, &event, &left);
                break;
            case 2:
                (void)dat_cno_wait(cno, random() % 200, &hint);
                break;
            case 3:
                (void)dat_evd_modify_cno(evd, random() % 2 == 0 ? cno.load() : DAT_HANDLE_NULL);
                break;
            case 4: {
                DAT_HANDLE fresh = DAT_HANDLE_NULL;
                assert_int_equal(dat_cno_create(ia, {&calls, count}, &fresh), DAT_SUCCESS);
                if (dat_cno_free(cno.load()) == DAT_SUCCESS) {
                    cno = fresh;
                } else {
                    (void)dat_cno_free(fresh);
                }
                break;
            }
            case 5:
                (void)(random() % 2 == 0 ? dat_evd_set_unwaitable(evd) : dat_evd_clear_unwaitable(evd));
                break;
            default:
                (void)post(evd, 1);
                break;
            }
        }
    }
    static void count(DAT_PVOID calls, DAT_EVD_HANDLE evd) {
        DAT_EVENT event{};
        (void)dat_evd_dequeue(evd, &event); // it may be gone
        static_cast<std::atomic<int>*>(calls)->fetch_add(1);
    }

    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    std::atomic<DAT_HANDLE> cno{nullptr};
    std::atomic<DAT_HANDLE> evds[3]{};
    std::atomic<int> calls{0};
};

TEST(waits_and_frees__many_threads__all_end) {
    print_message("seed %u\n", kSeed);
    Chaos chaos; // outlives the adapter, whose agents use it
    const Opened opened;
    chaos.ia = opened.ia;
    DAT_HANDLE cno = DAT_HANDLE_NULL;
    assert_int_equal(dat_cno_create(opened.ia, {&chaos.calls, Chaos::count}, &cno), DAT_SUCCESS);
    chaos.cno = cno;
    std::vector<std::thread> threads;
    for (std::uint32_t number = 0; number < 4; ++number) {
        threads.emplace_back([&chaos, number] { chaos.run(kSeed + number); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

// Connections that are made, ended, reset and freed under the feet of threads that use them.
TEST(endpoints__freed_under_use__all_end) {
    Pair pair;
    std::atomic<bool> is_over{false};
    std::thread user([&] {
        while (!is_over) {
            (void)pair.active.send(0, 1);
            (void)pair.active.receive(0, 1);
            DAT_EVENT event{};
            (void)dat_evd_dequeue(pair.active.transfers, &event);
            DAT_EP_PARAM param{};
            (void)dat_ep_query(pair.active.ep, DAT_EP_FIELD_ALL, &param);
        }
    });
    for (int round = 0; round < 20; ++round) {
        assert_int_equal(pair.passive.receive(0, 64), DAT_SUCCESS);
        pair.connect();
        assert_int_equal(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
        pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
        const DAT_EVENT_NUMBER heard = next(pair.passive.connections).event_number;
        assert_true(heard == DAT_CONNECTION_EVENT_DISCONNECTED || heard == DAT_CONNECTION_EVENT_BROKEN);
        assert_int_equal(dat_ep_reset(pair.active.ep), DAT_SUCCESS);
        assert_int_equal(dat_ep_reset(pair.passive.ep), DAT_SUCCESS);
        DAT_EVENT event{};
        while (dat_evd_dequeue(pair.passive.transfers, &event) == DAT_SUCCESS) {
        }
    }
    assert_int_equal(dat_ep_free(pair.active.ep), DAT_SUCCESS);
    is_over = true;
    user.join();
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
