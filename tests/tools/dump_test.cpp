// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice uroce dump`: recordings of the kernel's driver, in every format, whole and broken.
#include "tools/capture_file.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/tools/capture_builder.hpp"
#include "tests/unit/roce/pcap.hpp"
#include "tools/output.hpp"

// Last: see there.
#include "tests/tools/run_command.hpp"

using namespace sluice::test;
using sluice::roce::test::files_of;
using sluice::roce::test::read_pcap;
using sluice::tools::Captured;
using sluice::tools::CaptureFile;

namespace {

std::string fixture(const char* name) {
    return std::string(TEST_RXE_FIXTURES) + "/" + name + ".pcap";
}

Ran dump(const std::string& file, bool json = false) {
    return json ? run({"uroce", "dump", file, "--json"}) : run({"uroce", "dump", file});
}

// CONTENT as a file, dumped.
Ran dump_content(const std::string& content, bool json = false) {
    Machine scratch;
    scratch.write("/trace", content);
    return dump(scratch.root() + "/trace", json);
}

TEST(dump__each_recording_of_the_kernel__every_checksum_ok) {
    for (const std::string& path : files_of(TEST_RXE_FIXTURES, ".pcap")) {
        const std::size_t packets = read_pcap(path).size();
        const Ran ran = dump(path);
        assert_int_equal(ran.status, 0);
        assert_string_equal(ran.err.c_str(), "");
        assert_int_equal(std::ranges::count(ran.out, '\n'), packets + 1);
        assert_contains(ran.out, std::to_string(packets) + " RoCEv2 packets, 0 with a bad ICRC; 0 others\n");
        const Json document = json_of(dump(path, true));
        assert_int_equal(document["packets"].size(), packets);
        for (const Json& packet : document["packets"]) {
            assert_string_equal(packet["icrc"].get<std::string>().c_str(), "ok");
            assert_true(packet["psn"].is_number() && packet["ack-request"].is_boolean());
            assert_false(packet.contains("refusal"));
        }
    }
}

TEST(dump__connection_and_data__fields_by_name) {
    const Ran ran = dump(fixture("rping"));
    assert_contains(ran.out, "cm REQ, ");
    assert_contains(ran.out, ", port 7174, ");
    assert_contains(ran.out, "cm DREQ, ");
    assert_contains(ran.out, "10.1.1.2 > 10.1.1.1 RC send only, dest-qpn 0x");
    assert_contains(ran.out, "RC acknowledge, ");
    assert_contains(ran.out, ", syndrome ack, msn ");
    assert_contains(dump(fixture("rejected")).out, ", reason nobody listens, ");
    const Json packets = json_of(dump(fixture("write"), true))["packets"];
    assert_string_equal(packets[0]["opcode"].get<std::string>().c_str(), "RC write first");
    assert_int_equal(packets[0]["message-bytes"].get<int>(), 3000);
    assert_int_equal(packets[0]["payload-bytes"].get<int>(), 1024);
    assert_string_equal(packets[0]["source"].get<std::string>().c_str(), "10.1.1.2");
    assert_false(packets[1].contains("rkey"));
    assert_string_equal(packets[3]["syndrome"].get<std::string>().c_str(), "ack");
}

TEST(dump__every_format_of_the_same_packets__same_output) {
    const Datagrams datagrams = read_pcap(fixture("rping"));
    const std::string expected =
        dump_content(CaptureBuilder(false).classic(datagrams, Link::kEthernet, false)).out;
    assert_contains(expected, "1001.001000000 10.1.1.1 > ");
    for (const bool big_endian : {false, true}) {
        CaptureBuilder build(big_endian);
        for (const Link link : {Link::kEthernet, Link::kRawIp, Link::kCooked, Link::kCooked2, Link::kNull}) {
            assert_string_equal(dump_content(build.classic(datagrams, link, false)).out.c_str(),
                                expected.c_str());
            assert_string_equal(dump_content(build.classic(datagrams, link, true)).out.c_str(),
                                expected.c_str());
            assert_string_equal(dump_content(build.blocks(datagrams, link, 0xff, 1000000)).out.c_str(),
                                expected.c_str());
        }
        assert_string_equal(dump_content(build.classic(datagrams, Link::kEthernet, true, 2)).out.c_str(),
                            expected.c_str());
        assert_string_equal(dump_content(build.blocks(datagrams, Link::kRawIp, 9, 1000000000)).out.c_str(),
                            expected.c_str());
        assert_string_equal(dump_content(build.blocks(datagrams, Link::kRawIp, 3, 1000)).out.c_str(),
                            expected.c_str());
    }
    // One file behind the other, of different byte order, is a file of two sections.
    const std::string two = CaptureBuilder(false).blocks(datagrams, Link::kRawIp, 0xff, 1000000) +
                            CaptureBuilder(true).blocks(datagrams, Link::kEthernet, 0xff, 1000000);
    assert_contains(dump_content(two).out, std::to_string(2 * datagrams.size()) + " RoCEv2 packets, 0 with");
}

TEST(dump__standard_input__same_as_the_file) {
    const std::string command = std::string(TEST_COMMAND) + " uroce dump - <" + fixture("read");
    const Ran ran = run_program("/bin/sh", {"-c", command});
    assert_int_equal(ran.status, 0);
    assert_string_equal(ran.out.c_str(), dump(fixture("read")).out.c_str());
}

TEST(dump__one_bit_flipped__bad_icrc_shown_and_counted) {
    Datagrams datagrams = read_pcap(fixture("write"));
    datagrams[1].back() ^= 1;
    const Ran ran = dump_content(CaptureBuilder(false).classic(datagrams, Link::kRawIp, true));
    assert_int_equal(ran.status, 0);
    assert_contains(ran.out, "icrc bad\n");
    assert_contains(ran.out, "packets, 1 with a bad ICRC; 0 others");
}

TEST(dump__other_traffic_and_cut_packets__counted_as_others) {
    Datagrams datagrams = read_pcap(fixture("write"));
    datagrams.resize(3);
    datagrams[0][22] ^= 1; // another UDP port
    datagrams.push_back({});
    datagrams.push_back({0x45});
    const std::string whole = CaptureBuilder(false).classic(datagrams, Link::kRawIp, true);
    assert_contains(dump_content(whole).out, "2 RoCEv2 packets, 0 with a bad ICRC; 3 others");
    std::string cut = whole;
    cut[24 + 12] ^= 0x40; // of the first record, the length that there was
    cut[24 + 13] ^= 0x40;
    assert_contains(dump_content(cut).out, "3 others");
    const Ran unknown_link =
        dump_content(CaptureBuilder(false).classic(datagrams, static_cast<Link>(147), true));
    assert_int_equal(unknown_link.status, 0);
    assert_contains(unknown_link.out, "0 RoCEv2 packets, 0 with a bad ICRC; 5 others");
}

TEST(dump__broken_file__what_was_whole_and_then_where_it_broke) {
    const Datagrams datagrams = read_pcap(fixture("rejected"));
    const std::string whole = CaptureBuilder(false).blocks(datagrams, Link::kRawIp, 9, 1000000000);
    const Ran ran = dump_content(whole.substr(0, whole.size() - 3));
    assert_int_equal(ran.status, 1);
    assert_contains(ran.out, "cm REQ");
    assert_contains(ran.err, ": byte ");
    assert_contains(ran.err, "the file ends in the middle of something");
    assert_contains(dump_content("").err, "the file is empty");
    assert_contains(dump_content("#!/bin/sh\necho\n").err, "neither a pcap nor a pcapng file");
    const Ran missing = dump("/no/such/file");
    assert_int_equal(missing.status, 1);
    assert_contains(missing.err, "/no/such/file: No such file or directory");
    assert_contains(dump("/tmp").err, "/tmp is a directory");
    assert_int_equal(run({"uroce", "dump"}).status, 2);
    assert_contains(run({"uroce", "record"}).err, "unknown command 'record'; commands: dump");
}

// Whatever a file says, reading ends with the file or with an error.
std::uint64_t packets_in(const std::string& content) {
    std::istringstream in(content);
    std::uint64_t packets = 0;
    try {
        CaptureFile file(in, "test");
        for (Captured packet; file.next(packet);) {
            packets += ip_datagram(packet).empty() ? 0 : 1;
        }
    } catch (const sluice::tools::Failure&) {
    }
    return packets;
}

TEST(read__each_prefix_and_each_byte_changed__ends) {
    const Datagrams datagrams = read_pcap(fixture("rejected"));
    for (const bool big_endian : {false, true}) {
        CaptureBuilder build(big_endian);
        for (const std::string& whole : {build.classic(datagrams, Link::kEthernet, true, 1),
                                         build.blocks(datagrams, Link::kCooked, 9, 1000000000)}) {
            assert_int_equal(packets_in(whole), datagrams.size());
            for (std::size_t len = 0; len < whole.size(); ++len) {
                assert_true(packets_in(whole.substr(0, len)) < datagrams.size());
            }
            for (std::size_t at = 0; at < whole.size(); ++at) {
                for (const char value : {'\0', '\x7f', '\xff'}) {
                    std::string changed = whole;
                    changed[at] = value;
                    assert_true(packets_in(changed) <= datagrams.size());
                }
            }
        }
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests("tools.dump");
}
