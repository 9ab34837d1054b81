// SPDX-License-Identifier: BSD-3-Clause
#include "layers/hosts/real_map.hpp"

#include <cerrno>

#include "layers/hooks/next.hpp"

namespace sluice::layers::hosts {

void* real_mmap(void* address, std::size_t length, int protection, int flags, int file,
                off_t offset) noexcept {
    static constinit hooks::Next<void*(void*, std::size_t, int, int, int, off_t)> next("mmap");
    return next.call(MAP_FAILED, address, length, protection, flags, file, offset);
}

Result<MappedFile> MappedFile::make(const Descriptor& file, std::size_t length, int protection,
                                    off_t offset) {
    void* const first = real_mmap(nullptr, length, protection, MAP_SHARED, file.get(), offset);
    if (first == MAP_FAILED) {
        return Error::format(
            ErrorKind::kInsufficientResources, errno,
            "%zu bytes of a host's image can't be mapped (errno %d); is there address space, "
            "see `ulimit -v`?",
            length, errno);
    }
    return MappedFile(static_cast<std::byte*>(first), length);
}

} // namespace sluice::layers::hosts
