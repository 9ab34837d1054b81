// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/queue_pair_rows.hpp"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "core/log.hpp"

namespace sluice::uroce::device {

namespace {

constexpr std::size_t kRowsAtATime = 4096 / kRowBytes;

// In the order of their places.
constexpr std::array<const char*, kRowCounters> kNames = {
    "messages_sent",       "messages_received", "bytes_sent", "bytes_received",      "packets_sent",
    "packets_received",    "retransmissions",   "timeouts",   "rnr_received",        "rnr_sent",
    "duplicates_received", "out_of_sequence",   "dropped",    "completions.success", "completions.failed",
    "completions.flushed",
};

} // namespace

// If there is no memory for the header, readers see a file without rows.
RowTable::RowTable(int file, std::uint8_t* mapped) noexcept : file_(file), mapped_(mapped) {
    if (posix_fallocate(file, kRowsHeadAt, kRowsAt - kRowsHeadAt) != 0) {
        taken_.fill(~std::uint64_t{0});
        return;
    }
    RowsHeader& head = header();
    head.counters = kRowCounters;
    for (std::size_t i = 0; i < kRowCounters; ++i) {
        const std::string_view name = kNames[i];
        head.names[i][name.copy(head.names[i].data(), kCounterNameBytes - 1)] = '\0';
    }
    std::atomic_thread_fence(std::memory_order_release); // a reader of the magic word finds the rest
    head.magic = kRowsMagic;
}

RowsHeader& RowTable::header() const noexcept {
    return *reinterpret_cast<RowsHeader*>(mapped_ + kRowsHeadAt);
}

QueuePairInFile& RowTable::at(std::size_t index) const noexcept {
    return *reinterpret_cast<QueuePairInFile*>(mapped_ + kRowsAt + index * kRowBytes);
}

// Memory that the file system hasn't got would end the program with SIGBUS: it is asked for beforehand.
bool RowTable::reserve(std::size_t index) noexcept {
    if (index < reserved_) {
        return true;
    }
    const std::size_t end = (index / kRowsAtATime + 1) * kRowsAtATime;
    const int error = posix_fallocate(file_, static_cast<off_t>(kRowsAt + reserved_ * kRowBytes),
                                      static_cast<off_t>((end - reserved_) * kRowBytes));
    if (error != 0) {
        SLUICE_LOG(kInfo, "uroce", "`sluice stat` won't see a queue pair: no room for its counters: %s",
                   strerrordesc_np(error));
        return false;
    }
    reserved_ = end;
    return true;
}

engine::QueuePairRow* RowTable::acquire(std::size_t room) noexcept {
    const LockGuard guard(changing_);
    const auto word =
        std::ranges::find_if(taken_, [](std::uint64_t bits) { return bits != ~std::uint64_t{0}; });
    if (word == taken_.end()) {
        return nullptr;
    }
    const auto bit = static_cast<std::size_t>(std::countr_one(*word));
    const std::size_t index = static_cast<std::size_t>(word - taken_.begin()) * kWordBits + bit;
    if (!reserve(index)) {
        return nullptr;
    }
    *word |= std::uint64_t{1} << bit;
    QueuePairInFile& made = at(index);
    made.row.clear();
    made.room.set(room);
    header().used.set(std::max<std::uint64_t>(header().used, index + 1));
    return &made.row;
}

void RowTable::release(engine::QueuePairRow& row) noexcept {
    const auto offset = static_cast<std::size_t>(reinterpret_cast<std::uint8_t*>(&row) - (mapped_ + kRowsAt));
    const std::size_t index = offset / kRowBytes;
    const LockGuard guard(changing_);
    row.clear();
    taken_[index / kWordBits] &= ~(std::uint64_t{1} << index % kWordBits);
}

} // namespace sluice::uroce::device
