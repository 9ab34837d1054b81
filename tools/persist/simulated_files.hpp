// SPDX-License-Identifier: BSD-3-Clause
//
// The files of `sluice persist run`, and the directory by which the command and the preloaded library speak
// of them (layers/power/file).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "layers/power/file/layout.hpp"
#include "tools/persist/outcome.hpp"
#include "tools/scratch.hpp"

namespace sluice::tools::persist {

// Where a run has stopped.
struct LastStep {
    std::uint64_t steps = 0;
    std::int32_t pid = 0;
    std::string call;
    bool was_cut = false; // before that one
};

class SimulatedFiles {
  public:
    // Those at PATHS, which needn't be there, as they are now. Throws a Failure where they can't be
    // simulated.
    explicit SimulatedFiles(const std::vector<std::string>& paths);
    ~SimulatedFiles();
    SimulatedFiles(const SimulatedFiles&) = delete;
    SimulatedFiles& operator=(const SimulatedFiles&) = delete;

    // They are as at first again, all durable, and the power will be cut before the step CUT_AT; 0: at the
    // end. IS_DDIO_OFF: a Read pushes what devices have written.
    void begin(std::uint64_t cut_at, bool is_ddio_off);
    // Can be read from when the power is cut.
    int cut_fd() const noexcept { return cut_fd_; }
    std::string directory() const { return folder_.path(); }
    const std::string& path(std::size_t file) const { return files_[file].path; }

    // The processes of the run change nothing any more, neither what survives nor, as far as that is seen,
    // names. Then it can be asked:
    void end() const;
    LastStep last_step() const;
    std::vector<AtCut> at_cut();
    // What is left of them.
    void leave(const Outcome& outcome) const;

  private:
    struct File {
        std::string path; // without links
        std::optional<std::string> at_first;
        std::filesystem::perms mode; // where it was there at first
        std::filesystem::perms mode_at_cut;
    };

    std::string control_bytes() const;
    std::vector<layers::power::file::State> last_states() const;
    void separate() const;
    std::string in_folder(const std::string& name) const { return folder_.path() + "/" + name; }

    std::vector<File> files_;
    const ScratchFolder folder_;
    int cut_fd_ = -1;
};

} // namespace sluice::tools::persist
