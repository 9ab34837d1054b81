/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Usage: map_file FILE
 *
 * Makes the file and writes to it through a shared mapping. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char** argv) {
    int fd = argc == 2 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644) : -1;
    if (fd < 0 || ftruncate(fd, 4096) != 0) {
        perror("open");
        return 1;
    }
    char* memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    memcpy(memory, "mapped", 6);
    return 0;
}
