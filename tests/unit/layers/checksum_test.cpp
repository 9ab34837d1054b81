// SPDX-License-Identifier: BSD-3-Clause
//
// Whether a change of what is sent is seen.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "layers/check/checksum.hpp"
#include "layers/check/objects.hpp"
#include "tests/cmocka.hpp"

using namespace sluice::layers::check;

namespace {

constexpr unsigned kSeed = 79;

template<typename... Spans>
Request request_of(Spans... pieces) {
    Request request;
    (
        [&] {
            Piece& piece = request.pieces[request.pieces_count++];
            piece.address = reinterpret_cast<std::uintptr_t>(pieces.data());
            piece.length = static_cast<std::uint32_t>(pieces.size_bytes());
        }(),
        ...);
    return request;
}

std::uint64_t sum(const Request& request) {
    const std::optional<std::uint64_t> found = checksum_of(request);
    assert_true(found.has_value());
    return *found;
}

std::vector<std::uint8_t> random_bytes(std::size_t count) {
    std::mt19937 random(kSeed);
    std::vector<std::uint8_t> bytes(count);
    for (std::uint8_t& byte : bytes) {
        byte = static_cast<std::uint8_t>(random());
    }
    return bytes;
}

std::uint8_t* pages(std::size_t count) {
    void* const memory = mmap(nullptr, count * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)),
                              PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return static_cast<std::uint8_t*>(memory);
}

TEST(checksum__nothing_changed__the_same) {
    const std::vector<std::uint8_t> bytes = random_bytes(40'000);
    const Request request = request_of(std::span(bytes));
    assert_true(sum(request) == sum(request));
}

TEST(checksum__any_byte_changed__another) {
    std::printf("seed %u\n", kSeed);
    for (const std::size_t length : {1, 7, 31, 32, 33, 100, 257}) {
        std::vector<std::uint8_t> bytes = random_bytes(length);
        const Request request = request_of(std::span(bytes));
        const std::uint64_t before = sum(request);
        for (std::uint8_t& byte : bytes) {
            for (unsigned bit = 0; bit < 8; ++bit) {
                byte ^= static_cast<std::uint8_t>(1U << bit);
                assert_false(sum(request) == before);
                byte ^= static_cast<std::uint8_t>(1U << bit);
            }
        }
        assert_true(sum(request) == before);
    }
}

TEST(checksum__byte_changed_in_a_long_buffer__another) {
    std::vector<std::uint8_t> bytes = random_bytes(100'003);
    const Request request = request_of(std::span(bytes));
    const std::uint64_t before = sum(request);
    for (const std::size_t at : {0, 16'383, 16'384, 16'385, 32'768, 99'999, 100'002}) {
        ++bytes[at];
        assert_false(sum(request) == before);
        --bytes[at];
    }
}

TEST(checksum__zeros_more_or_less__another) {
    const std::vector<std::uint8_t> zeros(64);
    assert_false(sum(request_of(std::span(zeros))) == sum(request_of(std::span(zeros).first(63))));
    assert_false(sum(request_of(std::span(zeros))) == sum(request_of(std::span(zeros).first(32))));
}

// As small numbers are, which differ in a bit or two.
void expect_exchanges_seen(std::span<std::uint64_t> words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
        words[i] = i + 1;
    }
    const Request request = request_of(words);
    const std::uint64_t before = sum(request);
    for (std::size_t i = 0; i < words.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            std::swap(words[i], words[j]);
            assert_false(sum(request) == before);
            std::swap(words[i], words[j]);
        }
    }
}

TEST(checksum__two_words_exchanged__another) {
    std::array<std::uint64_t, 16> words = {};
    for (std::size_t count = 2; count <= words.size(); ++count) {
        expect_exchanges_seen(std::span(words).first(count));
    }
}

TEST(checksum__pieces_in_another_order__another) {
    const std::vector<std::uint8_t> bytes = random_bytes(96);
    const std::span all(bytes);
    assert_false(sum(request_of(all.first(48), all.last(48))) ==
                 sum(request_of(all.last(48), all.first(48))));
}

TEST(checksum__second_piece_changed__another) {
    std::vector<std::uint8_t> bytes = random_bytes(200);
    const std::span all(bytes);
    const Request request = request_of(all.first(100), all.last(50));
    const std::uint64_t before = sum(request);
    ++bytes[120]; // in none of them
    assert_true(sum(request) == before);
    ++bytes[199];
    assert_false(sum(request) == before);
}

// No store to whole pages goes unseen there.
TEST(checksum__whole_pages_are_protected__edges_alone) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::uint8_t* const memory = pages(4);
    for (const bool has_edges : {true, false}) {
        const std::size_t edge = has_edges ? 10 : 0;
        Request request = request_of(std::span(memory + page - edge, 2 * page + 2 * edge));
        request.pieces[0].is_protected = true;
        const std::uint64_t before = sum(request);
        ++memory[page];
        ++memory[3 * page - 1];
        assert_true(sum(request) == before);
        for (std::uint8_t* const at :
             {memory + page - 1, memory + page - 10, memory + 3 * page, memory + 3 * page + 9}) {
            ++*at;
            assert_true((sum(request) != before) == has_edges);
            --*at;
        }
    }
    assert_int_equal(munmap(memory, 4 * page), 0);
}

TEST(checksum__page_gone_or_forbidden__none) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::uint8_t* const memory = pages(3);
    const Request whole = request_of(std::span(memory, 3 * page));
    const Request first = request_of(std::span(memory, page));
    const std::uint64_t before = sum(first);
    (void)sum(whole);
    assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
    assert_false(checksum_of(whole).has_value());
    assert_int_equal(munmap(memory + page, page), 0);
    assert_false(checksum_of(whole).has_value());
    assert_true(sum(first) == before);
    assert_int_equal(munmap(memory, 3 * page), 0);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
