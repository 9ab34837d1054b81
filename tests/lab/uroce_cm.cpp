// SPDX-License-Identifier: BSD-3-Clause
//
// uroce opposite the kernel: a device on ADDRESS agrees upon a connection with rdma_cm, exchanges what
// ucmatose exchanges (ten messages each way, the accepting side first), and prints a line per event.
//
//     uroce_cm ADDRESS accept|reject PORT      waits for a connection, and ends it
//     uroce_cm ADDRESS connect PEER PORT       connects, and waits until the peer ends it
//     uroce_cm ADDRESS connect PEER PORT MS    gives up after so long
//     uroce_cm ADDRESS serve-datagrams PORT    answers one look-up
//     uroce_cm ADDRESS look-up PEER PORT
#include <string>

#include "uroce_peer.hpp"

namespace {

using lab::must;
using lab::Peer;

constexpr std::uint32_t kMessages = 10, kMessageBytes = 100;

void post_receives(Peer& peer) {
    for (std::uint32_t i = 0; i < kMessages; ++i) {
        peer.receive(std::size_t{1 + i} * kMessageBytes, kMessageBytes);
    }
}

void connect(Peer& peer, int port_space, const char* to, const char* port, const char* timeout_ms = "0") {
    peer.make_id(port_space);
    post_receives(peer);
    peer.connect(to, port, "from uroce", static_cast<std::uint32_t>(std::strtoul(timeout_ms, nullptr, 10)));
}

void accept(Peer& peer) {
    peer.to_init();
    post_receives(peer);
    peer.accept("welcome");
}

void send_all(Peer& peer) {
    for (std::uint32_t i = 0; i < kMessages; ++i) {
        peer.post(IBV_WR_SEND, 0, kMessageBytes);
    }
}

// Until all that were sent, and that many of the peer's, are complete.
void complete(Peer& peer, std::uint32_t sends, std::uint32_t receives) {
    while (sends + receives != 0) {
        const ibv_wc wc = peer.wait();
        if (wc.opcode == IBV_WC_RECV) {
            must("length", wc.byte_len == kMessageBytes ? 0 : EMSGSIZE);
            --receives;
        } else {
            --sends;
        }
    }
    std::printf("exchanged\n");
}

// The same for the sends of a connection that the kernel's end leaves as soon as it has the last message.
// rxe completes a receive before it acknowledges, and acknowledges no more once its queue pair is in error:
// a last message that came, as its receiver says, may end here without an answer (4 in 1000 times between two
// queue pairs of rxe).
void complete_sends_to_who_leaves(Peer& peer) {
    complete(peer, kMessages - 1, 0);
    const ibv_wc last = peer.next_completion();
    if (last.status == IBV_WC_RETRY_EXC_ERR) {
        std::printf("the last message stays without an acknowledgement\n");
    } else {
        must(ibv_wc_status_str(last.status), last.status == IBV_WC_SUCCESS ? 0 : EIO);
    }
}

void play(const std::vector<const char*>& words) {
    Peer peer(words[0], std::size_t{kMessageBytes} * (1 + kMessages), kMessages);
    const std::string what = words[1];
    if (what == "accept") {
        peer.listen(SLUICE_CM_TCP, words[2]);
        peer.await(SLUICE_CM_CONNECT_REQUEST);
        accept(peer);
        peer.await(SLUICE_CM_ESTABLISHED);
        send_all(peer);
        complete(peer, kMessages, kMessages);
        peer.disconnect();
        peer.await(SLUICE_CM_DISCONNECTED);
    } else if (what == "reject") {
        peer.listen(SLUICE_CM_TCP, words[2]);
        peer.await(SLUICE_CM_CONNECT_REQUEST);
        peer.reject();
    } else if (what == "serve-datagrams") {
        peer.listen(SLUICE_CM_UDP, words[2]);
        peer.await(SLUICE_CM_CONNECT_REQUEST);
        accept(peer);
    } else if (words.size() == 4 && what == "look-up") {
        connect(peer, SLUICE_CM_UDP, words[2], words[3]);
        peer.next();
    } else if (words.size() == 5 && what == "connect") {
        connect(peer, SLUICE_CM_TCP, words[2], words[3], words[4]);
        peer.next();
    } else if (words.size() == 4 && what == "connect") {
        connect(peer, SLUICE_CM_TCP, words[2], words[3]);
        if (peer.next() == SLUICE_CM_ESTABLISHED) {
            complete(peer, 0, kMessages);
            send_all(peer);
            complete_sends_to_who_leaves(peer);
            peer.await(SLUICE_CM_DISCONNECTED);
        }
    }
}

} // namespace

int main(int argc, char** argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (argc < 4) {
        std::fprintf(stderr, "usage: uroce_cm ADDRESS WHAT [PEER] PORT\n");
        return 2;
    }
    play({argv + 1, argv + argc});
    return 0;
}
