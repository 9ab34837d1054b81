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
// Thread safety: all of it, from any thread and any process. A step takes the lock of all processes, and
// reads and writes files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/coherence/segment.hpp"
#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "layers/hosts/real_map.hpp"
#include "layers/hosts/shared_lock.hpp"
#include "layers/power/file/layout.hpp"

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
    std::vector<std::byte> bytes; // less than the part where the file has ended
};
using Looks = std::vector<Look>;

class Simulation {
  public:
    // This process's; null where SLUICE_PERSISTENCE isn't set, or is wrong, which is logged once.
    static Simulation* find() noexcept;

    // What of simulated files lies at RANGES.
    Parts parts_at(const coherence::Range* ranges, std::uint64_t count) const;
    // All of the file that DESCRIPTOR is of; nothing if that isn't simulated.
    Parts parts_of(int descriptor) const;
    Parts all_parts() const;
    // Whether all of RANGE is of simulated files.
    bool covers(coherence::Range range) const;

    // Whether a Read pushes what devices have written before it.
    bool is_ddio_off() const noexcept { return control().is_ddio_off != 0; }

    Looks look_at(const Parts& parts);

    // Steps by CALL. What PARTS hold now survives from now on; or what they held.
    void persist(const Parts& parts, const char* call) noexcept;
    void persist(const Looks& looks, const char* call) noexcept;

  private:
    struct File {
        std::string path;
        Descriptor durable;
        Descriptor numbers;
    };

    Simulation(hosts::SharedLock lock, hosts::MappedFile control, Descriptor cut, std::vector<File> files)
        : lock_(std::move(lock)), control_(std::move(control)), cut_(std::move(cut)),
          files_(std::move(files)) {}
    static Result<Simulation*> make();
    static Result<std::vector<File>> open_files(const std::string& directory);

    file::Control& control() const noexcept { return *reinterpret_cast<file::Control*>(control_.first()); }
    std::optional<std::size_t> file_at(std::string_view path) const noexcept;
    template<typename Work>
    void step(const char* call, Work&& work) noexcept;
    void begin_step_locked(const char* call) noexcept;
    void stop_if_cut_locked() noexcept;
    Result<Look> look_locked(const Part& part);
    Result<void> write_locked(const Look& look) const;

    hosts::SharedLock lock_;
    hosts::MappedFile control_;
    const Descriptor cut_;
    const std::vector<File> files_;
};

} // namespace sluice::layers::power
