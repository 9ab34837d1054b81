// SPDX-License-Identifier: BSD-3-Clause
//
// The generator of what strangers must not guess.
#include "core/random.hpp"

#include <bit>
#include <cstring>
#include <set>
#include <vector>

#include "core/keyed_hash.hpp"
#include "tests/cmocka.hpp"

using namespace sluice;

namespace {

template<typename Words>
std::vector<std::uint8_t> bytes_of(const Words& words) {
    std::vector<std::uint8_t> bytes;
    for (const auto word : words) {
        for (std::size_t i = 0; i < sizeof word; ++i) {
            bytes.push_back(static_cast<std::uint8_t>(word >> (8 * i)));
        }
    }
    return bytes;
}

// 00 01 02 ...
template<typename Word>
Word counting_up(std::size_t from) {
    Word word = 0;
    for (std::size_t i = 0; i < sizeof(Word); ++i) {
        word |= Word{static_cast<std::uint8_t>(from + i)} << (8 * i);
    }
    return word;
}

// RFC 8439, 2.3.2.
TEST(chacha20__vector_of_the_standard__its_block) {
    RandomKey key;
    for (std::size_t i = 0; i < key.words.size(); ++i) {
        key.words[i] = counting_up<std::uint32_t>(4 * i);
    }
    constexpr std::array<std::uint8_t, 64> kExpected{
        0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15, 0x50, 0x0f, 0xdd, 0x1f, 0xa3, 0x20, 0x71, 0xc4,
        0xc7, 0xd1, 0xf4, 0xc7, 0x33, 0xc0, 0x68, 0x03, 0x04, 0x22, 0xaa, 0x9a, 0xc3, 0xd4, 0x6c, 0x4e,
        0xd2, 0x82, 0x64, 0x46, 0x07, 0x9f, 0xaa, 0x09, 0x14, 0xc2, 0xd7, 0x05, 0xd9, 0x8b, 0x02, 0xa2,
        0xb5, 0x12, 0x9c, 0xd1, 0xde, 0x16, 0x4e, 0xb9, 0xcb, 0xd0, 0x83, 0xe8, 0xa2, 0x50, 0x3c, 0x4e};
    const auto block = bytes_of(chacha20(key, 1, {0x09000000, 0x4a000000, 0}));
    assert_memory_equal(block.data(), kExpected.data(), kExpected.size());
}

// The vectors of SipHash's authors for messages of 0, 8 and 16 bytes.
TEST(keyed_hash__vectors_of_its_authors__their_values) {
    const KeyedHash hash(counting_up<std::uint64_t>(0), counting_up<std::uint64_t>(8));
    const std::array words{counting_up<std::uint64_t>(0), counting_up<std::uint64_t>(8)};
    assert_true(hash(std::span(words).first(0)) == 0x726fdb47dd0e0e31);
    assert_true(hash(std::span(words).first(1)) == 0x93f5f5799a932462);
    assert_true(hash(words) == 0x3f2acc7f57c29bdb);
}

TEST(key__of_the_system__never_the_same) {
    assert_true(RandomKey::from_system()->words != RandomKey::from_system()->words);
}

TEST(derive__other_purpose_or_key__other_stream) {
    const RandomKey one = RandomKey::repeatable(1), other = RandomKey::repeatable(2);
    assert_true(one.derive("keys").words == RandomKey::repeatable(1).derive("keys").words);
    assert_true(one.derive("keys").words != one.derive("seats").words);
    assert_true(one.derive("keys").words != other.derive("keys").words);
    assert_true(one.derive("keys").words != one.words);
}

// What has been given out can't be found in the stream any more, nor what led to it.
TEST(draw__afterwards__the_stream_has_forgotten_it) {
    RandomStream stream(RandomKey::repeatable(3));
    std::vector<std::uint32_t> drawn;
    for (int i = 0; i < 100; ++i) {
        drawn.push_back(stream.draw());
        std::array<std::uint32_t, sizeof(RandomStream) / 4> memory;
        std::memcpy(memory.data(), static_cast<const void*>(&stream), sizeof memory);
        for (const std::uint32_t word : memory) {
            assert_true(word == 0 || std::find(drawn.begin(), drawn.end(), word) == drawn.end());
        }
    }
    assert_int_equal(std::set(drawn.begin(), drawn.end()).size(), drawn.size());
}

TEST(draw__many_times__every_bit_as_often_as_not) {
    constexpr int kDraws = 100'000;
    RandomStream stream(RandomKey::repeatable(4));
    std::array<int, 64> ones{};
    for (int i = 0; i < kDraws; ++i) {
        const std::uint64_t drawn = stream.draw_64();
        for (std::size_t bit = 0; bit < ones.size(); ++bit) {
            ones[bit] += static_cast<int>(drawn >> bit & 1);
        }
    }
    for (const int count : ones) { // six standard deviations
        assert_in_range(count, kDraws / 2 - 950, kDraws / 2 + 950);
    }
}

TEST(draw_below__any_count__each_number_as_often) {
    RandomStream stream(RandomKey::repeatable(5));
    std::array<int, 6> seen{};
    for (int i = 0; i < 60'000; ++i) {
        const std::uint32_t drawn = stream.draw_below(6);
        assert_in_range(drawn, 0, 5);
        ++seen[drawn];
    }
    for (const int count : seen) {
        assert_in_range(count, 9'400, 10'600);
    }
    assert_int_equal(stream.draw_below(1), 0);
    // With a remainder, half of all draws would fall on a third of the numbers.
    constexpr std::uint32_t kCount = 0xc0000000;
    int low = 0;
    for (int i = 0; i < 60'000; ++i) {
        low += stream.draw_below(kCount) < kCount / 3 ? 1 : 0;
    }
    assert_in_range(low, 19'300, 20'700);
}

TEST(permutation__of_any_width__hits_each_number_once) {
    for (int bits = 2; bits <= 13; ++bits) {
        const KeyedPermutation permutation(RandomKey::repeatable(6), bits);
        std::vector<bool> hit(std::size_t{1} << bits);
        for (std::uint32_t number = 0; number < hit.size(); ++number) {
            const std::uint32_t image = permutation(7, number);
            assert_in_range(image, 0, hit.size() - 1);
            assert_false(hit[image]);
            hit[image] = true;
        }
    }
}

TEST(permutation__beyond_its_width__begins_again) {
    const KeyedPermutation narrow(RandomKey::repeatable(6), 4);
    assert_int_equal(narrow(1, 3), narrow(1, 3 + 16));
    const KeyedPermutation wide(RandomKey::repeatable(6), 32);
    assert_int_not_equal(wide(1, 0), wide(1, 0x80000000));
}

TEST(permutation__other_key_or_which__another_one) {
    const KeyedPermutation one(RandomKey::repeatable(6), 16), other(RandomKey::repeatable(7), 16);
    int same_which = 0, same_key = 0;
    for (std::uint32_t number = 0; number < 1'000; ++number) {
        same_which += one(1, number) == one(2, number) ? 1 : 0;
        same_key += one(1, number) == other(1, number) ? 1 : 0;
    }
    assert_in_range(same_which, 0, 3);
    assert_in_range(same_key, 0, 3);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("core.random");
}
