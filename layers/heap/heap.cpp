// SPDX-License-Identifier: BSD-3-Clause
#include "layers/heap/heap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "core/descriptor.hpp"

namespace sluice::layers::heap {

namespace {

// Of address space.
constexpr std::size_t kMostBytes = std::size_t{64} << 30;
constexpr std::size_t kLeastBytes = std::size_t{64} << 20;
// What is freed at once and is longer goes back to the system.
constexpr std::size_t kKeptBytes = std::size_t{1} << 20;

void write_line(std::string_view text) noexcept {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

rlim_t limit_of(int resource) noexcept {
    rlimit limit{};
    return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

// A quarter of the address space: a forked process has a second one for some time.
std::size_t allowed_bytes(std::size_t page) noexcept {
    return std::min({kMostBytes, limit_of(RLIMIT_AS) / 4, limit_of(RLIMIT_FSIZE)}) / page * page;
}

// A longer file than allowed would be a signal (SIGXFSZ).
int make_file(std::size_t bytes) noexcept {
    if (limit_of(RLIMIT_FSIZE) < bytes) {
        errno = EFBIG;
        return -1;
    }
    const int file = memfd_create("sluice-heap", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) != 0) {
        close(file);
        return -1;
    }
    return file;
}

char* map_file(int file, std::size_t bytes) noexcept {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

bool read_all(int file, char* to, std::size_t bytes, off_t offset) noexcept {
    while (bytes != 0) {
        const ssize_t got = pread(file, to, bytes, offset);
        if (got <= 0) {
            return false;
        }
        to += got;
        offset += got;
        bytes -= static_cast<std::size_t>(got);
    }
    return true;
}

// What has pages in FROM. By calls of read, since parts of its mapping may be missing here (MADV_DONTFORK).
bool copy_pages(int from, char* to, std::size_t bytes) noexcept {
    const auto end = static_cast<off_t>(bytes);
    for (off_t at = 0; at < end;) {
        const off_t first = lseek(from, at, SEEK_DATA);
        if (first < 0) {
            return errno == ENXIO; // there are no more
        }
        at = lseek(from, first, SEEK_HOLE);
        if (at < 0 || !read_all(from, to + first, static_cast<std::size_t>(at - first), first)) {
            return false;
        }
    }
    return true;
}

} // namespace

// A thread has it that forks or changes the runs.
class Heap::Guard {
  public:
    explicit Guard(Heap& heap) noexcept : heap_(heap) { pthread_mutex_lock(&heap_.lock_); }
    ~Guard() { pthread_mutex_unlock(&heap_.lock_); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

  private:
    Heap& heap_;
};

// Never destroyed: programs free memory until the very end.
Heap& Heap::instance() noexcept {
    static constinit Heap heap;
    return heap;
}

bool Heap::follow_forks() noexcept {
    return pthread_atfork([] { instance().before_fork(); }, [] { instance().after_fork_in_parent(); },
                          [] { instance().after_fork_in_child(); }) == 0;
}

bool Heap::is_for_us(std::size_t bytes, std::size_t alignment) noexcept {
    const std::size_t page = page_bytes();
    return (bytes >= page || (bytes != 0 && alignment >= page)) && bytes <= kMostBytes &&
           alignment <= kMostBytes;
}

std::size_t Heap::page_bytes() noexcept {
    static std::atomic<std::size_t> known{0}; // every thread finds the same
    std::size_t bytes = known.load(std::memory_order_relaxed);
    if (bytes == 0) {
        bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        known.store(bytes, std::memory_order_relaxed);
    }
    return bytes;
}

std::uint32_t Heap::pages_for(std::size_t bytes) noexcept {
    return static_cast<std::uint32_t>((bytes + page_bytes() - 1) / page_bytes());
}

std::uint32_t Heap::page_of(const void* pointer) const noexcept {
    return static_cast<std::uint32_t>(static_cast<std::size_t>(static_cast<const char*>(pointer) - begin()) /
                                      page_bytes());
}

void* Heap::address_of(std::uint32_t page) const noexcept {
    return begin() + std::size_t{page} * page_bytes();
}

bool Heap::make(std::size_t bytes) noexcept {
    Descriptor file(make_file(bytes));
    const std::size_t pages = bytes / page_bytes();
    char* const begin = file.get() >= 0 ? map_file(file.get(), bytes) : nullptr;
    if (begin == nullptr) {
        return false;
    }
    void* const table = mmap(nullptr, pages * sizeof(Run), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) {
        munmap(begin, bytes);
        return false;
    }
    runs_ = Runs({static_cast<Run*>(table), pages}, reinterpret_cast<std::uintptr_t>(begin) / page_bytes());
    file_ = file.release();
    bytes_ = bytes;
    begin_.store(begin, std::memory_order_release); // partner: the acquire in begin()
    return true;
}

bool Heap::get_ready() noexcept {
    if (state_ != State::kNone) {
        return state_ == State::kReady;
    }
    state_ = State::kImpossible;
    for (std::size_t bytes = allowed_bytes(page_bytes()); bytes >= kLeastBytes;
         bytes = bytes / 2 / page_bytes() * page_bytes()) {
        if (make(bytes)) {
            state_ = State::kReady;
            return true;
        }
    }
    write_line(
        "sluice: warning: heap: no memory that other processes can map; the program's own allocator serves "
        "it\n");
    return false;
}

void* Heap::allocate(std::size_t bytes, std::size_t alignment, Content content) noexcept {
    const int error = errno;
    std::optional<Runs::Taken> taken;
    {
        const Guard guard(*this);
        if (get_ready()) {
            taken = runs_.take(pages_for(bytes), std::max(pages_for(alignment), 1U));
        }
    }
    errno = error;
    if (!taken) {
        return nullptr;
    }
    void* const at = address_of(taken->first);
    if (content == Content::kZero && !taken->is_clean) {
        std::memset(at, 0, bytes);
    }
    return at;
}

bool Heap::owns(const void* pointer) const noexcept {
    const char* const first = begin();
    return first != nullptr && pointer >= first && pointer < first + bytes_;
}

void Heap::need_taken(const void* pointer, const char* call) const noexcept {
    const auto offset = static_cast<std::size_t>(static_cast<const char*>(pointer) - begin());
    if (offset % page_bytes() != 0 || !runs_.is_taken(page_of(pointer))) {
        write_line("sluice: error: heap: ");
        write_line(call);
        write_line(": no memory begins at this address, or it has been freed\n");
        std::abort();
    }
}

void Heap::free(void* pointer) noexcept {
    const int error = errno;
    {
        const Guard guard(*this);
        need_taken(pointer, "free()");
        const std::uint32_t first = page_of(pointer);
        const std::size_t bytes = runs_.pages_of(first) * page_bytes();
        runs_.give_back(first, bytes > kKeptBytes && madvise(pointer, bytes, MADV_REMOVE) == 0);
    }
    errno = error;
}

std::size_t Heap::size_of(const void* pointer) noexcept {
    const Guard guard(*this);
    need_taken(pointer, "malloc_usable_size()");
    return runs_.pages_of(page_of(pointer)) * page_bytes();
}

bool Heap::resize(void* pointer, std::size_t bytes) noexcept {
    const Guard guard(*this);
    need_taken(pointer, "realloc()");
    return runs_.resize(page_of(pointer), pages_for(bytes));
}

void Heap::before_fork() noexcept {
    pthread_mutex_lock(&lock_);
    if (state_ == State::kReady && pipe2(copied_, O_CLOEXEC) != 0) {
        copied_[0] = copied_[1] = -1;
        write_line("sluice: warning: heap: no descriptor is left; a forked process sees what this one writes "
                   "meanwhile\n");
    }
}

// The child has a copy of what was there when it was made: nothing may be written before it has read it all.
void Heap::after_fork_in_parent() noexcept {
    const int error = errno;
    if (copied_[0] >= 0) {
        close(copied_[1]);
        char byte = 0;
        while (read(copied_[0], &byte, sizeof byte) < 0 && errno == EINTR) {
        }
        close(copied_[0]);
        copied_[0] = copied_[1] = -1;
    }
    errno = error;
    pthread_mutex_unlock(&lock_);
}

bool Heap::get_own_copy() noexcept {
    Descriptor file(make_file(bytes_));
    char* const copy = file.get() >= 0 ? map_file(file.get(), bytes_) : nullptr;
    if (copy == nullptr) {
        return false;
    }
    if (!copy_pages(file_, copy, bytes_) ||
        mremap(copy, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, begin()) == MAP_FAILED) {
        munmap(copy, bytes_);
        return false;
    }
    close(file_);
    file_ = file.release();
    return true;
}

// Private pages of the parent's file are the next best: what the child writes is its own.
void Heap::after_fork_in_child() noexcept {
    const int error = errno;
    if (state_ == State::kReady && !get_own_copy()) {
        write_line(
            "sluice: warning: heap: a forked process gets no copy of its own: other processes can't map its "
            "memory, and it may see what its parent writes\n");
        if (mmap(begin(), bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file_,
                 0) == MAP_FAILED) {
            write_line("sluice: error: heap: it can't get one at all\n");
            std::abort();
        }
    }
    for (int& end : copied_) {
        if (end >= 0) {
            close(end);
        }
        end = -1;
    }
    const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    lock_ = fresh; // a thread of the parent's has the other one
    errno = error;
}

} // namespace sluice::layers::heap
