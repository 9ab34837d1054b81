// SPDX-License-Identifier: BSD-3-Clause
//
// What tracing programs see of a running process at its probes.
#include <sluice/sync.h>

#include <sys/syscall.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "roce/engine/types.hpp"
#include "tests/armed_probes.hpp"
#include "tests/unit/uroce/opened.hpp"

namespace {

using namespace sluice::uroce::test;
using sluice::test::ArmedProbes;
using sluice::test::ProbeHit;
using sluice::test::ProbeNote;
using sluice::test::read_probe_notes;
namespace engine = sluice::roce::engine;

ArmedProbes& probes() {
    return ArmedProbes::instance();
}

// The only one of NAME whose first argument is FIRST.
ProbeHit only_hit(std::string_view name, std::uint64_t first) {
    std::vector<ProbeHit> found;
    for (const ProbeHit& hit : probes().hits(name)) {
        if (hit.arguments[0] == first) {
            found.push_back(hit);
        }
    }
    assert_int_equal(found.size(), 1);
    return found.front();
}

TEST(arguments__of_each_probe__can_be_read) {
    for (const std::string& argument : probes().unreadable()) {
        std::printf("unreadable: %s\n", argument.c_str());
    }
    assert_true(probes().unreadable().empty());
}

TEST(message__between_two_queue_pairs__posts_and_completions_are_told) {
    Connected pair;
    probes().forget();
    assert_int_equal(pair.right.receive(pair.right.sge(0, 4096), 77), 0);
    assert_int_equal(pair.left.send(IBV_WR_SEND, pair.left.sge(0, 1000), pair.right), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
    assert_int_equal(pair.right.wait().status, IBV_WC_SUCCESS);

    const ProbeHit post = only_hit("post_send", pair.left.qp->qp_num);
    assert_int_equal(post.arguments[1], pair.left.sent);
    assert_int_equal(post.arguments[2], static_cast<std::uint64_t>(engine::WrOpcode::kSend));
    assert_int_equal(post.arguments[3], 1000);
    const ProbeHit receive = only_hit("post_receive", pair.right.qp->qp_num);
    assert_int_equal(receive.arguments[1], 77);
    assert_int_equal(receive.arguments[2], 1);
    const ProbeHit sent = only_hit("completion", pair.left.qp->qp_num);
    assert_int_equal(sent.arguments[1], pair.left.sent);
    assert_int_equal(sent.arguments[2], IBV_WC_SUCCESS);
    const ProbeHit received = only_hit("completion", pair.right.qp->qp_num);
    assert_int_equal(received.arguments[1], 77);
    assert_int_equal(received.arguments[3], static_cast<std::uint64_t>(engine::WcOpcode::kRecv));
    assert_int_equal(received.arguments[4], 1000);
    assert_true(probes().hits("retransmit").empty());
}

TEST(request__that_is_lost__its_repetition_is_told) {
    setenv("SLUICE_UROCE_FAULTS", "drop-request=2", 1);
    const OpenContext loses(open_uroce(own_address(0)));
    unsetenv("SLUICE_UROCE_FAULTS");
    const OpenContext context(open_uroce(own_address(1)));
    End left(loses.get());
    End right(context.get());
    connect(left, right, {.timeout = 8});
    probes().forget();
    for (int request = 0; request < 2; ++request) {
        assert_int_equal(left.send(IBV_WR_RDMA_WRITE, left.sge(0, 64), right), 0);
        assert_int_equal(left.wait().status, IBV_WC_SUCCESS);
    }
    const std::vector<ProbeHit> again = probes().hits("retransmit");
    assert_false(again.empty());
    assert_int_equal(again[0].arguments[0], left.qp->qp_num);
    assert_int_equal(again[0].arguments[1], right.qp->qp_num);
    assert_int_equal(again[0].arguments[2], 0xffffff); // the second packet's number
}

TEST(registration__done_and_refused__both_are_told) {
    const OpenContext context(open_uroce());
    ibv_pd* const pd = ibv_alloc_pd(context.get());
    std::array<char, 4096> memory{};
    probes().forget();
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    ibv_mr* const mr = ibv_reg_mr(pd, memory.data(), memory.size(), int{IBV_ACCESS_LOCAL_WRITE});
    assert_non_null(mr);
    const std::uint32_t key = mr->lkey;
    assert_int_equal(only_hit("register_begin", address).arguments[1], memory.size());
    assert_int_equal(only_hit("register_end", address).arguments[2], key);
    assert_int_equal(only_hit("register_end", address).arguments[3], 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(only_hit("deregister", key).arguments[1], address);

    constexpr std::uintptr_t kNowhere = 4096;
    assert_null(
        ibv_reg_mr(pd, reinterpret_cast<void*>(kNowhere), 4096, int{IBV_ACCESS_LOCAL_WRITE})); // NOLINT
    assert_int_equal(only_hit("register_end", kNowhere).arguments[3], EFAULT);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

TEST(sync__of_a_range_and_of_a_batch__told_with_the_functions_name) {
    alignas(64) std::array<char, 256> memory{};
    probes().forget();
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    assert_int_equal(sluice_sync_clean(memory.data(), memory.size()), 0);
    const sluice_sync_segment segments[] = {{memory.data(), 64}, {memory.data() + 128, 64}};
    assert_int_equal(sluice_sync_clean_batch(segments, 2), 0);
    const std::vector<ProbeHit> ranges = probes().hits("sync_range");
    assert_int_equal(ranges.size(), 1);
    assert_string_equal(reinterpret_cast<const char*>(ranges[0].arguments[0]), "sluice_sync_clean"); // NOLINT
    assert_int_equal(ranges[0].arguments[1], address);
    assert_int_equal(ranges[0].arguments[2], memory.size());
    const std::vector<ProbeHit> batches = probes().hits("sync_batch");
    assert_int_equal(batches.size(), 1);
    assert_int_equal(batches[0].arguments[1], reinterpret_cast<std::uintptr_t>(segments));
    assert_int_equal(batches[0].arguments[2], 2);
}

// Each row begins with the probe's name and its arguments, in backquotes: | `name` | `one, two` | ...
std::map<std::string, std::size_t> documented_probes() {
    std::map<std::string, std::size_t> found;
    std::ifstream in(TEST_PROBES_PAGE);
    for (std::string line; std::getline(in, line);) {
        const std::size_t end = line.starts_with("| `") ? line.find("` | `", 3) : std::string::npos;
        if (end != std::string::npos) {
            const std::size_t first = end + 4;
            const std::string arguments = line.substr(first + 1, line.find('`', first + 1) - first - 1);
            found[line.substr(3, end - 3)] = 1 + static_cast<std::size_t>(std::ranges::count(arguments, ','));
        }
    }
    return found;
}

TEST(probes__of_the_installed_libraries__are_those_of_the_page) {
    std::map<std::string, std::size_t> found;
    std::istringstream libraries(TEST_LIBRARIES);
    for (std::string path; std::getline(libraries, path, ':');) {
        for (const ProbeNote& note : read_probe_notes(path)) {
            if (note.provider == "sluice") {
                found[note.name] = note.arguments.size();
            }
        }
    }
    const auto documented = documented_probes();
    for (const auto& [name, arguments] : documented) {
        std::printf("documented: %s, %zu\n", name.c_str(), arguments);
    }
    for (const auto& [name, arguments] : found) {
        std::printf("found: %s, %zu\n", name.c_str(), arguments);
    }
    assert_true(found == documented);
}

} // namespace

// In place of libc's: threads of ours block all signals, and a breakpoint in one of them would end the
// process.
extern "C" int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) {
    sigset_t without_traps{};
    if (set != nullptr) {
        without_traps = *set;
        if (how != SIG_UNBLOCK) {
            sigdelset(&without_traps, SIGTRAP);
        }
    }
    constexpr std::size_t kKernelsBytes = 8;
    return syscall(SYS_rt_sigprocmask, how, set != nullptr ? &without_traps : nullptr, before,
                   kKernelsBytes) == 0
               ? 0
               : errno;
}

int main() {
    return sluice::test::run_all_tests("uroce.probes");
}
