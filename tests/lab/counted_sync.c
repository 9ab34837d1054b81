/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Usage: counted_sync ADAPTER
 *
 * What a sync call of DAT executes on arm64, counted in the processor's own steps: a child registers memory
 * and calls, and this process takes it through the call one instruction at a time and reads each one. Prints,
 * for each of the two calls over 64 cache lines, how many instructions cleaned a line (dc cvac), cleaned and
 * invalidated one (dc civac), and were barriers (dsb).
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asm/ptrace.h>

#include <dat/udat.h>

#define DC_CVAC 0xd50b7a20U
#define DC_CIVAC 0xd50b7e20U
#define REGISTER_BITS 0x1fU
#define DSB 0xd503309fU
#define DSB_MASK 0xfffff0ffU

enum { kLines = 64, kMostSteps = 200000 };

static void must(int holds, const char* what) {
    if (!holds) {
        fprintf(stderr, "counted_sync: %s: errno %d\n", what, errno);
        exit(1);
    }
}

static size_t line_size(void) {
    uint64_t ctr;
    __asm__("mrs %0, ctr_el0" : "=r"(ctr));
    return (size_t)4 << ((ctr >> 16) & 15);
}

/* The child: each stop is a mark between which the other process counts. */
static void calls(char* adapter) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE errors = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE zone = DAT_HANDLE_NULL;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_TRIPLET part = {0};
    DAT_RMR_CONTEXT key = 0;
    DAT_VLEN size = 0, address = 0;
    DAT_REGION_DESCRIPTION memory;
    size_t bytes = kLines * line_size();
    memory.for_va = aligned_alloc(4096, bytes);
    must(memory.for_va != NULL, "memory");
    must(dat_ia_open(adapter, 8, &errors, &ia) == DAT_SUCCESS, "dat_ia_open");
    must(dat_pz_create(ia, &zone) == DAT_SUCCESS, "dat_pz_create");
    must(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, memory, bytes, zone, DAT_MEM_PRIV_ALL_FLAG, &lmr,
                        &part.lmr_context, &key, &size, &address) == DAT_SUCCESS,
         "dat_lmr_create");
    part.virtual_address = (DAT_VADDR)(uintptr_t)memory.for_va;
    part.segment_length = bytes;
    must(dat_lmr_sync_rdma_read(ia, &part, 1) == DAT_SUCCESS,
         "the first sync call"); /* which binds symbols */
    must(dat_lmr_sync_rdma_write(ia, &part, 1) == DAT_SUCCESS, "the first sync call");
    raise(SIGSTOP);
    DAT_RETURN cleaned = dat_lmr_sync_rdma_read(ia, &part, 1);
    raise(SIGSTOP);
    DAT_RETURN invalidated = dat_lmr_sync_rdma_write(ia, &part, 1);
    raise(SIGSTOP);
    must(cleaned == DAT_SUCCESS && invalidated == DAT_SUCCESS, "a sync call");
    must(dat_lmr_free(lmr) == DAT_SUCCESS && dat_pz_free(zone) == DAT_SUCCESS, "the end");
    must(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS, "dat_ia_close");
}

static uint32_t next_instruction(pid_t child) {
    struct user_pt_regs registers;
    struct iovec place = {&registers, sizeof registers};
    must(ptrace(PTRACE_GETREGSET, child, (void*)NT_PRSTATUS, &place) == 0, "PTRACE_GETREGSET");
    errno = 0;
    long word = ptrace(PTRACE_PEEKTEXT, child, (void*)(uintptr_t)registers.pc, NULL);
    must(errno == 0, "PTRACE_PEEKTEXT");
    return (uint32_t)word;
}

/* Until the next mark. */
static void count(pid_t child, const char* call) {
    int cleans = 0, invalidates = 0, barriers = 0, steps = 0, status = 0;
    do {
        uint32_t word = next_instruction(child);
        cleans += (word & ~REGISTER_BITS) == DC_CVAC;
        invalidates += (word & ~REGISTER_BITS) == DC_CIVAC;
        barriers += (word & DSB_MASK) == DSB;
        must(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0, "PTRACE_SINGLESTEP");
        must(waitpid(child, &status, 0) == child && WIFSTOPPED(status), "the program has ended");
        must(++steps < kMostSteps, "it doesn't come to an end");
    } while (WSTOPSIG(status) == SIGTRAP);
    must(WSTOPSIG(status) == SIGSTOP, "the program got a signal");
    printf("%s: dc cvac %d, dc civac %d, dsb %d, instructions %d\n", call, cleans, invalidates, barriers,
           steps);
}

int main(int argc, char** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s ADAPTER\n", argv[0]);
        return 2;
    }
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        must(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0, "PTRACE_TRACEME");
        calls(argv[1]);
        exit(0);
    }
    int status = 0;
    must(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP,
         "the program has ended");
    printf("%d lines of %zu bytes\n", kLines, line_size());
    count(child, "dat_lmr_sync_rdma_read");
    count(child, "dat_lmr_sync_rdma_write");
    must(ptrace(PTRACE_CONT, child, NULL, NULL) == 0, "PTRACE_CONT");
    must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
         "the program failed");
    return 0;
}
