// SPDX-License-Identifier: BSD-3-Clause
//
// To be preloaded. Like UCX, Open MPI and libfabric it writes jumps over the beginnings of the C library's
// functions that take memory away, as far as a thread may come back into the middle of such a jump. A line
// of the file TEST_CALLS says that it has, and one for each call by a thread of uroce's.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

extern void* __curbrk; // NOLINT: glibc's name for the end of the heap, which brk() keeps

enum { NAME_BYTES = 16, JUMP_BYTES = 13, TARGET_AT = 2, PAGE_BYTES = 4096, LARGEST_STACK = 1 << 20 };

static struct iovec piece(const char* text) {
    return (struct iovec){.iov_base = (void*)(uintptr_t)text, .iov_len = strlen(text)}; // NOLINT: it is read
}

// Allocates nothing: malloc() calls what is rewritten.
static void note(const char* function, const char* what, const char* name_of_it) {
    const char* const name = getenv("TEST_CALLS");
    const int file = name == NULL ? -1 : open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const struct iovec line[] = {piece(function), piece(what), piece(name_of_it), piece("\n")};
    if (file < 0 || writev(file, line, sizeof line / sizeof line[0]) <= 0) {
        abort();
    }
    close(file);
}

static void note_call(const char* function) {
    char thread[NAME_BYTES] = "";
    const int before = errno;
    if (pthread_getname_np(pthread_self(), thread, sizeof thread) == 0 &&
        strncmp(thread, "uroce", strlen("uroce")) == 0) {
        note(function, " by the thread ", thread);
    }
    errno = before;
}

static int unmap(void* memory, size_t bytes) {
    note_call("munmap");
    return (int)syscall(SYS_munmap, memory, bytes);
}

// A thread that ends gives its stack back, while the program waits in the call that closes the device.
static int is_of_own_stack(const void* memory) {
    const char here = 0;
    return (uintptr_t)memory <= (uintptr_t)&here && (uintptr_t)&here - (uintptr_t)memory < LARGEST_STACK;
}

static int advise(void* memory, size_t bytes, int advice) {
    if (!is_of_own_stack(memory)) {
        note_call("madvise");
    }
    return (int)syscall(SYS_madvise, memory, bytes, advice);
}

static void* attach(int id, const void* address, int flags) {
    note_call("shmat");
    return (void*)syscall(SYS_shmat, id, address, flags); // NOLINT: what it returns is an address
}

static int detach(const void* memory) {
    note_call("shmdt");
    return (int)syscall(SYS_shmdt, memory);
}

static int move_break(void* end) {
    note_call("brk");
    __curbrk = (void*)syscall(SYS_brk, end); // NOLINT: what it returns is an address
    if ((uintptr_t)__curbrk < (uintptr_t)end) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

static void rewrite(const char* function, uintptr_t target) {
    // movabs $target, %r11; jmp *%r11
    unsigned char jump[JUMP_BYTES] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3};
    unsigned char* const code = dlsym(RTLD_DEFAULT, function);
    char* const page = (char*)((uintptr_t)code & ~(uintptr_t)(PAGE_BYTES - 1)); // NOLINT: of that address
    for (size_t i = 0; i < sizeof target; ++i) {
        jump[TARGET_AT + i] = (unsigned char)(target >> (8 * i));
    }
    if (code == NULL || mprotect(page, (size_t)2 * PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
        abort();
    }
    for (size_t i = 0; i < sizeof jump; ++i) {
        code[i] = jump[i];
    }
    if (mprotect(page, (size_t)2 * PAGE_BYTES, PROT_READ | PROT_EXEC) != 0) {
        abort();
    }
}

// Before the program has a second thread.
__attribute__((constructor)) static void rewrite_all(void) {
    rewrite("munmap", (uintptr_t)unmap);
    rewrite("madvise", (uintptr_t)advise);
    rewrite("shmat", (uintptr_t)attach);
    rewrite("shmdt", (uintptr_t)detach);
    rewrite("brk", (uintptr_t)move_break);
    note("all", " rewritten in ", program_invocation_short_name);
}
