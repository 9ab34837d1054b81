/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of libdat2 that our provider uses, for the linker alone: so the provider is linked against
 * version DAT_2.0 of them, and nobody needs libdat2 to build it. Nothing ever loads this library (ADR 57).
 */
#include <stdlib.h>

#pragma GCC visibility push(default)
void dat_registry_add_provider(void);
void dat_registry_remove_provider(void);
void dats_get_ia_handle(void);
#pragma GCC visibility pop

void dat_registry_add_provider(void) {
    abort();
}

void dat_registry_remove_provider(void) {
    abort();
}

void dats_get_ia_handle(void) {
    abort();
}
