// SPDX-License-Identifier: BSD-3-Clause
#include "tools/persist/simulated_files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <utility>

#include "layers/power/file/layout.hpp"
#include "tools/output.hpp"

namespace sluice::tools::persist {

namespace {

namespace fs = std::filesystem;
namespace file = layers::power::file;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30; // each is held in memory, several times

[[noreturn]] void fail(const std::string& path, const std::string& why) {
    throw Failure(kExitFailure, "persist run: " + path + ": " + why);
}

// As the kernel shows it for what is mapped.
std::string without_links(const std::string& path) {
    std::error_code error;
    const fs::path name = fs::path(path).filename();
    if (fs::path whole = fs::canonical(path, error); !error) {
        return whole.string();
    }
    if (fs::is_symlink(fs::symlink_status(path, error))) {
        fail(path, "it is a link to a file that isn't there; name the file itself");
    }
    const fs::path parent =
        path.empty() ? fs::path() : fs::canonical(fs::absolute(path).parent_path(), error);
    if (error || name.empty() || !fs::is_directory(parent)) {
        fail(path.empty() ? "''" : path,
             "its directory is not there; --file names a file that the command maps");
    }
    return (parent / name).string();
}

std::string content_of(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    std::ostringstream content;
    content << stream.rdbuf();
    if (!stream) {
        fail(path, "it can't be read");
    }
    return content.str();
}

void write_file(const std::string& path, const std::string& content) {
    std::ofstream stream(path, std::ios::binary | std::ios::trunc);
    stream.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!stream.flush()) {
        fail(path, std::string("it can't be written: ") + std::strerror(errno));
    }
}

// What stands at PATH; nothing survives of it yet.
file::State state_at(const std::string& path) {
    struct statx status {};
    file::State state{};
    state.survivor = file::kNoSurvivor;
    if (file::look_at(path.c_str(), status) == 0) {
        state.file = file::identity_of(status);
        state.exists = 1;
        state.length = status.stx_size;
    }
    if (file::look_at(path.substr(0, path.rfind('/') + 1).c_str(), status) == 0) {
        state.directory = file::identity_of(status);
    }
    return state;
}

// The control file, shared with the processes of a run.
class MappedControl {
  public:
    explicit MappedControl(const std::string& path) {
        const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
        mapped_ = mmap(nullptr, sizeof(file::Control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (mapped_ == MAP_FAILED) {
            fail(path, std::string("it can't be mapped: ") + std::strerror(errno));
        }
    }
    ~MappedControl() { munmap(mapped_, sizeof(file::Control)); }
    MappedControl(const MappedControl&) = delete;
    MappedControl& operator=(const MappedControl&) = delete;

    file::Control& operator*() const noexcept { return *static_cast<file::Control*>(mapped_); }

  private:
    void* mapped_;
};

// Of what stands at PATH.
fs::perms mode_of(const std::string& path) {
    std::error_code error;
    return fs::status(path, error).permissions();
}

// No more of it.
void take_away(const std::string& path) {
    std::error_code error;
    if (!fs::remove(path, error) && error) {
        fail(path, "what a run or a check has left there can't be removed: " + error.message());
    }
}

// CONTENT in a regular file at PATH with MODE, whatever a run or a check has left there.
void put(const std::string& path, const std::string& content, fs::perms mode) {
    std::error_code error;
    if (fs::is_regular_file(fs::symlink_status(path, error))) {
        fs::permissions(path, fs::perms::owner_write, fs::perm_options::add, error);
    } else {
        take_away(path);
    }
    write_file(path, content);
    fs::permissions(path, mode, error); // somebody else's stays as it is
}

// Nothing where there is no file.
std::optional<std::string> look_at(const std::string& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) {
        return std::nullopt;
    }
    if (!fs::is_regular_file(status)) {
        fail(path, fs::is_directory(status)
                       ? "it is a directory; --file names a file in it"
                       : "only a regular file can be simulated; give the command one instead of a device");
    }
    if (fs::file_size(path, error) > kMostBytes || error) {
        fail(path, "a simulated file may have 1 GiB; let the command use a smaller one");
    }
    return content_of(path);
}

} // namespace

SimulatedFiles::SimulatedFiles(const std::vector<std::string>& paths)
    : folder_("persist run", "sluice-persist", "what survives") {
    files_.reserve(paths.size());
    for (const std::string& each : paths) {
        const std::string path = without_links(each);
        if (path.find('\n') != std::string::npos) {
            fail(each, "its name has more than one line");
        }
        const file::State state = state_at(path);
        const auto is_it = [&](const File& file) {
            return file.path == path || (state.exists != 0 && state_at(file.path).is_same(state));
        };
        if (std::ranges::any_of(files_, is_it)) {
            throw Failure(kExitUsage, "persist run: " + each + " is named twice");
        }
        std::optional<std::string> content = look_at(path);
        files_.push_back({path, std::move(content), mode_of(path), {}});
    }
    const std::string pipe = in_folder(file::kCut);
    if (mkfifo(pipe.c_str(), S_IRUSR | S_IWUSR) != 0 ||
        (cut_fd_ = open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC)) < 0) {
        fail(pipe, std::string("no pipe can be made: ") + std::strerror(errno));
    }
}

