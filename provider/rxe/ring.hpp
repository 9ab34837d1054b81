// SPDX-License-Identifier: BSD-3-Clause
//
// The rings that rdma_rxe shares with user space: a header with two indices, then elements whose
// size is a power of two. One slot stays empty, so that equal indices mean an empty ring. A queue of
// no requests has a ring of that one slot.
//
// A ring is memory that others can write. Its geometry is checked once, against the size of the
// mapping, and kept here; what the header says about it afterwards doesn't matter. An index that
// is read from the ring is masked before it is used, so that the worst a wrong one can do is
// name another element of the same ring. Our own index is kept here and only written there.
//
// Thread safety: none; the queue that owns the ring has the lock. may_have_work() is the
// exception.
#pragma once

#include <rdma/rdma_user_rxe.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace sluice::provider::rxe {

static_assert(offsetof(rxe_queue_buf, producer_index) == 128 &&
              offsetof(rxe_queue_buf, consumer_index) == 256 && offsetof(rxe_queue_buf, data) == 384);

class Ring {
  public:
    // Takes a ring of LEN_BYTES at MEMORY, which must have room for CAPACITY elements of
    // ELEMENT_BYTES. 0 or EINVAL.
    int attach(void* memory, std::size_t len_bytes, std::size_t element_bytes,
               std::uint32_t capacity) noexcept {
        if (len_bytes < sizeof(rxe_queue_buf)) {
            return EINVAL;
        }
        auto* header = static_cast<rxe_queue_buf*>(memory);
        const std::uint32_t shift = load(header->log2_elem_size, std::memory_order_relaxed);
        const std::uint64_t slots = std::uint64_t{load(header->index_mask, std::memory_order_relaxed)} + 1;
        if (shift > kMaxShift || std::size_t{1} << shift < element_bytes || (slots & (slots - 1)) != 0 ||
            slots <= capacity || slots > (len_bytes - sizeof(rxe_queue_buf)) >> shift) {
            return EINVAL;
        }
        header_ = header;
        data_ = header->data;
        mask_ = static_cast<std::uint32_t>(slots - 1);
        shift_ = shift;
        return 0;
    }

    bool attached() const noexcept { return header_ != nullptr; }
    std::uint32_t mask() const noexcept { return mask_; }
    std::size_t element_bytes() const noexcept { return std::size_t{1} << shift_; }

    // Any index names an element of the ring.
    void* element(std::uint32_t index) const noexcept {
        return data_ + (std::size_t{index & mask_} << shift_);
    }

    // Partner of the kernel's release when it has filled (produced) or emptied (consumed) elements.
    std::uint32_t produced() const noexcept {
        return load(header_->producer_index, std::memory_order_acquire) & mask_;
    }
    std::uint32_t consumed() const noexcept {
        return load(header_->consumer_index, std::memory_order_acquire) & mask_;
    }

    // Partner of the kernel's acquire: elements up to INDEX are filled, or may be used again.
    void publish_produced(std::uint32_t index) const noexcept {
        std::atomic_ref(header_->producer_index).store(index & mask_, std::memory_order_release);
    }
    void publish_consumed(std::uint32_t index) const noexcept {
        std::atomic_ref(header_->consumer_index).store(index & mask_, std::memory_order_release);
    }

    // For a look without a lock: may be wrong in either direction, never unsafe.
    const std::uint32_t* produced_word() const noexcept { return &header_->producer_index; }

  private:
    static constexpr std::uint32_t kMaxShift = 16;

    static std::uint32_t load(const std::uint32_t& word, std::memory_order order) noexcept {
        return __atomic_load_n(&word,
                               order == std::memory_order_acquire ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED);
    }

    rxe_queue_buf* header_ = nullptr;
    std::uint8_t* data_ = nullptr;
    std::uint32_t mask_ = 0;
    std::uint32_t shift_ = 0;
};

// The side that fills elements for the kernel.
class ProducerRing {
  public:
    int attach(void* memory, std::size_t len_bytes, std::size_t element_bytes,
               std::uint32_t capacity) noexcept {
        const int error = ring_.attach(memory, len_bytes, element_bytes, capacity);
        if (error == 0) {
            resynchronise();
        }
        return error;
    }
    const Ring& ring() const noexcept { return ring_; }

    // Makes sure that there is room for one more element behind AHEAD unpublished ones. The
    // kernel's index is read only when what was last seen of it isn't enough.
    bool has_room(std::uint32_t ahead) noexcept {
        if (ahead < room_) {
            return true;
        }
        room_ = (ring_.consumed() - next_ - 1) & ring_.mask();
        return ahead < room_;
    }
    void* element(std::uint32_t ahead) const noexcept { return ring_.element(next_ + ahead); }

    void publish(std::uint32_t count) noexcept {
        next_ = (next_ + count) & ring_.mask();
        room_ -= count;
        ring_.publish_produced(next_);
    }

    // Takes the indices from the ring again, after the kernel has emptied it.
    void resynchronise() noexcept {
        next_ = ring_.produced();
        room_ = 0;
    }
    std::uint32_t next() const noexcept { return next_; }

  private:
    Ring ring_;
    std::uint32_t next_ = 0; // the index of the next element to fill
    std::uint32_t room_ = 0; // elements that can be filled without looking
};

} // namespace sluice::provider::rxe
