// SPDX-License-Identifier: BSD-3-Clause
//
// A hostile peer against a connection manager that listens and connects: the input is a list of what
// the peer and the program do. Messages are what the input says, except that some get ids, addresses
// or queue pair numbers that exist: otherwise nearly all would die at the first check.
//
// Whatever comes: connections stay within their bound, each message in causes at most two out, all
// that goes out is well-formed, time goes on, and every loop ends.
#include <array>
#include <memory>
#include <vector>

#include "roce/cm/manager.hpp"
#include "tests/fuzz/input.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::cm;
using sluice::fuzz::Input;
using sluice::fuzz::must;

namespace {

constexpr std::uint32_t kMaxConnections = 8;
constexpr std::uint64_t kService = wire::cm_service_id(wire::kPortSpaceTcp, 7174);
constexpr std::uint64_t kDatagrams = wire::cm_service_id(wire::kPortSpaceUdp, 7174);

Address address(std::uint8_t last) {
    Address made;
    made.gid[10] = made.gid[11] = 0xff;
    made.gid[15] = last;
    return made;
}

constexpr Nanoseconds kSights = 4;

class Device {
  public:
    Device()
        : manager_({.secret = sluice::RandomKey::repeatable(5),
                    .max_connections = kMaxConnections,
                    .max_listeners = 4,
                    .keepalive = 1'000'000'000}) {
        must(manager_.listen({.service_id = kService, .local = {}, .backlog = 5}).ok());
        must(manager_.listen({.service_id = kDatagrams, .local = {}, .backlog = 5}).ok());
    }

    void play(Input& input) {
        while (!input.empty()) {
            const std::uint8_t what = input.byte();
            if (what < 128) {
                hear(input, static_cast<std::uint16_t>(0x10 + what % 11));
            } else if (what < 224) {
                act(input, what);
            } else {
                now_ += Nanoseconds{input.word()} << (what % 24);
                manager_.advance(now_);
                must(manager_.next_deadline() > now_ || manager_.next_deadline() == kNever);
                drain(kMaxConnections);
            }
            must(manager_.live() <= kMaxConnections);
        }
        for (const ConnectionId id : ids_) {
            manager_.destroy(id, now_);
            drain(1);
        }
        for (int rounds = 0; manager_.next_deadline() != kNever; ++rounds) {
            must(rounds < 10000);
            now_ = std::max(now_, manager_.next_deadline());
            manager_.advance(now_);
            drain(kMaxConnections);
        }
        must(manager_.live() == 0);
    }

  private:
    ConnectionId some_id(Input& input) {
        return ids_.empty() ? ConnectionId::kNone : ids_[input.byte() % ids_.size()];
    }

    // Offsets within a message are those of cm.hpp: both ids come first in most.
    void hear(Input& input, std::uint16_t attribute) {
        const std::uint8_t help = input.byte();
        const auto ours = static_cast<std::uint32_t>(some_id(input));
        const auto given = input.take(input.byte() % 64);
        std::array<std::uint8_t, wire::kCmBytes> message{};
        std::ranges::copy(given, message.begin());
        const auto put = [&](std::size_t at, std::uint64_t value, std::size_t bytes) {
            for (std::size_t i = 0; i < bytes; ++i) {
                const std::size_t shift = 8 * (bytes - 1 - i);
                message[at + i] = static_cast<std::uint8_t>(shift < 64 ? value >> shift : 0);
            }
        };
        const std::uint8_t source = (help & 1) == 0 ? 2 : 3;
        if ((help & 2) == 0) {
            if (attribute == wire::CmReq::kAttributeId) {
                request(put, message, source, help);
            } else if (attribute == wire::CmSidrReq::kAttributeId) {
                put(4, 0xffff, 2);
                put(8, kDatagrams, 8);
                header(put, 16, source);
            } else if (attribute == wire::CmSidrRep::kAttributeId) {
                put(0, ours, 4);
            } else {
                put(4, ours, 4);
                put(0, help >> 4, 4); // few ids, so that some meet again
            }
        }
        wire::MadHeader mad_header;
        mad_header.attribute_id = attribute;
        Mad mad{};
        wire::encode(mad_header, std::span(mad).first<wire::MadHeader::kBytes>());
        std::ranges::copy(message, mad.begin() + wire::MadHeader::kBytes);
        if ((help & 4) != 0 && !given.empty()) {
            mad[given.back() % 24] ^= given.front();
        }
        manager_.receive(address(source), address(1), mad, now_);
        drain(2);
    }

    template<typename Put>
    void request(Put&& put, const std::array<std::uint8_t, wire::kCmBytes>& message, std::uint8_t source,
                 std::uint8_t help) {
        put(0, (help >> 4) + 1, 4);
        put(8, (help & 8) == 0 ? kService : 0x1234, 8);
        put(32, 2 + message[34] % 8, 3);
        put(43, message[43] & ~6U, 1); // RC
        put(48, 0xffff, 2);
        put(50, (1 + message[50] % 5) << 4, 1);
        put(56 + 10, 0xffff, 2);
        put(56 + 15, source, 1);
        put(72 + 10, 0xffff, 2);
        put(72 + 15, 1, 1);
        header(put, 140, source);
    }
    template<typename Put>
    void header(Put&& put, std::size_t at, std::uint8_t source) {
        put(at, 0x0040, 2);
        put(at + 4, 0, 15);
        put(at + 19, source, 1);
        put(at + 20, 0, 15);
        put(at + 35, 1, 1);
    }

    void act(Input& input, std::uint8_t what) {
        const ConnectionId id = some_id(input);
        const std::uint8_t detail = input.byte();
        const Timing timing = {.response_timeout = static_cast<std::uint8_t>(detail % 32),
                               .packet_lifetime = static_cast<std::uint8_t>(what % 24),
                               .max_retries = static_cast<std::uint8_t>(detail % 16),
                               .give_up_after = (detail & 64) != 0 ? Nanoseconds{1} << what % 40 : 0};
        const auto note = [this](const sluice::Result<ConnectionId>& made) {
            if (made) {
                ids_.push_back(*made);
            }
        };
        switch (what % 8) {
        case 0:
            note(manager_.connect({.local = address(1),
                                   .remote = address(2),
                                   .service_id = kService,
                                   .qpn = 2U + detail % 16,
                                   .timing = timing,
                                   .private_data = {}},
                                  now_));
            break;
        case 1:
            note(manager_.resolve({.local = address(1),
                                   .remote = address(2),
                                   .service_id = kDatagrams,
                                   .timing = timing,
                                   .private_data = {}},
                                  now_));
            break;
        case 2:
            (void)manager_.accept(id, {.qpn = 2U + detail % 16, .private_data = {}}, now_).ok();
            break;
        case 3:
            (void)manager_.ready(id).ok();
            break;
        case 4:
            (void)manager_.reject(id, detail, {}, now_).ok();
            break;
        case 5:
            (void)manager_.disconnect(id, now_).ok();
            break;
        case 6:
            manager_.destroy(id, now_);
            break;
        default:
            manager_.communication_established(2U + detail % 16);
        }
        drain(2);
    }

    void drain(int most) {
        OutMad out;
        for (int messages = 0; manager_.transmit(out); ++messages) {
            must(messages < most);
            const auto mad_header =
                wire::decode<wire::MadHeader>(std::span(out.bytes).first<wire::MadHeader::kBytes>());
            must(mad_header.management_class == wire::MadHeader::kClassCm);
            must(wire::visit_cm(mad_header.attribute_id,
                                std::span(out.bytes).subspan<wire::MadHeader::kBytes, wire::kCmBytes>(),
                                [](const auto&) {}));
            must(out.source == address(1));
        }
        ConnectionManager::Doubtful doubtful;
        while (manager_.next_doubtful(doubtful)) {
            must(doubtful.ends.local == address(1));
            manager_.peer_seen(doubtful.id, static_cast<Sight>(now_ % kSights), now_);
        }
        Event event;
        while (manager_.next_event(event)) {
            if (event.type == EventType::kConnectRequest) {
                ids_.push_back(event.id);
            }
            must(event.private_bytes <= kMaxPrivateData);
        }
    }

    ConnectionManager manager_;
    Nanoseconds now_ = 0;
    std::vector<ConnectionId> ids_;
};

} // namespace

// The name is libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input({data, size});
    const auto device = std::make_unique<Device>();
    device->play(input);
    return 0;
}
