// SPDX-License-Identifier: BSD-3-Clause
//
// SLUICE_UROCE_FAULTS: its grammar, what each fault does to which packet, and that the same text and
// traffic give the same faults.
#include "roce/socket/faults.hpp"

#include <cstdio>
#include <cstring>
#include <string>

#include "roce/socket/delay_line.hpp"
#include "roce/wire/mad.hpp"
#include "roce/wire/syndrome.hpp"
#include "tests/cmocka.hpp"
#include "tests/unit/roce/random.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::socket;
using sluice::roce::test::Random;

namespace {

FaultSchedule parsed(const char* text) {
    auto schedule = FaultSchedule::parse(text);
    if (!schedule) {
        print_message("%s\n", schedule.error().text());
    }
    assert_true(schedule.ok());
    return *std::move(schedule);
}

std::string refusal(const char* text) {
    const auto schedule = FaultSchedule::parse(text);
    assert_false(schedule.ok());
    assert_true(schedule.error().kind() == sluice::ErrorKind::kInvalidArgument);
    return schedule.error().text();
}

bool contains(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
}

wire::Packet packet(std::uint8_t opcode, std::uint8_t syndrome = 0, std::uint32_t qpn = 17) {
    wire::Packet made;
    made.bth.opcode = opcode;
    made.bth.dest_qpn = qpn;
    made.aeth.syndrome = syndrome;
    return made;
}

SendVerdict send(FaultSchedule& schedule, const wire::Packet& made) {
    std::array<std::uint8_t, wire::kMaxHeaderBytes> header{};
    const std::size_t len = wire::write_headers(made, header);
    return schedule.on_send(wire::ConstBytes(header).first(len));
}

const wire::Packet kRequest = packet(wire::kRcWriteOnly);
const wire::Packet kAck = packet(wire::kRcAcknowledge, wire::kAckNoCredits);
const wire::Packet kNak = packet(wire::kRcAcknowledge, wire::nak_syndrome(wire::NakCode::kSequence));
const wire::Packet kRnr = packet(wire::kRcAcknowledge, wire::rnr_syndrome(1));
const wire::Packet kResponse = packet(wire::kRcReadResponseOnly, wire::kAckNoCredits);
const wire::Packet kDatagram = packet(wire::kUdSendOnly);
const wire::Packet kManagement = packet(wire::kUdSendOnly, 0, wire::kGsiQpn);

// As '1' and '0', which of COUNT packets are dropped.
std::string drops(const char* text, std::size_t count) {
    FaultSchedule schedule = parsed(text);
    std::string seen;
    for (std::size_t i = 0; i < count; ++i) {
        seen += send(schedule, kRequest).drop ? '1' : '0';
    }
    return seen;
}

TEST(parse__nothing__no_faults) {
    for (const char* text : {static_cast<const char*>(nullptr), "", "seed=5"}) {
        FaultSchedule schedule = parsed(text);
        assert_true(schedule.empty());
        assert_false(send(schedule, kRequest).drop);
        assert_int_equal(schedule.on_completion().stall, 0);
    }
    assert_int_equal(parsed("seed=5").seed(), 5);
    assert_int_equal(parsed("drop=1").seed(), 1);
}

TEST(when__each_form__strikes_as_written) {
    assert_string_equal(drops("drop=3", 8).c_str(), "00100000");
    assert_string_equal(drops("drop=3+", 8).c_str(), "00111111");
    assert_string_equal(drops("drop=2/3", 9).c_str(), "010010010");
    assert_string_equal(drops("drop=1/1", 4).c_str(), "1111");
    assert_string_equal(drops("drop=1,drop=4", 5).c_str(), "10010");
    assert_string_equal(drops("drop=100%", 6).c_str(), "111111");
    assert_string_equal(drops("drop=0%", 6).c_str(), "000000");
}

TEST(when__chance__close_to_it_and_the_same_for_a_seed) {
    const std::string first = drops("seed=9,drop=12.5%", 8000);
    assert_in_range(std::count(first.begin(), first.end(), '1'), 900, 1100);
    assert_true(drops("drop=12.5%,seed=9", 8000) == first);
    assert_false(drops("drop=12.5%,seed=10", 8000) == first);
    const std::string rare = drops("drop=0.0100%", 100000);
    assert_in_range(std::count(rare.begin(), rare.end(), '1'), 1, 30);
}

TEST(when__another_fault_beside_it__strikes_at_the_same_packets) {
    FaultSchedule alone = parsed("drop=30%");
    FaultSchedule together = parsed("drop=30%,duplicate=50%,stall-completions=10%:1ms");
    for (int i = 0; i < 500; ++i) {
        const bool dropped = send(alone, kRequest).drop;
        assert_true(send(together, kRequest).drop == dropped);
        together.on_completion();
    }
}

// Each fault with its suffix meets the packets of its kind only.
TEST(kinds__each_suffix__its_own_packets) {
    struct Case {
        const char* text;
        const wire::Packet* hit;
    };
    const Case cases[] = {{"drop-request=1", &kRequest}, {"drop-response=1", &kResponse},
                          {"drop-ack=1", &kAck},         {"drop-nak=1", &kNak},
                          {"drop-nak=1", &kRnr},         {"drop-datagram=1", &kDatagram},
                          {"drop-cm=1", &kManagement}};
    const wire::Packet* const all[] = {&kRequest, &kResponse, &kAck, &kNak, &kDatagram, &kManagement};
    for (const Case& one : cases) {
        FaultSchedule schedule = parsed(one.text);
        for (const wire::Packet* other : all) {
            const bool same_kind = other == one.hit || (one.hit == &kRnr && other == &kNak);
            assert_true(same_kind || !send(schedule, *other).drop);
        }
        assert_true(send(schedule, *one.hit).drop);
        assert_int_equal(schedule.happened(), 1);
    }
}

TEST(verdicts__each_fault__its_own_effect) {
    FaultSchedule schedule =
        parsed("drop=1,duplicate=2,flip-icrc=3,delay=4:250us,kill-qp=5,delay=6:3ms,delay=6:1s");
    assert_true(send(schedule, kRequest).drop);
    assert_true(send(schedule, kRequest).duplicate);
    assert_true(send(schedule, kRequest).flip_icrc);
    assert_int_equal(send(schedule, kRequest).delay, 250000);
    assert_true(send(schedule, kRequest).kill_qp);
    assert_int_equal(send(schedule, kRequest).delay, 1000000000); // the longer one
    const SendVerdict nothing = send(schedule, kRequest);
    assert_false(nothing.drop || nothing.duplicate || nothing.flip_icrc || nothing.kill_qp ||
                 nothing.delay != 0);
    assert_int_equal(schedule.happened(), 7);
}

TEST(on_receive__each_fault__its_own_effect) {
    FaultSchedule schedule = parsed("recv-drop-ack=2,recv-duplicate=1,rnr=2");
    assert_true(schedule.on_receive(kAck).duplicate);
    assert_true(schedule.on_receive(kAck).drop);
    assert_false(schedule.on_receive(packet(wire::kRcSendFirst)).rnr);
    assert_false(schedule.on_receive(packet(wire::kRcSendMiddle)).rnr); // of the same message
    assert_false(schedule.on_receive(kRequest).rnr);                    // a write takes no receive
    assert_true(schedule.on_receive(packet(wire::kRcWriteOnlyImm)).rnr);
    assert_int_equal(schedule.happened(), 3);
    // Packets that leave count for none of these.
    FaultSchedule again = parsed("recv-drop=1");
    assert_false(send(again, kRequest).drop);
    assert_true(again.on_receive(kRequest).drop);
}

TEST(on_completion__stalled__by_its_time) {
    FaultSchedule schedule = parsed("stall-completions=2/2:10ms");
    assert_int_equal(schedule.on_completion().stall, 0);
    assert_int_equal(schedule.on_completion().stall, 10000000);
    assert_int_equal(schedule.on_completion().stall, 0);
    assert_int_equal(schedule.on_completion().stall, 10000000);
}

TEST(on_send__header_too_short__left_alone) {
    FaultSchedule schedule = parsed("drop=1");
    const std::array<std::uint8_t, 11> few{};
    assert_false(schedule.on_send(few).drop);
    assert_false(schedule.on_send({}).drop);
}

TEST(parse__unknown_word__error_lists_the_words) {
    const std::string text = refusal("drop=1,dorp=3");
    assert_true(contains(text, "'dorp=3'"));
    for (const char* word : {"seed", "drop", "duplicate", "flip-icrc", "delay", "recv-drop", "recv-duplicate",
                             "rnr", "kill-qp", "stall-completions", "-request", "-ack", "-nak", "-cm"}) {
        assert_true(contains(text, word));
    }
    for (const char* wrong :
         {"rnr-ack=1", "drop-acks=1", "drop-=1", "kill-qp-request=1", "Drop=1", "=1", " drop=1"}) {
        assert_true(contains(refusal(wrong), "there is no such fault"));
    }
    assert_true(contains(refusal("drop"), "WORD=WHEN"));
    assert_true(contains(refusal("drop=1,,"), "WORD=WHEN"));
}

TEST(parse__wrong_value__error_says_what_may_stand_there) {
    for (const char* wrong : {"drop=", "drop=0", "drop=-1", "drop=3x", "drop=x", "drop=1/0", "drop=1/",
                              "drop=/2", "drop=+", "drop=101%", "drop=100.0001%", "drop=%", "drop=1.%",
                              "drop=1.23456%", "drop=-1%", "drop=1e1%", "drop=99999999999999999999"}) {
        assert_true(contains(refusal(wrong), "the N-th, once"));
    }
    for (const char* wrong : {"delay=1", "delay=1:", "delay=1:5", "delay=1:ms", "delay=1:-5ms", "delay=1:61s",
                              "delay=1:5m", "delay=1:99999999999s", "stall-completions=1"}) {
        assert_true(contains(refusal(wrong), "WHEN:TIME"));
    }
    assert_true(contains(refusal("drop=1:5ms"), "takes no time"));
    assert_true(contains(refusal("seed=x"), "whole number"));
    // What can't be shown isn't, and what is long is cut.
    const std::string shown = refusal("\x1b[31mdrop=1");
    assert_false(contains(shown, "\x1b"));
    assert_true(refusal(std::string(100000, 'x').c_str()).size() < 1000);
    std::string many = "drop=1";
    for (int i = 0; i < 64; ++i) {
        many += ",drop=1";
    }
    assert_true(contains(refusal(many.c_str()), "more than 64"));
}

TEST(parse__random_text__accepted_or_refused_never_worse) {
    constexpr std::uint64_t kSeed = 20260520;
    std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
    constexpr std::string_view kAlphabet = "drop-ackdelay=%:,+/0123456789.msu";
    Random random(kSeed);
    int accepted = 0;
    for (int i = 0; i < 20000; ++i) {
        std::string text = random.chance(0.5) ? "drop=" : "delay=";
        for (std::uint32_t len = random.below(12); len > 0; --len) {
            text += kAlphabet[random.below(static_cast<std::uint32_t>(kAlphabet.size()))];
        }
        accepted += FaultSchedule::parse(text.c_str()).ok() ? 1 : 0;
    }
    assert_in_range(accepted, 1, 19999);
}

OutPacket packet_with(const std::vector<std::uint8_t>& payload) {
    OutPacket out;
    out.begin();
    out.add_piece(reinterpret_cast<std::uintptr_t>(payload.data()),
                  static_cast<std::uint32_t>(payload.size()));
    wire::Packet made = packet(wire::kRcSendOnly);
    out.packet = made;
    out.finish();
    return out;
}

std::uint8_t first_byte(const OutPacket& out) {
    return *static_cast<const std::uint8_t*>(out.pieces[0].iov_base);
}

TEST(delay_line__held_packets__released_in_the_order_of_their_time) {
    PlainMemory memory;
    DelayLine line;
    assert_int_equal(line.next_deadline(), kNever);
    std::vector<std::uint8_t> payload(5);
    for (const std::uint8_t due : {30, 10, 20, 10}) {
        payload[0] = static_cast<std::uint8_t>(due + (line.next_deadline() == 10 && due == 10 ? 1 : 0));
        assert_true(line.hold(packet_with(payload), memory, due));
    }
    payload.assign(5, 0xff); // what the program does meanwhile
    OutPacket out;
    assert_int_equal(line.next_deadline(), 10);
    assert_false(line.release(out, 9));
    for (const std::uint8_t expected : {10, 11, 20, 30}) {
        assert_true(line.release(out, 30));
        assert_int_equal(first_byte(out), expected);
        assert_int_equal(out.payload_bytes, 8); // with its padding
        assert_int_equal(out.piece_count, 1);
    }
    assert_false(line.release(out, 1000));
}

TEST(delay_line__without_payload__still_a_packet) {
    PlainMemory memory;
    DelayLine line;
    OutPacket ack;
    wire::Packet made = kAck;
    ack.begin();
    ack.packet = made;
    ack.finish();
    assert_true(line.hold(ack, memory, 1));
    OutPacket out;
    assert_true(line.release(out, 1));
    assert_int_equal(out.piece_count, 0);
    assert_int_equal(out.header_bytes, 16);
}

TEST(delay_line__too_many__the_next_is_lost) {
    PlainMemory memory;
    DelayLine line;
    const std::vector<std::uint8_t> payload(4);
    for (std::size_t i = 0; i < DelayLine::kMostPackets; ++i) {
        assert_true(line.hold(packet_with(payload), memory, 5));
    }
    assert_false(line.hold(packet_with(payload), memory, 5));
    OutPacket out;
    assert_true(line.release(out, 5));
    assert_true(line.hold(packet_with(payload), memory, 5));
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.faults");
}
