// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/record.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "core/descriptor.hpp"
#include "core/log.hpp"

namespace sluice::report {

void append(const char* file, const std::string& record) {
    const std::string text = "\n" + record;
    const Descriptor opened(open(file, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
    if (opened.get() < 0 ||
        ::write(opened.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        SLUICE_LOG(kError, "check", "%s can't be written: %s", file, std::strerror(errno));
    }
}

} // namespace sluice::report
