// SPDX-License-Identifier: BSD-3-Clause
//
// rping's conversation, by a uroce device on ADDRESS with the kernel's rping at the other end. The client
// tells where its bytes are, the server reads them; the client tells where it wants them, and the server
// writes them there. Each step but the first is announced by a message of the length of an advertisement.
//
//     uroce_rping ADDRESS serve PORT COUNT      so many pings; then the client disconnects
//     uroce_rping ADDRESS ping PEER PORT COUNT  checks what comes back, then disconnects
//     uroce_rping ADDRESS hold PEER PORT COUNT  the same, but waits for the peer's end
#include <endian.h>

#include <string>

#include "uroce_peer.hpp"

namespace {

using lab::must;
using lab::Peer;

// In network byte order.
struct Advertisement {
    std::uint64_t addr;
    std::uint32_t rkey;
    std::uint32_t len_bytes;
};

// The block: what is sent, what is received, and two buffers of pings.
constexpr std::uint32_t kNote = sizeof(Advertisement);
constexpr std::size_t kSent = 0, kReceived = kNote, kSource = 64, kSink = 32768, kBlock = 65536;
constexpr std::uint32_t kPingBytes = 64;

void send_note(Peer& peer) {
    peer.post(IBV_WR_SEND, kSent, kNote);
}

// Waits until COUNT of ours and one of the peer's are complete, and receives the next.
Advertisement exchange(Peer& peer, int count) {
    bool received = false;
    while (count != 0 || !received) {
        const ibv_wc wc = peer.wait();
        if (wc.opcode == IBV_WC_RECV) {
            must("length of a note", wc.byte_len == kNote ? 0 : EMSGSIZE);
            received = true;
        } else {
            --count;
        }
    }
    Advertisement note{};
    std::memcpy(&note, peer.bytes(kReceived), sizeof note);
    peer.receive(kReceived, kNote);
    return {be64toh(note.addr), be32toh(note.rkey), be32toh(note.len_bytes)};
}

void advertise(Peer& peer, std::size_t offset) {
    const Advertisement note = {htobe64(peer.addr(offset)), htobe32(peer.rkey()), htobe32(kPingBytes)};
    std::memcpy(peer.bytes(kSent), &note, sizeof note);
    send_note(peer);
}

void ping(Peer& peer, int number) {
    // Text to the last byte but one: the kernel's rping sends back as much as a string has.
    for (std::uint32_t i = 0; i < kPingBytes; ++i) {
        *peer.bytes(kSource + i) = static_cast<char>('A' + (number + static_cast<int>(i)) % 58);
        *peer.bytes(kSink + i) = 1;
    }
    *peer.bytes(kSource + kPingBytes - 1) = 0;
    advertise(peer, kSource);
    (void)exchange(peer, 1);
    advertise(peer, kSink);
    (void)exchange(peer, 1);
    must("what came back",
         std::memcmp(peer.bytes(kSource), peer.bytes(kSink), kPingBytes) == 0 ? 0 : EBADMSG);
    std::printf("ping %d\n", number);
}

// For a client that sends COUNT pings. The last message is ours.
void serve(Peer& peer, int count) {
    for (int i = 0; i < count; ++i) {
        const Advertisement source = exchange(peer, i == 0 ? 0 : 1);
        must("length of a ping", source.len_bytes <= kSink - kSource ? 0 : EMSGSIZE);
        peer.post(IBV_WR_RDMA_READ, kSource, source.len_bytes, source.addr, source.rkey);
        (void)peer.wait();
        send_note(peer);
        const Advertisement sink = exchange(peer, 1);
        peer.post(IBV_WR_RDMA_WRITE, kSource, sink.len_bytes, sink.addr, sink.rkey);
        (void)peer.wait();
        std::printf("served %s\n", peer.bytes(kSource));
        send_note(peer);
    }
}

void play(const std::vector<std::string>& words) {
    Peer peer(words[0].c_str(), kBlock, 4);
    if (words[1] == "serve" && words.size() == 4) {
        peer.listen(SLUICE_CM_TCP, words[2].c_str());
        peer.await(SLUICE_CM_CONNECT_REQUEST);
        peer.to_init();
        peer.receive(kReceived, kNote);
        peer.accept("");
        peer.await(SLUICE_CM_ESTABLISHED);
        serve(peer, std::stoi(words[3]));
        peer.await(SLUICE_CM_DISCONNECTED);
    } else if (words.size() == 5) {
        peer.make_id(SLUICE_CM_TCP);
        peer.receive(kReceived, kNote);
        peer.connect(words[2].c_str(), words[3].c_str(), "");
        must("connect", peer.next() == SLUICE_CM_ESTABLISHED ? 0 : ECONNREFUSED);
        for (int i = 0; i < std::stoi(words[4]); ++i) {
            ping(peer, i);
        }
        if (words[1] == "ping") {
            peer.disconnect();
        }
        peer.await(SLUICE_CM_DISCONNECTED);
    }
}

} // namespace

int main(int argc, char** argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (argc < 5) {
        std::fprintf(stderr, "usage: uroce_rping ADDRESS serve PORT COUNT | ping PEER PORT COUNT\n");
        return 2;
    }
    play({argv + 1, argv + argc});
    return 0;
}
