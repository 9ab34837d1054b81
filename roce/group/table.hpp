// SPDX-License-Identifier: BSD-3-Clause
//
// What the members of a group share: a piece of memory that each of them maps. It holds the words that steer
// packets, and the holder of each seat and of each port.
//
// There is no lock in it. Every change is one compare-and-swap of one word, so that a process may be killed
// between any two instructions and blocks nobody. A seat's word names its holder: a random number, under
// which the holder can be reached (door.hpp) for as long as it lives. A port's word has most of the
// lower half of its holder's: when that seat is given up or taken by another, the port is free, and nobody
// has to clear it.
//
// Who joins holds joining(): the kernel gives it back when the process ends, however that ends.
//
// Members belong to one user, and may have written anything: what is read here is checked before it is used.
// The size is sealed, so that nobody's access can fail.
#pragma once

#include <atomic>
#include <memory>

#include "core/descriptor.hpp"
#include "core/mapped_bytes.hpp"
#include "core/random.hpp"
#include "core/result.hpp"
#include "roce/engine/share.hpp"

namespace sluice::roce::group {

inline constexpr std::uint32_t kSeats = engine::Share::kShares;

// Of a group's addresses: so many beside its own.
inline constexpr std::uint32_t kMaxFurther = 15;

// Where a port is: at all addresses, at the group's own, or at the further one of a number.
enum class Place : std::uint32_t { kEverywhere, kHome, kFirstFurther };
constexpr Place further_place(std::uint32_t number) noexcept {
    return static_cast<Place>(static_cast<std::uint32_t>(Place::kFirstFurther) + number);
}
inline constexpr std::uint32_t kPlaces = static_cast<std::uint32_t>(further_place(kMaxFurther));

// A seat's holder; never 0.
using Holder = std::uint64_t;
inline constexpr Holder kNobody = 0;

class Table {
  public:
    // A new one, with words of the system's.
    static Result<std::unique_ptr<Table>> create();
    // Another member's.
    static Result<std::unique_ptr<Table>> map(Descriptor memory);
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;

    int descriptor() const noexcept { return memory_.get(); }
    // A number that distinguishes this group from all others.
    std::uint64_t group() const noexcept;
    engine::Share::Words words() const noexcept;

    Holder holder(std::uint32_t seat) const noexcept;
    // False: SEAT isn't free. NOW_MS is on a clock that all processes share.
    bool take_seat(std::uint32_t seat, Holder holder, std::int64_t now_ms) noexcept;
    // Whether somebody has a seat since before WHEN_MS.
    bool has_member_before(std::int64_t when_ms) const noexcept;
    // Unless somebody else has it meanwhile.
    void give_up_seat(std::uint32_t seat, Holder holder) noexcept;

    // HOLDER, at SEAT, uses the further address of NUMBER for as long as it lives. False: it does so already.
    bool use_further(std::uint32_t number, std::uint32_t seat, Holder holder) noexcept;
    // After all it doesn't.
    void disuse_further(std::uint32_t number, std::uint32_t seat) noexcept;
    // Above all that it was before, in any member.
    std::uint64_t next_generation() noexcept;
    // Whether a member does.
    bool is_used(std::uint32_t number) const noexcept;

    // The seat that has a service of rdma_cm's at PLACE or everywhere, or else that which had it last, or
    // kSeats. Whoever let go of it may be about to take it again, and answers for it.
    std::uint32_t seat_of_service(std::uint64_t service, Place place) const noexcept;
    // False: another seat has it, at PLACE or everywhere; or everywhere is wanted, and it has it at one.
    // Services that aren't rdma_cm's are nobody's.
    bool take_service(std::uint64_t service, Place place, Holder holder) noexcept;
    void give_up_service(std::uint64_t service, Place place, Holder holder) noexcept;
    // Whether any seat has it there.
    bool is_service_taken(std::uint64_t service, Place place) const noexcept;

    // One process at a time is between the two. False: another is, now.
    bool try_begin_joining() noexcept;
    void end_joining() noexcept;
    // The process that joins now, as this process's /proc numbers it; 0: none, or it isn't visible.
    int joining_process() const noexcept;

    // This is the child of a fork: what it has of it is the parent's.
    void abandon() noexcept { memory_.reset(); }

  private:
    struct Layout;
    Table(Descriptor memory, MappedBytes mapped) noexcept;
    static Result<std::unique_ptr<Table>> attach(Descriptor memory);
    std::atomic<std::uint32_t>* word_of(std::uint64_t service, Place place) const noexcept;
    std::uint32_t seat_with(std::uint32_t word) const noexcept;
    bool is_held(std::uint32_t word) const noexcept;
    bool is_held_by_another(std::uint64_t service, Place place, Holder holder) const noexcept;

    Descriptor memory_;
    MappedBytes mapped_;
    Layout& layout_; // there
};

} // namespace sluice::roce::group
