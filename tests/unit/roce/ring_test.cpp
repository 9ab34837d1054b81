// SPDX-License-Identifier: BSD-3-Clause
//
// A ring of packets between two processes: that what is written arrives, and what becomes of a peer that
// writes garbage. Both ends are in this process.
#include "roce/near/ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>

#include "core/sealed_file.hpp"
#include "tests/unit/roce/memory_file.hpp"
#include "tests/unit/roce/simulation.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice;
using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::test;

namespace {

constexpr std::size_t kMtu = 4096;
// Where things lie in the file: ring.cpp.
constexpr std::size_t kReadAt = 0;
constexpr std::size_t kBytesAt = std::size_t{64} * 1024;

// A Send with LEN bytes of BYTES, numbered PSN.
OutPacket packet_of(std::vector<std::uint8_t>& bytes, std::uint32_t len, std::uint32_t psn) {
    OutPacket out;
    wire::Packet& packet = out.begin();
    packet.bth.opcode = wire::kRcSendOnly;
    packet.bth.dest_qpn = 17;
    packet.bth.psn = psn & wire::kPsnMask;
    if (len != 0) {
        out.add_piece(reinterpret_cast<std::uintptr_t>(bytes.data()) + psn % 256, len);
    }
    out.finish();
    out.source = address(1);
    out.destination = address(2);
    return out;
}

near::RingWriter writer_of(const near::RingReader& reader) {
    return *near::RingWriter::map(Descriptor(dup(reader.descriptor())));
}

struct Ring {
    Ring() {
        writer.begin({.own = writers_sign, .neighbours = readers_sign});
        reader.open({.own = readers_sign, .neighbours = writers_sign});
    }

    near::Sign readers_sign{};
    near::Sign writers_sign{};
    near::RingReader reader = *near::RingReader::create();
    near::RingWriter writer = writer_of(reader);
    PlainMemory memory;
    std::vector<std::uint8_t> bytes = Random(7).bytes(kMtu + 256);

    bool write(std::uint32_t len, std::uint32_t psn) {
        return writer.write(packet_of(bytes, len, psn), memory);
    }
    // The numbers of the packets that are there. Checks that their payloads are as they were written.
    std::vector<std::uint32_t> read() {
        std::vector<std::uint32_t> psns;
        is_well = reader.read([&](const near::RingPacket& in) {
            const wire::Packet& packet = in.packet;
            assert_true(in.source == address(1) && in.destination == address(2));
            assert_int_equal(packet.bth.dest_qpn, 17);
            assert_memory_equal(packet.payload.data(), bytes.data() + packet.bth.psn % 256,
                                packet.payload.size());
            psns.push_back(packet.bth.psn);
        });
        return psns;
    }
    // What a peer might do to the file.
    template<typename T>
    void spoil(std::size_t at, T value) const {
        assert_int_equal(pwrite(reader.descriptor(), &value, sizeof value, static_cast<off_t>(at)),
                         sizeof value);
    }

