/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sluice sync: keeps memory right between this CPU and somebody who reads or writes it behind this CPU's
 * caches: a device that doesn't snoop them, or another host at the same memory (CXL, NTB, an FPGA).
 *
 * Plain C, usable from C99 and C++; nothing here knows of RDMA. Every function may be called from any thread.
 * Functions that can fail return 0 or a positive errno; what they give back through pointers
 * is written on success only.
 *
 *   EINVAL      a range wraps around or begins at NULL, a flag isn't aligned, ranges of a copy overlap; from
 *               every call that needs the CPU's instructions: SLUICE_CACHEFLUSH names one that doesn't exist
 *   EOPNOTSUPP  this CPU, or its kernel, gives user mode no means, or lacks the instruction that
 *               SLUICE_CACHEFLUSH names; SLUICE_LOG tells why
 *   EFAULT      checks are on (see below): a page isn't mapped, or can't be read
 *   EACCES      checks are on: a page that the call would write may only be read
 *   ENOMEM      checks are on: the kernel can't tell, or can't make a page present: no memory, no free
 *               descriptor, or no /proc
 *
 * After an error nothing was touched: no byte stored, no line cleaned or dropped. docs/sync.md has the rules
 * of use and what can't be had.
 */
#ifndef SLUICE_SYNC_H
#define SLUICE_SYNC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The version of the library that is loaded, as "MAJOR.MINOR.PATCH". Never fails. */
const char* sluice_sync_version(void);

/* LENGTH bytes at ADDRESS. A length of 0 is legal, whatever the address. */
struct sluice_sync_segment {
    const void* address;
    uint64_t length;
};

/*
 * What this CPU can, and how it does it. Later versions of the library add fields at the end: each call takes
 * sizeof(struct sluice_sync_cpu) as the caller knows it, and fields that the library doesn't know are set to
 * zero. Instructions and fences are spelled as disassemblers spell them.
 */
struct sluice_sync_cpu {
    char clean[32];             /* the instruction; "nothing: coherent" where no CPU of its kind needs one */
    char invalidate[32];        /* also of clean_invalidate */
    char persist[32];           /* "none": sluice_sync_persist() isn't supported */
    char copy[32];              /* stores past the caches; "none": copies are stored, then cleaned */
    char before_clean[32];      /* fences; "none" */
    char after_clean[32];       /* these two also of persist */
    char before_invalidate[32]; /* these two also of clean_invalidate */
    char after_invalidate[32];
    char line_source[32];   /* what told line_bytes */
    uint64_t line_bytes;    /* what an instruction moves */
    uint64_t granule_bytes; /* two owners must not share one of these: align to it */
    uint64_t copy_bytes;    /* copies from this length on go past the caches; 0 if none do */
    uint32_t forced;        /* 1: SLUICE_CACHEFLUSH chose the instruction, 0: the best that there is */
    uint32_t checking;      /* 1: checks are on */
};

/* EINVAL for NULL or an impossible SIZE, too. */
int sluice_sync_query(struct sluice_sync_cpu* cpu, size_t size);

/*
 * One range. Lines are the unit: a line that is partly in the range is done as a whole. The memory must stay
 * mapped meanwhile, and may be mapped for reading only. Each call ends with its fence.
 *
 * clean: what this CPU has stored there is in memory, for others to read. Lines may stay in the cache.
 * invalidate: later loads of this CPU see what others have written to memory before the call. What this CPU
 * has stored there and not cleaned before is undefined afterwards. clean_invalidate: both; stores of this CPU
 * are written back first. persist: as clean, and on to where data survives a loss of power, if the memory
 * there is of that kind.
 */
int sluice_sync_clean(const void* address, uint64_t length);
int sluice_sync_invalidate(const void* address, uint64_t length);
int sluice_sync_clean_invalidate(const void* address, uint64_t length);
int sluice_sync_persist(const void* address, uint64_t length);

/*
 * COUNT ranges, with the fences of one. Lines that neighbouring segments share are done once. All segments
 * are checked before the first is done.
 */
int sluice_sync_clean_batch(const struct sluice_sync_segment* segments, uint64_t count);
int sluice_sync_invalidate_batch(const struct sluice_sync_segment* segments, uint64_t count);
int sluice_sync_clean_invalidate_batch(const struct sluice_sync_segment* segments, uint64_t count);
int sluice_sync_persist_batch(const struct sluice_sync_segment* segments, uint64_t count);

/* memcpy() and clean in one, past the caches where that is faster. The ranges must not overlap. */
int sluice_sync_copy(void* to, const void* from, uint64_t length);

/*
 * A flag by which one side tells another that data is ready. FLAG is aligned to 8 bytes and alone in its
 * granule (granule_bytes), or together only with what its one writer stores; no other side ever stores there.
 *
 * publish: stores VALUE after everything that this thread has cleaned, persisted or copied before, and cleans
 * it. observe: VALUE becomes what memory holds. Loads that come later don't pass it; invalidate the data
 * before these.
 */
int sluice_sync_publish(uint64_t* flag, uint64_t value);
int sluice_sync_observe(const uint64_t* flag, uint64_t* value);

/* What sluice_sync_check() asks for. */
enum sluice_sync_access {
    SLUICE_SYNC_READ = 1,
    SLUICE_SYNC_WRITE = 2 /* and read */
};

/*
 * Asks the kernel whether all pages of the range may be read, or read and written: 0, EFAULT, EACCES or
 * ENOMEM; EINVAL for another ACCESS. Takes a microsecond and more. Pages that were never touched come into
 * being. The answer holds until somebody unmaps or protects the pages.
 */
int sluice_sync_check(const void* address, uint64_t length, unsigned access);

/*
 * Makes every call of this process check its pages first (ON not 0), or not (0). Until it is called
 * SLUICE_SYNC_CHECK=yes does. Without checks a page that isn't there is SIGSEGV, as in memcpy().
 */
void sluice_sync_set_checking(int on);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
