// SPDX-License-Identifier: BSD-3-Clause
//
// A ring with a hostile process at its other end: the input is what that one writes to the file and says by
// its sign, and when.
// The reader must hand out nothing but packets, and never more of them than there was room for; the writer
// must stay within the file, which the sanitizer watches.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "roce/near/ring.hpp"
#include "tests/fuzz/input.hpp"

using namespace sluice;
using namespace sluice::roce;
using fuzz::Input;
using fuzz::must;

namespace {

constexpr std::size_t kFileBytes = std::size_t{64} * 1024 + near::kRingBytes;
constexpr std::size_t kPacketsAt = std::size_t{64} * 1024;

struct Ring {
    Ring() {
        writer.begin({.own = writers_sign, .neighbours = readers_sign});
        reader.open({.own = readers_sign, .neighbours = writers_sign});
        void* const at =
            mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, reader.descriptor(), 0);
        must(at != MAP_FAILED);
        file = static_cast<std::uint8_t*>(at);
    }
    ~Ring() { munmap(file, kFileBytes); }
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;

    // The head's lines or the first packets, and as many bytes as the input says.
    void spoil(Input& input) const {
        const std::uint32_t where = input.word();
        const std::size_t at = (where & 1) != 0 ? (where >> 1) % 256 : kPacketsAt + (where >> 1) % 8192;
        const auto bytes = input.take(input.byte());
        std::copy(bytes.begin(), bytes.end(), file + at);
    }
    // Each end's sign about the other one: what it says may come and go.
    void spoil_signs(Input& input) {
        readers_sign.store(input.byte(), std::memory_order_relaxed);
        writers_sign.store(input.byte(), std::memory_order_relaxed);
    }
    // It may be about to sleep, too.
    void read() {
        std::size_t bytes = 0;
        (void)reader.read([&](const near::RingPacket& in) {
            must(bytes < near::kRingBytes);
            must(in.packet.payload.size() <= near::kMostPacketBytes);
            bytes += sizeof(engine::Address) * 2 + in.packet.payload.size();
        });
        (void)reader.made_room();
        reader.set_asleep(true);
        (void)reader.has_packets();
        reader.set_asleep(false);
    }
    void write(std::uint32_t len) {
        engine::OutPacket out;
        out.begin().bth.opcode = wire::kRcSendOnly;
        out.add_piece(reinterpret_cast<std::uintptr_t>(payload.data()), len % 4097);
        out.finish();
        (void)writer.room();
        (void)writer.write(out, memory);
        (void)writer.is_reader_asleep();
    }

    near::Sign readers_sign{};
    near::Sign writers_sign{};
    near::RingReader reader = *near::RingReader::create();
    near::RingWriter writer = *near::RingWriter::map(Descriptor(dup(reader.descriptor())));
    std::vector<std::uint8_t> payload = std::vector<std::uint8_t>(4096);
    engine::PlainMemory memory;
    std::uint8_t* file = nullptr;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input({data, size});
    Ring ring;
    while (!input.empty()) {
        switch (input.byte() % 4) {
        case 0:
            ring.write(input.word());
            break;
        case 1:
            ring.read();
            break;
        case 2:
            ring.spoil_signs(input);
            break;
        default:
            ring.spoil(input);
        }
    }
    ring.read();
    return 0;
}