SimulatedFiles::~SimulatedFiles() {
    if (cut_fd_ >= 0) {
        close(cut_fd_);
    }
}

// A run may have made two names one file.
void SimulatedFiles::separate() const {
    for (std::size_t i = 0; i < files_.size(); ++i) {
        const file::State state = state_at(files_[i].path);
        const auto is_same = [&](const File& each) { return state_at(each.path).is_same(state); };
        if (state.exists != 0 &&
            std::any_of(files_.begin(), files_.begin() + static_cast<std::ptrdiff_t>(i), is_same)) {
            unlink(files_[i].path.c_str());
        }
    }
}

void SimulatedFiles::begin(std::uint64_t cut_at, bool is_ddio_off) {
    separate();
    std::string list;
    for (std::size_t i = 0; i < files_.size(); ++i) {
        const File& each = files_[i];
        list += each.path + '\n';
        write_file(in_folder(file::durable_name(i)), each.at_first.value_or(""));
        const file::Age age{};
        write_file(in_folder(file::numbers_name(i)), {reinterpret_cast<const char*>(&age), sizeof age});
        if (each.at_first) {
            put(each.path, *each.at_first, each.mode);
        } else {
            take_away(each.path);
        }
    }
    write_file(in_folder(file::kFiles), list);
    file::Control control{};
    control.magic = file::kMagic;
    control.cut_at = cut_at;
    control.next_survivor = files_.size();
    control.is_ddio_off = is_ddio_off ? 1 : 0;
    std::string shared(reinterpret_cast<const char*>(&control), sizeof control);
    for (std::size_t i = 0; i < files_.size(); ++i) {
        file::State state = state_at(files_[i].path);
        state.survivor = state.exists != 0 ? i : file::kNoSurvivor;
        shared.append(reinterpret_cast<const char*>(&state), sizeof state);
    }
    shared.resize(file::control_bytes(files_.size())); // the other table isn't looked at before it is written
    write_file(in_folder(file::kControl), shared);
    unlink(in_folder("lock").c_str()); // who held it is dead
    std::array<char, 64> bytes{};
    while (read(cut_fd_, bytes.data(), bytes.size()) > 0) {
    }
}

void SimulatedFiles::end() const {
    constexpr int kMostPauses = 1000;
    constexpr timespec kPause{0, 1'000'000};
    const MappedControl control(in_folder(file::kControl));
    std::atomic_ref((*control).is_ended).store(1, std::memory_order_seq_cst);
    const std::atomic_ref is_busy((*control).is_busy);
    for (int i = 0; i < kMostPauses && is_busy.load(std::memory_order_seq_cst) != 0; ++i) {
        nanosleep(&kPause, nullptr); // that one may be stopped, or dead
    }
}

// All of it, of the right size.
std::string SimulatedFiles::control_bytes() const {
    std::string bytes = content_of(in_folder(file::kControl));
    if (bytes.size() < file::control_bytes(files_.size())) {
        fail(in_folder(file::kControl), "somebody has changed it");
    }
    return bytes;
}

std::vector<file::State> SimulatedFiles::last_states() const {
    const std::string bytes = control_bytes();
    file::Control control{};
    std::memcpy(&control, bytes.data(), sizeof control);
    std::vector<file::State> states(files_.size());
    std::memcpy(states.data(), bytes.data() + file::table_offset(control.table, states.size()),
                states.size() * sizeof(file::State));
    return states;
}

LastStep SimulatedFiles::last_step() const {
    file::Control control{};
    std::memcpy(&control, control_bytes().data(), sizeof control);
    control.call.back() = '\0';
    if (control.has_failed != 0) {
        throw Failure(kExitFailure, "persist run: what survives isn't known, see above");
    }
    return {control.steps, control.pid, control.call.data(), control.is_cut != 0};
}

std::vector<AtCut> SimulatedFiles::at_cut() {
    std::vector<AtCut> all;
    all.reserve(files_.size());
    const std::vector<file::State> states = last_states();
    for (File& each : files_) {
        std::error_code error;
        each.mode_at_cut = mode_of(each.path);
        if (const fs::file_status left = fs::status(each.path, error);
            fs::exists(left) && !fs::is_regular_file(left)) {
            fail(each.path,
                 "the command has made something else of it; only a regular file can be simulated");
        }
        std::optional<std::string> caches = look_at(each.path);
        const file::State now = state_at(each.path);
        // Names may have changed since by system calls that nobody saw.
        const auto from =
            std::ranges::find_if(states, [&now](const file::State& state) { return state.is_same(now); });
        if (caches && from == states.end()) {
            std::cerr << "sluice: persist run: " + each.path +
                             " is another file than any that was seen; it survives as it is\n";
        }
        std::string durable = !caches ? ""
                              : from != states.end()
                                  ? content_of(in_folder(file::durable_name(from->survivor)))
                                  : *caches;
        all.push_back({std::move(caches), std::move(durable)});
    }
    return all;
}

void SimulatedFiles::leave(const Outcome& outcome) const {
    separate();
    for (std::size_t i = 0; i < files_.size(); ++i) {
        if (outcome.files[i]) {
            put(files_[i].path, *outcome.files[i], files_[i].mode_at_cut);
        } else {
            take_away(files_[i].path);
        }
    }
}

} // namespace sluice::tools::persist
