// SPDX-License-Identifier: BSD-3-Clause
#include "tests/soak/step.hpp"

#include "tests/unit/roce/random.hpp"

namespace sluice::test::soak {

using roce::test::Random;

namespace {

// What a correct program gets through without noticing anything but time (docs/uroce-faults.md).
std::string draw_faults(Random& random) {
    static constexpr const char* kFaults[] = {
        "drop=1%",           "drop=0.1%",        "drop-ack=2%",
        "drop-response=1%",  "duplicate=1%",     "recv-drop=1%",
        "recv-duplicate=1%", "flip-icrc=0.5%",   "delay=0.5%:2ms",
        "delay-ack=1%:3ms",  "rnr=0.5%",         "drop-cm=5%",
        "drop-nak=10%",      "delay-cm=5%:30ms", "stall-completions=0.1%:2ms",
        "drop=40/97",
    };
    std::string drawn = "seed=" + std::to_string(random.below(1000000));
    const unsigned count = 1 + random.below(3);
    for (unsigned i = 0; i < count; ++i) {
        drawn += std::string(",") + kFaults[random.below(std::size(kFaults))];
    }
    return drawn;
}

Event draw_event(Random& random) {
    constexpr unsigned kOutOf = 10;
    switch (random.below(kOutOf)) {
    case 0:
    case 1:
        return Event::kPartnerKilled;
    case 2:
        return Event::kPartnerStopped;
    case 3:
        return Event::kLeaderStopped;
    default:
        return Event::kNone;
    }
}

// Mostly short; one stop in ten is longer than programs' usual timeouts.
unsigned draw_stop_ms(Random& random) {
    return random.below(10) == 0 ? 3000 + random.below(6000) : 50 + random.below(1000);
}

void draw_traffic(Random& random, Step& step) {
    step.way = static_cast<Way>(random.below(3));
    step.is_fresh = step.goes_through_packets_only() || random.below(4) == 0;
    step.is_one_address = random.below(2) == 0;
    step.event = draw_event(random);
    step.with_srq = random.below(3) == 0;
    step.with_datagrams = random.below(3) == 0;
    step.waits = random.below(2) == 0;
    step.in_shared_file = random.below(3) == 0;
    step.leader_connects = random.below(2) == 0;
    step.leader_disconnects = random.below(2) == 0;
    step.connections = 1 + random.below(kMaxConnections);
    step.refused = random.below(4) == 0 ? 1 + random.below(3) : 0;
    step.stop_ms = draw_stop_ms(random);
    if (random.below(4) == 0) { // mostly connecting
        step.rounds = 3 + random.below(10);
        step.operations = 1 + random.below(50);
    } else {
        step.operations = step.way == Way::kMemory ? 2000 + random.below(20000) : 500 + random.below(3000);
    }
    step.event_at = random.below(step.operations);
    if (step.way == Way::kFaults) {
        step.faults = draw_faults(random);
        step.partner_faults = random.below(2) == 0 ? draw_faults(random) : "";
    }
}

const char* name(Way way) {
    switch (way) {
    case Way::kMemory:
        return "through memory";
    case Way::kUdp:
        return "over UDP";
    case Way::kFaults:
        return "over UDP with faults";
    }
    return "";
}

std::string name(const Step& step) {
    const std::string at = " at operation " + std::to_string(step.event_at);
    const std::string lasts = at + " for " + std::to_string(step.stop_ms) + " ms";
    switch (step.event) {
    case Event::kNone:
        return "";
    case Event::kPartnerKilled:
        return ", partner killed" + at;
    case Event::kPartnerStopped:
        return ", partner stopped" + lasts;
    case Event::kLeaderStopped:
        return ", leader stopped" + lasts;
    }
    return "";
}

} // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
    std::uint64_t mixed = a;
    for (const std::uint64_t part : {b, c, d}) {
        mixed = Random(mixed ^ (part * 0xff51afd7ed558ccdULL + 1)).next();
    }
    return mixed;
}

Step draw_step(std::uint64_t seed, std::uint64_t number, bool with_programs) {
    Step step;
    step.number = number;
    step.seed = mix(seed, number);
    Random random(step.seed);
    draw_traffic(random, step);
    step.program = random.below(1000);
    if (random.below(12) == 0 && with_programs) {
        step.work = Work::kProgram;
    }
    return step;
}

std::string describe(const Step& step) {
    if (step.work == Work::kProgram) {
        return "an example program, number " + std::to_string(step.program);
    }
    std::string text = std::to_string(step.connections) + " connections " + name(step.way) + ", " +
                       std::to_string(step.rounds) + " x " + std::to_string(step.operations) +
                       " operations of each side, " +
                       (step.is_one_address ? "one address" : "two addresses") +
                       (step.leader_connects ? ", leader connects" : "") +
                       (step.is_fresh ? ", fresh devices" : "") + (step.with_srq ? ", an SRQ" : "") +
                       (step.with_datagrams ? ", datagrams" : "") + (step.waits ? ", waiting" : ", polling") +
                       (step.in_shared_file ? ", in a shared file" : "") + name(step);
    for (const std::string& faults : {step.faults, step.partner_faults}) {
        text += faults.empty() ? "" : ", " + faults;
    }
    return text;
}

} // namespace sluice::test::soak
