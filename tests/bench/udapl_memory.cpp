// SPDX-License-Identifier: BSD-3-Clause
//
// What DAT's objects take beyond the verbs objects below them: the resident size of a process of its own.
#include "tests/bench/resident.hpp"
#include "tests/bench/udapl.hpp"
#include "tests/bench/udapl_end.hpp"

namespace sluice::bench {

namespace {

constexpr int kRegions = 7000; // a device has room for some more
constexpr int kPairs = 500;

struct Sizes {
    double region_bytes;
    double endpoint_bytes;
    double adapter_bytes;
};

double verbs_region_bytes(const Context& context, const Buffer& memory) {
    ibv_pd* const pd = need(ibv_alloc_pd(context.get()), "ibv_alloc_pd");
    std::vector<ibv_mr*> regions(kRegions);
    const double before = resident_bytes();
    for (ibv_mr*& region : regions) {
        region = need(ibv_reg_mr(pd, memory.data(), 4096, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
    }
    return (resident_bytes() - before) / kRegions;
}

double region_bytes(const Adapter& adapter, const Buffer& memory) {
    const double before = resident_bytes();
    for (int i = 0; i < kRegions; ++i) {
        adapter.make_lmr(memory, 4096);
    }
    return (resident_bytes() - before) / kRegions;
}

// With queues of one request each, so that what is beside them shows. Completions come to one queue, as those
// of the endpoints do.
double queue_pair_bytes(const Context& context, const Buffer& memory) {
    const End with_queue(context, memory, 1);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = with_queue.cq();
    init.qp_type = IBV_QPT_RC;
    init.cap = {2, 1, 1, 1, 0}; // an endpoint's has room for a request of its own
    const double before = resident_bytes();
    for (int i = 0; i < 2 * kPairs; ++i) {
        need(ibv_create_qp(with_queue.pd(), &init), "ibv_create_qp");
    }
    return (resident_bytes() - before) / (2 * kPairs);
}

double endpoint_bytes(const Adapter& adapter) {
    Endpoints endpoints(adapter, 1, 4);
    const double before = resident_bytes();
    for (int i = 0; i < kPairs; ++i) {
        endpoints.add_pair();
    }
    return (resident_bytes() - before) / (2 * kPairs);
}

// Each on a device of its own, where nothing was made before.
Sizes measure() {
    const Buffer memory(4096);
    {
        const Adapter first(own_address(4)); // what is loaded once
    }
    Sizes sizes{};
    const Context context(own_address(0));
    const double before = resident_bytes();
    const Adapter adapter(own_address(0));
    sizes.adapter_bytes = resident_bytes() - before;
    const Context verbs(own_address(1));
    sizes.region_bytes = region_bytes(adapter, memory) - verbs_region_bytes(verbs, memory);
    const Adapter connected(own_address(2));
    const Context connected_verbs(own_address(3));
    sizes.endpoint_bytes = endpoint_bytes(connected) - queue_pair_bytes(connected_verbs, memory);
    return sizes;
}

} // namespace

void udapl_memory_figures(Report& report) {
    const Sizes sizes = in_own_process(measure);
    report.add({.name = "memory of an LMR, beyond its ibv_mr",
                .value = sizes.region_bytes,
                .unit = "bytes",
                .kind = Goal::kAtMost,
                .goal = 256});
    report.add({.name = "memory of a connected EP, beyond its queue pair",
                .value = sizes.endpoint_bytes,
                .unit = "bytes",
                .kind = Goal::kAtMost,
                .goal = 4096});
    report.add({.name = "memory of an idle IA, beyond its ibv_context",
                .value = sizes.adapter_bytes / 1024,
                .unit = "KiB",
                .kind = Goal::kAtMost,
                .goal = 1024});
}

} // namespace sluice::bench
