// SPDX-License-Identifier: BSD-3-Clause
//
// The XRC domains of a device. All contexts of the device that open a domain of the same file share one, as
// with the kernel's devices. Another process that opens it has a domain of its own (ADR 66).
//
// Not thread safe: the device's lock is held.
#pragma once

#include <sys/types.h>

#include <list>

#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "roce/engine/xrc_domain.hpp"

namespace sluice::uroce::device {

struct XrcDomain {
    roce::engine::XrcDomain queues{};
    // Of its receiving queue pairs, whose completions all go elsewhere.
    roce::engine::CompletionQueue unused_cq{1};
    Descriptor file{}; // keeps the inode's number from being another file's
    dev_t on_device = 0;
    ino_t inode = 0;
    int users = 0;
};

class XrcDomains {
  public:
    // FLAGS are those of open(2). FD -1: a domain that nobody else can open. Fails with the kernel's numbers:
    // EAGAIN where there is none and O_CREAT isn't given, EINVAL where there is one and O_EXCL is given.
    Result<XrcDomain*> open(int fd, int flags);
    void close(XrcDomain& domain) noexcept;

  private:
    Result<XrcDomain*> open_of_file(int fd, int flags);

    std::list<XrcDomain> domains_;
};

} // namespace sluice::uroce::device
