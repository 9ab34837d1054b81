// SPDX-License-Identifier: BSD-3-Clause
//
// The three ways in which a device that doesn't snoop corrupts data, and the contract that
// prevents them, on a simulated machine. Each way must be seen when the contract is broken, or the
// simulation proves nothing; none may ever be seen when it is kept.
#include "tests/unit/coherence/non_coherent_machine.hpp"

#include <algorithm>
#include <functional>
#include <memory>

#include "core/coherence/engine.hpp"
#include "tests/cmocka.hpp"

using sluice::coherence::EdgePolicy;
using sluice::coherence::Engine;
using sluice::coherence::Segment;
using sluice::coherence::SegmentFault;
using sluice::testing::NonCoherentMachine;
using sluice::testing::Random;
using sluice::testing::Seeded;

namespace {

constexpr std::uint64_t kBase = NonCoherentMachine::kBase;
constexpr std::uint64_t kLine = NonCoherentMachine::kLineBytes;

std::uint64_t seed = 0;
std::uint64_t rounds = 0;

// What a program may get wrong.
struct Contract {
    bool cleaned_at_registration = true;
    bool invalidated_afterwards = true;
    bool invalidated_before = false; // before the device writes, which is no substitute
    bool cleaned_instead = false;    // clean where invalidate was due
    bool aligned = true;             // the region owns its first and last line
    bool neighbour_quiet = false;    // nobody stores next to the region while the device writes
    bool cleaned_before_sending = true;
    bool fences = true;
};

struct Round {
    Round(Random& source, const Contract& kept) : random(source), contract(kept), machine(source) {
        if (!contract.fences) {
            machine.ops().after_clean.issue = nullptr;
            machine.ops().before_invalidate.issue = nullptr;
            machine.ops().after_invalidate.issue = nullptr;
        }
        engine = *Engine::make_non_coherent(machine.ops(), EdgePolicy::kCount);
        first = kBase + kLine * (1 + random.below(3));
        end = first + kLine * (1 + random.below(5));
        if (!contract.aligned) {
            first += 1 + random.below(kLine - 1);
            end += 1 + random.below(kLine - 1);
        }
    }

    void chaos() {
        for (std::uint64_t i = random.below(4); i-- > 0;) {
            machine.chaos();
        }
    }

    // The program uses all of its memory before anything is registered.
    void dirty_everything() {
        for (std::uint64_t at = kBase; at < kBase + NonCoherentMachine::kBytes; at += 1 + random.below(9)) {
            machine.cpu_store(at, 0xdd);
            if (random.one_in(8)) {
                chaos();
            }
        }
    }

    void register_region() {
        context = *engine->add({.address = first, .length = end - first}, contract.cleaned_at_registration);
    }

    // In one segment or in several pieces.
    std::vector<Segment> segments() {
        std::vector<Segment> pieces;
        for (std::uint64_t at = first; at < end;) {
            const std::uint64_t length = std::min(end - at, 1 + random.below(100));
            pieces.push_back({context, 0, at, length});
            at += length;
        }
        return pieces;
    }

    static std::uint8_t fresh(std::uint64_t address) { return static_cast<std::uint8_t>(address * 7 + 1); }

