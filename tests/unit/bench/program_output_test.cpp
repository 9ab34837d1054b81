// SPDX-License-Identifier: BSD-3-Clause
//
// Figures out of what other people's programs print: outputs of Debian's perftest and ucx_perftest, and such
// as the benchmark must not take for a figure.
#include "tests/bench/program_output.hpp"

#include <string>

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::bench;

namespace {

using namespace std::string_view_literals;

constexpr std::string_view kLatency =
    "---------------------------------------------------------------------------------------\n"
    "                    RDMA_Write Latency Test\n"
    " TX depth        : 1\n"
    " local address: LID 0000 QPN 0x5c4d40 PSN 0xd00608 RKey 0x5b56b85 VAddr 0x00556f46e1e000\n"
    "---------------------------------------------------------------------------------------\n"
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
    "99% "
    "percentile[usec]   99.9% percentile[usec] \n"
    " 8       200          2.07           109.65       2.27     \t       2.51        \t3.00   \t\t45.26   "
    "\t\t109.65 \n"
    "---------------------------------------------------------------------------------------\n";

constexpr std::string_view kBandwidth =
    " CQ Moderation   : 100\n"
    " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
    " 65536      200              7312.94            6088.12\t\t   0.097410\n";

constexpr std::string_view kUcx = "+--------------+--------------+------------------------------+------------"
                                  "---------+-----------------------+\n"
                                  "|              |              |       overhead (usec)        |   "
                                  "bandwidth (MB/s)  |  message rate (msg/s) |\n"
                                  "|    Stage     | # iterations | 50.0%ile | average | overall |  average | "
                                  " overall |  average  |  overall  |\n"
                                  "+--------------+--------------+----------+---------+---------+----------+-"
                                  "---------+-----------+-----------+\n"
                                  "[thread 0]             11444      0.666    43.667    43.667        0.17   "
                                  "    0.17       22901       22901\n"
                                  "Final:                   200      6.375     7.011     7.015     8914.95   "
                                  " 8910.25      143352      143287\n";

std::string with(std::string_view text, std::string_view what, std::string_view instead) {
    std::string changed(text);
    const std::size_t at = changed.find(what);
    assert_true(at != std::string::npos);
    return changed.replace(at, what.size(), instead);
}

bool is(const std::optional<double>& figure, double value) {
    return figure && *figure == value;
}

TEST(perftest__latency__the_column_of_the_median) {
    assert_true(is(perftest_median_us(kLatency), 2.27));
}

TEST(perftest__bandwidth__average_and_rate_by_their_names) {
    assert_true(is(perftest_mib_per_s(kBandwidth), 6088.12));
    assert_true(is(perftest_million_messages_per_s(kBandwidth), 0.09741));
}

TEST(perftest__unit_has_another_name__the_same_column) {
    assert_true(
        is(perftest_mib_per_s(with(kBandwidth, "BW average[MB/sec]", "BW average[MiB/sec]")), 6088.12));
}

TEST(perftest__one_more_column_in_front__still_by_name) {
    const std::string table = with(kBandwidth, "BW peak[MB/sec] ", "BW least[MB/sec]   BW peak[MB/sec] ");
    assert_true(is(perftest_mib_per_s(with(table, " 7312.94", "  1.5   7312.94")), 6088.12));
}

TEST(perftest__another_test_s_table__none) {
    assert_false(perftest_median_us(kBandwidth).has_value());
    assert_false(perftest_mib_per_s(kLatency).has_value());
}

TEST(perftest__no_table_or_no_row__none) {
    assert_false(perftest_median_us(""sv).has_value());
    assert_false(perftest_median_us("Couldn't connect to 127.0.0.1:18515\n"sv).has_value());
    assert_false(perftest_median_us(kLatency.substr(0, kLatency.find(" 8  "))).has_value());
    assert_false(perftest_million_messages_per_s(with(kBandwidth, "0.097410", "")).has_value());
}

TEST(perftest__value_that_no_measurement_gives__none) {
    for (const std::string_view value : {"0.00", "-1.00", "nan", "inf", "2.27x", "1e999"}) {
        assert_false(perftest_median_us(with(kLatency, "2.27", value)).has_value());
    }
}

TEST(ucx__final_line__median_and_overall_bandwidth) {
    assert_true(is(ucx_median_us(kUcx), 6.375));
    assert_true(is(ucx_mib_per_s(kUcx), 8910.25));
}

TEST(ucx__columns_of_another_version__none) {
    const std::string without_median = with(kUcx, "| 50.0%ile ", "");
    assert_false(ucx_median_us(without_median).has_value());
    assert_false(ucx_mib_per_s(without_median).has_value());
    assert_false(ucx_median_us(with(kUcx, "50.0%ile", "99.0%ile")).has_value());
}

TEST(ucx__ended_early__none) {
    assert_false(ucx_median_us(kUcx.substr(0, kUcx.find("Final:"))).has_value());
    assert_false(ucx_median_us(kUcx.substr(kUcx.find("Final:"))).has_value());
    assert_false(ucx_mib_per_s(kUcx.substr(0, kUcx.find("8910"))).has_value());
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
