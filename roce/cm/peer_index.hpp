// SPDX-License-Identifier: BSD-3-Clause
//
// Finds slots by a key that peers choose: a hash table whose chains run through the slots, so that
// it never allocates. The hash is keyed, because a peer that could aim at one chain would make us walk it.
//
// Not thread safe.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "core/keyed_hash.hpp"
#include "roce/engine/types.hpp"

namespace sluice::roce::cm {

class PeerIndex {
  public:
    static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

    PeerIndex(std::uint32_t slots, const RandomKey& secret)
        : heads_(std::bit_ceil(slots), kNobody), next_(slots, kNobody), keys_(slots, 0), in_(slots, false),
          hash_(secret) {}

    void insert(const engine::Address& peer, std::uint32_t number, std::uint32_t slot) noexcept {
        erase(slot);
        keys_[slot] = key(peer, number);
        next_[slot] = std::exchange(head(keys_[slot]), slot);
        in_[slot] = true;
    }

    // Nothing happens when it isn't in.
    void erase(std::uint32_t slot) noexcept {
        if (!in_[slot]) {
            return;
        }
        std::uint32_t* at = &head(keys_[slot]);
        while (*at != slot) {
            at = &next_[*at];
        }
        *at = next_[slot];
        in_[slot] = false;
    }

    // The first slot under this key for which MATCHES holds: different keys may share a hash.
    template<typename Matches>
    std::uint32_t find(const engine::Address& peer, std::uint32_t number, Matches&& matches) const noexcept {
        const std::uint64_t wanted = key(peer, number);
        for (std::uint32_t slot = heads_[wanted & (heads_.size() - 1)]; slot != kNobody; slot = next_[slot]) {
            if (keys_[slot] == wanted && matches(slot)) {
                return slot;
            }
        }
        return kNobody;
    }

  private:
    std::uint64_t key(const engine::Address& peer, std::uint32_t number) const noexcept {
        std::array<std::uint64_t, 3> words{0, 0, number};
        static_assert(sizeof peer.gid == 2 * sizeof words[0]);
        std::memcpy(words.data(), peer.gid.data(), sizeof peer.gid);
        return hash_(words);
    }
    std::uint32_t& head(std::uint64_t key) noexcept { return heads_[key & (heads_.size() - 1)]; }

    std::vector<std::uint32_t> heads_;
    std::vector<std::uint32_t> next_;
    std::vector<std::uint64_t> keys_;
    std::vector<bool> in_;
    KeyedHash hash_;
};

} // namespace sluice::roce::cm
