// SPDX-License-Identifier: BSD-3-Clause
//
// What libsluice-sync adds to the engine, and ways to copy: bench_sync_api [--json FILE] [--quick].
#include "sluice/sync.h"

#include <array>
#include <cstdint>
#include <memory>

#include "core/coherence/copy.hpp"
#include "core/coherence/engine.hpp"
#include "tests/bench/harness.hpp"
#include "tests/bench/sync_shapes.hpp"

namespace sluice::bench {

namespace {

using coherence::Engine;
using coherence::Ops;
using coherence::Segment;

// The same segments for both: in a region of an engine, and as the API takes them.
class Scene {
  public:
    explicit Scene(const Ops& ops)
        : engine_(*Engine::make_non_coherent(ops, coherence::EdgePolicy::kCount)), buffer_(kLargestShape),
          context_(*engine_->add({.address = buffer_.address(), .length = buffer_.size()}, true)) {}

    void set(const Shape& shape) {
        segments_.clear();
        ranges_.clear();
        for (std::uint64_t i = 0; i < shape.count; ++i) {
            segments_.push_back({context_, 0, buffer_.address() + i * shape.stride, shape.length});
            ranges_.push_back({buffer_.data() + i * shape.stride, shape.length});
        }
    }

    void dirty() {
        for (const sluice_sync_segment& range : ranges_) {
            auto* const bytes = const_cast<volatile char*>(static_cast<const char*>(range.address));
            for (std::uint64_t at = 0; at < range.length; at += 16) {
                bytes[at] = static_cast<char>(bytes[at] + 1);
            }
        }
        drain();
    }

    void clean_by_engine() { keep(engine_->before_device_reads(segments_.data(), segments_.size()).index); }
    void clean_by_api() { keep(sluice_sync_clean_batch(ranges_.data(), ranges_.size())); }
    void invalidate_by_engine() {
        keep(engine_->after_device_wrote(segments_.data(), segments_.size()).index);
    }
    void invalidate_by_api() { keep(sluice_sync_invalidate_batch(ranges_.data(), ranges_.size())); }

