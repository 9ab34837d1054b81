// SPDX-License-Identifier: BSD-3-Clause
//
// Between librdmacm and the rdma_cm device: the calls by which that library opens, writes to and closes the
// device come here, and what is uroce's is answered here (ADR 74). librdmacm stays as it is, and keeps its
// ids.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

namespace sluice::layers::cmdev {

// If CALLER, an address in code, is in librdmacm, that library's calls come here from now on. To be called
// when somebody asks for the list of devices: librdmacm does so before all else, also if it was loaded late.
void take_over_librdmacm(const void* caller) noexcept;

class File;

// What write() to FILE does. While it waits for an event, the thread may be cancelled.
ssize_t write_command(const std::shared_ptr<File>& file, const void* data, std::size_t bytes);

// What librdmacm's write() does.
ssize_t write_in_place(int fd, const void* data, std::size_t bytes);

} // namespace sluice::layers::cmdev
