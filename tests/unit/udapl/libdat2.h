/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a test asks of the libdat2 in libdat2.c beyond what a provider does.
 */
#ifndef SLUICE_TESTS_UNIT_UDAPL_LIBDAT2_H
#define SLUICE_TESTS_UNIT_UDAPL_LIBDAT2_H

#include <dat/dat_registry.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The table that is registered for INFO; NULL: none. */
const DAT_PROVIDER* test_dat2_provider(const DAT_PROVIDER_INFO* info);
/* A number for an adapter that was opened; and takes it back. */
DAT_IA_HANDLE test_dat2_number(DAT_IA_HANDLE handle);
void test_dat2_forget(DAT_IA_HANDLE number);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
