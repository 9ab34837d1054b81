// SPDX-License-Identifier: BSD-3-Clause
//
// Random batches through the engine on a recorded CPU, against a model that is slow and obvious:
// sets of lines, and arithmetic with more bits than an address has.
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "core/coherence/engine.hpp"
#include "tests/cmocka.hpp"
#include "tests/unit/coherence/recorder.hpp"
#include "tests/unit/coherence/seeded.hpp"

using sluice::coherence::BatchResult;
using sluice::coherence::EdgePolicy;
using sluice::coherence::Engine;
using sluice::coherence::Region;
using sluice::coherence::Segment;
using sluice::coherence::SegmentFault;
using sluice::testing::Event;
using sluice::testing::Random;
using sluice::testing::Recorded;
using sluice::testing::Recorder;
using sluice::testing::Seeded;

namespace {

__extension__ using Wide = unsigned __int128;
using LineSet = std::set<std::uint64_t>;

constexpr Wide kEnd = Wide{1} << 64; // of the address space

std::uint64_t seed = 0;
std::uint64_t batches = 0;

// What the random batches have met, so that a generator that misses a case is noticed.
struct Met {
    std::uint64_t outcomes[4] = {}; // by SegmentFault
    std::uint64_t first_line = 0;   // of the address space
    std::uint64_t last_line = 0;
    std::uint64_t shared_lines = 0; // by neighbouring segments
};
Met met;

// One machine, one set of regions, and what the model knows of them.
struct World {
    World(Random& random, std::size_t line, std::size_t granule, bool refuse)
        : line_bytes(line), granule_bytes(granule), refuse_edges(refuse), recorder(line, granule),
          engine(
              *Engine::make_non_coherent(recorder.ops(), refuse ? EdgePolicy::kRefuse : EdgePolicy::kCount)) {
        for (std::uint64_t i = 1 + random.below(6); i-- > 0;) {
            add_region(random);
        }
        if (random.one_in(2)) {
            add_region(random);
            stale = live.rbegin()->first;
            assert_true(engine->remove(stale).ok());
            live.erase(stale);
        }
    }

    // Near the beginning, the middle or the end of the address space; they may overlap.
    void add_region(Random& random) {
        const std::uint64_t bases[] = {0, 0x7fff00000000, std::uint64_t{0} - 4096};
        Region region;
        region.address = random.of(bases) + random.below(2048);
        region.length = random.below(2048);
        if (random.one_in(3)) {
            region.address = region.address / 512 * 512;
            region.length = region.length / 512 * 512;
        }
        if (random.one_in(4) && region.address > std::uint64_t{0} - 4096) {
            region.length = std::uint64_t{0} - region.address; // up to the last byte
        }
        live.emplace(*engine->add(region, false), region);
    }

    std::size_t line_bytes;
    std::size_t granule_bytes;
    bool refuse_edges;
    Recorder recorder;
    std::unique_ptr<Engine> engine;
    std::map<std::uint32_t, Region> live;
    std::uint32_t stale = 0;
};

struct Expected {
    BatchResult result{0, SegmentFault::kNone};
    std::vector<LineSet> runs; // each: lines that must be issued once, in any order
    std::uint64_t edges_met = 0;
};

bool reaches_into_shared_granule(const World& world, const Region& region, const Segment& segment) {
    const Wide granule = world.granule_bytes;
    const Wide first = Wide{segment.address} / granule * granule;
    const Wide end = (Wide{segment.address} + segment.length + granule - 1) / granule * granule;
    return first < region.address || end > Wide{region.address} + region.length;
}

SegmentFault model_fault(const World& world, const Segment& segment, bool watch_edges,
                         std::uint64_t& edges_met) {
    const auto found = world.live.find(segment.context);
    if (found == world.live.end()) {
        return SegmentFault::kUnknownContext;
    }
    const Region& region = found->second;
    if (segment.address < region.address ||
        Wide{segment.address} + segment.length > Wide{region.address} + region.length) {
        return SegmentFault::kOutOfRange;
    }
    if (watch_edges && reaches_into_shared_granule(world, region, segment)) {
        ++edges_met;
        return world.refuse_edges ? SegmentFault::kSharedEdge : SegmentFault::kNone;
    }
    return SegmentFault::kNone;
}

// Whether LINES overlaps RUN or lies next to it.
bool is_near(const World& world, const LineSet& run, const LineSet& lines) {
    for (const std::uint64_t line : lines) {
        const bool below = line >= world.line_bytes && run.contains(line - world.line_bytes);
        const bool above = Wide{line} + world.line_bytes < kEnd && run.contains(line + world.line_bytes);
        if (run.contains(line) || below || above) {
            return true;
        }
    }
    return false;
}

Expected model(const World& world, const std::vector<Segment>& segments, bool watch_edges) {
    Expected expected;
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const Segment& segment = segments[i];
        if (segment.length == 0) {
            continue;
        }
        const SegmentFault fault = model_fault(world, segment, watch_edges, expected.edges_met);
        if (fault != SegmentFault::kNone) {
            expected.result = {i, fault};
            break;
        }
        LineSet lines;
        for (Wide at = Wide{segment.address} / world.line_bytes * world.line_bytes;
             at < Wide{segment.address} + segment.length; at += world.line_bytes) {
            lines.insert(static_cast<std::uint64_t>(at));
            met.first_line += at == 0 ? 1 : 0;
            met.last_line += at + world.line_bytes == kEnd ? 1 : 0;
        }
        if (!expected.runs.empty() && is_near(world, expected.runs.back(), lines)) {
            expected.runs.back().merge(lines);
            met.shared_lines += lines.size(); // merge() leaves what was there already
        } else {
            expected.runs.push_back(lines);
        }
    }
    return expected;
}