    bool is_well = true;
};

TEST(packets__of_all_sizes_for_many_laps__arrive_in_order) {
    Ring ring;
    Random random(1);
    std::uint32_t sent = 0;
    std::uint32_t received = 0;
    while (sent < 20000) {
        for (std::uint32_t n = random.below(40); n != 0 && ring.write(random.below(kMtu + 1), sent); --n) {
            ++sent;
        }
        for (const std::uint32_t psn : ring.read()) {
            assert_int_equal(psn, received++);
        }
        assert_true(ring.is_well);
        assert_int_equal(received, sent);
    }
}

TEST(ring__that_is_not_open_yet_or_any_more__takes_nothing) {
    near::Sign readers_sign{};
    near::Sign writers_sign{};
    std::optional<near::RingReader> reader = *near::RingReader::create();
    near::RingWriter writer = writer_of(*reader);
    std::vector<std::uint8_t> bytes(kMtu);
    PlainMemory memory;
    assert_false(writer.write(packet_of(bytes, 8, 0), memory));
    writer.begin({.own = writers_sign, .neighbours = readers_sign});
    assert_false(writer.write(packet_of(bytes, 8, 0), memory));
    assert_int_equal(writer.room(), near::RingWriter::Room::kClosed);
    reader->open({.own = readers_sign, .neighbours = writers_sign});
    assert_true(writer.write(packet_of(bytes, 8, 0), memory));
    reader.reset();
    assert_int_equal(writer.room(), near::RingWriter::Room::kClosed);
    assert_false(writer.write(packet_of(bytes, 8, 0), memory));
}

TEST(ring__that_is_full__takes_nothing_and_says_once_that_there_is_room) {
    Ring ring;
    assert_int_equal(ring.writer.room(), near::RingWriter::Room::kFree);
    assert_false(ring.reader.made_room());
    std::uint32_t sent = 0;
    while (ring.writer.room() == near::RingWriter::Room::kFree) {
        assert_true(ring.write(kMtu, sent++));
    }
    assert_int_equal(ring.writer.room(), near::RingWriter::Room::kFull);
    assert_true(ring.writer.is_full());
    assert_true(sent >= 30);
    while (ring.write(0, sent)) {
        ++sent;
    }
    assert_int_equal(ring.read().size(), sent);
    assert_true(ring.reader.made_room());
    assert_false(ring.reader.made_room());
    assert_int_equal(ring.writer.room(), near::RingWriter::Room::kFree);
}

TEST(reader__that_sleeps__is_woken_once) {
    Ring ring;
    assert_true(ring.write(8, 0)); // nobody has looked yet
    assert_true(ring.writer.is_reader_asleep());
    assert_true(ring.write(8, 1));
    assert_false(ring.writer.is_reader_asleep());
    assert_int_equal(ring.read().size(), 2);
    ring.reader.set_asleep(true);
    assert_true(ring.write(8, 2));
    assert_true(ring.reader.has_packets());
    assert_true(ring.writer.is_reader_asleep());
    ring.reader.set_asleep(true);
    ring.reader.set_asleep(false);
    assert_false(ring.writer.is_reader_asleep());
}

TEST(ring__that_nobody_has_written_to__has_no_memory) {
    Ring ring;
    for (const bool is_asleep : {true, false}) {
        ring.reader.set_asleep(is_asleep);
        assert_false(ring.reader.has_packets());
        assert_int_equal(ring.read().size(), 0);
        assert_false(ring.reader.made_room());
        assert_int_equal(ring.writer.room(), near::RingWriter::Room::kFree);
        assert_false(ring.writer.is_full());
    }
    assert_false(has_memory(ring.reader.descriptor()));
    assert_true(ring.write(8, 0));
    assert_true(has_memory(ring.reader.descriptor()));
    assert_int_equal(ring.read().size(), 1);
}

TEST(payload__whose_page_is_gone__is_not_written) {
    Ring ring;
    HoledMemory memory;
    memory.make_hole(reinterpret_cast<std::uintptr_t>(ring.bytes.data()) + 100, 8);
    assert_false(ring.writer.write(packet_of(ring.bytes, 200, 0), memory));
    assert_false(ring.reader.has_packets());
    assert_true(ring.write(200, 0));
    assert_int_equal(ring.read().size(), 1);
}

void expect_closed(Ring& ring) {
    assert_true(ring.reader.has_packets());
    assert_int_equal(ring.read().size(), 0);
    assert_false(ring.is_well);
    assert_false(ring.reader.has_packets());
    assert_int_equal(ring.writer.room(), near::RingWriter::Room::kClosed);
    assert_false(ring.write(8, 1));
    assert_int_equal(ring.read().size(), 0);
}

// A lap that ends everywhere: what was there before isn't taken for a packet, whatever it was.
TEST(bytes__of_a_lap_before__are_no_packets) {
    Ring ring;
    std::ranges::fill(ring.bytes, std::uint8_t{0x40}); // a length that is possible, wherever it is looked at
    Random random(5);
    for (std::uint32_t sent = 0; sent < 5000; ++sent) {
        assert_true(ring.write(random.below(kMtu + 1), sent));
        assert_int_equal(ring.read().size(), 1);
        assert_true(ring.is_well);
        assert_false(ring.reader.has_packets());
    }
}

// Its reader would have no end.
TEST(writer__that_goes_on_while_it_is_read__waits_for_the_next_time) {
    Ring ring;
    std::uint32_t sent = 0;
    std::uint32_t read = 0;
    assert_true(ring.write(kMtu, sent++));
    assert_true(ring.reader.read([&](const near::RingPacket&) {
        ++read;
        assert_true(ring.write(kMtu, sent++));
    }));
    assert_in_range(read, 30, 32);
    assert_true(ring.reader.has_packets());
}

TEST(acknowledgement__that_goes_with_a_packet__arrives) {
    Ring ring;
    for (const std::optional<std::uint32_t> psn :
         {std::optional<std::uint32_t>(), std::optional(0U), std::optional(wire::kPsnMask)}) {
        OutPacket packet = packet_of(ring.bytes, 8, 1);
        packet.acknowledged_psn = psn;
        assert_true(ring.writer.write(packet, ring.memory));
        std::uint32_t read = 0;
        assert_true(ring.reader.read([&](const near::RingPacket& in) {
            assert_true(in.acknowledged_psn == psn);
            ++read;
        }));
        assert_int_equal(read, 1);
    }
}

TEST(packet__with_an_impossible_length__closes_the_ring) {
    for (const std::uint32_t len : {1U, 11U, 0xffffffffU, 0xfffffff8U, 0x80000000U, 5000U}) {
        Ring ring;
        assert_true(ring.write(64, 0));
        ring.spoil(kBytesAt, len);
        expect_closed(ring);
    }
}

TEST(packet__that_is_none__closes_the_ring) {
    Ring ring;
    assert_true(ring.write(64, 0));
    ring.spoil(kBytesAt + 40, std::uint8_t{0xff}); // the opcode
    expect_closed(ring);
}

TEST(reader__that_claims_to_have_read_what_was_not_written__gets_nothing) {
    for (const std::uint32_t read : {1U << 20, 0xfffffff0U - near::kRingBytes, near::kRingBytes + 64}) {
        Ring ring;
        std::uint32_t sent = 0;
        while (ring.write(0, sent)) { // until it has to know how far the reader is
            ++sent;
        }
        assert_true(sent > 1000);
        ring.spoil(kReadAt, read);
        assert_int_equal(ring.writer.room(), near::RingWriter::Room::kClosed);
        assert_false(ring.write(8, 0));
    }
}

// Whatever a peer writes, at any moment.
TEST(bytes__at_random__do_no_harm) {
    constexpr std::uint64_t kSeed = 20261122;
    Random random(kSeed);
    for (int i = 0; i < 2000; ++i) {
        Ring ring;
        for (std::uint32_t n = random.below(8); n != 0; --n) {
            (void)ring.write(random.below(300), n);
        }
        for (std::uint32_t n = 1 + random.below(6); n != 0; --n) {
            const std::size_t at = random.chance(0.5) ? kBytesAt + random.below(1024) : random.below(192);
            ring.spoil(at, random.chance(0.5) ? random.below(4096) : random.below(0xffffffff));
            (void)ring.reader.read([](const near::RingPacket& in) {
                assert_true(in.packet.payload.size() <= near::kMostPacketBytes);
            });
            (void)ring.write(random.below(kMtu + 1), n);
        }
    }
}

TEST(file__that_is_no_ring__is_refused) {
    const Descriptor no_seals = *make_memory_file("test", kBytesAt + near::kRingBytes);
    assert_false(near::RingWriter::map(no_seals).ok());
    const Descriptor wrong_size = *make_memory_file("test", kBytesAt);
    assert_true(seal_size(wrong_size).ok());
    assert_false(near::RingWriter::map(wrong_size).ok());
    assert_false(near::RingWriter::map(Descriptor(open("/dev/null", O_RDWR | O_CLOEXEC))).ok());
    assert_false(near::RingWriter::map(Descriptor()).ok());
    const near::RingReader ring = *near::RingReader::create();
    assert_int_not_equal(ftruncate(ring.descriptor(), 0), 0);
}

TEST(two_threads__one_writes_and_one_reads__all_arrives) {
    constexpr std::uint32_t kPackets = 50000;
    Ring ring;
    std::thread writer([&] {
        Random random(3);
        for (std::uint32_t sent = 0; sent < kPackets;) {
            if (ring.write(random.below(2000), sent)) {
                ++sent;
            } else {
                sched_yield();
            }
        }
    });
    std::uint32_t received = 0;
    bool in_order = true;
    while (received < kPackets) {
        const bool read = ring.reader.read([&](const near::RingPacket& in) {
            const wire::Packet& packet = in.packet;
            in_order = in_order && packet.bth.psn == received++ &&
                       std::equal(packet.payload.begin(), packet.payload.end(),
                                  ring.bytes.begin() + packet.bth.psn % 256);
        });
        in_order = in_order && read;
    }
    writer.join();
    assert_true(in_order);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.ring");
}
