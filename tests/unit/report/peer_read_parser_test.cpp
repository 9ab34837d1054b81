// SPDX-License-Identifier: BSD-3-Clause
//
// What processes tell each other of Reads, as it stands in the file; finding_test has the way there and back.
#include "core/report/peer_read_parser.hpp"

#include <string>

#include "tests/cmocka.hpp"

using namespace sluice::report;

namespace {

constexpr pid_t kItself = 4711;
constexpr const char* kRecord =
    "peer-read 12 77 4096 8191 123456789 192.0.2.1\npeer-frame 0x1a2b main /bin/of it\npeer-end\n";

std::size_t count_in(const std::string& text) {
    return PeerReadParser().feed(text, kItself).size();
}

TEST(feed__a_record__all_its_fields) {
    const std::vector<PeerRead> reads = PeerReadParser().feed(kRecord, kItself);
    assert_int_equal(reads.size(), 1);
    assert_int_equal(reads[0].number, 77);
    assert_string_equal(reads[0].address.c_str(), "192.0.2.1");
    assert_int_equal(reads[0].first, 4096);
    assert_int_equal(reads[0].last, 8191);
    assert_int_equal(reads[0].posted_ns, 123456789);
    assert_string_equal(reads[0].frames.c_str(), "frame 0x1a2b main /bin/of it\n");
}

TEST(feed__byte_by_byte__the_same) {
    PeerReadParser parser;
    std::size_t count = 0;
    for (const char each : std::string(kRecord) + kRecord) {
        count += parser.feed({&each, 1}, kItself).size();
    }
    assert_int_equal(count, 2);
}

TEST(feed__of_this_process__passed_over) {
    assert_int_equal(PeerReadParser().feed(kRecord, 12).size(), 0);
}

TEST(feed__between_findings__found) {
    const std::string finding = "\nfinding 1\npid 12\nrule a-rule\nside it\nframe 0x1 f /g\nend\n\n";
    assert_int_equal(count_in(finding + kRecord + finding + kRecord), 2);
}

TEST(feed__cut_off__none_and_the_next_one_is) {
    for (std::size_t length = 1; length < std::string(kRecord).size() - 1; ++length) {
        assert_int_equal(count_in(std::string(kRecord, length) + "\n" + kRecord), 1);
    }
}

TEST(feed__numbers_that_are_none__no_record) {
    for (const char* const line :
         {"peer-read", "peer-read 12 77 4096 8191 1", "peer-read 12 77 4096 8191 1 ",
          "peer-read x 77 1 2 3 a", "peer-read 12 4294967296 1 2 3 a", "peer-read 12 77 2 1 3 a",
          "peer-read 12 77 -1 2 3 a", "peer-read 12 77 1 18446744073709551616 3 a",
          "peer-read 12 77 1 2 3x a", "peer-read  12 77 1 2 3 a"}) {
        assert_int_equal(count_in(std::string(line) + "\npeer-end\n"), 0);
    }
    assert_int_equal(count_in("peer-read 12 77 1 2 3 a\npeer-end\n"), 1);
    assert_int_equal(count_in("peer-end\npeer-frame 0x1 a /b\npeer-end\n"), 0);
}

TEST(feed__a_line_without_an_end__forgotten) {
    PeerReadParser parser;
    for (int i = 0; i < 1000; ++i) {
        assert_int_equal(parser.feed(std::string(4096, 'x'), kItself).size(), 0);
    }
    assert_int_equal(parser.feed(std::string("\n") + kRecord, kItself).size(), 1);
}

TEST(feed__a_long_line_that_ends_as_a_record__none) {
    assert_int_equal(count_in(std::string(20000, 'x') + kRecord), 0);
    assert_int_equal(count_in("peer-read 12 77 1 2 3 " + std::string(20000, 'a') + "\npeer-end\n"), 0);
}

TEST(feed__frames_that_are_no_frames__one_line_each) {
    const std::vector<PeerRead> reads =
        PeerReadParser().feed("peer-read 12 77 1 2 3 a\npeer-frame \x1b[31m\tx\rend\npeer-end\n", kItself);
    assert_int_equal(reads.size(), 1);
    assert_string_equal(reads[0].frames.c_str(), "frame  [31m x end\n");
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
