// SPDX-License-Identifier: BSD-3-Clause
#include "layers/trace/recorder.hpp"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/descriptor.hpp"
#include "core/settings.hpp"
#include "core/sync.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 // Linux 5.14
#endif

namespace sluice::layers::trace {

[[gnu::tls_model("initial-exec")]] constinit thread_local Writing writing;

namespace {

using file::Event;
using file::Header;
using file::Thread;

// The program may look at errno behind a call of its own.
class KeptErrno {
  public:
    KeptErrno() noexcept : kept_(errno) {}
    ~KeptErrno() { errno = kept_; }
    KeptErrno(const KeptErrno&) = delete;
    KeptErrno& operator=(const KeptErrno&) = delete;

  private:
    const int kept_;
};

// SLUICE_TRACE=EVENTS:FOLDER, as `sluice trace` sets it.
struct Settings {
    std::array<char, PATH_MAX> folder = {}; // empty: nothing is recorded
    std::uint32_t blocks = 0;
};

Settings read_settings() noexcept {
    Settings read;
    const char* const variable = setting_value(Setting::kTrace);
    const std::string_view text = variable != nullptr ? variable : "";
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::string_view folder = text.substr(std::min(colon + 1, text.size()));
    std::uint32_t events = 0;
    if (std::from_chars(text.data(), text.data() + colon, events).ptr == text.data() + colon &&
        events >= file::kLeastEvents && events <= file::kMostEvents && folder.starts_with('/') &&
        folder.size() < read.folder.size()) {
        std::copy(folder.begin(), folder.end(), read.folder.begin());
        read.blocks = file::blocks_for(events);
    }
    return read;
}

// Before the program changes its environment, or another library's constructor makes the first event.
const Settings& settings() noexcept {
    static const Settings read = read_settings();
    return read;
}
[[gnu::constructor]] void read_settings_early() {
    (void)settings();
}

// This process's file. Never destroyed: programs use verbs to the last.
struct File {
    char* base = nullptr; // null: none could be made, or none was yet
    std::uint64_t bytes = 0;
    std::uint32_t blocks = 0;
    std::array<char, PATH_MAX + 64> path = {}; // a folder's and a file's name
    bool is_tried = false;
    std::atomic<bool> is_full = false; // also where memory for the next block can't be had

    Header& header() const noexcept { return *reinterpret_cast<Header*>(base); }
    Thread& thread(std::uint32_t index) const noexcept {
        return reinterpret_cast<Thread*>(base + file::kThreadsAt)[index];
    }
    Event* block(std::uint32_t index) const noexcept {
        return reinterpret_cast<Event*>(base + file::kBlocksAt + index * file::kBlockBytes);
    }
};

constinit Mutex making; // of the file; held over a fork(), so that the child finds it free
constinit File own;
constinit std::atomic<File*> ready = nullptr; // it, as soon as it was tried to make one

// A file that is longer than the process may write would end it by a signal.
std::uint32_t blocks_allowed(std::uint32_t wanted) noexcept {
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return wanted;
    }
    const std::uint64_t room = limit.rlim_cur < file::kBlocksAt ? 0 : limit.rlim_cur - file::kBlocksAt;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, room / file::kBlockBytes));
}

