// SPDX-License-Identifier: BSD-3-Clause
//
// What others see of a queue pair: its number, its state, and what it has counted.
#include "tests/unit/roce/bench.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::roce;
using namespace sluice::roce::test;

namespace {

Address address_in(const QueuePairRow::AddressWords& words) {
    Address address;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::uint64_t word = words[i];
        std::memcpy(address.gid.data() + i * sizeof word, &word, sizeof word);
    }
    return address;
}

const QueuePairRow& row_of(const Host& host, const QueuePair& qp) {
    const QueuePairRow* const row = host.rows.find(qp.qpn());
    assert_non_null(row);
    return *row;
}

bool is_in(const QueuePairRow& row, QpState state) {
    return row.state == static_cast<std::uint64_t>(state);
}

struct Rows : Bench {
    explicit Rows(const QpAttributes& attributes = usual_attributes())
        : Bench(attributes), ours(row_of(net.left, *pair.left)), theirs(row_of(net.right, *pair.right)) {}
    const QueuePairRow& ours;
    const QueuePairRow& theirs;
};

TEST(row__connected__has_number_type_state_and_peer) {
    const Rows bench;
    assert_int_equal(bench.ours.qpn, bench.pair.left->qpn());
    assert_int_equal(bench.ours.type, static_cast<int>(QpType::kRc));
    assert_true(is_in(bench.ours, QpState::kReadyToSend));
    assert_int_equal(bench.ours.peer_qpn, bench.pair.right->qpn());
    assert_true(address_in(bench.ours.local) == bench.net.left.where);
    assert_true(address_in(bench.ours.remote) == bench.net.right.where);
}

TEST(row__each_operation__counts_messages_and_bytes_at_both_ends) {
    Rows bench;
    bench.post_receive(0, 1000);
    bench.post(bench.wr(WrOpcode::kSend, bench.at_left(0, 1000)));
    bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 700)));
    bench.post(bench.wr(WrOpcode::kRead, bench.at_left(0, 600)));
    bench.post(bench.wr(WrOpcode::kFetchAdd, bench.at_left(0, 8)));
    assert_true(bench.net.run());
    const QpCounters &ours = bench.ours.counters, &theirs = bench.theirs.counters;
    assert_int_equal(ours.messages_sent, 4);
    assert_int_equal(ours.bytes_sent, 1700);
    assert_int_equal(ours.bytes_received, 608);
    assert_int_equal(ours.completions_good, 4);
    assert_int_equal(ours.messages_received, 0);
    assert_int_equal(theirs.messages_received, 4);
    assert_int_equal(theirs.bytes_received, 1700);
    assert_int_equal(theirs.bytes_sent, 608);
    assert_int_equal(theirs.completions_good, 1);
    assert_int_equal(ours.packets_out, theirs.packets_in);
    assert_int_equal(theirs.packets_out, ours.packets_in);
}

TEST(row__silent_peer__counts_timeouts_failure_and_flush) {
    QpAttributes attributes = usual_attributes();
    attributes.retry_count = 3;
    Rows bench(attributes);
    bench.net.tap = [](Host&, std::vector<std::uint8_t>&) { return false; };
    bench.post(bench.wr(WrOpcode::kSend, bench.at_left(0, 8), 0, 1));
    bench.post(bench.wr(WrOpcode::kSend, bench.at_left(0, 8), 0, 2));
    assert_true(bench.net.run());
    assert_true(is_in(bench.ours, QpState::kError));
    assert_int_equal(bench.ours.counters.packets_again, 6);
    assert_int_equal(bench.ours.counters.timeouts, bench.net.left.engine.counters().timeouts);
    assert_int_equal(bench.ours.counters.completions_failed, 1);
    assert_int_equal(bench.ours.counters.completions_flushed, 1);
    assert_int_equal(bench.ours.counters.messages_sent, 0);
    assert_int_equal(bench.ours.counters.bytes_sent, 0);
}

TEST(row__receiver_not_ready__both_count_it) {
    QpAttributes attributes = usual_attributes();
    attributes.rnr_retry = 2;
    Rows bench(attributes);
    bench.post(bench.wr(WrOpcode::kSend, bench.at_left(0, 8)));
    assert_true(bench.net.run());
    assert_int_equal(bench.ours.counters.rnr_naks_in, 3);
    assert_int_equal(bench.theirs.counters.rnr_naks_out, 3);
}

// Of two queue pairs at one device each counts its own, and the device both.
TEST(row__of_another_queue_pair__counts_nothing) {
    Rows bench;
    const Pair other = connect(bench.net, usual_attributes());
    bench.post(bench.wr(WrOpcode::kWrite, bench.at_left(0, 700)));
    assert_true(bench.net.run());
    const QpCounters& others = row_of(bench.net.left, *other.left).counters;
    assert_int_equal(bench.ours.counters.messages_sent, 1);
    assert_int_equal(others.messages_sent, 0);
    assert_int_equal(others.packets_out, 0);
    assert_int_equal(bench.net.left.engine.counters().messages_sent, 1);
}

TEST(row__stranger__is_counted_as_a_drop) {
    Rows bench;
    wire::Packet packet = bench.request(wire::kRcSendOnly, 100);
    packet.bth.dest_qpn = bench.pair.right->qpn();
    std::vector<std::uint8_t> bytes(wire::kMaxHeaderBytes);
    bytes.resize(wire::write_headers(packet, bytes));
    bench.net.inject(bench.net.right, Address{}, bytes, 0);
    assert_int_equal(bench.theirs.counters.dropped, 1);
    assert_int_equal(bench.theirs.counters.packets_in, 1);
}

TEST(row__reset_and_destroyed__state_and_free_again) {
    Rows bench;
    assert_true(bench.pair.left->modify(QpState::kReset, {}).ok());
    assert_true(is_in(bench.ours, QpState::kReset));
    const std::uint32_t qpn = bench.pair.left->qpn();
    bench.net.left.engine.destroy_queue_pair(*bench.pair.left);
    assert_null(bench.net.left.rows.find(qpn));
    assert_int_equal(bench.ours.counters.packets_out, 0);
}

// There are three rows.
TEST(queue_pair__without_a_row__works_unseen) {
    Rows bench;
    const Pair more[] = {connect(bench.net, usual_attributes()), connect(bench.net, usual_attributes()),
                         connect(bench.net, usual_attributes())};
    assert_null(bench.net.left.rows.find(more[2].left->qpn()));
    SendWr write = bench.wr(WrOpcode::kWrite, bench.at_left(0, 700));
    assert_true(more[2].left->post_send(write) == Post::kPosted);
    bench.net.left.engine.wake(*more[2].left);
    assert_true(bench.net.run());
    assert_true(bench.sent()->status == Status::kSuccess);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("roce.queue_pair_row");
}
