// SPDX-License-Identifier: BSD-3-Clause
//
// Random numbers that are the same on every machine for the same seed (std::mt19937's
// distributions are not), and headers filled with them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::roce::test {

// splitmix64.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        state_ += 0x9e3779b97f4a7c15;
        std::uint64_t z = state_;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    std::uint32_t below(std::uint32_t limit) {
        return static_cast<std::uint32_t>((next() >> 32) * limit >> 32);
    }
    bool chance(double probability) {
        return static_cast<double>(next() >> 11) < probability * static_cast<double>(std::uint64_t{1} << 53);
    }
    std::vector<std::uint8_t> bytes(std::size_t count) {
        std::vector<std::uint8_t> out(count);
        for (std::uint8_t& byte : out) {
            byte = static_cast<std::uint8_t>(next());
        }
        return out;
    }

  private:
    std::uint64_t state_;
};

// Stands where layout() wants a reader or writer, and fills each field with what fits into it.
class RandomFields {
  public:
    explicit RandomFields(Random& random) : random_(random) {}

    template<std::size_t kOffset, std::size_t kWidth, typename T>
    void field(T& value) {
        value = static_cast<T>(random_.next() >> (64 - kWidth));
    }
    template<std::size_t kOffset, std::size_t kCount>
    void bytes(std::array<std::uint8_t, kCount>& value) {
        for (std::uint8_t& byte : value) {
            byte = static_cast<std::uint8_t>(random_.next());
        }
    }

  private:
    Random& random_;
};

template<typename Header>
Header random_header(Random& random) {
    Header header;
    RandomFields fields(random);
    Header::layout(fields, header);
    return header;
}

} // namespace sluice::roce::test
