// SPDX-License-Identifier: BSD-3-Clause
//
// The files of uroce's devices, where programs look for the kernel's: /dev/infiniband/uverbs-NAME,
// /sys/class/infiniband/NAME and /sys/class/infiniband_verbs/uverbs-NAME.
//
// They are in a directory of this process, made when the program asks for the first of them, and again when
// the devices have changed. Those three directories are there, too, with the kernel's entries as links.
#pragma once

#include <cstddef>

namespace sluice::layers::preload {

// The path that a call by CALLER (an address in code) on PATH goes to: one in our directory for what belongs
// to a uroce device, and PATH otherwise. errno stays as it is. libibverbs, librdmacm and libsluice list the
// kernel's devices: they see those alone.
class Redirected {
  public:
    Redirected(const char* path, const void* caller) noexcept
        : path_(may_be_ours(path) ? redirect(path, caller) : path) {}

    Redirected(const Redirected&) = delete;
    Redirected& operator=(const Redirected&) = delete;

    const char* get() const noexcept { return path_; }

    // Before anything else: every call of the program's on any file comes by. PATH may be a pattern.
    static bool may_be_ours(const char* path) noexcept;

  private:
    static constexpr std::size_t kRoom = 512;

    const char* redirect(const char* path, const void* caller) noexcept;

    char room_[kRoom];
    const char* const path_;
};

} // namespace sluice::layers::preload
