// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/pages/device_copy.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "layers/check/pages/protection.hpp"

namespace sluice::layers::check::pages {

namespace {

constexpr int kNoFile = -1;
// A program that closes all descriptors, and opens others, doesn't get as far as this number soon.
constexpr int kFirstNumber = 700;

// This process's memory as a file. It is looked at each time, since the program may close what it doesn't
// know, and get the number for a file of its own.
class MemoryFile {
  public:
    static MemoryFile& instance() noexcept {
        static constinit MemoryFile the_file;
        return the_file;
    }

    // Less than none: there is none.
    int descriptor() noexcept {
        const int file = file_.load(std::memory_order_acquire);
        return file != kNoFile && is_it(file) ? file : open_anew(file);
    }

  private:
    bool is_it(int file) const noexcept {
        struct stat now {};
        return fstat(file, &now) == 0 && now.st_dev == device_.load(std::memory_order_relaxed) &&
               now.st_ino == number_.load(std::memory_order_relaxed);
    }
    int open_anew(int former) noexcept {
        const int low = ::open("/proc/self/mem", O_RDWR | O_CLOEXEC);
        if (low < 0) {
            return kNoFile;
        }
        const int high = fcntl(low, F_DUPFD_CLOEXEC, kFirstNumber);
        (void)close(low);
        struct stat made {};
        if (high < 0 || fstat(high, &made) != 0) {
            return kNoFile;
        }
        device_.store(made.st_dev, std::memory_order_relaxed);
        number_.store(made.st_ino, std::memory_order_relaxed);
        int found = former;
        if (!file_.compare_exchange_strong(found, high, std::memory_order_release)) {
            (void)close(high); // another thread was faster
            return found;
        }
        return high;
    }

    std::atomic<int> file_ = kNoFile;
    std::atomic<dev_t> device_ = 0;
    std::atomic<ino_t> number_ = 0;
};

// Of [memory, memory + bytes), from its beginning.
std::size_t protected_bytes(const void* memory, std::size_t bytes, Access access) noexcept {
    if (bytes == 0) {
        return 0;
    }
    const auto first = reinterpret_cast<std::uintptr_t>(memory);
    const PageRange all{.first = first / page_bytes(), .end = (first + bytes - 1) / page_bytes() + 1};
    const std::uint64_t end = Protection::instance().end_of_forbidden(all, access) * page_bytes();
    return end > first ? std::min<std::uint64_t>(bytes, end - first) : 0;
}

off_t place_of(const void* memory) noexcept {
    return static_cast<off_t>(reinterpret_cast<std::uintptr_t>(memory));
}

} // namespace

// Not by libc's functions: the layer stands before those, and asks us.
std::size_t store_for_device(void* to, const void* from, std::size_t bytes) noexcept {
    const std::size_t part = protected_bytes(to, bytes, Access::kStore);
    const int file = part != 0 ? MemoryFile::instance().descriptor() : kNoFile;
    return file >= 0 && syscall(SYS_pwrite64, file, from, part, place_of(to)) == static_cast<long>(part)
               ? part
               : 0;
}

std::size_t load_for_device(void* to, const void* from, std::size_t bytes) noexcept {
    const std::size_t part = protected_bytes(from, bytes, Access::kLoad);
    const int file = part != 0 ? MemoryFile::instance().descriptor() : kNoFile;
    return file >= 0 && syscall(SYS_pread64, file, to, part, place_of(from)) == static_cast<long>(part) ? part
                                                                                                        : 0;
}

} // namespace sluice::layers::check::pages
