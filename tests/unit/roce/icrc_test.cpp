// SPDX-License-Identifier: BSD-3-Clause
//
// The CRC in all its implementations, the ICRC's masks, and the search for the IPv4 identification.
#include "roce/wire/icrc.hpp"

#include <cstdio>

#include "roce/wire/frame.hpp"
#include "tests/cmocka.hpp"
#include "tests/unit/roce/random.hpp"

using namespace sluice::roce::wire;
using sluice::roce::test::Random;
using sluice::roce::test::random_header;

namespace {

constexpr std::uint64_t kSeed = 20260102;

std::uint32_t bit_by_bit(std::uint32_t state, ConstBytes data) {
    for (const std::uint8_t byte : data) {
        state ^= byte;
        for (int bit = 0; bit < 8; ++bit) {
            state = crc32_times_x(state);
        }
    }
    return state;
}

TEST(crc32__check_value_of_the_polynomial__matches) {
    constexpr std::array<std::uint8_t, 9> kDigits = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
    for (const Crc32Implementation& one : crc32_implementations()) {
        if (one.usable()) {
            assert_int_equal(~one.update(~0U, kDigits.data(), kDigits.size()), 0xcbf43926);
        }
    }
}

TEST(crc32__all_implementations__agree_at_every_length_and_alignment) {
    Random random(kSeed);
    const auto data = random.bytes(5000);
    for (const Crc32Implementation& one : crc32_implementations()) {
        std::printf("crc32 %s: %s\n", one.name, one.usable() ? "compared" : "not on this processor");
        for (std::size_t len = 0; one.usable() && len <= 600; ++len) {
            const ConstBytes piece = ConstBytes(data).subspan(len % 17, len);
            const auto start = static_cast<std::uint32_t>(random.next());
            assert_int_equal(one.update(start, piece.data(), len), bit_by_bit(start, piece));
        }
        for (std::size_t offset = 0; one.usable() && offset < 64; ++offset) {
            const ConstBytes piece = ConstBytes(data).subspan(offset, 4096 + offset);
            assert_int_equal(one.update(0, piece.data(), piece.size()), bit_by_bit(0, piece));
        }
    }
}

TEST(crc32__in_pieces__same_as_whole) {
    Random random(kSeed);
    const auto data = random.bytes(1500);
    const std::uint32_t whole = crc32_update(~0U, data);
    for (int i = 0; i < 100; ++i) {
        const std::size_t cut = random.below(1501);
        const std::uint32_t first = crc32_update(~0U, ConstBytes(data).first(cut));
        assert_int_equal(crc32_update(first, ConstBytes(data).subspan(cut)), whole);
    }
}

TEST(crc32__dummy_link_header__known_register) {
    constexpr std::array<std::uint8_t, 8> kOnes = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    assert_int_equal(crc32_update(~0U, kOnes), 0xdebb20e3);
}

struct Example {
    std::vector<std::uint8_t> transport;
    Frame frame;
};

Example random_frame(Random& random, std::size_t transport_bytes, bool ipv6) {
    Example example;
    example.transport = random.bytes(transport_bytes);
    example.frame.is_ipv6 = ipv6;
    example.frame.ipv4 = random_header<Ipv4Header>(random);
    example.frame.ipv6 = random_header<Ipv6Header>(random);
    example.frame.udp = random_header<UdpHeader>(random);
    example.frame.transport = example.transport;
    return example;
}

TEST(icrc__what_routers_change__is_not_covered) {
    Random random(kSeed);
    for (const bool ipv6 : {false, true}) {
        Example example = random_frame(random, 60, ipv6);
        const std::uint32_t before = expected_icrc(example.frame);
        example.frame.ipv4.tos ^= 0x55;
        example.frame.ipv4.ttl ^= 0x0f;
        example.frame.ipv4.checksum ^= 0x1234;
        example.frame.ipv6.traffic_class ^= 0x33;
        example.frame.ipv6.flow_label ^= 0x54321;
        example.frame.ipv6.hop_limit ^= 0x7f;
        example.frame.udp.checksum ^= 0x4321;
        example.transport[4] ^= 0xc0;
        assert_int_equal(expected_icrc(example.frame), before);
    }
}

// Each other bit of headers and transport matters.
TEST(icrc__any_other_bit__is_covered) {
    Random random(kSeed);
    Example example = random_frame(random, 40, false);
    const std::uint32_t before = expected_icrc(example.frame);
    for (std::size_t bit = 0; bit < example.transport.size() * 8; ++bit) {
        example.transport[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
        assert_true((expected_icrc(example.frame) == before) == (bit / 8 == 4));
        example.transport[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    }
    example.frame.ipv4.identification ^= 1;
    assert_int_not_equal(expected_icrc(example.frame), before);
    example.frame.ipv4.identification ^= 1;
    example.frame.udp.source_port ^= 1;
    assert_int_not_equal(expected_icrc(example.frame), before);
    example.frame.udp.source_port ^= 1;
    example.frame.ipv4.source[3] ^= 1;
    assert_int_not_equal(expected_icrc(example.frame), before);
}

TEST(solve_identification__every_identification__found) {
    Random random(kSeed);
    Example example = random_frame(random, 28, false);
    example.frame.ipv4.identification = 0;
    const std::uint32_t for_zero = expected_icrc(example.frame);
    for (std::uint32_t id = 0; id < 0x10000; ++id) {
        example.frame.ipv4.identification = static_cast<std::uint16_t>(id);
        const auto found = solve_identification(expected_icrc(example.frame), for_zero, 28);
        assert_true(found.has_value());
        assert_int_equal(*found, id);
    }
}

TEST(solve_identification__every_length__found) {
    Random random(kSeed);
    for (std::size_t len = 12; len <= 5000; len += 4 + random.below(3) * 4) {
        Example example = random_frame(random, len, false);
        const std::uint16_t id = example.frame.ipv4.identification;
        const std::uint32_t received = expected_icrc(example.frame);
        example.frame.ipv4.identification = 0;
        assert_true(solve_identification(received, expected_icrc(example.frame), len) == id);
    }
}

// A single wrong bit of the checksum is no identification, however long the packet is.
TEST(solve_identification__one_bit_of_the_checksum__none_at_any_length) {
    for (std::size_t len = 12; len <= 5000; ++len) {
        for (unsigned bit = 0; bit < 32; ++bit) {
            assert_false(solve_identification(std::uint32_t{1} << bit, 0, len).has_value());
        }
    }
}

// The sixteen bits of redundancy that remain: 200 000 tries, 3.05 expected to pass.
TEST(solve_identification__random_damage__passes_one_in_65536) {
    Random random(kSeed);
    int passed = 0;
    for (int i = 0; i < 200000; ++i) {
        const auto residual = static_cast<std::uint32_t>(random.next());
        passed += solve_identification(residual, 0, 1040).has_value() ? 1 : 0;
    }
    std::printf("random damage that passed: %d of 200000\n", passed);
    assert_in_range(passed, 0, 12);
}

TEST(solve_identification__longer_than_ip_allows__none) {
    assert_false(solve_identification(1, 2, 0x10000).has_value());
    assert_false(solve_identification(1, 2, ~std::size_t{0} - 64).has_value());
}

} // namespace

int main() {
    std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
    return sluice::test::run_all_tests("roce.icrc");
}
