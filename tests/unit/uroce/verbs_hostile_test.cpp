// SPDX-License-Identifier: BSD-3-Clause
//
// What nobody asked for, into the port of a device that is at work: no packets at all, and packets that
// are right in everything but what a stranger can only guess. The honest peer is another process, and
// the stranger has any address of this machine, the peer's too.
#include "provider/uroce/verbs/objects.hpp"
#include "tests/unit/uroce/other_process.hpp"
#include "tests/unit/uroce/resident.hpp"
#include "tests/unit/uroce/stranger.hpp"

namespace {

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::uroce::test;

constexpr std::uint64_t kSeed = 20261120;
constexpr std::uint32_t kFirstPsn = 0xfffffe; // what usual_path() begins with
constexpr std::uint32_t kFarPsn = 0x700000;   // ahead of both directions
constexpr std::size_t kBurst = 60;            // fits a socket that nobody reads for a while

// Keeps its memory as it is until the client has done what it wants.
void hold_still(const Talk& talk) {
    const OpenContext context(open_uroce());
    End end(context.get());
    const Card client = talk.swap_cards(end);
    bring_up(end.qp, client.qpn, client.gid);
    talk.tell('r');
    (void)talk.hear<char>();
}

struct Attacked {
    Attacked()
        : server(hold_still), context(open_uroce()), end(context.get()), card(server.talk().swap_cards(end)),
          outsider(*socket::parse_address(own_address(1).c_str()), address_of(end.gid)),
          impostor(address_of(card.gid), address_of(end.gid)) {
        bring_up(end.qp, card.qpn, card.gid);
        assert_int_equal(server.talk().hear<char>(), 'r');
        before = end.block;
    }
    ~Attacked() {
        server.talk().tell('e');
        assert_int_equal(server.wait_for_end(), 0);
    }
    Attacked(const Attacked&) = delete;
    Attacked& operator=(const Attacked&) = delete;

    Counters counters() {
        const sluice::uroce::device::Device::ProgressSession session(
            sluice::uroce::verbs::context_of(context.get()).device);
        return session.engine().counters();
    }
    // Sends each of BURST packets, and waits until as many have been counted there.
    void drops(const Stranger& who, const wire::Packet& packet, std::size_t payload_bytes,
               sluice::Count Counters::*counter) {
        const std::uint64_t wanted = counters().*counter + kBurst;
        const std::vector<std::uint8_t> bytes = who.forge(packet, payload_bytes);
        for (std::size_t i = 0; i < kBurst; ++i) {
            who.send(bytes);
        }
        while (counters().*counter < wanted) {
            assert_true(end.idle());
        }
        assert_int_equal(counters().*counter, wanted);
    }
    // A write and a read that bring its bytes back.
    void exchange(std::size_t len) {
        const std::size_t there = 32768;
        post(IBV_WR_RDMA_WRITE, 0, len, there);
        post(IBV_WR_RDMA_READ, 16384, len, there);
        for (int i = 0; i < 2; ++i) {
            assert_int_equal(end.wait().status, IBV_WC_SUCCESS);
        }
        assert_memory_equal(end.block.data() + 16384, end.block.data(), len);
    }
    void post(ibv_wr_opcode opcode, std::size_t offset, std::size_t len, std::size_t there) {
        ibv_sge list = end.sge(offset, len);
        ibv_send_wr wr{};
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.sg_list = &list;
        wr.num_sge = 1;
        wr.wr.rdma.remote_addr = card.addr + there;
        wr.wr.rdma.rkey = card.rkey;
        assert_int_equal(end.post(wr), 0);
    }
    // To our queue pair, about the start of our memory.
    wire::Packet packet(std::uint8_t opcode, std::uint32_t psn) const {
        wire::Packet made;
        made.bth.opcode = opcode;
        made.bth.migrated = true;
        made.bth.ack_request = true;
        made.bth.dest_qpn = end.qp->qp_num;
        made.bth.psn = psn;
        made.reth = {.remote_addr = end.addr(), .rkey = end.mr->rkey, .len_bytes = 64};
        made.atomic = {.remote_addr = end.addr(), .rkey = end.mr->rkey, .swap_or_add = 1, .compare = 0};
        made.aeth = {.syndrome = wire::kAckNoCredits, .msn = 1};
        return made;
    }

