// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel is the witness: what rdma_cm really sent over rdma_rxe (tests/fixtures/rxe) is played
// to our manager, once from each side of the conversation. What ours answers must be, byte for byte,
// what the kernel at the other end answered, apart from what each end chooses: ids, queue pair
// numbers, sequence numbers, flow labels, the device's GUID.
#include <algorithm>
#include <string>
#include <vector>

#include "roce/wire/frame.hpp"
#include "tests/unit/roce/cm/network.hpp"
#include "tests/unit/roce/pcap.hpp"

#include "tests/cmocka.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::cm;

namespace {

struct Said {
    Address source;
    Address destination;
    Mad mad;
    std::uint16_t attribute() const { return cm::test::attribute_of(mad); }
    template<typename Message>
    Message as() const {
        assert_int_equal(attribute(), Message::kAttributeId);
        return cm::test::message_of<Message>(mad);
    }
    std::uint64_t tid() const {
        return wire::decode<wire::MadHeader>(std::span(mad).first<wire::MadHeader::kBytes>()).transaction_id;
    }
};

Address mapped(const std::array<std::uint8_t, 4>& ip) {
    Address made;
    made.gid[10] = made.gid[11] = 0xff;
    std::copy(ip.begin(), ip.end(), made.gid.begin() + 12);
    return made;
}

// The conversation of one recording.
std::vector<Said> load(const std::string& name) {
    std::vector<Said> all;
    for (const auto& datagram :
         sluice::roce::test::read_pcap(std::string(SLUICE_RXE_FIXTURES) + "/" + name + ".pcap")) {
        wire::Frame frame;
        wire::Packet packet;
        assert_true(wire::parse_frame(datagram, frame) == wire::Refusal::kNone);
        assert_true(wire::parse(frame.transport, packet) == wire::Refusal::kNone);
        if (packet.bth.dest_qpn == wire::kGsiQpn) {
            Said said = {mapped(frame.ipv4.source), mapped(frame.ipv4.destination), {}};
            assert_int_equal(packet.payload.size(), said.mad.size());
            std::ranges::copy(packet.payload, said.mad.begin());
            all.push_back(said);
        }
    }
    return all;
}

class Ours {
  public:
    void hear(const Address& from, const Address& to, const Mad& mad) {
        manager.receive(from, to, mad, 1000);
    }
    Event event() {
        Event taken;
        assert_true(manager.next_event(taken));
        return taken;
    }
    Said answer() {
        OutMad out;
        assert_true(manager.transmit(out));
        return {out.source, out.destination, out.bytes};
    }

    ConnectionManager manager{config()};

