// SPDX-License-Identifier: BSD-3-Clause
#include "layers/power/simulation.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "core/boundary.hpp"
#include "core/file_tree.hpp"
#include "core/log.hpp"
#include "core/mappings.hpp"
#include "core/own_memory.hpp"
#include "core/settings.hpp"
#include "layers/power/undisturbed.hpp"

namespace sluice::layers::power {

namespace {

using file::kLineBytes;

constexpr std::size_t kLongestList = std::size_t{1} << 20;

// Of FILES files. The first that is opened: nothing is made in a directory that is none of the command's.
Result<hosts::MappedFile> map_control(const std::string& path, std::size_t files) {
    const std::size_t length = file::control_bytes(files);
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

std::vector<std::string> directories_of(const std::vector<std::string>& paths) {
    std::vector<std::string> directories;
    directories.reserve(paths.size());
    for (const std::string& path : paths) {
        directories.push_back(path.substr(0, path.rfind('/') + 1));
    }
    return directories;
}

// FILE, which may be open for writing only, or past the caches, or else what stands at PATH.
Descriptor open_to_read(int file, const std::string& path) noexcept {
    std::array<char, 32> own{};
    std::snprintf(own.data(), own.size(), "/proc/self/fd/%d", file);
    Descriptor opened = open_anyhow(own.data(), O_RDONLY);
    return opened.get() >= 0 ? std::move(opened) : open_anyhow(path.c_str(), O_RDONLY | O_NONBLOCK);
}

Result<std::string> read_mappings() {
    Result<std::string> maps = FileTree().read("/proc/self/maps", kLargestMappings);
    if (!maps && maps.error().os_errno() == EMFILE) {
        const MoreDescriptors more;
        maps = FileTree().read("/proc/self/maps", kLargestMappings);
    }
    return maps;
}

bool is_it(int file, const file::Identity& wanted) noexcept {
    struct statx status {};
    return statx(file, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &status) == 0 &&
           file::identity_of(status) == wanted;
}

[[noreturn]] void stop_for_ever() noexcept {
    for (;;) {
        pause();
    }
}

void sleep_shortly() noexcept {
    constexpr timespec kPause{0, 1000000};
    nanosleep(&kPause, nullptr);
}

// The command waits for a byte. Open for reading, too, so that it never waits for the command, or is SIGPIPE.
// Other threads go on, and close files, where there is no descriptor left.
[[noreturn]] void tell_of_cut(const std::string& pipe) noexcept {
    constexpr int kAttempts = 5000;
    for (int i = 0; i < kAttempts; ++i) {
        const Descriptor opened = open_anyhow(pipe.c_str(), O_RDWR | O_NONBLOCK);
        if (opened.get() >= 0 && write(opened.get(), "", 1) == 1) {
            stop_for_ever();
        }
        sleep_shortly();
    }
    SLUICE_LOG(kError, "power", "`sluice persist run` can't be told that the power is cut (errno %d)", errno);
    _exit(1);
}

// What is mapped at ADDRESS, as far as it is; a file may have become shorter than its mapping.
std::size_t copy_from(std::uintptr_t address, std::span<std::byte> bytes) noexcept {
    const std::optional<std::size_t> copied = copy_own_memory(address, bytes);
    if (!copied) {
        std::memcpy(bytes.data(), reinterpret_cast<const void*>(address),
                    bytes.size()); // NOLINT(performance-no-int-to-ptr)
    }
    return copied.value_or(bytes.size());
}

} // namespace

Simulation::Simulation(hosts::SharedLock lock, hosts::MappedFile control, std::string directory,
                       std::vector<std::string> paths)
    : lock_(std::move(lock)), control_(std::move(control)), cut_path_(directory + "/" + file::kCut),
      paths_(std::move(paths)), directories_(directories_of(paths_)), survivors_(std::move(directory)) {}

Result<std::vector<std::string>> Simulation::list_files(const std::string& directory) {
    const Result<std::string> list = FileTree().read(directory + "/" + file::kFiles, kLongestList);
    if (!list) {
        return list.error().clone();
    }
    std::vector<std::string> paths;
    for (std::string_view rest = *list; !rest.empty();) {
        const std::string_view path = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(path.size() + 1, rest.size()));
        paths.emplace_back(path);
    }
    return paths;
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
    std::string directory(choice->rest);
    Result<std::vector<std::string>> paths = list_files(directory);
    if (!paths) {
        return std::move(paths).error();
    }
    Result<hosts::MappedFile> control = map_control(directory + "/" + file::kControl, paths->size());
    if (!control) {
        return std::move(control).error();
    }
    Result<hosts::SharedLock> lock = hosts::SharedLock::open(directory);
    if (!lock) {
        return std::move(lock).error();
    }
    // Never destroyed: programs flush until their very end.
    return new Simulation(*std::move(lock), *std::move(control), std::move(directory), *std::move(paths));
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
file::State* Simulation::table(std::uint32_t which) const noexcept {
    return reinterpret_cast<file::State*>(control_.first() + file::table_offset(which, paths_.size()));
}

file::State& Simulation::state(std::size_t file) const noexcept {
    return table(control().table)[file];
}

std::optional<std::size_t> Simulation::file_at(std::string_view path) const noexcept {
    const auto found = std::ranges::find(paths_, path);
    return found != paths_.end() ? std::optional(static_cast<std::size_t>(found - paths_.begin()))
                                 : std::nullopt;
}

std::vector<Simulation::Part> Simulation::parts_at(coherence::Range range) const {
    std::vector<Part> parts;
    const Result<std::string> maps = read_mappings();
    if (!maps) {
        control().has_failed = 1;
        SLUICE_LOG(kError, "power", "what is mapped can't be had: %s", maps.error().text());
        return parts;
    }
    std::string_view text = *maps;
    for (Mapping mapping; take_mapping(text, mapping);) {
        const std::uint64_t first = std::max<std::uint64_t>(range.address, mapping.first);
        const std::uint64_t end = std::min<std::uint64_t>(range.address + range.length, mapping.end);
        const std::optional<std::size_t> file =
            first < end && mapping.is_shared ? file_at(mapping.path) : std::nullopt;
        if (file) {
            const std::uint64_t from = (first - mapping.first) / kLineBytes * kLineBytes;
            parts.push_back({*file, mapping.offset + from, in_whole_lines(end - mapping.first) - from,
                             mapping.first + from});
        }
    }
    return parts;
}

bool Simulation::touches(coherence::Range range) const {
    return !parts_at(range).empty();
}

bool Simulation::covers(coherence::Range range) const {
    const std::uint64_t before = range.address % kLineBytes;
    std::uint64_t covered = 0;
    for (const Part& part : parts_at(range)) {
        covered += part.length;
    }
    return range.length != 0 && covered == in_whole_lines(before + range.length);
}

void Simulation::lock() noexcept {
    lock_.lock();
    std::atomic_ref(control().is_busy).store(1, std::memory_order_seq_cst);
    if (std::atomic_ref(control().is_ended).load(std::memory_order_seq_cst) != 0) {
        unlock();
        stop_for_ever();
    }
}

void Simulation::unlock() noexcept {
    std::atomic_ref(control().is_busy).store(0, std::memory_order_seq_cst);
    lock_.unlock();
}

void Simulation::report(const char* call, const Result<void>& done) const noexcept {
    if (!done) {
        control().has_failed = 1;
        SLUICE_LOG(kError, "power", "%s: what survives is not known any more: %s", call, done.error().text());
    }
}

bool Simulation::is_cut_before_locked(const char* call) noexcept {
    file::Control& now = control();
    if (now.is_cut != 0) {
        return true;
    }
    now.pid = getpid();
    now.call = {};
    std::strncpy(now.call.data(), call, now.call.size() - 1);
    now.is_cut = ++now.steps == now.cut_at ? 1 : 0;
    return now.is_cut != 0;
}

// A thread that stops gives the lock back first: others go on making and renaming files.
template<typename Work>
void Simulation::step(const char* call, Work&& work) noexcept {
    bool is_cut = false;
    work_locked(call, [&]() -> Result<void> {
        is_cut = is_cut_before_locked(call);
        return is_cut ? Result<void>() : work();
    });
    if (is_cut) {
        tell_of_cut(cut_path_); // each: the first may die before it has
    }
}

Result<void> Simulation::look_locked(const Part& part, Looks& looks) {
    file::State& of = state(part.file);
    const std::optional<Found> found = find_at_path(part.file);
    if (!found || of.exists == 0 || found->length <= part.offset) {
        return {};
    }
    of.length = std::max(of.length, found->length);
    const std::uint64_t length = std::min(part.length, found->length - part.offset);
    Look look{of.survivor, part.offset, lock_.next_number_locked() + 1, std::vector<std::byte>(length)};
    look.bytes.resize(copy_from(part.address, look.bytes));
    looks.push_back(std::move(look));
    return {};
}

Looks Simulation::look_at(const std::vector<coherence::Range>& ranges) noexcept {
    Looks looks;
    work_locked("a flush", [&]() -> Result<void> {
        Result<void> done;
        for (const coherence::Range& range : ranges) {
            for (const Part& part : parts_at(range)) {
                done = done ? look_locked(part, looks) : std::move(done);
            }
        }
        return done;
    });
    return looks;
}

void Simulation::persist(const Looks& looks, const char* call) noexcept {
    if (looks.empty()) {
        return;
    }
    step(call, [&]() -> Result<void> {
        Result<void> done;
        for (auto look = looks.begin(); done && look != looks.end(); ++look) {
            if (is_anybody_s_locked(look->survivor)) { // its file may be gone
                done = survivors_.write(look->survivor, look->offset, look->bytes, look->number);
            }
        }
        return done;
    });
}

Result<void> Simulation::write_all_locked(std::size_t file, int descriptor) {
    const int flags = fcntl(descriptor, F_GETFL);
    const bool can_be_read = (flags & O_ACCMODE) != O_WRONLY && (flags & O_DIRECT) == 0;
    const Descriptor other = can_be_read ? Descriptor() : open_to_read(descriptor, paths_[file]);
    if (!can_be_read && other.get() < 0) {
        return errno == ENOENT ? Result<void>() : Error::from_errno(errno, "a simulated file can't be read");
    }
    return survivors_.write_all(state(file).survivor, can_be_read ? descriptor : other.get(),
                                lock_.next_number_locked() + 1);
}

void Simulation::persist_file(int descriptor, const char* call) noexcept {
    struct statx status {};
    if (statx(descriptor, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &status) != 0) {
        return;
    }
    const file::Identity wanted = file::identity_of(status);
    std::optional<std::size_t> file;
    work_locked(call, [&]() -> Result<void> {
        file = find_locked(wanted);
        return {};
    });
    if (file) {
        step(call, [&]() -> Result<void> {
            const std::optional<std::size_t> now = find_locked(wanted);
            return now ? write_all_locked(*now, descriptor) : Result<void>();
        });
    }
}

void Simulation::persist_all(const char* call) noexcept {
    step(call, [&]() -> Result<void> {
        Result<void> done;
        for (std::size_t i = 0; done && i < paths_.size(); ++i) {
            const Descriptor file =
                state(i).exists != 0 ? open_anyhow(paths_[i].c_str(), O_RDONLY | O_NONBLOCK) : Descriptor();
            if (file.get() >= 0) {
                done = is_it(file.get(), state(i).file) ? write_all_locked(i, file.get()) : Result<void>();
            } else if (state(i).exists != 0 && errno != ENOENT) {
                done = Error::from_errno(errno, "a simulated file can't be read");
            }
        }
        return done;
    });
}

std::optional<std::size_t> Simulation::find_locked(const file::Identity& wanted) const noexcept {
    for (std::size_t i = 0; i < paths_.size(); ++i) {
        if (state(i).exists != 0 && state(i).file == wanted) {
            return i;
        }
    }
    return std::nullopt;
}

// In another root directory, or another mount namespace, a path may mean another file, or none.
bool Simulation::is_in_its_directory(std::size_t file) noexcept {
    struct statx status {};
    if (file::look_at(directories_[file].c_str(), status) != 0) {
        return false;
    }
    const file::Identity now = file::identity_of(status);
    const file::Identity& its = state(file).directory;
    // Not by its birth: an overlay's directory gets another one when something is made in it first.
    const bool is_its = now.device == its.device && now.inode == its.inode;
    if (!is_its && !is_told_elsewhere_) {
        is_told_elsewhere_ = true;
        SLUICE_LOG(
            kWarning, "power",
            "process %d has another root directory, or other mounts: which files it makes, removes and "
            "renames in %s isn't seen",
            getpid(), directories_[file].c_str());
    }
    return is_its;
}

// Nothing: this process can't tell.
std::optional<Simulation::Found> Simulation::find_at_path(std::size_t file) noexcept {
    struct statx status {};
    if (!is_in_its_directory(file)) {
        return std::nullopt;
    }
    if (const int error = file::look_at(paths_[file].c_str(), status); error != 0) {
        return error == ENOENT ? std::optional(Found{}) : std::nullopt;
    }
    return S_ISREG(status.stx_mode) ? Found{true, file::identity_of(status), status.stx_size} : Found{};
}

// FILE is NOW another one. One of ours under another name has what survives of it; one from elsewhere
// survives as it is.
Result<void> Simulation::arrive_locked(std::size_t file, file::State& now) {
    now.survivor = file::kNoSurvivor;
    if (now.exists == 0) {
        return {};
    }
    if (const std::optional<std::size_t> known = find_locked(now.file)) {
        now.survivor = state(*known).survivor;
        return {};
    }
    const Descriptor opened = open_anyhow(paths_[file].c_str(), O_RDONLY | O_NONBLOCK);
    if (opened.get() < 0 && errno == ENOENT) {
        now.exists = 0; // somebody has it removed just now
        return {};
    }
    if (opened.get() < 0) {
        return Error::from_errno(errno, "a simulated file can't be read");
    }
    now.survivor = control().next_survivor++;
    return survivors_.make(now.survivor, &opened, lock_.next_number_locked() + 1);
}

bool Simulation::is_anybody_s_locked(std::uint64_t survivor) const noexcept {
    const file::State* const all = table(control().table);
    return std::any_of(all, all + paths_.size(),
                       [survivor](const file::State& each) { return each.survivor == survivor; });
}

void Simulation::forget_locked(std::uint64_t survivor) noexcept {
    if (survivor != file::kNoSurvivor && !is_anybody_s_locked(survivor)) {
        survivors_.remove(survivor);
    }
}

// What a file's state is now.
Result<file::State> Simulation::look_again_locked(std::size_t file) {
    const file::State& before = state(file);
    const std::optional<Found> found = find_at_path(file);
    if (!found) {
        return before;
    }
    file::State now{found->file, found->exists ? 1U : 0U, before.survivor, found->length, before.directory};
    Result<void> done;
    if (!now.is_same(before)) {
        done = arrive_locked(file, now);
    } else if (const std::uint64_t length = std::max(before.length, survivors_.length(before.survivor));
               found->exists && length > found->length) {
        done = survivors_.shorten(before.survivor, length, found->length, lock_.next_number_locked() + 1);
    }
    return done ? Result<file::State>(now) : std::move(done).error();
}

// A process that dies in the middle has changed no name; the next one goes on.
Result<void> Simulation::follow_names_locked() {
    const std::uint32_t next = 1 - control().table % 2;
    file::State* const after = table(next);
    for (std::size_t i = 0; i < paths_.size(); ++i) {
        const Result<file::State> now = look_again_locked(i);
        if (!now) {
            return now.error().clone();
        }
        after[i] = *now;
    }
    // Partner: the next owner of the lock, or the command.
    std::atomic_ref(control().table).store(next, std::memory_order_release);
    const file::State* const before = table(1 - next);
    for (std::size_t i = 0; i < paths_.size(); ++i) {
        if (before[i].survivor != after[i].survivor) {
            forget_locked(before[i].survivor);
        }
    }
    return {};
}

} // namespace sluice::layers::power