    const OtherProcess server;
    const OpenContext context;
    End end;
    const Card card;
    const Stranger outsider;
    const Stranger impostor; // has the peer's address
    std::vector<std::uint8_t> before;
};

TEST(forged__number_of_no_queue_pair__dropped_and_counted) {
    Attacked attacked;
    wire::Packet packet = attacked.packet(wire::kRcWriteOnly, kFirstPsn);
    packet.bth.dest_qpn ^= 0x5a5a5a;
    attacked.drops(attacked.impostor, packet, 64, &Counters::dropped_unknown_qp);
    attacked.exchange(5000);
}

TEST(forged__right_in_all_but_the_source__dropped_and_counted) {
    Attacked attacked;
    for (const std::uint8_t opcode : {wire::kRcWriteOnly, wire::kRcSendOnly}) {
        attacked.drops(attacked.outsider, attacked.packet(opcode, kFirstPsn), 64,
                       &Counters::dropped_wrong_peer);
    }
    for (const std::uint8_t opcode : {wire::kRcReadRequest, wire::kRcFetchAdd, wire::kRcAcknowledge}) {
        attacked.drops(attacked.outsider, attacked.packet(opcode, kFirstPsn), 0,
                       &Counters::dropped_wrong_peer);
    }
    assert_memory_equal(attacked.end.block.data(), attacked.before.data(), attacked.before.size());
    attacked.exchange(5000);
}

TEST(forged__sequence_number_guessed__nothing_is_executed) {
    Attacked attacked; // whose peer hasn't sent anything yet, or its port alone would tell
    const std::vector<std::uint8_t> then = attacked.end.block;
    const std::uint32_t old = kFirstPsn - 5;
    attacked.drops(attacked.impostor, attacked.packet(wire::kRcWriteOnly, kFarPsn), 64,
                   &Counters::out_of_sequence);
    attacked.drops(attacked.impostor, attacked.packet(wire::kRcFetchAdd, kFarPsn), 0,
                   &Counters::out_of_sequence);
    attacked.drops(attacked.impostor, attacked.packet(wire::kRcWriteOnly, old), 64, &Counters::duplicates);
    attacked.drops(attacked.impostor, attacked.packet(wire::kRcReadRequest, old), 0, &Counters::duplicates);
    attacked.drops(attacked.impostor, attacked.packet(wire::kRcFetchAdd, old), 0, &Counters::duplicates);
    for (const std::uint8_t opcode : {wire::kRcAcknowledge, wire::kRcAtomicAcknowledge}) {
        attacked.drops(attacked.impostor, attacked.packet(opcode, kFarPsn), 0, &Counters::stray_responses);
    }
    attacked.drops(attacked.impostor, attacked.packet(wire::kRcReadResponseOnly, kFarPsn), 64,
                   &Counters::stray_responses);
    assert_memory_equal(attacked.end.block.data(), then.data(), then.size());
    attacked.exchange(5000);
    assert_int_equal(attacked.end.state(), IBV_QPS_RTS);
}

// Nobody but a raw socket sends from the peer's port while the peer is there: the rest of the packet may be
// right.
TEST(forged__right_in_all_but_the_port__dropped_and_counted) {
    Attacked attacked;
    attacked.exchange(64);
    const std::vector<std::uint8_t> then = attacked.end.block;
    for (const std::uint8_t opcode : {wire::kRcWriteOnly, wire::kRcSendOnly}) {
        attacked.drops(attacked.impostor, attacked.packet(opcode, kFirstPsn), 64,
                       &Counters::dropped_wrong_port);
    }
    for (const std::uint8_t opcode : {wire::kRcReadRequest, wire::kRcFetchAdd, wire::kRcAcknowledge}) {
        attacked.drops(attacked.impostor, attacked.packet(opcode, kFirstPsn), 0,
                       &Counters::dropped_wrong_port);
    }
    assert_memory_equal(attacked.end.block.data(), then.data(), then.size());
    attacked.exchange(5000);
    assert_int_equal(attacked.end.state(), IBV_QPS_RTS);
}

// The one who guesses everything but the key costs the peer its connection, and gets nothing for it.
TEST(forged__key_guessed__refused_and_memory_untouched) {
    Attacked attacked;
    wire::Packet packet = attacked.packet(wire::kRcWriteOnly, kFirstPsn);
    packet.reth.rkey ^= 0x00a5a500;
    attacked.impostor.send(attacked.impostor.forge(packet, 64));
    while (attacked.end.state() != IBV_QPS_ERR) {
        assert_true(attacked.end.idle());
    }
    assert_memory_equal(attacked.end.block.data(), attacked.before.data(), attacked.before.size());
}

TEST(forged__datagrams__key_and_receives_decide) {
    Attacked attacked;
    End datagrams(attacked.context.get(), {.type = IBV_QPT_UD});
    bring_up_datagrams(datagrams.qp);
    wire::Packet packet = attacked.packet(wire::kUdSendOnly, 0);
    packet.bth.dest_qpn = datagrams.qp->qp_num;
    packet.deth = {.qkey = kQkey ^ 1, .src_qpn = 7};
    attacked.drops(attacked.outsider, packet, 64, &Counters::dropped_wrong_peer);
    packet.deth.qkey = kQkey;
    attacked.drops(attacked.outsider, packet, 64, &Counters::dropped_no_room);
    attacked.exchange(5000);
}

// One burst of everything that isn't for us.
void flood(const Attacked& attacked, Random& random) {
    const auto good = attacked.outsider.forge(attacked.packet(wire::kRcWriteOnly, kFirstPsn), 1024);
    for (std::size_t i = 0; i < kBurst; ++i) {
        std::vector<std::uint8_t> bytes = good;
        switch (i % 4) {
        case 0: // no packet at all
            bytes = random.bytes(random.below(2000));
            break;
        case 1: // its beginning
            bytes.resize(random.below(static_cast<std::uint32_t>(bytes.size())));
            break;
        case 2: // damaged
            bytes[5 + random.below(static_cast<std::uint32_t>(bytes.size() - 5))] ^= 0x10;
            break;
        default: // valid, from nobody
            break;
        }
        (i % 8 < 4 ? attacked.outsider : attacked.impostor).send(bytes);
    }
}

TEST(flood__beside_traffic__every_byte_arrives_and_memory_stays) {
    constexpr int kRounds = 300;
    Random random(kSeed);
    print_message("seed %llu\n", static_cast<unsigned long long>(kSeed));
    Attacked attacked;
    std::size_t before_kib = 0;
    for (int round = 0; round < kRounds; ++round) {
        flood(attacked, random);
        attacked.exchange(1 + random.below(16000));
        if (round == kRounds / 10) {
            before_kib = resident_kib();
        }
    }
    assert_int_equal(attacked.end.state(), IBV_QPS_RTS);
    assert_true(attacked.counters().dropped_wrong_peer > 0);
    // Some 15 MB have come; a page here and there is the test's own.
    assert_in_range(resident_kib(), 0, before_kib + 2048);
}

} // namespace

int main() {
    setenv("SLUICE_UROCE_NEIGHBOURS", "packets", 1); // which is what strangers forge
    return sluice::test::run_all_tests("uroce.verbs_hostile");
}