    Random& random;
    Contract contract;
    NonCoherentMachine machine;
    std::unique_ptr<Engine> engine;
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    std::uint32_t context = 0;
};

void device_writes_region(Round& round) {
    for (std::uint64_t at = round.first; at < round.end; ++at) {
        round.machine.device_write(at, Round::fresh(at));
        if (!round.contract.neighbour_quiet && round.random.one_in(16)) {
            round.machine.cpu_store(round.first - 1, 0x11);
            round.machine.cpu_store(round.end, 0x22);
        }
        if (round.random.one_in(4)) {
            round.chaos();
        }
    }
}

void synchronise_after_write(Round& round) {
    const std::vector<Segment> segments = round.segments();
    if (round.contract.cleaned_instead) {
        assert_true(round.engine->before_device_reads(segments.data(), segments.size()).ok());
    } else if (round.contract.invalidated_afterwards) {
        assert_true(round.engine->after_device_wrote(segments.data(), segments.size()).ok());
    }
}

// The device writes a region, the CPU reads it. True when the CPU sees what the device wrote.
bool receive(Random& random, const Contract& contract) {
    Round round(random, contract);
    round.dirty_everything();
    round.register_region();
    if (contract.invalidated_before) {
        synchronise_after_write(round);
        round.contract.invalidated_afterwards = false;
    }
    round.chaos();
    device_writes_region(round);
    synchronise_after_write(round);
    bool intact = true;
    for (std::uint64_t at = round.first; at < round.end; ++at) {
        intact = intact && round.machine.cpu_load(at) == Round::fresh(at);
        round.chaos();
    }
    return intact;
}

// The CPU writes a region, the device reads it. True when the device sees what the CPU wrote, and
// the CPU still sees what it wrote next to it.
bool send(Random& random, const Contract& contract) {
    Round round(random, contract);
    round.dirty_everything();
    round.register_region();
    for (std::uint64_t at = round.first; at < round.end; ++at) {
        round.machine.cpu_store(at, Round::fresh(at));
    }
    round.machine.cpu_store(round.first - 1, 0x11);
    round.machine.cpu_store(round.end, 0x22);
    round.chaos();
    const std::vector<Segment> segments = round.segments();
    if (contract.cleaned_before_sending) {
        assert_true(round.engine->before_device_reads(segments.data(), segments.size()).ok());
    }
    bool intact = true;
    for (std::uint64_t at = round.first; at < round.end; ++at) {
        intact = intact && round.machine.device_read(at) == Round::fresh(at);
        round.chaos();
    }
    return intact && round.machine.cpu_load(round.first - 1) == 0x11 &&
           round.machine.cpu_load(round.end) == 0x22;
}

using Transfer = bool (*)(Random&, const Contract&);

std::uint64_t corruptions(Transfer transfer, const Contract& contract) {
    Random random(seed);
    std::uint64_t corrupted = 0;
    for (std::uint64_t i = 0; i < rounds; ++i) {
        corrupted += transfer(random, contract) ? 0 : 1;
    }
    return corrupted;
}

// Not by a rare accident: often enough that a program would meet it.
void assert_corrupts(Transfer transfer, const Contract& contract) {
    const std::uint64_t corrupted = corruptions(transfer, contract);
    print_message("corrupted in %" PRIu64 " of %" PRIu64 " rounds\n", corrupted, rounds);
    assert_true(corrupted > rounds / 50);
}

TEST(receive__contract_kept__never_corrupt) {
    assert_int_equal(corruptions(receive, {}), 0);
}

TEST(receive__unaligned_but_neighbour_quiet__never_corrupt) {
    assert_int_equal(corruptions(receive, {.aligned = false, .neighbour_quiet = true}), 0);
}

TEST(receive__dirty_lines_left_in_the_target__written_over_the_data) {
    assert_corrupts(receive, {.cleaned_at_registration = false});
}

TEST(receive__neighbour_dirties_an_edge_line__reverts_the_data) {
    assert_corrupts(receive, {.aligned = false});
}

TEST(receive__neighbour_dirties_an_edge_line__strict_policy_refuses) {
    Random random(seed);
    for (std::uint64_t i = 0; i < rounds; ++i) {
        Round round(random, {.aligned = false});
        round.engine = *Engine::make_non_coherent(round.machine.ops(), EdgePolicy::kRefuse);
        round.register_region();
        const std::vector<Segment> segments = round.segments();
        const auto result = round.engine->after_device_wrote(segments.data(), segments.size());
        assert_true(result.fault == SegmentFault::kSharedEdge);
    }
}

TEST(receive__invalidated_only_before_the_write__prefetch_brings_stale_lines) {
    assert_corrupts(receive, {.invalidated_before = true});
}

TEST(receive__not_synchronised__stale) {
    assert_corrupts(receive, {.invalidated_afterwards = false});
}

TEST(receive__cleaned_instead_of_invalidated__stale) {
    assert_corrupts(receive, {.cleaned_instead = true});
}

TEST(receive__without_fences__stale) {
    assert_corrupts(receive, {.fences = false});
}

TEST(send__contract_kept__never_corrupt) {
    assert_int_equal(corruptions(send, {}), 0);
}

TEST(send__edges_shared_with_dirty_neighbours__never_corrupt) {
    assert_int_equal(corruptions(send, {.aligned = false}), 0);
}

TEST(send__not_synchronised__device_reads_stale) {
    assert_corrupts(send, {.cleaned_before_sending = false});
}

TEST(send__without_fences__device_reads_stale) {
    assert_corrupts(send, {.fences = false});
}

} // namespace

int main(int argc, char** argv) {
    const Seeded run(argc, argv, 2000);
    seed = run.seed;
    rounds = run.count;
    return sluice::test::run_all_tests("coherence.non_coherent_machine");
}
