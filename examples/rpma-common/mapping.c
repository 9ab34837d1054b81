/* SPDX-License-Identifier: BSD-3-Clause */
#include "mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

#ifndef MAP_SYNC /* Linux 4.15 */
#define MAP_SYNC 0x80000
#endif
#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 0x03
#endif

static const size_t kDaxPage = (size_t)2 << 20;

struct mapping map_file(const char* file, size_t size) {
    struct mapping mapping = {NULL, size, false};
    if (file == NULL) {
        mapping.memory = make_pages(size);
        return mapping;
    }
    const int fd = open(file, O_RDWR | O_CREAT, 0600);
    require(fd >= 0, "the file can't be opened");
    struct stat status;
    require(fstat(fd, &status) == 0, "the file can't be looked at");
    if (S_ISREG(status.st_mode)) {
        require(status.st_size >= (off_t)size || ftruncate(fd, (off_t)size) == 0, "the file can't grow");
    } else {
        size = (size + kDaxPage - 1) / kDaxPage * kDaxPage; /* devices are mapped by whole large pages */
    }
    /* Persistent memory must be mapped in this way, and nothing else can be. */
    void* memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
    if (memory == MAP_FAILED) {
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    require(memory != MAP_FAILED, "the file can't be mapped");
    close(fd);
    must(rpma_utils_is_pmem(memory, size, &mapping.is_persistent));
    mapping.memory = memory;
    return mapping;
}
