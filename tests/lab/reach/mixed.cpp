// SPDX-License-Identifier: BSD-3-Clause
//
// Both sides initiate at the same time, a window of operations of all kinds and sizes at once. Each has
// its own slot of the peer's memory, so that every byte and every completion can be accounted for when
// the window is done. What is asked is drawn from a seed that both sides know.
//
// Over a bad link rxe initiates sends and writes only. When a response overtakes another, or is lost
// together with something else, rxe takes a negative acknowledgement for the answer to the read or atomic
// before it, and completes that without its data; two rxe devices do the same to each other.
#include <array>

#include "cases.hpp"

namespace reach {

namespace {

constexpr unsigned kWindow = 16;
constexpr unsigned kRounds = 12;
constexpr std::size_t kSlot = 81920;
constexpr std::size_t kMaxLen = 70000;
constexpr std::uint64_t kSeed = 20261120;

// The block: what each request gives or gets, what the peer's requests find or leave, what is received.
enum class Area : std::size_t { kOwn, kExposed, kReceived };
constexpr std::size_t kBlock = 3 * kWindow * kSlot;

std::size_t at(Area area, unsigned slot) {
    return (static_cast<std::size_t>(area) * kWindow + slot) * kSlot + 256;
}

enum class Verb { kSend, kWrite, kRead, kAdd };

struct Request {
    Verb verb;
    std::size_t len;
    std::uint64_t given; // tags of the initiator's bytes and of the target's
    std::uint64_t found;
};

struct Player {
    bool first;
    bool gets_data; // by reads and atomics, too
};

struct Players {
    Player me;
    Player peer;
};

Request draw(const Player& player, unsigned round, unsigned slot) {
    const std::uint64_t number = ((kSeed + (player.first ? 0 : 1)) * kRounds + round) * kWindow + slot;
    const std::uint64_t random = mix(number);
    const Verb verb = static_cast<Verb>(random & (player.gets_data ? 3 : 1));
    // As many short ones as long ones.
    const std::size_t limit = (random >> 2 & 1) != 0 ? 300 : kMaxLen;
    return {verb, verb == Verb::kAdd ? 8 : (random >> 8) % limit, mix(number + 1) << 20,
            mix(number + 2) << 20};
}

void prepare(End& end, const Players& players, unsigned round) {
    for (unsigned i = 0; i < kWindow; ++i) {
        const Request mine = draw(players.me, round, i);
        end.paint(at(Area::kOwn, i), mine.len, mine.given);
        const Request theirs = draw(players.peer, round, i);
        end.paint(at(Area::kExposed, i), theirs.len, theirs.found);
        if (theirs.verb == Verb::kSend) {
            end.paint(at(Area::kReceived, i), theirs.len, theirs.found);
            end.receive(end.sge(at(Area::kReceived, i), theirs.len), kWindow + i);
        }
    }
}

void post(End& end, const Request& request, unsigned slot) {
    constexpr std::array<ibv_wr_opcode, 4> kOpcodes{IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                                    IBV_WR_ATOMIC_FETCH_AND_ADD};
    const ibv_sge list = end.sge(at(Area::kOwn, slot), request.len);
    ibv_send_wr wr =
        end.request(kOpcodes[static_cast<std::size_t>(request.verb)], list, at(Area::kExposed, slot));
    wr.wr_id = slot;
    wr.num_sge = request.len == 0 ? 0 : 1;
    if (request.verb == Verb::kAdd) {
        wr.wr.atomic = {.remote_addr = end.peer().addr + at(Area::kExposed, slot),
                        .compare_add = request.given,
                        .swap = 0,
                        .rkey = end.peer().rkey};
    }
    end.post(wr);
}

// Requests complete in their order, receives in theirs.
void collect(End& end, const Players& players, unsigned round) {
    const auto is_send = [&](unsigned slot) { return draw(players.peer, round, slot).verb == Verb::kSend; };
    const auto next_send = [&](unsigned slot) {
        while (slot < kWindow && !is_send(slot)) {
            ++slot;
        }
        return slot;
    };
    unsigned requests = 0;
    unsigned send = next_send(0);
    while (requests < kWindow || send < kWindow) {
        const ibv_wc wc = end.wait_for_success("one of many");
        if (wc.wr_id < kWindow) {
            equal<std::uint64_t>(wc.wr_id, requests++, "the order of completions");
            continue;
        }
        equal<std::uint64_t>(wc.wr_id, kWindow + send, "the order of receives");
        equal<std::size_t>(wc.byte_len, draw(players.peer, round, send).len, "the received length");
        send = next_send(send + 1);
    }
}

void check(End& end, const Players& players, unsigned round) {
    for (unsigned i = 0; i < kWindow; ++i) {
        const Request mine = draw(players.me, round, i);
        const std::size_t own = at(Area::kOwn, i);
        if (mine.verb == Verb::kAdd) {
            equal(end.word(own), mix(mine.found), "what an atomic found");
        } else {
            end.expect(own, mine.len, mine.verb == Verb::kRead ? mine.found : mine.given, mine.given,
                       "one's own");
        }
        const Request theirs = draw(players.peer, round, i);
        const std::size_t exposed = at(Area::kExposed, i);
        switch (theirs.verb) {
        case Verb::kAdd:
            equal(end.word(exposed), mix(theirs.found) + theirs.given, "what an atomic left");
            break;
        case Verb::kSend:
            end.expect(at(Area::kReceived, i), theirs.len, theirs.given, theirs.found, "a message");
            break;
        case Verb::kRead:
            end.expect(exposed, theirs.len, theirs.found, theirs.found, "what was read");
            break;
        case Verb::kWrite:
            end.expect(exposed, theirs.len, theirs.given, theirs.found, "what was written");
            break;
        }
    }
}

unsigned run(const Pair& pair, bool good_link) {
    Options options;
    options.block_bytes = kBlock;
    options.timeout = 16; // 0.27 s: packets do get lost here, and emulation on a busy machine pauses
    End end(pair.device, options);
    end.connect(pair.talk);
    const Players players = {{pair.first, good_link || !pair.device.kernel},
                             {!pair.first, good_link || !end.peer().kernel}};
    for (unsigned round = 0; round < kRounds; ++round) {
        place().step = "round " + std::to_string(round) + " of seed " + std::to_string(kSeed);
        prepare(end, players, round);
        pair.talk.meet();
        for (unsigned i = 0; i < kWindow; ++i) {
            post(end, draw(players.me, round, i), i);
        }
        collect(end, players, round);
        pair.talk.meet();
        check(end, players, round);
        require(end.idle(), "a completion too many");
        pair.talk.meet();
    }
    equal<int>(end.state(), IBV_QPS_RTS, "the queue pair's state");
    return kRounds * kWindow * 2;
}

} // namespace

unsigned run_mixed(const Pair& pair) {
    return run(pair, true);
}

unsigned run_mixed_on_bad_link(const Pair& pair) {
    return run(pair, false);
}

} // namespace reach