  private:
    static ManagerConfig config() {
        ManagerConfig made;
        made.guid = 0x1234;
        made.secret = sluice::RandomKey::repeatable(1);
        return made;
    }
};

// OURS with the kernel's choices in place of ours must be THEIRS.
template<typename Message, typename Adopt>
void expect_same(const Said& ours, const Said& theirs, Adopt&& adopt) {
    assert_true(ours.source == theirs.source && ours.destination == theirs.destination);
    auto message = ours.as<Message>();
    adopt(message, theirs.as<Message>());
    const Mad again = to_mad(theirs.tid(), message);
    assert_memory_equal(again.data(), theirs.mad.data(), again.size());
}

const auto kAdoptIds = [](auto& ours, const auto& theirs) {
    ours.local_comm_id = theirs.local_comm_id;
    ours.remote_comm_id = theirs.remote_comm_id;
};

const auto kAdoptReply = [](wire::CmRep& ours, const wire::CmRep& theirs) {
    kAdoptIds(ours, theirs);
    ours.local_qpn = theirs.local_qpn;
    ours.starting_psn = theirs.starting_psn;
    ours.local_ca_guid = theirs.local_ca_guid;
};

const auto kAdoptRequest = [](wire::CmReq& ours, const wire::CmReq& theirs) {
    ours.local_comm_id = theirs.local_comm_id;
    ours.local_ca_guid = theirs.local_ca_guid;
    ours.local_qpn = theirs.local_qpn;
    ours.starting_psn = theirs.starting_psn;
    using PathBytes = std::span<std::uint8_t, wire::CmPath::kBytes>;
    auto path = wire::decode<wire::CmPath>(PathBytes(ours.primary_path));
    auto its_path = theirs.primary_path;
    path.flow_label = wire::decode<wire::CmPath>(PathBytes(its_path)).flow_label;
    wire::encode(path, PathBytes(ours.primary_path));
};

// The kernel's message, with our id where it has its peer's.
template<typename Message>
Mad to_us(const Said& theirs, std::uint32_t our_id) {
    auto message = theirs.as<Message>();
    message.remote_comm_id = our_id;
    return to_mad(theirs.tid(), message);
}

ConnectParams same_as(const Said& said) {
    const auto req = said.as<wire::CmReq>();
    const auto header =
        wire::decode<wire::CmIpHeader>(std::span(req.private_data).first<wire::CmIpHeader::kBytes>());
    return {.local = said.source,
            .remote = said.destination,
            .service_id = req.service_id,
            .local_port = header.source_port,
            .qpn = 77,
            .responder_resources = req.responder_resources,
            .initiator_depth = req.initiator_depth,
            .retry_count = req.retry_count,
            .rnr_retry_count = req.rnr_retry_count,
            .path_mtu = req.path_mtu,
            .timing = {},
            .private_data = {}};
}

// REQ, REP, RTU, DREQ, DREP, as rping and ucmatose have them.
TEST(kernel_connects__our_answers__are_the_kernels) {
    for (const char* name : {"rping", "ucmatose"}) {
        const std::vector<Said> talk = load(name);
        assert_true(talk.size() >= 5);
        Ours ours;
        const auto req = talk[0].as<wire::CmReq>();
        assert_true(ours.manager.listen({.service_id = req.service_id, .local = {}}).ok());
        ours.hear(talk[0].source, talk[0].destination, talk[0].mad);
        const Event request = ours.event();
        assert_int_equal(request.responder_resources, 1);
        const auto rep = talk[1].as<wire::CmRep>();
        assert_true(ours.manager
                        .accept(request.id,
                                {.qpn = 78,
                                 .responder_resources = rep.responder_resources,
                                 .initiator_depth = rep.initiator_depth,
                                 .rnr_retry_count = rep.rnr_retry_count,
                                 .private_data = {}},
                                1000)
                        .ok());
        expect_same<wire::CmRep>(ours.answer(), talk[1], kAdoptReply);
        const auto id = static_cast<std::uint32_t>(request.id);
        ours.hear(talk[2].source, talk[2].destination, to_us<wire::CmRtu>(talk[2], id));
        assert_true(ours.event().type == EventType::kEstablished);
        const QpSettings settings = *ours.manager.qp_settings(request.id);
        assert_int_equal(settings.timeout, 19);
        assert_int_equal(settings.dest_qpn, req.local_qpn);
        assert_int_equal(settings.send_psn, req.starting_psn);
        auto dreq = talk[3].as<wire::CmDreq>();
        dreq.local_comm_id = req.local_comm_id; // whichever side ended it then
        dreq.remote_comm_id = id;
        dreq.remote_qpn = 78;
        ours.hear(talk[0].source, talk[0].destination, to_mad(talk[3].tid(), dreq));
        assert_true(ours.event().type == EventType::kDisconnected);
        const Said drep = ours.answer();
        assert_int_equal(drep.tid(), talk[4].tid());
        assert_int_equal(drep.as<wire::CmDrep>().local_comm_id, id);
        assert_int_equal(drep.as<wire::CmDrep>().remote_comm_id, req.local_comm_id);
    }
}

TEST(we_connect__our_messages__are_the_kernels) {
    for (const char* name : {"rping", "ucmatose"}) {
        const std::vector<Said> talk = load(name);
        Ours ours;
        const auto id = *ours.manager.connect(same_as(talk[0]), 1000);
        expect_same<wire::CmReq>(ours.answer(), talk[0], kAdoptRequest);
        const auto number = static_cast<std::uint32_t>(id);
        ours.hear(talk[1].source, talk[1].destination, to_us<wire::CmRep>(talk[1], number));
        assert_true(ours.event().type == EventType::kConnectResponse);
        assert_true(ours.manager.ready(id).ok());
        expect_same<wire::CmRtu>(ours.answer(), talk[2], kAdoptIds);
        assert_int_equal((*ours.manager.qp_settings(id)).timeout, 19);
        assert_true(ours.manager.disconnect(id, 1000).ok());
        const auto dreq = ours.answer().as<wire::CmDreq>();
        assert_int_equal(dreq.remote_qpn, talk[1].as<wire::CmRep>().local_qpn);
        wire::CmDrep drep;
        drep.local_comm_id = talk[1].as<wire::CmRep>().local_comm_id;
        drep.remote_comm_id = number;
        ours.hear(talk[1].source, talk[1].destination, to_mad(1, drep));
        assert_true(ours.event().type == EventType::kDisconnected);
    }
}

TEST(nobody_listens__refusal__is_the_kernels) {
    const std::vector<Said> talk = load("rejected");
    Ours passive;
    passive.hear(talk[0].source, talk[0].destination, talk[0].mad);
    expect_same<wire::CmRej>(passive.answer(), talk[1], [](wire::CmRej&, const wire::CmRej&) {});
    Ours active;
    const auto id = *active.manager.connect(same_as(talk[0]), 1000);
    expect_same<wire::CmReq>(active.answer(), talk[0], kAdoptRequest);
    active.hear(talk[1].source, talk[1].destination,
                to_us<wire::CmRej>(talk[1], static_cast<std::uint32_t>(id)));
    const Event event = active.event();
    assert_true(event.type == EventType::kRejected);
    assert_int_equal(event.reason, reason::kInvalidServiceId);
}

TEST(datagram_service__both_sides__are_the_kernels) {
    const std::vector<Said> talk = load("udaddy");
    const auto req = talk[0].as<wire::CmSidrReq>();
    const auto rep = talk[1].as<wire::CmSidrRep>();
    Ours passive;
    assert_true(passive.manager.listen({.service_id = req.service_id, .local = {}}).ok());
    passive.hear(talk[0].source, talk[0].destination, talk[0].mad);
    assert_true(passive.manager
                    .accept(passive.event().id, {.qpn = rep.qpn, .qkey = rep.qkey, .private_data = {}}, 1000)
                    .ok());
    expect_same<wire::CmSidrRep>(passive.answer(), talk[1], [](wire::CmSidrRep&, const wire::CmSidrRep&) {});
    Ours active;
    const auto header =
        wire::decode<wire::CmIpHeader>(std::span(req.private_data).first<wire::CmIpHeader::kBytes>());
    const auto id = *active.manager.resolve({.local = talk[0].source,
                                             .remote = talk[0].destination,
                                             .service_id = req.service_id,
                                             .local_port = header.source_port,
                                             .timing = {},
                                             .private_data = {}},
                                            1000);
    expect_same<wire::CmSidrReq>(
        active.answer(), talk[0],
        [](wire::CmSidrReq& ours, const wire::CmSidrReq& theirs) { ours.request_id = theirs.request_id; });
    wire::CmSidrRep answer = rep;
    answer.request_id = static_cast<std::uint32_t>(id);
    active.hear(talk[1].source, talk[1].destination, to_mad(1, answer));
    const Event event = active.event();
    assert_true(event.type == EventType::kResolved);
    assert_int_equal(event.qkey, 0x01234567);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.cm.kernel");
}
