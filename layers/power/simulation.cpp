// SPDX-License-Identifier: BSD-3-Clause
#include "layers/power/simulation.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "core/boundary.hpp"
#include "core/file_tree.hpp"
#include "core/log.hpp"
#include "core/mappings.hpp"
#include "core/settings.hpp"
#include "layers/power/undisturbed.hpp"

namespace sluice::layers::power {

namespace {

using file::kLineBytes;

constexpr std::size_t kLongestList = std::size_t{1} << 20;

// At each look, as a program may take the file away and make another one.
Result<Descriptor> open_program_file(const std::string& path) {
    Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (file.get() < 0) {
        return Error::format(kind_of_errno(errno), errno, "%s can't be read (errno %d)", path.c_str(), errno);
    }
    return file;
}

// Of FILES files. The first that is opened: nothing is made in a directory that is none of the command's.
Result<hosts::MappedFile> map_control(const std::string& directory, std::size_t files) {
    const std::string path = directory + "/" + file::kControl;
    const std::size_t length = sizeof(file::Control) + files * sizeof(file::State);
    const Descriptor opened(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    struct stat status {};
    if (fstat(opened.get(), &status) != 0 || status.st_size < static_cast<off_t>(length)) {
        return Error(ErrorKind::kInvalidArgument,
                     "SLUICE_PERSISTENCE names no directory of `sluice persist run`");
    }
    Result<hosts::MappedFile> mapped = hosts::MappedFile::make(opened, length, PROT_READ | PROT_WRITE, 0);
    if (mapped && reinterpret_cast<const file::Control*>(mapped->first())->magic != file::kMagic) {
        return Error(ErrorKind::kInvalidArgument,
                     "the directory in SLUICE_PERSISTENCE is of another version");
    }
    return mapped;
}

// What stands at PATH.
file::State look_at_name(const std::string& path) noexcept {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) ? file::state_of(status)
                                                                       : file::State{};
}

[[noreturn]] void stop_for_ever() noexcept {
    for (;;) {
        pause();
    }
}

// The command waits for a byte. Open for reading, too, so that it never waits for the command, or is SIGPIPE.
// Other threads go on, and close files, where there is no descriptor left.
void tell_of_cut(const std::string& pipe) noexcept {
    constexpr timespec kPause{0, 1000000};
    int opened = -1;
    while ((opened = open(pipe.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK)) < 0) {
        nanosleep(&kPause, nullptr);
    }
    while (write(opened, "", 1) < 0 && errno == EINTR) {
    }
}

// Nothing is allocated: fsync() may be called in a signal's handler.
std::string_view path_of(int descriptor, std::array<char, PATH_MAX>& place) noexcept {
    std::array<char, 40> link{};
    std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
    const ssize_t length = readlink(link.data(), place.data(), place.size());
    return {place.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

} // namespace

Simulation::Simulation(hosts::SharedLock lock, hosts::MappedFile control, std::string cut,
                       std::vector<File> files)
    : lock_(std::move(lock)), control_(std::move(control)), cut_(std::move(cut)), files_(std::move(files)),
      room_(std::make_unique<Room>()), arrivals_(files_.size()) {}

Result<std::vector<Simulation::File>> Simulation::list_files(const std::string& directory) {
    const Result<std::string> list = FileTree().read(directory + "/" + file::kFiles, kLongestList);
    if (!list) {
        return list.error().clone();
    }
    std::vector<File> files;
    for (std::string_view rest = *list; !rest.empty();) {
        const std::string_view path = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(path.size() + 1, rest.size()));
        files.push_back({std::string(path), Survivor(directory, files.size())});
    }
    return files;
}

Result<Simulation*> Simulation::make() {
    const char* const told = setting_value(Setting::kPersistence);
    if (told == nullptr) {
        return static_cast<Simulation*>(nullptr);
    }
    const Result<Choice> choice = parse_choice(Setting::kPersistence, told);
    if (!choice) {
        return choice.error().clone();
    }
    const std::string directory(choice->rest);
    Result<std::vector<File>> files = list_files(directory);
    if (!files) {
        return std::move(files).error();
    }
    Result<hosts::MappedFile> control = map_control(directory, files->size());
    if (!control) {
        return std::move(control).error();
    }
    Result<hosts::SharedLock> lock = hosts::SharedLock::open(directory);
    if (!lock) {
        return std::move(lock).error();
    }
    // Never destroyed: programs flush until their very end.
    return new Simulation(*std::move(lock), *std::move(control), directory + "/" + file::kCut,
                          *std::move(files));
}

Simulation* Simulation::find() noexcept {
    static Simulation* const found = [] {
        const Undisturbed undisturbed; // the run's files are opened, too, by calls that ours stand before
        const Result<Simulation*> made = at_boundary("Simulation::find", make);
        if (!made) {
            SLUICE_LOG(kError, "power", "nothing is simulated in this process: %s", made.error().text());
        }
        return made ? *made : nullptr;
    }();
    return found;
}

// Behind the Control, as the command has made the file.
file::State& Simulation::state(std::size_t file) const noexcept {
    return reinterpret_cast<file::State*>(control_.first() + sizeof(file::Control))[file];
}

std::optional<std::size_t> Simulation::file_at(std::string_view path) const noexcept {
    const auto found = std::ranges::find(files_, path, &File::path);
    return found != files_.end() ? std::optional(static_cast<std::size_t>(found - files_.begin()))
                                 : std::nullopt;
}

Parts Simulation::parts_at(const coherence::Range* ranges, std::uint64_t count) const {
    Parts parts;
    const Result<std::string> maps = FileTree().read("/proc/self/maps", kLargestMappings);
    if (!maps) {
        SLUICE_LOG(kError, "power", "what is mapped can't be had: %s", maps.error().text());
        return parts;
    }
    std::string_view text = *maps;
    for (Mapping mapping; take_mapping(text, mapping);) {
        const std::optional<std::size_t> file = mapping.is_shared ? file_at(mapping.path) : std::nullopt;
        for (std::uint64_t i = 0; file && i < count; ++i) {
            const std::uint64_t first = std::max<std::uint64_t>(ranges[i].address, mapping.first);
            const std::uint64_t end =
                std::min<std::uint64_t>(ranges[i].address + ranges[i].length, mapping.end);
            if (first < end) {
                const std::uint64_t from = mapping.offset + (first - mapping.first) / kLineBytes * kLineBytes;
                parts.push_back({*file, from, mapping.offset + in_whole_lines(end - mapping.first) - from});
            }
        }
    }
    return parts;
}

bool Simulation::covers(coherence::Range range) const {
    const std::uint64_t before = range.address % kLineBytes;
    std::uint64_t covered = 0;
    for (const Part& part : parts_at(&range, 1)) {
        covered += part.length;
    }
    return range.length != 0 && covered == in_whole_lines(before + range.length);
}

std::optional<Part> Simulation::part_of(int descriptor) const noexcept {
    struct stat status {};
    std::array<char, PATH_MAX> path; // NOLINT(cppcoreguidelines-pro-type-member-init): it is written first
    const std::optional<std::size_t> file = file_at(path_of(descriptor, path));
    if (!file || fstat(descriptor, &status) != 0) {
        return std::nullopt;
    }
    return Part{*file, 0, in_whole_lines(static_cast<std::uint64_t>(status.st_size))};
}

Parts Simulation::all_parts() const {
    Parts parts;
    parts.reserve(files_.size());
    for (std::size_t i = 0; i < files_.size(); ++i) {
        struct stat status {};
        if (stat(files_[i].path.c_str(), &status) == 0) {
            parts.push_back({i, 0, in_whole_lines(static_cast<std::uint64_t>(status.st_size))});
        }
    }
    return parts;
}

Result<Look> Simulation::look_locked(const Part& part) {
    const Result<Descriptor> file = open_program_file(files_[part.file].path);
    if (!file) {
        return file.error().clone();
    }
    Look look{part, lock_.next_number_locked() + 1, state(part.file).changes,
              std::vector<std::byte>(part.length)};
    const Result<std::size_t> got = read_at(*file, part.offset, look.bytes);
    if (!got) {
        return got.error().clone();
    }
    look.bytes.resize(*got);
    return look;
}

// What PART holds now, piece by piece.
Result<void> Simulation::write_locked(const Part& part) {
    const Result<Descriptor> file = open_program_file(files_[part.file].path);
    if (!file) {
        return file.error().clone();
    }
    const std::uint64_t number = lock_.next_number_locked() + 1;
    for (std::uint64_t done = 0; done < part.length; done += kPieceBytes) {
        const std::uint64_t length = std::min(kPieceBytes, part.length - done);
        const std::span<std::byte> bytes = std::span(room_->bytes).first(length);
        const Result<std::size_t> got = read_at(*file, part.offset + done, bytes);
        if (!got) {
            return got.error().clone();
        }
        Result<void> written =
            files_[part.file].survivor.write(part.offset + done, bytes.first(*got), number, *room_);
        if (!written || *got < length) {
            return written; // there is no more
        }
    }
    return {};
}

// Piece by piece, too. A look at a file that is another one by now counts no more.
Result<void> Simulation::write_locked(const Look& look) {
    if (look.changes != state(look.part.file).changes) {
        return {};
    }
    const std::span<const std::byte> all = look.bytes;
    for (std::uint64_t done = 0; done < all.size(); done += kPieceBytes) {
        const std::span<const std::byte> bytes =
            all.subspan(done, std::min<std::size_t>(kPieceBytes, all.size() - done));
        if (Result<void> written =
                files_[look.part.file].survivor.write(look.part.offset + done, bytes, look.number, *room_);
            !written) {
            return written;
        }
    }
    return {};
}

// What survives of FILE's new state: what was put aside with the same file, or what that holds.
Result<void> Simulation::arrive_locked(std::size_t file) {
    const File& arrived = files_[file];
    const file::State& now = arrivals_[file].state;
    if (now.exists == 0) {
        return arrived.survivor.nothing();
    }
    for (std::size_t i = 0; i < files_.size(); ++i) {
        if (arrivals_[i].has_changed && state(i).exists != 0 && state(i).is_same(now)) {
            return arrived.survivor.take_from(files_[i].survivor);
        }
    }
    const Result<Descriptor> opened = open_program_file(arrived.path);
    return opened ? arrived.survivor.copy_of(*opened, *room_) : opened.error().clone();
}

Result<void> Simulation::follow_names_locked() {
    bool has_changed = false;
    for (std::size_t i = 0; i < files_.size(); ++i) {
        const file::State now = look_at_name(files_[i].path);
        arrivals_[i] = {now, !now.is_same(state(i))};
        has_changed = has_changed || arrivals_[i].has_changed;
    }
    if (!has_changed) {
        return {};
    }
    Result<void> done;
    for (std::size_t i = 0; done && i < files_.size(); ++i) {
        done = arrivals_[i].has_changed ? files_[i].survivor.put_aside() : Result<void>();
    }
    for (std::size_t i = 0; done && i < files_.size(); ++i) {
        done = arrivals_[i].has_changed ? arrive_locked(i) : Result<void>();
    }
    for (std::size_t i = 0; i < files_.size(); ++i) {
        if (arrivals_[i].has_changed) {
            files_[i].survivor.forget_aside();
            const std::uint32_t changes = state(i).changes + 1;
            state(i) = arrivals_[i].state;
            state(i).changes = changes;
        }
    }
    return done;
}

bool Simulation::is_cut_before_locked(const char* call) noexcept {
    file::Control& now = control();
    if (now.is_cut != 0) {
        return true;
    }
    now.pid = getpid();
    now.call = {};
    std::strncpy(now.call.data(), call, now.call.size() - 1);
    if (++now.steps != now.cut_at) {
        return false;
    }
    now.is_cut = 1;
    tell_of_cut(cut_);
    return true;
}

template<typename Work>
void Simulation::work_locked(const char* call, Work&& work) noexcept {
    const int former_errno = errno;
    const Result<void> done = at_boundary(call, [&]() -> Result<void> {
        const std::lock_guard guard(lock_);
        Result<void> worked = work();
        control().has_failed |= worked ? 0U : 1U;
        return worked;
    });
    if (!done) {
        control().has_failed = 1;
        SLUICE_LOG(kError, "power", "%s: what survives is not known any more: %s", call, done.error().text());
    }
    errno = former_errno;
}

// A thread that stops gives the lock back first: others go on making and renaming files.
template<typename Work>
void Simulation::step(const char* call, Work&& work) noexcept {
    bool is_cut = false;
    work_locked(call, [&]() -> Result<void> {
        is_cut = is_cut_before_locked(call);
        if (is_cut) {
            return {};
        }
        Result<void> followed = follow_names_locked(); // a system call without libc isn't seen
        return followed ? work() : std::move(followed);
    });
    if (is_cut) {
        stop_for_ever();
    }
}

Looks Simulation::look_at(const Parts& parts) {
    Looks looks;
    looks.reserve(parts.size());
    const std::lock_guard guard(lock_);
    for (const Part& part : parts) {
        if (Result<Look> look = look_locked(part); look) {
            looks.push_back(*std::move(look));
        } else {
            control().has_failed = 1;
            SLUICE_LOG(kError, "power", "what is flushed can't be had: %s", look.error().text());
        }
    }
    return looks;
}

void Simulation::persist(std::span<const Part> parts, const char* call) noexcept {
    if (parts.empty()) {
        return;
    }
    step(call, [&]() -> Result<void> {
        Result<void> done;
        for (auto part = parts.begin(); done && part != parts.end(); ++part) {
            done = write_locked(*part);
        }
        return done;
    });
}

void Simulation::persist(const Looks& looks, const char* call) noexcept {
    if (looks.empty()) {
        return;
    }
    step(call, [&]() -> Result<void> {
        Result<void> done;
        for (auto look = looks.begin(); done && look != looks.end(); ++look) {
            done = write_locked(*look);
        }
        return done;
    });
}

void Simulation::follow_names(const char* call) noexcept {
    work_locked(call, [this] { return follow_names_locked(); });
}

void Simulation::shorten(const struct stat& status, std::uint64_t length, const char* call) noexcept {
    const file::State cut = file::state_of(status);
    work_locked(call, [&]() -> Result<void> {
        Result<void> done;
        for (std::size_t i = 0; done && i < files_.size(); ++i) {
            done = state(i).exists != 0 && state(i).is_same(cut) ? files_[i].survivor.shorten(length)
                                                                 : Result<void>();
        }
        return done;
    });
}

} // namespace sluice::layers::power
