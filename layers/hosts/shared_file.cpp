// SPDX-License-Identifier: BSD-3-Clause
#include "layers/hosts/shared_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "layers/hosts/shared_lock.hpp"
#include "sync/access.hpp"

namespace sluice::layers::hosts {

namespace {

constexpr int kReadAndWrite = PROT_READ | PROT_WRITE;

std::uint64_t page_bytes() noexcept {
    static const auto bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

std::uint64_t in_whole_pages(std::uint64_t bytes) noexcept {
    return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

std::string path_of_descriptor(int file) {
    return "/proc/self/fd/" + std::to_string(file);
}

// Memory that is a device. Others have registers there, which no host has in its cache.
bool is_memory_device(int file) {
    std::array<char, PATH_MAX> path{};
    const ssize_t length = readlink(path_of_descriptor(file).c_str(), path.data(), path.size());
    return length > 0 &&
           std::string_view(path.data(), static_cast<std::size_t>(length)).starts_with("/dev/dax");
}

// The time keeps apart two files that have the same number, one after the other.
std::string name_of_regular(int file, const struct stat& status) {
    struct statx born {};
    const bool is_told =
        statx(file, "", AT_EMPTY_PATH, STATX_BTIME, &born) == 0 && (born.stx_mask & STATX_BTIME) != 0;
    std::array<char, 100> name{};
    std::snprintf(name.data(), name.size(), "%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%x",
                  std::uint64_t{status.st_dev}, std::uint64_t{status.st_ino},
                  is_told ? static_cast<std::uint64_t>(born.stx_btime.tv_sec) : 0,
                  is_told ? born.stx_btime.tv_nsec : 0);
    return name.data();
}

// How much there is to map.
Result<std::uint64_t> bytes_of(int file, const Part& part) {
    struct stat status {};
    if (fstat(file, &status) != 0) {
        return Error::from_errno(errno, "the length of a shared file can't be had");
    }
    return S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : part.offset + part.length;
}

struct Memory {
    MappedFile file;
    bool is_writable;
};

// Also of a file that the program has opened for reading: another process of its host may have stored there.
Result<Memory> map_memory(int file, const Part& part) {
    const auto offset = static_cast<off_t>(part.offset);
    const Descriptor writable(open(path_of_descriptor(file).c_str(), O_RDWR | O_CLOEXEC));
    if (writable.get() >= 0) {
        if (Result<MappedFile> mapped = MappedFile::make(writable, part.length, kReadAndWrite, offset);
            mapped) {
            return Memory{*std::move(mapped), true};
        }
    }
    const Descriptor readable(fcntl(file, F_DUPFD_CLOEXEC, 0));
    Result<MappedFile> mapped = MappedFile::make(readable, part.length, PROT_READ, offset);
    if (!mapped) {
        return std::move(mapped).error();
    }
    return Memory{*std::move(mapped), false};
}

bool is_zero(const std::byte* page) noexcept {
    return page[0] == std::byte{0} && std::memcmp(page, page + 1, page_bytes() - 1) == 0;
}

// The next pages with data, up to END; empty if there are none. In the others are zeros, and to look at them
// would give them memory. FILE has an offset of its own, which moves.
Part data_behind(const Descriptor& file, std::uint64_t offset, std::uint64_t end) noexcept {
    const off_t first = lseek(file.get(), static_cast<off_t>(offset), SEEK_DATA);
    if (first < 0) { // none, or a file that can't tell
        return {offset, errno == ENXIO ? 0 : end - offset};
    }
    const off_t hole = lseek(file.get(), first, SEEK_HOLE);
    const std::uint64_t from = static_cast<std::uint64_t>(first) / page_bytes() * page_bytes();
    const std::uint64_t to = hole < 0 ? end : std::min(end, in_whole_pages(static_cast<std::uint64_t>(hole)));
    return {from, from < to ? to - from : 0};
}

// Otherwise a store of the program's would be SIGBUS one day.
Result<void> demand_room(const std::string& directory, std::uint64_t bytes) {
    struct statvfs system {};
    if (statvfs(directory.c_str(), &system) != 0 || system.f_blocks == 0 || // has no limit
        bytes / system.f_frsize < system.f_bavail) {
        return {};
    }
    return Error::format(ErrorKind::kInsufficientResources, ENOMEM,
                         "images of a file that hosts share may need %" PRIu64
                         " bytes, and %s hasn't that much free: share less, or name a directory by TMPDIR",
                         bytes, directory.c_str());
}

} // namespace

std::string SharedFile::name_of(int file) {
    struct stat status {};
    if (fstat(file, &status) != 0) {
        return {};
    }
    if (S_ISREG(status.st_mode)) {
        return name_of_regular(file, status);
    }
    return S_ISCHR(status.st_mode) && is_memory_device(file) ? "device-" + std::to_string(status.st_rdev)
                                                             : std::string();
}

Result<Descriptor> SharedFile::open_image(int access) const {
    return open_in(place_.directory, image_name(place_.host), access);
}

const SharedFile::View* SharedFile::view_of(std::uint64_t offset) const noexcept {
    const auto found = std::ranges::find_if(views_, [offset](const auto& view) {
        return offset >= view->part.offset && offset - view->part.offset < view->part.length;
    });
    return found != views_.end() ? found->get() : nullptr;
}

// It never gets shorter: what was cut off stays in the caches.
Result<void> SharedFile::enlarge(const Descriptor& file, std::uint64_t bytes, const Part& part) const {
    constexpr unsigned kFilesOfHost = 2;
    struct stat status {};
    if (fstat(file.get(), &status) != 0) {
        return Error::from_errno(errno, "the length of a host's image can't be had");
    }
    const auto former = static_cast<std::uint64_t>(status.st_size);
    if (former >= bytes) {
        return {};
    }
    const std::uint64_t more = std::min(bytes - former, part.length) * kFilesOfHost * place_.hosts;
    if (Result<void> room = demand_room(place_.directory, more); !room) {
        return room;
    }
    return ftruncate(file.get(), static_cast<off_t>(bytes)) == 0
               ? Result<void>{}
               : Error::from_errno(errno, "a host's image can't be made longer");
}

Result<MappedFile> SharedFile::map_own(const std::string& name, std::uint64_t bytes, const Part& part) const {
    Result<Descriptor> file = open_in(place_.directory, name, O_RDWR);
    if (!file) {
        return std::move(file).error();
    }
    if (Result<void> enlarged = enlarge(*file, bytes, part); !enlarged) {
        return std::move(enlarged).error();
    }
    return MappedFile::make(*file, part.length, kReadAndWrite, static_cast<off_t>(part.offset));
}

Result<std::unique_ptr<SharedFile::View>> SharedFile::make_view_locked(int file, const Part& part,
                                                                       std::uint64_t bytes) const {
    Result<Memory> memory = map_memory(file, part);
    if (!memory) {
        return std::move(memory).error();
    }
    const std::uint64_t pages = (part.offset + part.length) / page_bytes();
    Result<MappedFile> known = map_own(name_ + ".known", pages, {0, in_whole_pages(pages)});
    if (!known) {
        return std::move(known).error();
    }
    auto view = std::make_unique<View>(
        View{part, memory->is_writable, std::move(memory->file), *std::move(known), {}, {}});
    for (unsigned host = 0; host < place_.hosts; ++host) {
        Result<MappedFile> image = map_own(image_name(host), bytes, part);
        Result<MappedFile> former = map_own(former_name(host), bytes, part);
        if (!image || !former) {
            return std::move(image ? former : image).error();
        }
        view->images.push_back(*std::move(image));
        view->formers.push_back(*std::move(former));
    }
    return view;
}

void SharedFile::learn_page_locked(const View& view, const Descriptor& file, std::uint64_t offset) {
    const std::uint64_t at = offset - view.part.offset;
    if (view.known.first()[offset / page_bytes()] != std::byte{0}) {
        return;
    }
    // A page that somebody takes away meanwhile is a short read, where looking at it would be SIGBUS.
    std::vector<std::byte> page(page_bytes());
    if (pread(file.get(), page.data(), page.size(), static_cast<off_t>(offset)) < 0) { // a device
        std::memcpy(page.data(), view.memory.first() + at, page.size());
    }
    if (is_zero(page.data())) {
        return;
    }
    for (std::size_t host = 0; host < view.images.size(); ++host) {
        std::memcpy(view.images[host].first() + at, page.data(), page.size());
        std::memcpy(view.formers[host].first() + at, page.data(), page.size());
    }
}

void SharedFile::learn_locked(const View& view, int file, std::uint64_t bytes) {
    const std::uint64_t first = view.part.offset;
    const std::uint64_t end = std::min(first + view.part.length, in_whole_pages(bytes));
    if (first >= end) {
        return;
    }
    const Descriptor own(open(path_of_descriptor(file).c_str(), O_RDONLY | O_CLOEXEC));
    for (Part data = data_behind(own, first, end); data.length != 0;
         data = data_behind(own, data.offset + data.length, end)) {
        for (std::uint64_t at = 0; at < data.length; at += page_bytes()) {
            learn_page_locked(view, own, data.offset + at);
        }
    }
    std::memset(view.known.first() + first / page_bytes(), 1, (end - first) / page_bytes());
}

Result<void> SharedFile::cover_locked(int file, const Part& part) {
    const Part whole{part.offset, in_whole_pages(part.length)};
    Result<std::uint64_t> bytes = bytes_of(file, whole);
    if (!bytes) {
        return std::move(bytes).error();
    }
    Result<std::unique_ptr<View>> made = make_view_locked(file, whole, *bytes);
    if (!made) {
        return std::move(made).error();
    }
    learn_locked(**made, file, *bytes);
    if (path_.empty()) {
        char path[4096];
        const ssize_t length = readlink(path_of_descriptor(file).c_str(), path, sizeof path);
        path_.assign(path, length > 0 ? static_cast<std::size_t>(length) : 0);
    }
    const View* const former = view_of(whole.offset);
    const bool is_new = former == nullptr || !former->is_writable ||
                        former->part.offset + former->part.length < whole.offset + whole.length;
    if (is_new) {
        views_.insert(views_.begin(), *std::move(made)); // before those that reach less far
    }
    return {};
}

bool SharedFile::has_line(std::uint64_t offset) const noexcept {
    const View* const view = view_of(offset);
    return view != nullptr && view->known.first()[offset / page_bytes()] != std::byte{0};
}

bool SharedFile::has_lost(std::uint64_t first, std::uint64_t last) const {
    const View* const view = view_of(first);
    if (view == nullptr) {
        return false;
    }
    const std::uint64_t end = std::min(last + kLineBytes, view->part.offset + view->part.length);
    const auto address = reinterpret_cast<std::uintptr_t>(view->memory.first() + (first - view->part.offset));
    return !sync::check_access({address, end - first}, sync::Access::kRead).ok();
}

Line SharedFile::line(unsigned host, std::uint64_t offset) const noexcept {
    const View* const view = view_of(offset);
    const std::uint64_t at = offset - view->part.offset;
    return {view->memory.first() + at, view->images[host].first() + at, view->formers[host].first() + at};
}

bool SharedFile::is_our_mapping(std::uintptr_t address) const noexcept {
    return std::ranges::any_of(views_, [&](const auto& view) {
        const auto first = reinterpret_cast<std::uintptr_t>(view->images[place_.host].first());
        return address >= first && address - first < view->part.length;
    });
}

bool SharedFile::is_writable(std::uint64_t offset) const noexcept {
    const View* const view = view_of(offset);
    return view != nullptr && view->is_writable;
}

} // namespace sluice::layers::hosts
