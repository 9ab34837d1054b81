// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/stat.h>

namespace sluice::roce::test {

// Whether a page of the memory file has been touched.
inline bool has_memory(int file) {
    struct stat status {};
    return fstat(file, &status) != 0 || status.st_blocks != 0;
}

} // namespace sluice::roce::test