// Memory that can't be had would end the program by a signal at the first store.
bool provide(const File& of, std::uint64_t offset, std::uint64_t bytes) noexcept {
    if (madvise(of.base + offset, bytes, MADV_POPULATE_WRITE) == 0) {
        return true;
    }
    if (errno != EINVAL) {
        return false;
    }
    const Descriptor again(open(of.path.data(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)); // an older kernel
    return again.get() >= 0 &&
           posix_fallocate(again.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0;
}

void name_program(Header& header) noexcept {
    const ssize_t got = readlink("/proc/self/exe", header.program.data(), header.program.size() - 1);
    header.program[static_cast<std::size_t>(std::max<ssize_t>(got, 0))] = 0;
}

// Leaves BASE null where there is none.
void make_file(File& made) noexcept {
    const Settings& how = settings();
    made.is_tried = true;
    made.blocks = blocks_allowed(how.blocks);
    if (how.folder[0] == 0 || made.blocks == 0) {
        return;
    }
    std::snprintf(made.path.data(), made.path.size(), "%s/%ld.XXXXXX", how.folder.data(),
                  static_cast<long>(getpid()));
    made.bytes = file::kBlocksAt + made.blocks * file::kBlockBytes;
    const Descriptor fd(mkostemp(made.path.data(), O_CLOEXEC));
    if (fd.get() < 0 || ftruncate(fd.get(), static_cast<off_t>(made.bytes)) != 0) {
        return;
    }
    void* const base = mmap(nullptr, made.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (base == MAP_FAILED) {
        return;
    }
    made.base = static_cast<char*>(base);
    if (!provide(made, 0, file::kBlocksAt)) {
        munmap(base, made.bytes);
        made.base = nullptr;
        return;
    }
    Header& header = made.header();
    header.block_count = made.blocks;
    header.pid = getpid();
    header.parent = getppid();
    name_program(header);
    header.magic = file::kMagic;
}

void before_fork() SLUICE_TSA(no_thread_safety_analysis) {
    making.lock();
}
void after_fork() SLUICE_TSA(no_thread_safety_analysis) {
    making.unlock();
}

// The one thread of a child. Its parent's file is its parent's.
void in_child() SLUICE_TSA(no_thread_safety_analysis) {
    writing = {};
    ready.store(nullptr, std::memory_order_relaxed);
    if (own.base != nullptr) {
        munmap(own.base, own.bytes);
    }
    own.base = nullptr;
    own.is_tried = false;
    own.is_full.store(false, std::memory_order_relaxed);
    making.unlock();
}

// Whether a child of this process will leave the file alone. Once for a process and its children.
bool watch_forks() noexcept {
    static const bool is_watched = pthread_atfork(before_fork, after_fork, in_child) == 0;
    return is_watched;
}

// Null: nothing can be recorded.
File* file_of_process() noexcept {
    // Its partner is the store below.
    File* found = ready.load(std::memory_order_acquire);
    if (found == nullptr) {
        const LockGuard lock(making);
        if (!own.is_tried && watch_forks()) {
            make_file(own);
        }
        own.is_tried = true;
        ready.store(&own, std::memory_order_release);
        found = &own;
    }
    return found->base != nullptr ? found : nullptr;
}

void enter_thread(const File& in, Writing& to) noexcept {
    const std::uint32_t index = std::atomic_ref(in.header().threads).fetch_add(1, std::memory_order_relaxed);
    if (index >= file::kMostThreads) {
        to.lost = &in.header().lost;
        return;
    }
    to.thread = &in.thread(index);
    to.lost = &to.thread->lost;
    to.thread->tid = static_cast<std::int32_t>(syscall(SYS_gettid));
    std::array<char, 16> name{};
    prctl(PR_GET_NAME, name.data());
    to.thread->name = name;
}

bool take_block(File& in, Writing& to) noexcept {
    if (to.thread == nullptr || in.is_full.load(std::memory_order_relaxed)) {
        return false;
    }
    const std::uint32_t index =
        std::atomic_ref(in.header().blocks_taken).fetch_add(1, std::memory_order_relaxed);
    if (index >= in.blocks || !provide(in, file::kBlocksAt + index * file::kBlockBytes, file::kBlockBytes)) {
        in.is_full.store(true, std::memory_order_relaxed);
        return false;
    }
    Event* const block = in.block(index);
    block->time_ns = static_cast<std::uint64_t>(to.thread - &in.thread(0));
    std::atomic_ref(block->kind).store(file::Kind::kHead, std::memory_order_release);
    to.next = block + 1;
    to.end = block + file::kBlockEvents;
    return true;
}

} // namespace

Event* next_block() noexcept {
    const KeptErrno kept;
    File* const file = file_of_process();
    if (file == nullptr) {
        return nullptr;
    }
    Writing& to = writing;
    if (to.lost == nullptr) {
        enter_thread(*file, to);
    }
    if (take_block(*file, to)) {
        return to.next++;
    }
    to.next = to.end = nullptr;
    std::atomic_ref(*to.lost).fetch_add(1, std::memory_order_relaxed);
    return nullptr;
}

} // namespace sluice::layers::trace
