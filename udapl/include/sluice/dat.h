/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What Sluice's libdat tells beyond DAT: why an entry of a dat.conf(5) counts or not.
 */
#ifndef SLUICE_DAT_H
#define SLUICE_DAT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* An entry of a dat.conf, a line that is none, or a file that can't be used. No text is NULL. */
struct sluice_dat_entry {
    const char* ia_name; /* this and the seven members below are empty or 0 where there is no entry */
    uint32_t api_major;
    uint32_t api_minor;
    int is_thread_safe;
    const char* library;
    const char* provider_version;
    const char* instance_data;
    const char* platform;
    const char* file;
    unsigned line;       /* 0 when it is about the whole file */
    int is_entry;        /* 0: a line or file that isn't understood */
    const char* problem; /* why dat_ia_open() passes over it; empty when it doesn't */
};

/* ENTRY and its texts are valid during the call only. Must not throw. */
typedef void (*sluice_dat_found)(void* context, const struct sluice_dat_entry* entry);

/*
 * Calls FOUND for each line that says something, in the order in which dat_ia_open() looks at them.
 * ROOT is a directory that holds another machine's files; NULL is this machine, where DAT_OVERRIDE
 * counts too. Reads the files anew. Nothing to tell is no error. 0 or a positive errno.
 */
int sluice_dat_list_entries(const char* root, sluice_dat_found found, void* context);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
