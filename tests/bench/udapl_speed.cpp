// SPDX-License-Identifier: BSD-3-Clause
//
// Calls of DAT beside those of verbs that do the same on the same device, and sync calls beside the engine
// that they go to; once with little else in the process, and once with 10^5 regions and 10^3 endpoints.
#include <memory>

#include "core/coherence/engine.hpp"
#include "tests/bench/udapl.hpp"
#include "tests/bench/udapl_end.hpp"

namespace sluice::bench {

namespace {

constexpr int kDepth = 64;
constexpr std::uint32_t kMessage = 8;
constexpr std::uint64_t kRegionBytes = 4096;

// How much more OURS costs than THEIRS, of which there are two, per each of CALLS.
void add_difference(Report& report, const std::string& name, const std::vector<double>& ns, int calls,
                    double goal_ns) {
    const double ours = ns[0] / calls;
    const double theirs = ns[1] / calls;
    const double more = ours - theirs;
    report.add({.name = name,
                .value = more,
                .unit = "ns more",
                .kind = Goal::kAtMost,
                .goal = goal_ns,
                .ours = ours,
                .theirs = theirs,
                .noise = std::abs(theirs - ns[2] / calls) / std::max(more, 1.0)});
}

// Sends and their completions. Receives are posted beforehand, and their completions taken afterwards.
class VerbsSends {
  public:
    VerbsSends(const Context& context, const Buffer& memory)
        : from_(context, memory, kDepth), to_(context, memory, kDepth) {
        connect(from_, to_);
    }
    void prepare() {
        while (to_.poll() != 0) {
        }
        for (int i = 0; i < kDepth; ++i) {
            to_.post_receive(kMessage);
        }
    }
    void run() {
        for (int i = 0; i < kDepth; ++i) {
            from_.post_send(kMessage);
            while (from_.poll() == 0) {
            }
        }
    }

  private:
    End from_;
    End to_;
};

class DatSends {
  public:
    DatSends(const Adapter& adapter, Endpoints& endpoints, const Buffer& memory) : endpoints_(endpoints) {
        from_ = endpoints.add_pair(&to_);
        adapter.make_lmr(memory, kRegionBytes, &part_.lmr_context);
        part_.virtual_address = memory.address();
        part_.segment_length = kMessage;
    }
    void prepare() {
        while (is_one_taken(endpoints_.receives())) {
        }
        for (int i = 0; i < kDepth; ++i) {
            must(dat_ep_post_recv(to_, 1, &part_, {}, DAT_COMPLETION_DEFAULT_FLAG), "dat_ep_post_recv");
        }
    }
    void run() {
        for (int i = 0; i < kDepth; ++i) {
            must(dat_ep_post_send(from_, 1, &part_, {}, DAT_COMPLETION_DEFAULT_FLAG), "dat_ep_post_send");
            while (!is_one_taken(endpoints_.requests())) {
            }
        }
    }

  private:
    static bool is_one_taken(DAT_EVD_HANDLE evd) {
        DAT_EVENT event;
        if (dat_evd_dequeue(evd, &event) != DAT_SUCCESS) {
            return false;
        }
        if (event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS) {
            must(DAT_INTERNAL_ERROR, "a transfer");
        }
        return true;
    }

