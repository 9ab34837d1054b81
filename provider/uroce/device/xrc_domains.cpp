// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/xrc_domains.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace sluice::uroce::device {

Result<XrcDomain*> XrcDomains::open(int fd, int flags) {
    if (fd == -1) {
        XrcDomain& made = domains_.emplace_back();
        made.users = 1;
        return &made;
    }
    return open_of_file(fd, flags);
}

Result<XrcDomain*> XrcDomains::open_of_file(int fd, int flags) {
    struct stat status {};
    if (fstat(fd, &status) != 0) {
        return Error::from_errno(errno, "the XRC domain's file isn't open");
    }
    const auto known = std::ranges::find_if(domains_, [&](const XrcDomain& one) {
        return one.file.get() >= 0 && one.on_device == status.st_dev && one.inode == status.st_ino;
    });
    if (known != domains_.end() && (flags & O_EXCL) != 0) {
        return Error::from_errno(EINVAL, "this file has an XRC domain, and O_EXCL asks for a new one");
    }
    if (known != domains_.end()) {
        ++known->users;
        return &*known;
    }
    if ((flags & O_CREAT) == 0) {
        return Error::from_errno(EAGAIN, "this file has no XRC domain in this process; O_CREAT makes one");
    }
    Descriptor file(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (file.get() < 0) {
        return Error::from_errno(errno, "the XRC domain's file can't be kept open");
    }
    XrcDomain& made = domains_.emplace_back();
    made.file = std::move(file);
    made.on_device = status.st_dev;
    made.inode = status.st_ino;
    made.users = 1;
    return &made;
}

void XrcDomains::close(XrcDomain& domain) noexcept {
    if (--domain.users == 0) {
        domains_.remove_if([&](const XrcDomain& one) { return &one == &domain; });
    }
}

} // namespace sluice::uroce::device
