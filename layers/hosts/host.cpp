// SPDX-License-Identifier: BSD-3-Clause
#include "layers/hosts/host.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>

#include "core/boundary.hpp"
#include "core/file_tree.hpp"
#include "core/log.hpp"
#include "core/mappings.hpp"
#include "core/settings.hpp"

namespace sluice::layers::hosts {

namespace {

// Never destroyed: programs map and clean until their very end.
std::atomic<Mutex*> mutex_across_fork = nullptr;

void hold_for_fork() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    mutex_across_fork.load()->lock();
}
void let_go_after_fork() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    mutex_across_fork.load()->unlock();
}

// Of the process that began with the library: a child of fork() may go on longer, or end earlier.
class AtEnd {
  public:
    explicit AtEnd(Host& host) noexcept : host_(host) {}
    ~AtEnd() {
        if (getpid() == process_) {
            host_.leave();
        }
    }
    AtEnd(const AtEnd&) = delete;
    AtEnd& operator=(const AtEnd&) = delete;

  private:
    Host& host_;
    const pid_t process_ = getpid();
};

// What a process can't do for the program, it says once.
void warn_once(std::atomic_flag& said, const char* text) {
    if (!said.test_and_set()) {
        SLUICE_LOG(kWarning, "hosts", "%s", text);
    }
}
std::atomic_flag said_lost;
std::atomic_flag said_stuck;

// Processes of a host draw different numbers, and those of another seed yet others.
RandomKey key_of(const Place& place, SharedLock& lock) {
    lock.lock();
    const std::uint64_t number = lock.next_number_locked();
    lock.unlock();
    RandomKey key = RandomKey::repeatable(place.seed);
    key.words[0] ^= place.host;
    key.words[1] ^= static_cast<std::uint32_t>(number);
    return key.derive("hosts");
}

} // namespace

Host::Host(Place place, SharedLock lock)
    : place_(std::move(place)), shared_(std::move(lock)), random_(key_of(place_, shared_)) {}

Result<Host*> Host::make() {
    const char* const told = setting_value(Setting::kSyncHost);
    if (told == nullptr) {
        return static_cast<Host*>(nullptr);
    }
    Result<Place> place = parse_place(told);
    if (!place) {
        return std::move(place).error();
    }
    Result<SharedLock> lock = SharedLock::open(place->directory);
    if (!lock) {
        return std::move(lock).error();
    }
    auto* const host = new Host(*std::move(place), *std::move(lock));
    if (report::depth() >= report::Depth::kFull) {
        host->watch();
        static const AtEnd leaves(*host);
    }
    mutex_across_fork = &host->mutex_;
    pthread_atfork(hold_for_fork, let_go_after_fork, let_go_after_fork);
    SLUICE_LOG(kInfo, "hosts", "this process is on host %u of %u, seed %llu", host->place_.host,
               host->place_.hosts, static_cast<unsigned long long>(host->place_.seed));
    return host;
}

Result<Host*> Host::find() noexcept {
    static const Result<Host*> found = at_boundary("Host::find", make);
    return found ? Result<Host*>(*found) : found.error().clone();
}

void Host::note_use() const {
    const Result<Descriptor> file = open_in(place_.directory, "used." + std::to_string(place_.host), O_RDWR);
    if (!file) {
        SLUICE_LOG(kWarning, "hosts", "%s", file.error().text());
    }
}

SharedFile& Host::file_locked(const std::string& name) {
    return files_.try_emplace(name, place_, name).first->second;
}

const SharedFile* Host::file_at_locked(std::string_view path) const {
    if (!path.starts_with(place_.directory)) {
        return nullptr;
    }
    const auto found =
        std::ranges::find_if(files_, [path](const auto& file) { return file.second.image_path() == path; });
    return found != files_.end() ? &found->second : nullptr;
}

Result<void> Host::put_image(void* mapped, std::size_t length, int protection, int flags, int file,
                             off_t offset) {
    constexpr int kKept = MAP_NORESERVE | MAP_POPULATE | MAP_LOCKED | MAP_NONBLOCK;
    const std::string name = SharedFile::name_of(file);
    if (name.empty()) {
        return {};
    }
    const LockGuard guard(mutex_);
    SharedFile& shared = file_locked(name);
    shared_.lock();
    Result<void> covered = shared.cover_locked(file, {static_cast<std::uint64_t>(offset), length});
    shared_.unlock();
    if (!covered) {
        return covered;
    }
    // With the program's rights to the file, on which mprotect() depends.
    Result<Descriptor> image = shared.open_image(fcntl(file, F_GETFL) & O_ACCMODE);
    if (!image) {
        return std::move(image).error();
    }
    if (real_mmap(mapped, length, protection, MAP_SHARED | MAP_FIXED | (flags & kKept), image->get(),
                  offset) == MAP_FAILED) {
        return Error::from_errno(errno, "the host's image can't be put in the place of a mapping");
    }
    return {};
}

