/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An adapter of DAT 1.2, for a program that includes the headers of 2.0.
 */
#ifndef SLUICE_TESTS_UDAPL_BOTH_REGISTRIES_H
#define SLUICE_TESTS_UDAPL_BOTH_REGISTRIES_H

/* NULL: it can't be opened. */
void* open_first(char* name);
int close_first(void* ia);
/* Its provider's version of DAT, in hundreds; 0: it isn't known to libdat. */
int version_of_first(void* ia);

#endif
