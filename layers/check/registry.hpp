// SPDX-License-Identifier: BSD-3-Clause
//
// All that is known of this process's verbs objects. Never destroyed: programs destroy objects to the last.
#pragma once

#include <array>
#include <deque>

#include "layers/check/objects.hpp"
#include "layers/check/table.hpp"

struct rdma_cm_id;

namespace sluice::layers::check {

// A number that is unique on its device only.
struct NumberOf {
    const ibv_context* context = nullptr;
    std::uint32_t number = 0;
    bool operator==(const NumberOf&) const = default;
};

} // namespace sluice::layers::check

template<>
struct std::hash<sluice::layers::check::NumberOf> {
    std::size_t operator()(const sluice::layers::check::NumberOf& key) const noexcept {
        return (reinterpret_cast<std::uintptr_t>(key.context) * 31) ^ key.number;
    }
};

namespace sluice::layers::check {

// Keys of regions, and those that ended last, by either of their two keys.
class Keys {
  public:
    void put(const std::shared_ptr<Region>& region);
    void end(const std::shared_ptr<Region>& region);
    std::shared_ptr<Region> by_local(const ibv_context* context, std::uint32_t key) const noexcept {
        return local_.find({context, key});
    }
    std::shared_ptr<Region> by_remote(const ibv_context* context, std::uint32_t key) const noexcept {
        return remote_.find({context, key});
    }
    // By its local or remote key, among those that have ended. Null: nobody knows.
    std::shared_ptr<Region> ended(const ibv_context* context, std::uint32_t key) const;

  private:
    static constexpr std::size_t kMostEnded = 4096;

    Table<NumberOf, Region> local_;
    Table<NumberOf, Region> remote_;
    mutable Mutex mutex_;
    std::deque<std::shared_ptr<Region>> ended_ SLUICE_TSA(guarded_by(mutex_)); // the oldest first
};

// Where memory is registered, in a coarse form: pieces of two megabytes, each with one of 65,536 bits, which
// is never taken back. Most of a program's calls end here.
class Touched {
  public:
    void add(std::uint64_t first, std::uint64_t bytes) noexcept;
    // False: certainly not.
    bool may_overlap(std::uint64_t first, std::uint64_t bytes) const noexcept {
        if (is_everything_.load(std::memory_order_relaxed)) {
            return true;
        }
        const std::uint64_t last = (first + (bytes != 0 ? bytes - 1 : 0)) >> kShift;
        if (last - (first >> kShift) >= kWords * 64) {
            return true; // a wrong length would have us look for hours
        }
        for (std::uint64_t piece = first >> kShift; piece <= last; ++piece) {
            if ((word_of(piece).load(std::memory_order_relaxed) & bit_of(piece)) != 0) {
                return true;
            }
        }
        return false;
    }

  private:
    static constexpr unsigned kShift = 21;
    static constexpr std::size_t kWords = 1024;

    static std::uint64_t bit_of(std::uint64_t piece) noexcept { return std::uint64_t{1} << (piece % 64); }
    const std::atomic<std::uint64_t>& word_of(std::uint64_t piece) const noexcept {
        return words_[piece / 64 % kWords];
    }

    std::array<std::atomic<std::uint64_t>, kWords> words_ = {};
    std::atomic<bool> is_everything_ = false;
};

struct Registry {
    static Registry& instance() noexcept;

    Table<const ibv_context*, Context> contexts;
    Table<const ibv_pd*, Domain> domains;
    Table<const void*, Region> regions;
    Table<const ibv_comp_channel*, Channel> channels;
    Table<const ibv_cq*, Queue> queues;
    Table<const ibv_srq*, SharedQueue> shared_queues;
    Table<const ibv_qp*, QueuePair> pairs;
    Table<NumberOf, QueuePair> pairs_by_number;
    Table<const ibv_ah*, AddressHandle> address_handles;
    Table<const rdma_cm_id*, ConnectionEvents> connection_events;
    Keys keys;
    Touched registered;
    std::atomic<std::uint32_t> queues_made = 0;
    std::atomic<std::uint32_t> shared_queues_made = 0;
};

} // namespace sluice::layers::check