Segment random_segment(Random& random, const World& world, const std::vector<Segment>& before) {
    Segment segment{0, static_cast<std::uint32_t>(random.next()), 0, 0};
    auto region = world.live.begin();
    std::advance(region, static_cast<std::ptrdiff_t>(random.below(world.live.size())));
    segment.context = region->first;
    segment.address = region->second.address + random.below(region->second.length + 1);
    segment.length = random.below(region->second.address + region->second.length - segment.address + 1);
    if (random.one_in(2)) {
        segment.length = segment.length % 40; // many within a line
    }
    if (!before.empty() && random.one_in(3)) { // next to, or again, what was there before
        segment = before.back();
        segment.address += random.one_in(2) ? segment.length : std::uint64_t{0} - random.below(64);
    }
    switch (random.below(160)) {
    case 0:
        segment.context = world.stale;
        break;
    case 1:
        segment.context = static_cast<std::uint32_t>(random.next());
        break;
    case 2:
        segment.length = std::uint64_t{0} - random.below(4096);
        break;
    case 3:
        segment.address = random.next();
        break;
    case 4:
        segment.length += random.below(200);
        break;
    case 5:
    case 6:
    case 7:
        segment = {static_cast<std::uint32_t>(random.next()), 0, random.next(), 0};
        break;
    default:
        break;
    }
    return segment;
}

std::vector<Segment> random_batch(Random& random, const World& world) {
    std::vector<Segment> segments;
    for (std::uint64_t i = random.below(24); i-- > 0;) {
        segments.push_back(random_segment(random, world, segments));
    }
    return segments;
}

// The recorded events are the fences and exactly the lines of each run, run after run.
bool matches(const World& world, const Expected& expected, bool wrote) {
    const std::vector<Recorded>& events = world.recorder.events();
    const Event line_event = wrote ? Event::kInvalidate : Event::kClean;
    std::size_t at = 0;
    if (events.empty() || events[at++].event != (wrote ? Event::kBeforeInvalidate : Event::kBeforeClean)) {
        return false;
    }
    for (LineSet run : expected.runs) {
        while (!run.empty()) {
            if (at == events.size() || events[at].event != line_event || run.erase(events[at].line) != 1) {
                return false;
            }
            ++at;
        }
    }
    return at + 1 == events.size() &&
           events[at].event == (wrote ? Event::kAfterInvalidate : Event::kAfterClean);
}

void one_batch(Random& random, World& world, std::uint64_t number) {
    const bool wrote = random.one_in(2);
    const std::vector<Segment> segments = random_batch(random, world);
    const Expected expected = model(world, segments, wrote);
    ++met.outcomes[static_cast<std::size_t>(expected.result.fault)];
    const std::uint64_t edges_before = world.engine->edge_counts().segments;
    world.recorder.clear();
    const BatchResult result = wrote ? world.engine->after_device_wrote(segments.data(), segments.size())
                                     : world.engine->before_device_reads(segments.data(), segments.size());
    if (result.fault != expected.result.fault || result.index != expected.result.index ||
        world.engine->edge_counts().segments - edges_before != expected.edges_met ||
        !matches(world, expected, wrote)) {
        fail_msg("batch %" PRIu64 " (%s, %zu segments, lines of %zu): segment %" PRIu64
                 ": %s; the model says %" PRIu64 ": %s, in %zu runs",
                 number, wrote ? "invalidate" : "clean", segments.size(), world.line_bytes, result.index,
                 to_string(result.fault), expected.result.index, to_string(expected.result.fault),
                 expected.runs.size());
    }
    if (expected.result.fault == SegmentFault::kNone) {
        assert_int_equal(world.engine->lines_of(segments.data(), segments.size()),
                         world.recorder.count(wrote ? Event::kInvalidate : Event::kClean));
    }
}

TEST(random_batches__every_one__as_the_model_says) {
    Random random(seed);
    constexpr std::size_t kLines[] = {32, 64, 128, 256};
    constexpr std::uint64_t kBatchesPerWorld = 50;
    std::unique_ptr<World> world;
    for (std::uint64_t number = 0; number < batches; ++number) {
        if (number % kBatchesPerWorld == 0) {
            const std::size_t line = random.of(kLines);
            world = std::make_unique<World>(random, line, line << random.below(3), random.one_in(2));
        }
        one_batch(random, *world, number);
    }
}

TEST(random_batches__all_cases__were_among_them) {
    for (const std::uint64_t count : met.outcomes) {
        assert_true(count > batches / 500);
    }
    assert_true(met.first_line > batches / 500);
    assert_true(met.last_line > batches / 500);
    assert_true(met.shared_lines > batches / 500);
    print_message("good %" PRIu64 ", unknown %" PRIu64 ", out of range %" PRIu64 ", edge %" PRIu64 "\n",
                  met.outcomes[0], met.outcomes[1], met.outcomes[2], met.outcomes[3]);
}

} // namespace

int main(int argc, char** argv) {
    const Seeded run(argc, argv, 100000);
    seed = run.seed;
    batches = run.count;
    return sluice::test::run_all_tests("coherence.batch_model");
}
