// SPDX-License-Identifier: BSD-3-Clause
//
// Nothing to be had: each allocation, mapping, descriptor and thread that a call asks for fails once, the
// first, the second and so on, until the call asks for no more. It says so by its errno or does without,
// leaves nothing behind, and can be made again.
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include "core/boundary.hpp"
#include "tests/unit/shortage.hpp"
#include "tests/unit/shortage_sweep.hpp"
#include "tests/unit/uroce/opened.hpp"
#include "tests/unit/uroce/other_process.hpp"

using namespace sluice::uroce::test;
using sluice::test::is_errno_of_shortage;
using sluice::test::kMostRequests;
using sluice::test::last_failure;
using sluice::test::print_failed_stack;
using sluice::test::Sweep;
using sluice::test::until_failure;
namespace verbs = sluice::uroce::verbs;

namespace {

void sweep(const char* what, const std::function<int()>& make, const std::function<void()>& undo,
           int step = 1) {
    Sweep{.what = what, .make = make, .undo = undo, .is_shortage = is_errno_of_shortage, .step = step}.run();
}

// One that gives a pointer, and sets errno.
template<typename T>
void sweep(const char* what, const std::function<T*()>& make, int (*destroy)(T*)) {
    T* made = nullptr;
    const auto make_it = [&] {
        errno = 0;
        made = make();
        return made != nullptr ? 0 : errno;
    };
    sweep(what, make_it, [&] { assert_int_equal(destroy(made), 0); });
}

int open_device(ibv_context*& context, const char* address) {
    auto opened = sluice::at_boundary("open", [&] { return verbs::open_context(address); });
    context = opened ? *opened : nullptr;
    return opened ? 0 : opened.error().to_errno();
}

// In a child each, since much is made once for a process. A code for the parent, where no test can fail.
int fail_first_open(int number, const char* address, int& error) {
    ibv_context* context = nullptr;
    until_failure = number;
    error = open_device(context, address);
    const bool was_reached = until_failure < 0;
    until_failure = -1;
    if (error != 0 && (!was_reached || !is_errno_of_shortage(error))) {
        print_error("%s where %s fails (%d)\n", strerror(error), last_failure, number);
        print_failed_stack();
        return 2;
    }
    if (error == 0) {
        (void)ibv_close_device(context);
    }
    if (open_device(context, address) != 0 || ibv_close_device(context) != 0) {
        print_error("no second try where %s failed (%d)\n", last_failure, number);
        print_failed_stack();
        return 3;
    }
    return was_reached ? 0 : 1;
}

TEST(first_device__nothing_to_be_had__told_and_possible_again) {
    const std::string address = own_address();
    int ended = 0;
    for (int number = 0; ended == 0; number += sluice::test::stride(3)) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            int error = 0;
            _exit(fail_first_open(number, address.c_str(), error));
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        ended = WEXITSTATUS(status);
        assert_true(number < kMostRequests);
    }
    assert_int_equal(ended, 1);
}

TEST(device__nothing_to_be_had__told_and_possible_again) {
    const std::string address = own_address();
    ibv_context* context = nullptr;
    sweep(
        "open_context", [&] { return open_device(context, address.c_str()); },
        [&] { assert_int_equal(ibv_close_device(context), 0); }, sluice::test::stride(3));
}

TEST(objects__nothing_to_be_had__told_and_possible_again) {
    const OpenContext opened(open_uroce());
    ibv_context* const context = opened.get();
    End end(context);
    sweep<ibv_pd>(
        "ibv_alloc_pd", [&] { return ibv_alloc_pd(context); }, ibv_dealloc_pd);
    sweep<ibv_mr>(
        "ibv_reg_mr", [&] { return ibv_reg_mr(end.pd, end.block.data(), 4096, kAllAccess); }, ibv_dereg_mr);
    sweep<ibv_cq>(
        "ibv_create_cq", [&] { return ibv_create_cq(context, 64, nullptr, nullptr, 0); }, ibv_destroy_cq);
    sweep<ibv_comp_channel>(
        "create_comp_channel",
        [&]() -> ibv_comp_channel* {
            auto made = sluice::at_boundary("create", [&] { return verbs::create_comp_channel(context); });
            errno = made ? 0 : made.error().to_errno();
            return made ? *made : nullptr;
        },
        ibv_destroy_comp_channel);
    ibv_srq_init_attr srq{};
    srq.attr = {64, 4, 0};
    sweep<ibv_srq>(
        "ibv_create_srq", [&] { return ibv_create_srq(end.pd, &srq); }, ibv_destroy_srq);
    sweep<ibv_mw>(
        "ibv_alloc_mw", [&] { return ibv_alloc_mw(end.pd, IBV_MW_TYPE_2); }, ibv_dealloc_mw);
    ibv_ah_attr ah{};
    ah.is_global = 1;
    ah.port_num = 1;
    ah.grh.dgid = end.gid;
    sweep<ibv_ah>(
        "ibv_create_ah", [&] { return ibv_create_ah(end.pd, &ah); }, ibv_destroy_ah);
    ibv_alloc_dm_attr dm{};
    dm.length = 4096;
    sweep<ibv_dm>(
        "ibv_alloc_dm", [&] { return ibv_alloc_dm(context, &dm); }, ibv_free_dm);
}