  private:
    std::unique_ptr<Engine> engine_;
    Buffer buffer_;
    std::uint32_t context_;
    std::vector<Segment> segments_;
    std::vector<sluice_sync_segment> ranges_;
};

using Way = void (Scene::*)();

// Shapes of one range lie on an axis of sizes.
Points points_of(const Shape& shape, const std::string& operation, double ours, double theirs) {
    if (shape.count != 1) {
        return {};
    }
    return compared({"One range: " + operation, "ns", "libsluice-sync", "engine"}, shape.length, ours,
                    theirs);
}

void add_shape(Report& report, Scene& scene, const Shape& shape, const char* operation, Way api, Way engine) {
    scene.set(shape);
    const auto contender = [&scene](Way way) {
        return Contender{[&scene] { scene.dirty(); },
                         [&scene, way] {
                             (scene.*way)();
                             drain();
                         }};
    };
    const int repeats = shape.count * shape.length > 100000 ? 4 : 40;
    const auto ns =
        interleave({contender(api), contender(engine), contender(engine)}, report.rounds(151), repeats);
    const double theirs = (ns[1] + ns[2]) / 2;
    report.add({.name = std::string(operation) + ", API / engine: " + shape.name,
                .value = ns[0] / theirs,
                .unit = "x",
                .kind = Goal::kAtMost,
                .goal = std::max(1 + 3 / theirs, shape.length >= 4096 ? 1.02 : 1.05),
                .ours = ns[0],
                .theirs = theirs,
                .noise = std::fabs(ns[1] / ns[2] - 1),
                .points = points_of(shape, operation, ns[0], theirs)});
}

// The engine's functions as a library of its own would have them, where ours are in one, too.
[[gnu::noinline]] void clean_range(const Ops& ops, std::uintptr_t address, std::size_t length) noexcept {
    coherence::clean(ops, address, length);
}
[[gnu::noinline]] void clean_ranges(const Ops& ops, const coherence::Range* ranges,
                                    std::uint64_t count) noexcept {
    coherence::clean(ops, ranges, count);
}

// CALL's cost over ENGINE's. No line is done: what remains is the call and its fence, which is cheap when
// nothing is on the way.
template<typename Call, typename Engine>
void add_call(Report& report, const char* name, Call call, Engine engine) {
    constexpr int kCalls = 1000;
    const auto many = [](auto one) {
        return Contender{[] {},
                         [one] {
                             for (int i = 0; i < kCalls; ++i) {
                                 one();
                             }
                         }};
    };
    const auto ns = interleave({many(call), many(engine)}, report.rounds(1000), 1);
    report.add({.name = name,
                .value = (ns[0] - ns[1]) / kCalls,
                .unit = "ns",
                .kind = Goal::kAtMost,
                .goal = 3,
                .ours = ns[0] / kCalls,
                .theirs = ns[1] / kCalls});
}

void add_calls(Report& report, const Ops& ops) {
    static char byte;
    static const sluice_sync_segment segment{&byte, 0};
    static const coherence::Range range{reinterpret_cast<std::uintptr_t>(&byte), 0};
    add_call(
        report, "a range without lines: over the engine's function",
        [] { keep(sluice_sync_clean(&byte, 0)); }, [&ops] { clean_range(ops, range.address, 0); });
    add_call(
        report, "a batch of one without lines: over the engine's function",
        [] { keep(sluice_sync_clean_batch(&segment, 1)); }, [&ops] { clean_ranges(ops, &range, 1); });
}

enum class Target { kAway, kDirty };

// Copies of BYTES between places that move on, so that neither store buffers nor one line's state decide.
void add_copy(Report& report, const Ops& ops, std::uint64_t bytes, Target state) {
    static const Buffer source(16 << 20);
    static const Buffer target(16 << 20);
    Ops through = ops;
    through.copy = {"none", nullptr, 0};
    Ops past = ops;
    past.copy.worth_bytes = 0;
    std::uint64_t at = 0;
    const auto contender = [&](const Ops& way) {
        return Contender{[&] {
                             at = at + bytes + 4096 > source.size() - bytes
                                      ? 0
                                      : at + (bytes + 4095) / 4096 * 4096;
                             std::memset(source.data() + at, static_cast<int>(at), bytes);
                             if (state == Target::kDirty) {
                                 std::memset(target.data() + at, 1, bytes);
                             } else {
                                 coherence::invalidate(ops, target.address() + at, bytes);
                             }
                             drain();
                         },
                         [&, &way = way] {
                             coherence::copy_and_clean(way, target.data() + at, source.data() + at, bytes);
                             drain();
                         }};
    };
    const auto ns =
        interleave({contender(through), contender(past)}, report.rounds(101), bytes > 100000 ? 2 : 20);
    const std::string target_state = state == Target::kAway ? "not cached" : "dirty";
    report.add(
        {.name = "copy through / past the caches: " + std::to_string(bytes) + " B, target " + target_state,
         .value = ns[0] / ns[1],
         .unit = "x",
         .ours = ns[1],
         .theirs = ns[0],
         .points = compared(
             {"Copy and clean, target " + target_state, "ns", "past the caches", "through the caches"}, bytes,
             ns[1], ns[0])});
}

void run(Report& report, const Ops& ops) {
    add_calls(report, ops);
    Scene scene(ops);
    for (const Shape& shape : kShapes) {
        add_shape(report, scene, shape, "clean", &Scene::clean_by_api, &Scene::clean_by_engine);
        add_shape(report, scene, shape, "invalidate", &Scene::invalidate_by_api,
                  &Scene::invalidate_by_engine);
    }
    if (ops.copy.issue == nullptr) {
        std::printf("no copies past the caches on this CPU\n");
        return;
    }
    for (const Target state : {Target::kAway, Target::kDirty}) {
        for (const std::uint64_t bytes : {128, 256, 512, 1024, 4096, 16384, 65536, 1 << 20, 4 << 20}) {
            add_copy(report, ops, bytes, state);
        }
    }
}

} // namespace

} // namespace sluice::bench

int main(int argc, char** argv) {
    using namespace sluice;
    bench::Report report("sync_api: the engine through libsluice-sync", argc, argv);
    bench::pin_to_cpu(bench::cpus() - 1);
    const Result<const coherence::Ops*> ops = coherence::native_ops();
    if (!ops) {
        std::printf("nothing to measure: %s\n", ops.error().text());
        return report.finish();
    }
    bench::run(report, **ops);
    return report.finish();
}
