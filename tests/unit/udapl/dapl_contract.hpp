// SPDX-License-Identifier: BSD-3-Clause
//
// Programs that keep DAT's contract for a device that doesn't see the CPU's caches, and those that forget one
// thing of it, drawn by seeds.
#pragma once

#include <cstring>
#include <functional>
#include <random>

#include "tests/unit/udapl/dapl_pair.hpp"

namespace sluice::dapl::test {

constexpr unsigned kSeeds = 30;

// What a program gets wrong.
enum class Mistake {
    kNone,
    kNoSyncBeforeRead,      // by the peer, of what was stored
    kSyncBeforeStore,       // and not behind it, where the peer reads
    kWrongRangeForRead,     // another one is synced
    kNoSyncAfterWrite,      // by the peer
    kSyncBeforeWriteOnly,   // and not once it is complete
    kRangeTooShortForWrite, // the last line isn't synced
    kNoSyncBetweenStoreAndWrite,
    kStoreBeforeSync, // into what the peer has written
    kEnd,
};

inline bool is_about_reading(Mistake mistake) {
    return mistake == Mistake::kNoSyncBeforeRead || mistake == Mistake::kSyncBeforeStore ||
           mistake == Mistake::kWrongRangeForRead;
}

using Bytes = std::vector<std::uint8_t>;

// Two programs: the target's owner, who may make a mistake, and a peer who has nothing to sync, as all its
// buffers are local.
class Programs {
  public:
    // BETWEEN: what the owner does behind the peer's Write.
    Programs(
        Pair& pair, unsigned seed, Mistake mistake, std::function<bool()> between = [] { return true; })
        : pair_(pair), random_(seed), mistake_(mistake), between_(std::move(between)) {
        offset_ = random_() % 1500;
        length_ = 200 + random_() % 1000;
    }

    // What the peer reads is what was stored last.
    bool serve_read() {
        store(random_bytes());
        sync_read(offset_, length_);
        peer_read(); // so far all is well
        const Bytes stored = random_bytes();
        if (mistake_ == Mistake::kSyncBeforeStore) {
            sync_read(offset_, length_);
        }
        store(stored);
        if (mistake_ == Mistake::kWrongRangeForRead) {
            sync_read(2048 + offset_ / 2, length_);
        } else if (mistake_ != Mistake::kNoSyncBeforeRead && mistake_ != Mistake::kSyncBeforeStore) {
            sync_read(offset_, length_);
        }
        return peer_read() == stored;
    }

    // What the owner sees is what the peer wrote, and then what it stores itself.
    bool take_write() {
        store(random_bytes());
        if (mistake_ != Mistake::kNoSyncBetweenStoreAndWrite) {
            sync_write(offset_, length_);
        }
        Bytes written = random_bytes();
        peer_write(written);
        assert_true(between_());
        if (mistake_ == Mistake::kStoreBeforeSync) {
            mine()[length_ / 2] = written[length_ / 2] ^= 0xff;
        }
        if (mistake_ == Mistake::kRangeTooShortForWrite) {
            sync_write(offset_, length_ - 100);
        } else if (mistake_ != Mistake::kNoSyncAfterWrite && mistake_ != Mistake::kSyncBeforeWriteOnly) {
            sync_write(offset_, length_);
        }
        return std::memcmp(mine(), written.data(), length_) == 0;
    }

    bool run() { return is_about_reading(mistake_) ? serve_read() : take_write(); }
    std::size_t offset() const { return offset_; }
    std::size_t length() const { return length_; }

  private:
    Bytes random_bytes() {
        Bytes bytes(length_);
        for (std::uint8_t& byte : bytes) {
            byte = static_cast<std::uint8_t>(random_());
        }
        return bytes;
    }
    std::uint8_t* mine() { return pair_.passive.block.bytes.data() + offset_; }
    void store(const Bytes& bytes) { std::memcpy(mine(), bytes.data(), bytes.size()); }
    void sync_read(std::size_t offset, std::size_t length) const {
        const DAT_LMR_TRIPLET part = pair_.passive.block.part(offset, length);
        assert_int_equal(dat_lmr_sync_rdma_read(pair_.passive.opened.ia, &part, 1), DAT_SUCCESS);
    }
    void sync_write(std::size_t offset, std::size_t length) const {
        const DAT_LMR_TRIPLET part = pair_.passive.block.part(offset, length);
        assert_int_equal(dat_lmr_sync_rdma_write(pair_.passive.opened.ia, &part, 1), DAT_SUCCESS);
    }
    DAT_RMR_TRIPLET target() const {
        return {pair_.passive.block.key, 0, pair_.passive.block.address(offset_), length_};
    }
    Bytes peer_read() {
        const DAT_RMR_TRIPLET remote = target();
        DAT_LMR_TRIPLET into = pair_.active.block.part(17, length_);
        assert_int_equal(dat_ep_post_rdma_read(pair_.active.ep, 1, &into, Side::cookie_of(1), &remote,
                                               DAT_COMPLETION_DEFAULT_FLAG),
                         DAT_SUCCESS);
        pair_.active.must_complete(1, DAT_DTO_SUCCESS, length_);
        const std::uint8_t* const read = pair_.active.block.bytes.data() + 17;
        return {read, read + length_};
    }
    void peer_write(const Bytes& bytes) {
        std::memcpy(pair_.active.block.bytes.data() + 2000, bytes.data(), bytes.size());
        const DAT_RMR_TRIPLET remote = target();
        DAT_LMR_TRIPLET from = pair_.active.block.part(2000, length_);
        assert_int_equal(dat_ep_post_rdma_write(pair_.active.ep, 1, &from, Side::cookie_of(2), &remote,
                                                DAT_COMPLETION_DEFAULT_FLAG),
                         DAT_SUCCESS);
        pair_.active.must_complete(2, DAT_DTO_SUCCESS, length_);
    }

    Pair& pair_;
    std::mt19937 random_;
    const Mistake mistake_;
    const std::function<bool()> between_;
    std::size_t offset_ = 0;
    std::size_t length_ = 0;
};

} // namespace sluice::dapl::test
