// SPDX-License-Identifier: BSD-3-Clause
#include "core/sealed_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

namespace sluice {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

} // namespace

Result<Descriptor> make_memory_file(const char* name, std::size_t len_bytes) {
    Descriptor file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (file.get() < 0 || ftruncate(file.get(), static_cast<off_t>(len_bytes)) != 0) {
        return Error::from_errno(errno, "no memory that other processes of this host can map");
    }
    return file;
}

Result<void> seal_size(const Descriptor& file, int further) {
    if ((further != 0 && fcntl(file.get(), F_ADD_SEALS, further) != 0) ||
        fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
        return Error::from_errno(errno, "memory for other processes of this host can't be sealed");
    }
    return {};
}

std::optional<std::size_t> sealed_bytes(const Descriptor& file) noexcept {
    struct stat status {};
    const int seals = fcntl(file.get(), F_GET_SEALS);
    if (fstat(file.get(), &status) != 0 || seals < 0 || (seals & kSeals) != kSeals || status.st_size < 0) {
        return std::nullopt;
    }
    return static_cast<std::size_t>(status.st_size);
}

} // namespace sluice
