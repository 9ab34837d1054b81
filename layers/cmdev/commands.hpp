// SPDX-License-Identifier: BSD-3-Clause
//
// The commands that librdmacm writes to the rdma_cm device, as the kernel's userspace ABI has them
// (<rdma/rdma_user_cm.h>): a header with a number and two sizes, a structure, and an address for the answer.
#pragma once

#include <cstddef>
#include <span>

#include "layers/cmdev/file.hpp"
#include "layers/cmdev/id.hpp"

namespace sluice::layers::cmdev {

// kByKernel: it is about something of the kernel's, which is to be given the same bytes. EAGAIN: no event
// waits. Thread safety: may be called from any thread.
Result<Answer> execute(const std::shared_ptr<File>& file, std::span<const std::byte> written);

// Whether the command waits until there is something to answer, if its file does.
bool waits(std::span<const std::byte> written) noexcept;

} // namespace sluice::layers::cmdev
