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
// Thread safety: all of it, from any thread and any process. What changes something takes the lock of all
// processes, and reads and writes files; it stops for ever once the command looks at what is left. Callers
// are Undisturbed.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/boundary.hpp"
#include "core/coherence/segment.hpp"
#include "core/result.hpp"
#include "layers/hosts/real_map.hpp"
#include "layers/hosts/shared_lock.hpp"
#include "layers/power/file/layout.hpp"
#include "layers/power/survivors.hpp"

namespace sluice::layers::power {

// What lines of a file held.
struct Look {
    std::uint64_t survivor;
    std::uint64_t offset;         // a line's
    std::uint64_t number;         // a later look has a higher one
    std::vector<std::byte> bytes; // as far as the file goes
};
using Looks = std::vector<Look>;

class Simulation {
  public:
    // This process's; null where SLUICE_PERSISTENCE isn't set, or is wrong, which is logged once.
    static Simulation* find() noexcept;

    // Whether something of RANGE, or all of it, is of simulated files.
    bool touches(coherence::Range range) const;
    bool covers(coherence::Range range) const;

    // Whether a Read pushes what devices have written before it.
    bool is_ddio_off() const noexcept { return control().is_ddio_off != 0; }

    // At what of RANGES is simulated.
    Looks look_at(const std::vector<coherence::Range>& ranges) noexcept;

    // Steps by CALL. What LOOKS have seen survives from now on; all that is in the file of DESCRIPTOR, if
    // that is simulated; or all of all files. They allocate nothing where all goes well.
    void persist(const Looks& looks, const char* call) noexcept;
    void persist_file(int descriptor, const char* call) noexcept;
    void persist_all(const char* call) noexcept;

    // CHANGE() is CALL, and may make files, take them away, rename them or cut them off. What it gives, and
    // its errno.
    template<typename Change>
    auto follow(const char* call, Change&& change) noexcept {
        decltype(change()) given{};
        int error = errno;
        work_locked(call, [&]() -> Result<void> {
            errno = error;
            given = change();
            error = errno;
            return follow_names_locked();
        });
        errno = error;
        return given;
    }

  private:
    // Bytes of a simulated file, from a line's begin to a line's end, and where its first line is mapped.
    struct Part {
        std::size_t file;
        std::uint64_t offset;
        std::uint64_t length;
        std::uintptr_t address;
    };
    // What stands at a file's path now.
    struct Found {
        bool exists;
        file::Identity file;
        std::uint64_t length;
    };

    Simulation(hosts::SharedLock lock, hosts::MappedFile control, std::string directory,
               std::vector<std::string> paths);
    static Result<Simulation*> make();
    static Result<std::vector<std::string>> list_files(const std::string& directory);

    file::Control& control() const noexcept { return *reinterpret_cast<file::Control*>(control_.first()); }
    file::State* table(std::uint32_t which) const noexcept;
    file::State& state(std::size_t file) const noexcept;
    std::vector<Part> parts_at(coherence::Range range) const;
    std::optional<std::size_t> file_at(std::string_view path) const noexcept;

    // WORK, with the lock, when what has happened to names is known. If it fails, what survives isn't known
    // any more.
    void lock() noexcept;
    void unlock() noexcept;
    void report(const char* call, const Result<void>& done) const noexcept;
    template<typename Work>
    void work_locked(const char* call, Work&& work) noexcept;
    // A step by CALL, unless the power is cut there, or was before: then it doesn't return.
    template<typename Work>
    void step(const char* call, Work&& work) noexcept;
    bool is_cut_before_locked(const char* call) noexcept;

    Result<void> look_locked(const Part& part, Looks& looks);
    Result<void> write_all_locked(std::size_t file, int descriptor);
    bool is_in_its_directory(std::size_t file) noexcept;
    std::optional<Found> find_at_path(std::size_t file) noexcept;
    std::optional<std::size_t> find_locked(const file::Identity& wanted) const noexcept;
    Result<void> follow_names_locked();
    Result<file::State> look_again_locked(std::size_t file);
    Result<void> arrive_locked(std::size_t file, file::State& now);
    bool is_anybody_s_locked(std::uint64_t survivor) const noexcept;
    void forget_locked(std::uint64_t survivor) noexcept;

    hosts::SharedLock lock_;
    hosts::MappedFile control_;
    const std::string cut_path_;
    const std::vector<std::string> paths_;
    const std::vector<std::string> directories_; // of each
    const Survivors survivors_;
    bool is_told_elsewhere_ = false; // under the lock
};

template<typename Work>
void Simulation::work_locked(const char* call, Work&& work) noexcept {
    const int former_errno = errno;
    lock();
    const Result<void> done = at_boundary(call, [&]() -> Result<void> {
        Result<void> followed = follow_names_locked(); // a system call without libc isn't seen
        return followed ? work() : std::move(followed);
    });
    report(call, done);
    unlock();
    errno = former_errno;
}

} // namespace sluice::layers::power