void Host::move(coherence::LineRun run, bool drop) noexcept {
    const report::Stack stack = is_watched() ? report::capture() : report::Stack();
    const Result<void> moved = at_boundary("Host::move", [&]() -> Result<void> {
        Look look;
        look.stack = &stack;
        if (is_watched()) {
            report_loads();
        }
        Result<void> done = move_mapped(run, drop, look, stack);
        if (drop) {
            old_pages::forget(run);
        }
        old_pages::close_again(run);
        // A call that brings news was made for these, and its range may only be wider; or a part was cleaned.
        const bool is_meant = !look.has_news || report::depth() == report::Depth::kPedantic;
        if (is_meant && !look.missed.empty()) {
            report_missed(look, stack);
        }
        if (look.conflict_with) {
            report_conflict(look, stack);
        }
        return done;
    });
    if (!moved) {
        SLUICE_LOG(kError, "hosts", "lines don't move between host %u and memory: %s", place_.host,
                   moved.error().text());
    }
}

Result<void> Host::visit_mapped(coherence::LineRun run, const Visitor& visit) {
    Result<std::string> maps = FileTree().read("/proc/self/maps", kLargestMappings);
    if (!maps) {
        return std::move(maps).error();
    }
    const LockGuard guard(mutex_);
    std::string_view text = *maps;
    for (Mapping mapping; take_mapping(text, mapping);) {
        const bool meets = mapping.first <= run.last && run.first < mapping.end;
        const SharedFile* const file = meets ? file_at_locked(mapping.path) : nullptr;
        if (file != nullptr) {
            const std::uint64_t first = std::max<std::uint64_t>(run.first, mapping.first) - mapping.first;
            const std::uint64_t last =
                std::min<std::uint64_t>(run.last, mapping.end - kLineBytes) - mapping.first;
            visit(*file, mapping.offset + first, mapping.offset + last);
        }
    }
    return {};
}

Result<void> Host::move_mapped(coherence::LineRun run, bool drop, Look& look, const report::Stack& stack) {
    const bool is_recorded = is_watched() && report::wants_timeline();
    const std::string call = is_recorded ? report::entry_of(stack) : std::string();
    return visit_mapped(run, [&](const SharedFile& file, std::uint64_t first,
                                 std::uint64_t last) SLUICE_TSA(requires_capability(mutex_)) {
        if (is_recorded) {
            move_recorded_locked(file, first, last, drop, look, occasion_of(stack, call));
        } else {
            move_lines_locked(file, first, last, drop, look);
        }
        evict_some_locked(file);
    });
}

void Host::move_lines_locked(const SharedFile& file, std::uint64_t first, std::uint64_t last, bool drop,
                             Look& look) {
    if (file.has_lost(first, last)) {
        warn_once(said_lost, "a range lies behind the end of its file, which has become shorter: its lines "
                             "stay where they are");
        return;
    }
    // Every number below the power of two that COUNT fits in comes once, whatever is drawn.
    const std::uint64_t count = (last - first) / kLineBytes + 1;
    const std::uint64_t around = std::bit_ceil(count);
    const std::uint64_t start = random_.draw_64();
    const std::uint64_t step = random_.draw_64() | 1;
    for (std::uint64_t i = 0; i < around; ++i) {
        const std::uint64_t index = (start + i * step) & (around - 1);
        if (index < count) {
            move_line_locked(file, first + index * kLineBytes, drop, look);
        }
    }
}

void Host::move_line_locked(const SharedFile& file, std::uint64_t offset, bool drop, Look& look) {
    if (!file.has_line(offset)) {
        return;
    }
    shared_.lock();
    const Line line = file.line(place_.host, offset);
    const bool is_stuck = line.is_dirty() && !file.is_writable(offset);
    if (is_stuck) {
        warn_once(said_stuck, "a line that another process of this host has stored to isn't written back: "
                              "this process may only read the file");
    } else {
        look_for_conflict_locked(file, offset, look);
        write_back_locked(file, offset);
        if (drop) {
            look_at_line_locked(file, offset, look);
            line.fetch();
        }
    }
    shared_.unlock();
}

void Host::write_back_locked(const SharedFile& file, std::uint64_t offset) {
    const Line own = file.line(place_.host, offset);
    if (!own.is_dirty()) {
        return;
    }
    own.write_back();
    forget_dirty_locked(place_.host, file, offset);
    note_written_locked(file, offset);
    for (unsigned host = 0; host < place_.hosts; ++host) {
        const Line other = file.line(host, offset);
        // Never before ours, which would hide that two hosts have stored to the line.
        if (host != place_.host && other.is_dirty() && random_.draw_below(2) == 0) {
            other.write_back();
            forget_dirty_locked(host, file, offset);
        }
    }
}

// Whatever they hold, and wherever this process knows a line.
void Host::evict_some_locked(const SharedFile& file) {
    for (unsigned i = 0; i < place_.evictions; ++i) {
        const Part& part = file.part(random_.draw_below(static_cast<std::uint32_t>(file.parts())));
        const std::uint64_t lines = part.length / kLineBytes;
        const std::uint64_t offset = part.offset + random_.draw_64() % lines * kLineBytes;
        if (!file.has_lost(offset, offset)) {
            Look look;
            move_line_locked(file, offset, true, look);
        }
    }
}

} // namespace sluice::layers::hosts
