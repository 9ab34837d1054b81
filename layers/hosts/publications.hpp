// SPDX-License-Identifier: BSD-3-Clause
//
// What hosts have published while lines that they had stored weren't cleaned, for `sluice check` (ADR 93). It
// lies in a file of the run, which all processes map. Tables that are full, or hash two lines to one place,
// forget: a mistake may go unseen, and none is invented.
//
// Thread safety: everything is called with the SharedLock; what a thread has observed is its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "layers/hosts/real_map.hpp"

namespace sluice::layers::hosts {

class Publications {
  public:
    // Of the run in DIRECTORY.
    static Result<Publications> open(const std::string& directory);

    // A line, or a flag, of a file.
    struct Where {
        std::uint64_t file; // a hash of its name
        std::uint64_t offset;
    };

    // A process of HOST's begins, or ends; whether all have ended.
    void join_locked(unsigned host) noexcept;
    void leave_locked(unsigned host) noexcept;
    bool have_left_locked(unsigned host) noexcept;
    // HOST observes a flag once more. How often it has.
    void count_observation_locked(unsigned host) noexcept;
    std::uint32_t observations_locked(unsigned host) noexcept;

    // HOST is about to publish; FRAMES say where. Gives the publication's number.
    struct Publication {
        unsigned host;
        std::uint32_t number;
        std::uint32_t place;
    };
    Publication begin_locked(unsigned host, std::string_view frames);
    // By then that line of the host's is dirty, and holds what HASH says.
    void note_dirty_locked(const Publication& now, Where line, std::uint64_t hash);
    // The line went to memory.
    void note_clean_locked(unsigned host, Where line);
    // The host has cleaned it, and it holds what HASH says.
    void note_written_locked(unsigned host, Where line, std::uint64_t hash);
    // FLAG will have a value of that.
    void note_pending_locked(const Publication& now, Where flag);
    // FLAG has VALUE in memory.
    void end_locked(const Publication& now, Where flag, std::uint64_t value);

    // This thread has observed that FLAG has VALUE, which memory still holds or doesn't. Whether it knows of
    // a publication by that of which it didn't know.
    bool observe_locked(Where flag, std::uint64_t value, bool is_in_memory);
    // Whether a host has cleaned that line, and what HASH says, before a publication that this thread has
    // observed; and the line has no flag.
    bool is_published_locked(Where line, std::uint64_t hash);
    // This process takes that line from memory, while it is dirty on HOST and holds what HASH says there.
    // Whether it was so when HOST published what this thread has observed since, and this is the first look
    // behind that.
    bool is_missed_locked(unsigned host, Where line, std::uint64_t hash);
    // Where HOST published that line, as frames.
    std::string frames_locked(unsigned host, Where line);

  private:
    struct Shared;
    explicit Publications(MappedFile file) noexcept : file_(std::move(file)) {}
    Shared& shared() noexcept;
    bool has_flag_locked(Where line);

    MappedFile file_;
    std::unordered_map<std::uint64_t, std::uint32_t>
        looked_; // by line: the publication that was observed then
};

} // namespace sluice::layers::hosts
