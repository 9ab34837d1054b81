// SPDX-License-Identifier: BSD-3-Clause
//
// The board of a process: a memory file in which it publishes what its peers on this host may do with its
// memory. Its owner alone writes it; the others map it for reading.
//
// An entry changes under a version that is odd meanwhile, so that nobody goes by half of one. The owner may
// go on, after it has withdrawn an entry, when no other process goes by the former one any more. For that,
// each process counts on its own board when it begins and when it ends to work on a neighbour's memory: the
// owner looks at these counts after the withdrawal, and waits for each that is odd to change. Either the
// owner sees the count, or the other process sees the withdrawal: between its two accesses each has a fence.
//
// It also has a sign for each neighbour, which is told its place.
//
// What is on a neighbour's board its owner may have made up, and it may change at any moment: it is copied
// before it is looked at, and decides about nothing but the neighbour's own memory. The file's size is
// sealed.
#pragma once

#include <memory>
#include <optional>

#include "core/descriptor.hpp"
#include "core/life_sign.hpp"
#include "core/mapped_bytes.hpp"
#include "core/result.hpp"
#include "roce/engine/neighbourhood.hpp"
#include "roce/engine/share.hpp"
#include "roce/near/sign.hpp"

namespace sluice::roce::near {

// Both powers of two.
struct BoardSize {
    std::uint32_t connections = 0;
    std::uint32_t regions = 0;
};

// For signs.
inline constexpr std::uint32_t kPlaces = 1024;

// Which numbers at which address are a process's.
struct BoardOwner {
    engine::Share share;
    engine::Address address;
};

class Board {
  public:
    static Result<std::unique_ptr<Board>> create(const BoardSize& size, const BoardOwner& owner);

    int descriptor() const noexcept { return file_.get(); }
    // Distinguishes it from all others.
    std::uint64_t id() const noexcept;
    const engine::Address& home() const noexcept;
    // While it doesn't say that its thread lives, nobody uses the board.
    LifeMark& life() noexcept;
    bool lives() const noexcept;

    void publish(std::uint32_t slot, const engine::PublishedRegion& region) noexcept;
    void publish(std::uint32_t seat, const engine::PublishedConnection& connection) noexcept;
    void withdraw_region(std::uint32_t slot) noexcept;
    void withdraw_connection(std::uint32_t seat) noexcept;

    // PLACE is less than kPlaces.
    Sign& sign(std::uint32_t place) noexcept;

    // What is read on other boards in between is still so at the end.
    void begin_work() noexcept;
    void end_work() noexcept;

    // This is the child of a fork: the board is the parent's.
    void abandon() noexcept { file_.reset(); }

  private:
    Board(Descriptor file, MappedBytes mapped, const BoardSize& size) noexcept
        : file_(std::move(file)), mapped_(std::move(mapped)), size_(size) {}

    Descriptor file_;
    MappedBytes mapped_;
    const BoardSize size_;
};

// A region as it is published just now. Its owner changes the version with each change.
struct SeenRegion {
    engine::PublishedRegion region;
    std::uint32_t version = 0;
};

inline constexpr char kProbe = 'p';

// Another process's.
class PeerBoard {
  public:
    // kProtocol: it is no board, or another version's.
    static Result<PeerBoard> map(const Descriptor& file);

    bool lives() const noexcept;
    // As it says.
    const BoardOwner& owner() const noexcept { return owner_; }
    // Where its owner has a byte kProbe, to be read to see whether that can be.
    std::uint64_t probe() const noexcept { return probe_; }
    std::uint64_t id() const noexcept { return id_; }

    // Whether its queue pair at the far end of ENDS, which are this process's, has a connection with ours,
    // and what that may do.
    std::optional<engine::PublishedConnection> connection(const engine::Ends& ends) const noexcept;
    // The region or window that has KEY.
    std::optional<SeenRegion> region(std::uint32_t key) const noexcept;

    // PLACE is less than kPlaces.
    const Sign& sign(std::uint32_t place) const noexcept;

    // The count of begin_work() and end_work().
    std::uint32_t work() const noexcept;

  private:
    PeerBoard(MappedBytes mapped, const BoardSize& size, const BoardOwner& owner, std::uint64_t id,
              std::uint64_t probe) noexcept
        : mapped_(std::move(mapped)), size_(size), owner_(owner), id_(id), probe_(probe) {}

    MappedBytes mapped_;
    BoardSize size_;
    BoardOwner owner_;
    std::uint64_t id_;
    std::uint64_t probe_;
};

} // namespace sluice::roce::near
