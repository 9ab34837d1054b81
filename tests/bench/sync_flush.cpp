// SPDX-License-Identifier: BSD-3-Clause
//
// Whole batches on a device that doesn't snoop: against a bare loop by hand, which checks nothing and
// fences once, and against what the first idea would be, a lock, a map and a fence per segment.
#include <cmath>
#include <map>
#include <memory>
#include <mutex>

#include "core/coherence/engine.hpp"
#include "tests/bench/sync.hpp"
#include "tests/bench/sync_shapes.hpp"
#include "tests/bench/yardsticks.hpp"

namespace sluice::bench {

#if defined(__x86_64__)

namespace {

using coherence::EdgePolicy;
using coherence::Engine;
using coherence::Segment;

// One engine with one region, and the segments of a shape inside it.
class Scene {
  public:
    explicit Scene(const coherence::Ops& ops)
        : engine_(*Engine::make_non_coherent(ops, EdgePolicy::kCount)), buffer_(kLargestShape),
          context_(*engine_->add({.address = buffer_.address(), .length = buffer_.size()}, true)) {
        regions_[buffer_.address()] = buffer_.size();
    }

    void set(const Shape& shape) {
        segments_.clear();
        for (std::uint64_t i = 0; i < shape.count; ++i) {
            segments_.push_back({context_, 0, buffer_.address() + i * shape.stride, shape.length});
        }
    }

    void dirty() {
        for (const Segment& segment : segments_) {
            for (std::uint64_t at = 0; at < segment.length; at += 16) {
                volatile char* byte = buffer_.data() + (segment.address - buffer_.address()) + at;
                *byte = static_cast<char>(*byte + 1);
            }
        }
        drain();
    }

    void clean() { keep(engine_->before_device_reads(segments_.data(), segments_.size()).index); }
    void invalidate() { keep(engine_->after_device_wrote(segments_.data(), segments_.size()).index); }

    template<typename Instruction>
    void clean_bare() {
        bare_loop<Instruction>(segments_);
        sfence();
    }
    template<typename Instruction>
    void invalidate_bare() {
        mfence();
        bare_loop<Instruction>(segments_);
        mfence();
    }
    void clean_naive() {
        for (const Segment& segment : segments_) {
            const std::lock_guard guard(mutex_);
            auto region = regions_.upper_bound(segment.address);
            --region;
            if (segment.address + segment.length > region->first + region->second) {
                std::abort();
            }
            flush_range<Clflush>(segment.address, segment.length);
            mfence();
        }
    }

  private:
    std::unique_ptr<Engine> engine_;
    Buffer buffer_;
    std::uint32_t context_;
    std::vector<Segment> segments_;
    std::mutex mutex_;
    std::map<std::uint64_t, std::uint64_t> regions_;
};

using Way = void (Scene::*)();

struct Ways {
    Way clean_bare;
    Way invalidate_bare;
};

// The bare loop uses the instruction that ours was given.
Ways bare_ways(const coherence::Ops& ops) {
    const std::string_view clean = ops.clean.name;
    const bool opt = std::string_view(ops.invalidate.name).starts_with("clflushopt");
    return {clean == "clwb"         ? &Scene::clean_bare<Clwb>
            : clean == "clflushopt" ? &Scene::clean_bare<Clflushopt>
                                    : &Scene::clean_bare<Clflush>,
            opt ? &Scene::invalidate_bare<Clflushopt> : &Scene::invalidate_bare<Clflush>};
}

void add_bare_figure(Report& report, const Shape& shape, const char* operation,
                     const std::vector<double>& medians) {
    const double ours = medians[0];
    const double theirs = (medians[1] + medians[2]) / 2;
    report.add({.name = std::string(operation) + " / bare loop: " + shape.name,
                .value = ours / theirs,
                .unit = "x",
                .kind = Goal::kAtMost,
                .goal = shape.length >= 4096 ? 1.02 : 1.05,
                .ours = ours,
                .theirs = theirs,
                .noise = std::fabs(medians[1] / medians[2] - 1)});
}

void add_shape(Report& report, Scene& scene, const Shape& shape, const Ways& bare) {
    scene.set(shape);
    const auto contender = [&scene](Way way) {
        return Contender{[&scene] { scene.dirty(); },
                         [&scene, way] {
                             (scene.*way)();
                             drain();
                         }};
    };
    const std::uint64_t bytes = shape.count * shape.length;
    const int repeats = bytes > (4 << 20) ? 1 : bytes > 100000 ? 4 : 40;
    const int rounds = report.rounds(bytes > (4 << 20) ? 61 : 151);
    const auto clean = interleave(
        {contender(&Scene::clean), contender(bare.clean_bare), contender(bare.clean_bare)}, rounds, repeats);
    add_bare_figure(report, shape, "clean", clean);
    const auto invalidate = interleave(
        {contender(&Scene::invalidate), contender(bare.invalidate_bare), contender(bare.invalidate_bare)},
        rounds, repeats);
    add_bare_figure(report, shape, "invalidate", invalidate);
    if (shape.length == 16) {
        report.add({.name = std::string("bare loop / clean: ") + shape.name,
                    .value = clean[1] / clean[0],
                    .unit = "x",
                    .kind = Goal::kAtLeast,
                    .goal = 7,
                    .ours = clean[0],
                    .theirs = clean[1]});
    }
    if (shape.naive_goal != 0) {
        const auto naive = interleave({contender(&Scene::clean), contender(&Scene::clean_naive)},
                                      report.rounds(51), repeats);
        report.add({.name = std::string("lock, map, fence for each / clean: ") + shape.name,
                    .value = naive[1] / naive[0],
                    .unit = "x",
                    .kind = Goal::kAtLeast,
                    .goal = shape.naive_goal,
                    .ours = naive[0],
                    .theirs = naive[1]});
    }
}

} // namespace

void flush_figures(Report& report) {
    const coherence::Ops& ops = **coherence::native_ops();
    Scene scene(ops);
    const Ways bare = bare_ways(ops);
    for (const Shape& shape : kShapes) {
        add_shape(report, scene, shape, bare);
    }
}

#else

void flush_figures(Report&) {
    std::printf("no comparison of flushes: the loops to compare with exist for x86-64 only\n");
}

#endif

} // namespace sluice::bench
