// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice uroce dump --html`: which packets belong together, what is marked, and what the page has in it.
#include "tools/ladder/lanes.hpp"

#include <algorithm>

#include "roce/wire/cm.hpp"
#include "roce/wire/frame.hpp"
#include "tests/tools/capture_builder.hpp"
#include "tests/unit/roce/pcap.hpp"

// Last: see there.
#include "tests/tools/run_command.hpp"

using namespace sluice::test;
using sluice::roce::test::read_pcap;
using sluice::tools::ladder::Ends;
using sluice::tools::ladder::Kind;
using sluice::tools::ladder::Lanes;
using sluice::tools::ladder::Packet;
using sluice::tools::ladder::Place;
namespace wire = sluice::roce::wire;

namespace {

constexpr std::uint64_t kReq = 0x10, kRtu = 0x14, kRep = 0x13;

Packet forth(Kind kind, std::uint32_t dest_qpn, std::uint32_t psn) {
    return {.kind = kind, .source = "a", .destination = "b", .dest_qpn = dest_qpn, .psn = psn};
}

Packet back(Kind kind, std::uint32_t dest_qpn, std::uint32_t psn) {
    return {.kind = kind, .source = "b", .destination = "a", .dest_qpn = dest_qpn, .psn = psn};
}

Packet message(Packet about, std::uint64_t name, std::uint32_t local_id, std::uint32_t remote_id,
               std::uint32_t qpn) {
    about.message = name;
    about.transaction = 7;
    about.src_qpn = 1;
    about.local_comm_id = local_id;
    about.remote_comm_id = name == kReq ? std::nullopt : std::optional(remote_id);
    about.local_qpn = qpn == 0 ? std::nullopt : std::optional(qpn);
    return about;
}

struct Drawn {
    std::vector<Place> places; // of each packet
    std::vector<bool> again;
    std::vector<Ends> connections;
};

Drawn draw(const std::vector<Packet>& packets) {
    Lanes lanes;
    std::vector<std::uint32_t> taken;
    Drawn drawn;
    for (const Packet& packet : packets) {
        const Lanes::Entry entry = lanes.add(packet);
        taken.push_back(entry.lane);
        drawn.again.push_back(entry.again);
    }
    const std::vector<Place> places = lanes.finish();
    for (const std::uint32_t lane : taken) {
        drawn.places.push_back(places[lane]);
    }
    drawn.connections = lanes.connections();
    return drawn;
}

void assert_ends(const Ends& ends, std::optional<std::uint32_t> first, std::optional<std::uint32_t> second) {
    assert_true(ends[0].qpn == first && ends[1].qpn == second);
}

TEST(lanes__messages_of_the_connection_manager__one_connection_with_its_data) {
    const Drawn drawn = draw({message(forth(Kind::kConnection, 1, 0), kReq, 100, 0, 5),
                              message(back(Kind::kConnection, 1, 0), kRep, 200, 100, 6),
                              message(forth(Kind::kConnection, 1, 1), kRtu, 100, 200, 0),
                              forth(Kind::kRequest, 6, 70), back(Kind::kRequest, 5, 90)});
    assert_int_equal(drawn.connections.size(), 1);
    assert_ends(drawn.connections[0], 5, 6);
    assert_string_equal(drawn.connections[0][0].address.c_str(), "a");
    const std::vector<bool> expected{true, false, true, true, false};
    for (std::size_t i = 0; i < expected.size(); ++i) {
        assert_int_equal(drawn.places[i].connection, 0);
        assert_int_equal(drawn.places[i].is_forth, expected[i]);
    }
}

TEST(lanes__answer_with_a_request_s_number__joined) {
    const Drawn drawn = draw({forth(Kind::kRequest, 6, 70), forth(Kind::kRequest, 16, 900),
                              back(Kind::kAcknowledgement, 15, 900), back(Kind::kAcknowledgement, 5, 70)});
    assert_int_equal(drawn.connections.size(), 2);
    assert_ends(drawn.connections[0], 5, 6);
    assert_ends(drawn.connections[1], 15, 16);
}

TEST(lanes__two_requests_of_one_number__nobody_is_joined_by_guess) {
    const Drawn drawn = draw({forth(Kind::kRequest, 6, 0), forth(Kind::kRequest, 16, 0),
                              back(Kind::kAcknowledgement, 5, 0), back(Kind::kAcknowledgement, 15, 0)});
    assert_int_equal(drawn.connections.size(), 4);
    assert_ends(drawn.connections[0], std::nullopt, 6);
}

TEST(lanes__one_left_in_each_direction__joined) {
    const Drawn drawn = draw({forth(Kind::kRequest, 6, 1), back(Kind::kRequest, 5, 500)});
    assert_int_equal(drawn.connections.size(), 1);
    assert_ends(drawn.connections[0], 5, 6);
}

TEST(lanes__datagrams__ends_as_they_say) {
    Packet there = forth(Kind::kRequest, 6, 1), here = back(Kind::kRequest, 5, 1);
    there.src_qpn = 5;
    here.src_qpn = 6;
    const Drawn drawn = draw({there, here, there});
    assert_int_equal(drawn.connections.size(), 1);
    assert_ends(drawn.connections[0], 5, 6);
    assert_false(drawn.places[1].is_forth || drawn.again[2]);
}

TEST(lanes__number_of_a_queue_pair_used_again__another_connection) {
    const auto connect = [](std::uint32_t id) {
        return std::vector{message(forth(Kind::kConnection, 1, 0), kReq, id, 0, 5),
                           message(back(Kind::kConnection, 1, 0), kRep, id + 100, id, 6),
                           forth(Kind::kRequest, 6, 70)};
    };
    std::vector<Packet> packets = connect(1);
    std::ranges::copy(connect(2), std::back_inserter(packets));
    const Drawn drawn = draw(packets);
    assert_int_equal(drawn.connections.size(), 2);
    assert_int_equal(drawn.places[2].connection, 0);
    assert_int_equal(drawn.places[5].connection, 1);
    assert_false(drawn.again[5]);
}

TEST(lanes__sent_before__again) {
    const Packet req = message(forth(Kind::kConnection, 1, 0), kReq, 100, 0, 5);
    const Drawn drawn =
        draw({req, req, forth(Kind::kRequest, 6, 0xfffffe), forth(Kind::kRequest, 6, 0xffffff),
              forth(Kind::kRequest, 6, 0), forth(Kind::kRequest, 6, 0xffffff),
              forth(Kind::kAcknowledgement, 6, 3), forth(Kind::kAcknowledgement, 6, 3)});
    assert_true(drawn.again == std::vector<bool>({false, true, false, false, false, true, false, false}));
    assert_int_equal(drawn.places[1].connection, drawn.places[0].connection);
}

std::string fixture(const char* name) {
    return std::string(TEST_RXE_FIXTURES) + "/" + name + ".pcap";
}

// What a page has in its block of data.
Json data_of(const std::string& html) {
    const std::string begin = "id=\"data\">";
    const std::size_t at = html.find(begin) + begin.size();
    return Json::parse(html.substr(at, html.find("</script>", at) - at));
}

Ran dump_page(const std::string& content, const std::string& queue_pair = "") {
    Machine scratch;
    scratch.write("/trace", content);
    std::vector<std::string> words{"uroce", "dump", "--html", scratch.root() + "/trace"};
    if (!queue_pair.empty()) {
        words.insert(words.end(), {"--queue-pair", queue_pair});
    }
    return run(words);
}

std::string capture_of(const Datagrams& datagrams) {
    return CaptureBuilder(false).classic(datagrams, Link::kEthernet, true);
}

std::size_t marked(const Json& data, const std::string& kind) {
    return static_cast<std::size_t>(std::ranges::count_if(data["packets"]["mark"], [&](const Json& mark) {
        return data["kinds"][mark.get<unsigned>() >> 3] == kind;
    }));
}

TEST(html__recording_of_rping__one_connection_with_both_ends) {
    const Ran ran = run({"uroce", "dump", "--html", fixture("rping")});
    assert_status(ran, 0);
    const Json data = data_of(ran.out);
    assert_int_equal(data["connections"].size(), 1);
    assert_true(data["connections"][0][0]["queue-pair"].is_number());
    assert_true(data["connections"][0][1]["queue-pair"].is_number());
    const std::size_t packets = read_pcap(fixture("rping")).size();
    for (const Json& column : data["packets"]) {
        assert_int_equal(column.size(), packets);
    }
    assert_int_equal(marked(data, "connection"), 5);
    assert_true(marked(data, "acknowledgement") > 0 && marked(data, "response") > 0);
    assert_int_equal(marked(data, "nak"), 0);
}

TEST(html__packets_sent_again_and_damaged__marked) {
    Datagrams datagrams = read_pcap(fixture("write"));
    datagrams.push_back(datagrams[0]);
    datagrams[1].back() ^= 1;
    const Json marks = data_of(dump_page(capture_of(datagrams)).out)["packets"]["mark"];
    assert_int_equal(marks[0].get<unsigned>() & 6, 0);
    assert_int_equal(marks[1].get<unsigned>() & 6, 4);
    assert_int_equal(marks[datagrams.size() - 1].get<unsigned>() & 6, 2);
}

TEST(html__queue_pair__only_its_connections) {
    Datagrams datagrams = read_pcap(fixture("rping"));
    const Json ends = data_of(dump_page(capture_of(datagrams)).out)["connections"][0];
    const std::size_t packets = datagrams.size();
    std::ranges::copy(read_pcap(fixture("ud_pingpong")), std::back_inserter(datagrams));
    const std::string number = std::to_string(ends[0]["queue-pair"].get<unsigned>());
    const Ran ran = dump_page(capture_of(datagrams), number);
    assert_status(ran, 0);
    assert_int_equal(data_of(ran.out)["packets"]["psn"].size(), packets);
    const Ran nobody = dump_page(capture_of(datagrams), "0xfedcba");
    assert_status(nobody, 1);
    assert_string_equal(nobody.out.c_str(), "");
    assert_contains(nobody.err, "no connection of this queue pair is in it; without --queue-pair");
    assert_status(dump_page("", "0x1000000"), 2);
    assert_status(run({"uroce", "dump", "--queue-pair", "1", fixture("write")}), 2);
    assert_status(run({"uroce", "dump", "--html", "--json", fixture("write")}), 2);
}

TEST(html__nothing_to_draw__one_line_with_the_reason) {
    const Datagrams datagrams = read_pcap(fixture("write"));
    const Ran other_link = dump_page(CaptureBuilder(false).classic(datagrams, static_cast<Link>(147), true));
    for (const auto& [ran, reason] :
         {std::pair{other_link, "no RoCEv2 packet (UDP to port 4791) is in it, but "},
          std::pair{dump_page("#!/bin/sh\necho\n"), "neither a pcap nor a pcapng file"},
          std::pair{dump_page(""), "the file is empty"}}) {
        assert_status(ran, 1);
        assert_string_equal(ran.out.c_str(), "");
        assert_contains(ran.err, reason);
        assert_int_equal(std::ranges::count(ran.err, '\n'), 1);
    }
}

TEST(html__file_cut_off__page_of_what_was_whole_and_where_it_broke) {
    const Datagrams datagrams = read_pcap(fixture("write"));
    const std::string whole = capture_of(datagrams);
    const Ran ran = dump_page(whole.substr(0, whole.size() - 3));
    assert_status(ran, 1);
    assert_contains(ran.err, "the file ends in the middle of something");
    const Json data = data_of(ran.out);
    assert_int_equal(data["packets"]["psn"].size(), datagrams.size() - 1);
    assert_contains(data["note"].get<std::string>(), "the file ends in the middle of something");
}

// A REQ with MARKUP as its private data.
std::vector<std::uint8_t> req_saying(const std::string& markup) {
    std::vector<std::uint8_t> datagram = read_pcap(fixture("rping"))[0];
    constexpr std::size_t kMad =
        wire::Ipv4Header::kBytes + wire::UdpHeader::kBytes + wire::Bth::kBytes + wire::Deth::kBytes;
    constexpr std::size_t kPrivateData = kMad + wire::MadHeader::kBytes + 140;
    std::ranges::copy(markup, datagram.begin() + kPrivateData);
    return datagram;
}

TEST(html__markup_in_private_data_and_in_the_name__data_and_nothing_else) {
    const std::string markup = "</script><img src=x onerror=alert(1)>";
    Machine scratch;
    const std::string path = scratch.root() + "/<img src=y>.pcap";
    scratch.write("/<img src=y>.pcap", capture_of({req_saying(markup)}));
    const Ran ran = run({"uroce", "dump", "--html", path});
    assert_status(ran, 0);
    assert_lacks(ran.out, "<img");
    const Json data = data_of(ran.out);
    assert_contains(data["packets"]["values"][0].get<std::string>(), markup);
    assert_string_equal(data["name"].get<std::string>().c_str(), path.c_str());
}

} // namespace

int main() {
    return sluice::test::run_all_tests("tools.ladder");
}
