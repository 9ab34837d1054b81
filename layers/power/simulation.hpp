// SPDX-License-Identifier: BSD-3-Clause
//
// What survives a cut of the power, for the processes of `sluice persist run` (ADR 105).
//
// A simulated file, as programs map it, stands for memory behind caches: all processes see each store at
// once, and no store survives by itself. A second file holds what survives. Lines go from the first to the
// second by persist() alone, with what they held when they were looked at. Each call of it is a step. Before
// the step at which the power is to be cut, the calling thread stops for ever and the command is told; every
// other thread of the run stops at its next step. The command then draws which of the other lines had left
// the caches by themselves.
//
// What survives goes with its file: a name that another simulated file gets has what survives of that one;
// what comes from elsewhere survives as it is; and nothing does of what is cut off, or gone.
//
// Thread safety: all of it, from any thread and any process. A step takes the lock of all processes, and
// reads and writes files. Callers are Undisturbed.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/coherence/segment.hpp"
#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "layers/hosts/real_map.hpp"
#include "layers/hosts/shared_lock.hpp"
#include "layers/power/file/layout.hpp"
#include "layers/power/survivor.hpp"

namespace sluice::layers::power {

// Bytes of a simulated file, from a line's begin to a line's end.
struct Part {
    std::size_t file;
    std::uint64_t offset;
    std::uint64_t length;
};
using Parts = std::vector<Part>;

// What a part held.
struct Look {
    Part part;
    std::uint64_t number;         // a later look has a higher one
    std::uint32_t changes;        // of its file's name, by then
    std::vector<std::byte> bytes; // less than the part where the file has ended
};
using Looks = std::vector<Look>;

class Simulation {
  public:
    // This process's; null where SLUICE_PERSISTENCE isn't set, or is wrong, which is logged once.
    static Simulation* find() noexcept;

    // What of simulated files lies at RANGES.
    Parts parts_at(const coherence::Range* ranges, std::uint64_t count) const;
    // All of the file that DESCRIPTOR is of, if that is simulated.
    std::optional<Part> part_of(int descriptor) const noexcept;
    Parts all_parts() const;
    // Whether all of RANGE is of simulated files.
    bool covers(coherence::Range range) const;

    // Whether a Read pushes what devices have written before it.
    bool is_ddio_off() const noexcept { return control().is_ddio_off != 0; }

    Looks look_at(const Parts& parts);

    // Steps by CALL. What PARTS hold now survives from now on; or what they held.
    void persist(std::span<const Part> parts, const char* call) noexcept;
    void persist(const Looks& looks, const char* call) noexcept;

    // CALL has made, taken away, or renamed files.
    void follow_names(const char* call) noexcept;
    // CALL has cut a file to LENGTH bytes: the one that STATUS is of, if that is simulated.
    void shorten(const struct stat& status, std::uint64_t length, const char* call) noexcept;

  private:
    struct File {
        std::string path;
        Survivor survivor;
    };
    // Where what survives of a file comes from, while names are followed.
    struct Arrival {
        file::State state;
        bool has_changed;
    };

    Simulation(hosts::SharedLock lock, hosts::MappedFile control, std::string cut, std::vector<File> files);
    static Result<Simulation*> make();
    static Result<std::vector<File>> list_files(const std::string& directory);

    file::Control& control() const noexcept { return *reinterpret_cast<file::Control*>(control_.first()); }
    std::optional<std::size_t> file_at(std::string_view path) const noexcept;
    file::State& state(std::size_t file) const noexcept;
    // WORK, with the lock. If it fails, what survives isn't known any more.
    template<typename Work>
    void work_locked(const char* call, Work&& work) noexcept;
    template<typename Work>
    void step(const char* call, Work&& work) noexcept;
    // Counts a step by CALL, unless the power is cut there, or was before.
    bool is_cut_before_locked(const char* call) noexcept;
    Result<Look> look_locked(const Part& part);
    Result<void> write_locked(const Part& part);
    Result<void> write_locked(const Look& look);
    Result<void> follow_names_locked();
    Result<void> arrive_locked(std::size_t file);

    hosts::SharedLock lock_;
    hosts::MappedFile control_;
    const std::string cut_;
    const std::vector<File> files_;
    const std::unique_ptr<Room> room_; // under the lock, as the next one
    std::vector<Arrival> arrivals_;    // one for each file
};

} // namespace sluice::layers::power