TEST(queue_pairs__nothing_to_be_had__told_and_possible_again) {
    const OpenContext opened(open_uroce());
    End end(opened.get());
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
        EndOptions options;
        options.type = type;
        sweep<ibv_qp>(
            "ibv_create_qp_ex", [&] { return end.make_qp(options); }, ibv_destroy_qp);
    }
}

int up(ibv_qp* qp, std::uint32_t peer_qpn, const union ibv_gid& peer_gid) {
    const ibv_qp_attr attr = usual_path(peer_qpn, peer_gid, {});
    int error = modify(qp, attr, IBV_QPS_INIT, kToInit | IBV_QP_ACCESS_FLAGS);
    error = error != 0 ? error : modify(qp, attr, IBV_QPS_RTR, kToRtr);
    return error != 0 ? error : modify(qp, attr, IBV_QPS_RTS, kToRts);
}

// Nothing of them is kept from one round to the next.
TEST(connections__nothing_to_be_had__told_and_possible_again) {
    const OpenContext first(open_uroce());
    const OpenContext second(open_uroce(own_address(1)));
    std::unique_ptr<End> left;
    std::unique_ptr<End> right;
    const auto connect_both = [&] {
        const int failure = std::exchange(until_failure, -1);
        left = std::make_unique<End>(first.get());
        right = std::make_unique<End>(second.get());
        until_failure = failure;
        const int error = up(left->qp, right->qp->qp_num, right->gid);
        return error != 0 ? error : up(right->qp, left->qp->qp_num, left->gid);
    };
    const auto destroy_both = [&] {
        assert_int_equal(left->send(IBV_WR_RDMA_WRITE, left->sge(0, 4096), *right), 0);
        assert_int_equal(left->wait().status, IBV_WC_SUCCESS);
        left.reset();
        right.reset();
    };
    sweep("ibv_modify_qp", connect_both, destroy_both);
}

// A queue pair for each round.
void serve_rounds(const Talk& talk) {
    const OpenContext context(open_uroce());
    while (talk.hear<char>() == 'n') {
        End end(context.get());
        const Card client = talk.swap_cards(end);
        bring_up(end.qp, client.qpn, client.gid);
        talk.tell('r');
        assert_int_equal(talk.hear<char>(), 'd');
    }
}

struct ToNeighbour {
    ToNeighbour() : server(serve_rounds), talk(server.talk()), context(open_uroce()) {}

    void begin() {
        end = std::make_unique<End>(context.get());
        talk.tell('n');
        card = talk.swap_cards(*end);
        assert_int_equal(talk.hear<char>(), 'r');
    }
    int write_once() {
        const int error = up(end->qp, card.qpn, card.gid);
        if (error != 0) {
            return error;
        }
        ibv_sge list = end->sge(0, 4096);
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.sg_list = &list;
        wr.num_sge = 1;
        wr.wr.rdma = {.remote_addr = card.addr, .rkey = card.rkey};
        assert_int_equal(end->post(wr), 0);
        assert_int_equal(end->wait().status, IBV_WC_SUCCESS);
        return 0;
    }
    void finish() {
        talk.tell('d');
        end.reset();
    }
    void close() const {
        talk.tell('e');
        assert_int_equal(server.wait_for_end(), 0);
    }

    OtherProcess server;
    Talk talk;
    OpenContext context;
    std::unique_ptr<End> end;
    Card card{};
};

// What can't be shared with the peer's process goes over UDP.
TEST(neighbours__nothing_to_be_had__reached_all_the_same) {
    ToNeighbour peer;
    const auto make = [&] {
        const int failure = std::exchange(until_failure, -1);
        peer.begin();
        until_failure = failure;
        const int error = peer.write_once();
        const int rest = std::exchange(until_failure, -1);
        if (error != 0) {
            peer.finish();
        }
        until_failure = rest;
        return error;
    };
    Sweep{.what = "a write to a neighbour",
          .make = make,
          .undo = [&] { peer.finish(); },
          .is_shortage = is_errno_of_shortage,
          .keeps_memory = true}
        .run();
    peer.close();
}