    const Endpoints& endpoints_;
    DAT_EP_HANDLE from_;
    DAT_EP_HANDLE to_ = DAT_HANDLE_NULL;
    DAT_LMR_TRIPLET part_{};
};

void send_figure(Report& report, DatSends& ours, VerbsSends& theirs, const std::string& where) {
    const Contender yardstick{[&] { theirs.prepare(); }, [&] { theirs.run(); }};
    const std::vector<double> ns = interleave(
        {{[&] { ours.prepare(); }, [&] { ours.run(); }}, yardstick, yardstick}, report.rounds(2001), 1);
    add_difference(report, "8-byte send and its completion" + where, ns, kDepth, 40);
}

void region_figure(Report& report, const Adapter& adapter, ibv_pd* pd, const Buffer& memory,
                   const std::string& where) {
    constexpr int kCalls = 64;
    constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    const auto nothing = [] {};
    const auto ours = [&] {
        for (int i = 0; i < kCalls; ++i) {
            must(dat_lmr_free(adapter.make_lmr(memory, kRegionBytes)), "dat_lmr_free");
        }
    };
    const auto theirs = [&] {
        for (int i = 0; i < kCalls; ++i) {
            ibv_mr* const mr = ibv_reg_mr(pd, memory.data(), kRegionBytes, kAccess);
            need_zero(ibv_dereg_mr(need(mr, "ibv_reg_mr")), "ibv_dereg_mr");
        }
    };
    const std::vector<double> ns =
        interleave({{nothing, ours}, {nothing, theirs}, {nothing, theirs}}, report.rounds(2001), 1);
    add_difference(report, "create and free an LMR" + where, ns, kCalls, 300);
}

void sync_figure(Report& report, const Adapter& adapter, const Buffer& memory, const std::string& where) {
    constexpr int kCalls = 4096;
    const std::unique_ptr<coherence::Engine> engine =
        *coherence::Engine::make_coherent(coherence::native_barriers());
    const coherence::Segment segment{
        *engine->add({.address = memory.address(), .length = kRegionBytes}, true), 0, memory.address(), 64};
    DAT_LMR_TRIPLET part{0, 0, memory.address(), 64};
    const DAT_LMR_HANDLE lmr = adapter.make_lmr(memory, kRegionBytes, &part.lmr_context);
    const auto nothing = [] {};
    const auto ours = [&] {
        for (int i = 0; i < kCalls; ++i) {
            keep(dat_lmr_sync_rdma_read(adapter.ia(), &part, 1));
        }
    };
    const auto theirs = [&] {
        for (int i = 0; i < kCalls; ++i) {
            keep(engine->before_device_reads(&segment, 1).index);
        }
    };
    const std::vector<double> ns =
        interleave({{nothing, ours}, {nothing, theirs}, {nothing, theirs}}, report.rounds(2001), 1);
    add_difference(report, "sync call, 1 segment" + where, ns, kCalls, 3);
    must(dat_lmr_free(lmr), "dat_lmr_free");
}

// A device has room for some thousand regions: so there are several.
class Crowd {
  public:
    Crowd(const Adapter& first, Endpoints& endpoints, const Buffer& memory) {
        for (int i = 0; i < kPairs; ++i) {
            endpoints.add_pair();
        }
        fill(first, memory);
        for (unsigned i = 1; i < kAdapters; ++i) {
            others_.push_back(std::make_unique<Adapter>(own_address(i)));
            fill(*others_.back(), memory);
        }
    }

  private:
    static constexpr int kPairs = 500;
    static constexpr unsigned kAdapters = 13;
    static constexpr int kRegionsEach = 7700;

    static void fill(const Adapter& adapter, const Buffer& memory) {
        for (int i = 0; i < kRegionsEach; ++i) {
            adapter.make_lmr(memory, kRegionBytes);
        }
    }

    std::vector<std::unique_ptr<Adapter>> others_;
};

} // namespace

void udapl_speed_figures(Report& report) {
    const Buffer memory(kRegionBytes);
    const Adapter adapter(own_address(0));
    const Context context(own_address(0));
    Endpoints endpoints(adapter, kDepth, 2 * kDepth);
    DatSends ours(adapter, endpoints, memory);
    VerbsSends theirs(context, memory);
    ibv_pd* const pd = need(ibv_alloc_pd(context.get()), "ibv_alloc_pd");
    const auto figures = [&](const std::string& where) {
        send_figure(report, ours, theirs, where);
        region_figure(report, adapter, pd, memory, where);
        sync_figure(report, adapter, memory, where);
    };
    figures("");
    const Crowd crowd(adapter, endpoints, memory);
    figures(", among 10^5 LMRs, 10^3 EPs");
    ibv_dealloc_pd(pd);
}

} // namespace sluice::bench
