// SPDX-License-Identifier: BSD-3-Clause
#include "roce/wire/packet.hpp"

namespace sluice::roce::wire {
namespace {

// Both walk the headers in wire order. Lengths were checked for the whole walk beforehand.
class Taker {
  public:
    explicit Taker(ConstBytes from) noexcept : rest_(from) {}
    template<typename H>
    void operator()(H& header) noexcept {
        header = decode<H>(rest_.first<H::kBytes>());
        rest_ = rest_.subspan(H::kBytes);
    }

  private:
    ConstBytes rest_;
};

class Putter {
  public:
    explicit Putter(MutableBytes to) noexcept : rest_(to) {}
    template<typename H>
    void operator()(const H& header) noexcept {
        encode(header, rest_.first<H::kBytes>());
        rest_ = rest_.subspan(H::kBytes);
    }

  private:
    MutableBytes rest_;
};

template<typename Step, typename P>
void extension_headers(const OpcodeInfo& info, Step& step, P& packet) noexcept {
    if (info.has(kHasXrcEth)) {
        step(packet.xrc);
    }
    if (info.has(kHasDeth)) {
        step(packet.deth);
    }
    if (info.has(kHasFeth)) {
        step(packet.feth);
    }
    if (info.has(kHasReth)) {
        step(packet.reth);
    }
    if (info.has(kHasAtomicEth)) {
        step(packet.atomic);
    }
    if (info.has(kHasAeth)) {
        step(packet.aeth);
    }
    if (info.has(kHasAtomicAckEth)) {
        step(packet.atomic_ack);
    }
    if (info.has(kHasImmDt)) {
        step(packet.imm);
    }
    if (info.has(kHasIeth)) {
        step(packet.ieth);
    }
}

} // namespace

Refusal parse(ConstBytes transport, Packet& out) noexcept {
    if (transport.size() < Bth::kBytes) {
        return Refusal::kTruncated;
    }
    out.bth = decode<Bth>(transport.first<Bth::kBytes>());
    if (out.bth.version != 0) {
        return Refusal::kVersion;
    }
    const OpcodeInfo& info = out.info();
    if (!info.known()) {
        return Refusal::kOpcode;
    }
    const std::size_t headers = info.header_bytes;
    if (transport.size() < headers) {
        return Refusal::kTruncated;
    }
    const std::size_t rest = transport.size() - headers;
    if (rest % 4 != 0) {
        return Refusal::kAlignment;
    }
    if (rest < out.bth.pad) {
        return Refusal::kTruncated;
    }
    if (rest != 0 && !info.has(kHasPayload)) {
        return Refusal::kUnexpected;
    }
    Taker take(transport.subspan(Bth::kBytes));
    extension_headers(info, take, out);
    out.payload = transport.subspan(headers, rest - out.bth.pad);
    return Refusal::kNone;
}

std::size_t write_headers(const Packet& packet, MutableBytes out) noexcept {
    const OpcodeInfo& info = packet.info();
    const std::size_t headers = info.header_bytes;
    if (!info.known() || out.size() < headers) {
        return 0;
    }
    Putter put(out);
    put(packet.bth);
    extension_headers(info, put, packet);
    return headers;
}

} // namespace sluice::roce::wire
