// SPDX-License-Identifier: BSD-3-Clause
//
// The messages of the general purpose server persistency method, byte by byte, and which lines are written
// back for them.
#include "rpma/gpspm.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "rpma/responder.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::rpma;
using namespace std::string_literals;

namespace {

std::optional<FlushRequest> parse(const std::string& bytes) {
    return flush_request_from(std::as_bytes(std::span(bytes)));
}

const std::string kOffset = "\x09\x01\x02\0\0\0\0\0\0"s;
const std::string kLength = "\x11\x40\0\0\0\0\0\0\0"s;
const std::string kContext = "\x19\x0d\xf0\0\0\0\0\0\x80"s;
const std::string kGood = kOffset + kLength + kContext;

void must_be_good(const std::string& bytes) {
    const auto request = parse(bytes);
    assert_true(request.has_value());
    assert_true(request->offset == 0x201 && request->length == 0x40 &&
                request->op_context == 0x800000000000f00d);
}

TEST(flush_request__as_protobuf_writes_it__taken) {
    must_be_good(kGood);
}

TEST(flush_request__other_order_or_twice__the_last_wins) {
    must_be_good(kContext + kLength + kOffset);
    must_be_good("\x11\x41\0\0\0\0\0\0\0"s + kGood);
}

TEST(flush_request__unknown_fields__skipped) {
    must_be_good("\x20\xff\x01"s + kGood);                         // 4: a varint
    must_be_good(kGood + "\x21\x01\x02\x03\x04\x05\x06\x07\x08"s); // 4: 8 bytes
    must_be_good(kOffset + "\x2a\x03zzz"s + kLength + kContext);   // 5: 3 bytes
    must_be_good(kGood + "\x35\x01\x02\x03\x04"s);                 // 6: 4 bytes
    must_be_good(kGood + "\xf8\xff\xff\xff\x0f\0"s);               // the last field number that there can be
    must_be_good(kGood + "\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s); // the greatest varint
}

TEST(flush_request__something_is_missing_or_cut__refused) {
    assert_false(parse("").has_value());
    assert_false(parse(kOffset + kLength).has_value());
    assert_false(parse(kOffset + kContext).has_value());
    assert_false(parse(kLength + kContext).has_value());
    for (std::size_t size = 0; size < kGood.size(); ++size) {
        assert_false(parse(kGood.substr(0, size)).has_value());
    }
}

TEST(flush_request__no_message_of_protobufs__refused) {
    for (const auto& tail :
         {"\0"s, "\x03"s, "\x23"s, "\x24"s, "\x26"s, "\x27"s, // field 0, groups, wire types that there aren't
          "\x08\x01"s, "\x0d\x01\x02\x03\x04"s,               // a field of ours of another type
          "\x20"s, "\x20\x80"s, "\x25\x01\x02\x03"s, "\x21\x01\x02\x03\x04\x05\x06\x07"s, // cut
          "\x2a\x04zzz"s, "\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01z"s, // longer than there is
          "\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"s,                  // beyond 64 bits
          "\x20\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"s}) {
        assert_false(parse(kGood + tail).has_value());
    }
}

TEST(flush_response__as_protobuf_writes_it) {
    const auto bytes = flush_response_for({0, 0, 0x800000000000f00d});
    assert_int_equal(bytes.size(), 9);
    assert_memory_equal(bytes.data(), "\x09\x0d\xf0\0\0\0\0\0\x80", 9);
}

TEST(range__at_the_edges__no_overflow) {
    assert_true(is_range_of(100, {0, 100, 0}));
    assert_true(is_range_of(100, {100, 0, 0}));
    assert_true(is_range_of(UINT64_MAX, {1, UINT64_MAX - 1, 0}));
    assert_false(is_range_of(100, {0, 101, 0}));
    assert_false(is_range_of(100, {101, 0, 0}));
    assert_false(is_range_of(100, {UINT64_MAX, 1, 0}));
    assert_false(is_range_of(100, {1, UINT64_MAX, 0}));
}

// In place of a CPU: what it is told to do.
struct Recorder {
    std::vector<std::string> steps;
};

void note(const sluice::coherence::Ops& ops, const std::string& step) {
    static_cast<Recorder*>(ops.context)->steps.push_back(step);
}

sluice::coherence::Ops recording(Recorder& recorder) {
    using sluice::coherence::LineRun;
    using sluice::coherence::Ops;
    Ops ops{};
    ops.line_bytes = 64;
    ops.granule_bytes = 64;
    ops.context = &recorder;
    ops.before_clean = {"before", [](const Ops& self) noexcept { note(self, "before"); }};
    ops.after_clean = {"after", [](const Ops& self) noexcept { note(self, "after"); }};
    ops.persist = {"persist",
                   [](const Ops& self, LineRun run) noexcept {
                       note(self, std::to_string(run.first) + "-" + std::to_string(run.last));
                   },
                   nullptr};
    return ops;
}

TEST(write_back__a_range__its_lines_between_the_fences) {
    Recorder recorder;
    const auto ops = recording(recorder);
    const WriteBack memory(&ops, reinterpret_cast<void*>(4096), 1024); // NOLINT: looked at by nobody
    assert_true(memory.persist({100, 100, 0}));
    assert_true(recorder.steps == (std::vector<std::string>{"before", "4160-4288", "after"}));
}

TEST(write_back__nothing_or_too_much__no_line) {
    Recorder recorder;
    const auto ops = recording(recorder);
    const WriteBack memory(&ops, reinterpret_cast<void*>(4096), 1024); // NOLINT: looked at by nobody
    assert_true(memory.persist({1024, 0, 0}));
    assert_false(memory.persist({1000, 25, 0}));
    assert_true(recorder.steps.empty());
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
