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

namespace sluice::layers::power {

namespace {

using file::kLineBytes;

constexpr std::size_t kLongestList = std::size_t{1} << 20;
constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20; // a part is looked at in such pieces

// The file system copies lines, and so the words in them, whole: it uses the same loads as memcpy().
Result<std::size_t> read_at(const Descriptor& file, std::uint64_t offset, void* to, std::size_t bytes) {
    std::size_t done = 0;
    while (done < bytes) {
        const ssize_t got =
            pread(file.get(), static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno != EINTR) {
            return Error::from_errno(errno, "a simulated file can't be read");
        }
        if (got == 0) {
            break;
        }
        done += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    }
    return done;
}

Result<void> write_at(const Descriptor& file, std::uint64_t offset, const void* from, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes;) {
        const ssize_t put = pwrite(file.get(), static_cast<const char*>(from) + done, bytes - done,
                                   static_cast<off_t>(offset + done));
        if (put < 0 && errno != EINTR) {
            return Error::from_errno(errno, "what survives can't be written; TMPDIR may name a directory "
                                            "with more room");
        }
        done += static_cast<std::size_t>(std::max<ssize_t>(put, 0));
    }
    return {};
}

// At each look, as a program may take the file away and make another one.
Result<Descriptor> open_program_file(const std::string& path) {
    Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (file.get() < 0) {
        return Error::format(kind_of_errno(errno), errno, "%s can't be read (errno %d)", path.c_str(), errno);
    }
    return file;
}

std::uint64_t in_whole_lines(std::uint64_t bytes) noexcept {
    return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

void add_in_pieces(Parts& parts, std::size_t file, std::uint64_t first, std::uint64_t end) {
    for (std::uint64_t at = first; at < end; at += kPieceBytes) {
        parts.push_back({file, at, std::min(kPieceBytes, end - at)}); // NOLINT: how many, nobody knows before
    }
}

// The first that is opened: nothing is made in a directory that is none of the command's.
Result<hosts::MappedFile> map_control(const std::string& directory) {
    const std::string path = directory + "/" + file::kControl;
    const Descriptor opened(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    struct stat status {};
    if (fstat(opened.get(), &status) != 0 || status.st_size < static_cast<off_t>(sizeof(file::Control))) {
        return Error(ErrorKind::kInvalidArgument,
                     "SLUICE_PERSISTENCE names no directory of `sluice persist run`");
    }
    Result<hosts::MappedFile> mapped =
        hosts::MappedFile::make(opened, sizeof(file::Control), PROT_READ | PROT_WRITE, 0);
    if (mapped && reinterpret_cast<const file::Control*>(mapped->first())->magic != file::kMagic) {
        return Error(ErrorKind::kInvalidArgument,
                     "the directory in SLUICE_PERSISTENCE is of another version");
    }
    return mapped;
}

[[noreturn]] void stop_for_ever() noexcept {
    for (;;) {
        pause();
    }
}

// Nothing is allocated for a file that isn't simulated: fsync() may be called in a signal's handler.
std::string_view path_of(int descriptor, std::array<char, PATH_MAX>& place) noexcept {
    std::array<char, 40> link{};
    std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
    const ssize_t length = readlink(link.data(), place.data(), place.size());
    return {place.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

} // namespace

Result<std::vector<Simulation::File>> Simulation::open_files(const std::string& directory) {
    const Result<std::string> list = FileTree().read(directory + "/" + file::kFiles, kLongestList);
    if (!list) {
        return list.error().clone();
    }
    std::vector<File> files;
    for (std::string_view rest = *list; !rest.empty();) {
        const std::string_view path = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(path.size() + 1, rest.size()));
        Result<Descriptor> durable = hosts::open_in(directory, file::durable_name(files.size()), O_RDWR);
        Result<Descriptor> numbers = hosts::open_in(directory, file::numbers_name(files.size()), O_RDWR);
        if (!durable || !numbers) {
            return std::move(durable ? numbers : durable).error();
        }
        files.push_back({std::string(path), *std::move(durable), *std::move(numbers)});
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
    Result<hosts::MappedFile> control = map_control(directory);
    if (!control) {
        return std::move(control).error();
    }
    Result<hosts::SharedLock> lock = hosts::SharedLock::open(directory);
    if (!lock) {
        return std::move(lock).error();
    }
    Result<std::vector<File>> files = open_files(directory);
    if (!files) {
        return std::move(files).error();
    }
    // Open for reading, too, so that it never waits for the command, or is SIGPIPE.
    Descriptor cut(open((directory + "/" + file::kCut).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (cut.get() < 0) {
        return Error::from_errno(errno, "the pipe of a run of `sluice persist run` can't be opened");
    }
    // Never destroyed: programs flush until their very end.
    return new Simulation(*std::move(lock), *std::move(control), std::move(cut), *std::move(files));
}

Simulation* Simulation::find() noexcept {
    static Simulation* const found = [] {
        const Result<Simulation*> made = at_boundary("Simulation::find", make);
        if (!made) {
            SLUICE_LOG(kError, "power", "nothing is simulated in this process: %s", made.error().text());
        }
        return made ? *made : nullptr;
    }();
    return found;
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
                add_in_pieces(parts, *file,
                              mapping.offset + (first - mapping.first) / kLineBytes * kLineBytes,
                              mapping.offset + in_whole_lines(end - mapping.first));
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

Parts Simulation::parts_of(int descriptor) const {
    Parts parts;
    struct stat status {};
    std::array<char, PATH_MAX> path; // NOLINT(cppcoreguidelines-pro-type-member-init): it is written first
    const std::optional<std::size_t> file = file_at(path_of(descriptor, path));
    if (file && fstat(descriptor, &status) == 0) {
        add_in_pieces(parts, *file, 0, in_whole_lines(static_cast<std::uint64_t>(status.st_size)));
    }
    return parts;
}

Parts Simulation::all_parts() const {
    Parts parts;
    for (std::size_t i = 0; i < files_.size(); ++i) {
        struct stat status {};
        if (stat(files_[i].path.c_str(), &status) == 0) {
            add_in_pieces(parts, i, 0, in_whole_lines(static_cast<std::uint64_t>(status.st_size)));
        }
    }
    return parts;
}

Result<Look> Simulation::look_locked(const Part& part) {
    const Result<Descriptor> file = open_program_file(files_[part.file].path);
    if (!file) {
        return file.error().clone();
    }
    Look look{part, lock_.next_number_locked() + 1, std::vector<std::byte>(part.length)};
    const Result<std::size_t> got = read_at(*file, part.offset, look.bytes.data(), look.bytes.size());
    if (!got) {
        return got.error().clone();
    }
    look.bytes.resize(*got);
    return look;
}

// Lines that survive from a later look stay as they are: what two threads flush may be drained in any order.
Result<void> Simulation::write_locked(const Look& look) const {
    const File& file = files_[look.part.file];
    const std::uint64_t lines = in_whole_lines(look.bytes.size()) / kLineBytes;
    const std::uint64_t numbers_at = look.part.offset / kLineBytes * sizeof(std::uint64_t);
    std::vector<std::uint64_t> numbers(lines); // zeros behind the end
    const Result<std::size_t> got =
        read_at(file.numbers, numbers_at, numbers.data(), lines * sizeof(std::uint64_t));
    if (!got) {
        return got.error().clone();
    }
    for (std::uint64_t first = 0, end = 0; first < lines; first = end) {
        const bool is_newer = numbers[first] < look.number;
        for (end = first; end < lines && (numbers[end] < look.number) == is_newer; ++end) {
        }
        if (is_newer) {
            const std::uint64_t from = first * kLineBytes;
            Result<void> written =
                write_at(file.durable, look.part.offset + from, look.bytes.data() + from,
                         std::min<std::uint64_t>(end * kLineBytes, look.bytes.size()) - from);
            if (!written) {
                return written;
            }
            std::fill(numbers.begin() + static_cast<std::ptrdiff_t>(first),
                      numbers.begin() + static_cast<std::ptrdiff_t>(end), look.number);
        }
    }
    return write_at(file.numbers, numbers_at, numbers.data(), lines * sizeof(std::uint64_t));
}

void Simulation::stop_if_cut_locked() noexcept {
    if (control().is_cut != 0) {
        stop_for_ever(); // with the lock, which nobody needs any more
    }
}

void Simulation::begin_step_locked(const char* call) noexcept {
    stop_if_cut_locked();
    file::Control& now = control();
    now.pid = getpid();
    now.call = {};
    std::strncpy(now.call.data(), call, now.call.size() - 1);
    if (++now.steps == now.cut_at) {
        now.is_cut = 1;
        while (write(cut_.get(), "", 1) < 0 && errno == EINTR) {
        }
        stop_for_ever();
    }
}

template<typename Work>
void Simulation::step(const char* call, Work&& work) noexcept {
    const int former_errno = errno;
    const Result<void> done = at_boundary(call, [&]() -> Result<void> {
        const std::lock_guard guard(lock_);
        begin_step_locked(call);
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

Looks Simulation::look_at(const Parts& parts) {
    Looks looks;
    looks.reserve(parts.size());
    const std::lock_guard guard(lock_);
    stop_if_cut_locked();
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

void Simulation::persist(const Parts& parts, const char* call) noexcept {
    if (parts.empty()) {
        return;
    }
    step(call, [&]() -> Result<void> {
        Result<void> done;
        for (auto part = parts.begin(); done && part != parts.end(); ++part) {
            const Result<Look> look = look_locked(*part);
            done = look ? write_locked(*look) : look.error().clone();
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

} // namespace sluice::layers::power