TEST(threads_of_devices__nothing_to_be_had__neighbours_are_reached) {
    sluice::test::sweep_elsewhere("a neighbour", [] {
        ToNeighbour peer;
        peer.begin();
        assert_int_equal(peer.write_once(), 0);
        peer.finish();
        peer.close();
    });
}

TEST(messages__nothing_to_be_had__need_nothing) {
    Connected pair(Where::kTwoDevices);
    const auto write_one = [&] { return pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 8), pair.right); };
    const auto poll_one = [&] {
        until_failure = 0;
        assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
        assert_int_equal(std::exchange(until_failure, -1), 0);
    };
    Sweep{"ibv_post_send", write_one, poll_one, is_errno_of_shortage, true}.run();
}

TEST(changes__nothing_to_be_had__told_and_possible_again) {
    const OpenContext opened(open_uroce());
    EndOptions options;
    options.with_srq = true;
    End end(opened.get(), options);
    sweep(
        "ibv_resize_cq", [&] { return ibv_resize_cq(end.cq, 1024); },
        [&] { assert_int_equal(ibv_resize_cq(end.cq, 256), 0); });
    const auto resize_srq = [&](std::uint32_t max_wr) {
        ibv_srq_attr attr{};
        attr.max_wr = max_wr;
        return ibv_modify_srq(end.srq, &attr, IBV_SRQ_MAX_WR);
    };
    sweep(
        "ibv_modify_srq", [&] { return resize_srq(512); }, [&] { assert_int_equal(resize_srq(64), 0); });
    const auto change_region = [&](std::size_t length) {
        return ibv_rereg_mr(end.mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, end.block.data(), length, 0);
    };
    Sweep{"ibv_rereg_mr", [&] { return change_region(4096); },
          [&] { assert_int_equal(change_region(8192), 0); }, is_errno_of_shortage, true}
        .run();
    End datagrams(opened.get(), {.type = IBV_QPT_UD});
    bring_up_datagrams(datagrams.qp);
    union ibv_gid group {};
    group.raw[10] = group.raw[11] = 0xff;
    group.raw[12] = 239;
    group.raw[13] = 7;
    group.raw[15] = 1;
    sweep(
        "ibv_attach_mcast", [&] { return ibv_attach_mcast(datagrams.qp, &group, 0); },
        [&] { assert_int_equal(ibv_detach_mcast(datagrams.qp, &group, 0), 0); });
}

// Mappings until the kernel gives no more (vm.max_map_count). Neighbours differ in their rights, so that none
// are joined.
class AllMappings {
  public:
    AllMappings() {
        constexpr std::size_t kMost = 1 << 20;
        made_.reserve(kMost);
        while (made_.size() < kMost) {
            void* const made = ::mmap(nullptr, kPage, made_.size() % 2 == 0 ? PROT_READ : PROT_NONE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (made == MAP_FAILED) {
                return;
            }
            made_.push_back(made);
        }
    }
    ~AllMappings() {
        for (void* const each : made_) {
            munmap(each, kPage);
        }
    }
    AllMappings(const AllMappings&) = delete;
    AllMappings& operator=(const AllMappings&) = delete;
    std::size_t size() const { return made_.size(); }

  private:
    static constexpr std::size_t kPage = 4096;
    std::vector<void*> made_;
};

TEST(mappings__none_left__told_and_possible_again) {
    const OpenContext opened(open_uroce());
    End end(opened.get());
    const std::string other = own_address(1);
    ibv_alloc_dm_attr dm{};
    dm.length = 1 << 20;
    {
        const AllMappings all;
        if (all.size() == 1 << 20) {
            skip(); // no limit here
        }
        ibv_context* context = nullptr;
        assert_int_equal(open_device(context, other.c_str()), ENOMEM);
        assert_null(ibv_alloc_dm(opened.get(), &dm));
        assert_int_equal(errno, ENOMEM);
        ibv_mr* const mr = ibv_reg_mr(end.pd, end.block.data(), 4096, kAllAccess);
        assert_non_null(mr); // which maps nothing
        assert_int_equal(ibv_dereg_mr(mr), 0);
    }
    ibv_dm* const memory = ibv_alloc_dm(opened.get(), &dm);
    assert_non_null(memory);
    assert_int_equal(ibv_free_dm(memory), 0);
    const OpenContext another(open_uroce(other));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
